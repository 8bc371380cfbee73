"""Stores: S3, HDFS, Google Cloud Storage and Azure, opened by pyarrow, on the driver and on executors alike.

No key or password is held here or sent anywhere: each process finds its own, where the store's own tools look.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa

# What may be written after a ? in an address. All that could hold a secret is left out.
OPTIONS = {
    "s3": ("endpoint_override", "region", "scheme"),
    "gs": ("endpoint_override", "retry_limit_seconds", "scheme"),
    "abfs": ("blob_storage_authority", "dfs_storage_authority", "enable_tls"),
    "abfss": ("blob_storage_authority", "dfs_storage_authority", "enable_tls"),
    "hdfs": ("replication", "user"),
}
WITH_USER = ("abfs", "abfss", "wasb", "wasbs", "hdfs")  # a container, or a user without a password
NO_PORT = ("s3", "s3a", "s3n", "gs")  # a bucket, not a host: a colon can only be a key's
ADDRESS = re.compile(r"(?s)([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)(.*)")
QUERY = re.compile(r"(?s)(.*)\?([A-Za-z_][\w.-]*=[^/]*)")  # else the ? is a wildcard
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True)
class Store:
    """A bucket, container or cluster. `environment` has this driver's settings for it, for executors that lack them."""

    scheme: str
    authority: str
    options: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def full(self, key: str) -> str:
        """Write a key as pyarrow's file system wants it."""
        path = f"{_open_store(self)[1]}/{key}".rstrip("/")
        return (path or "/") if self.scheme == "hdfs" else path.lstrip("/")

    @property
    def files(self) -> Any:
        return _open_store(self)[0]

    def shown(self, key: str) -> str:
        """Write a key for messages, without options."""
        return f"{self.scheme}://{self.authority}/{key}"

    def address(self, key: str) -> str:
        """Write the address that opens the same place again."""
        query = "&".join(f"{name}={value}" for name, value in self.options)
        return self.shown(key) + (f"?{query}" if query else "")


def local_path(path: str) -> str | None:
    """Find the path of a local file; None if it is elsewhere."""
    parsed = urlparse(path)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    return None if "://" in path else path


def as_s3(address: str) -> str:
    """Write Hadoop's names of S3 (s3a://, s3n://) as the store's own, for what pyarrow and not Spark opens."""
    return re.sub(r"(?i)\As3[an]://", "s3://", address)


def problem_with(address: str) -> str | None:
    """Say why an address is refused, without any value of it; None if it is not."""
    found = ADDRESS.fullmatch(address)
    if found is None or found[1].lower() == "file":
        return None
    scheme = found[1].lower()
    query = QUERY.fullmatch(found[3])
    if _has_secret(scheme, found[2], found[3]) or (query is not None and "@" in query[2]):
        return (
            "a key or password in it. Confs are hashed and kept: leave it out, and set the store's own environment "
            "variables (AWS_ACCESS_KEY_ID, say) or use the machine's role."
        )
    known = OPTIONS.get(scheme, ())
    unknown = [] if query is None else [name for name, _ in _pairs(query[2]) if name not in known]
    if unknown:
        allowed = f"can have {', '.join(known)}" if known else "can have none"
        return f"option {unknown[0][:40]!r} in it; a {scheme}:// address {allowed}. Keys go into the environment."
    key = found[3] if query is None else query[1]
    if scheme in OPTIONS and any(part in (".", "..") for part in key.split("/")):
        return "'.' or '..' in it. Write the whole address."
    return None


def _has_secret(scheme: str, authority: str, rest: str) -> bool:
    """Find something like key:secret@. A secret may have slashes, so that its @ stands in what looks like the path."""
    user, at, _ = authority.rpartition("@")
    if at:
        return ":" in user or scheme not in WITH_USER
    return ":" in authority and ("@" in rest or scheme in NO_PORT)


def _pairs(query: str) -> list[tuple[str, str]]:
    return [(name, unquote(value)) for name, _, value in (pair.partition("=") for pair in query.split("&"))]


def parse_address(address: str) -> tuple[Store, str] | None:
    """Split an address into the store and the key in it, taken as written, as the stores' own tools do.

    None for an address that is not a store's. `s3a://` is Hadoop's own connector, with settings that only Spark knows: it is
    left to Spark.
    """
    found = ADDRESS.fullmatch(address)
    if found is None or found[1].lower() not in OPTIONS:
        return None
    assert problem_with(address) is None
    query = QUERY.fullmatch(found[3])
    key, options = (found[3], []) if query is None else (query[1], _pairs(query[2]))
    key = "/".join(part for part in key.split("/") if part)
    scheme = found[1].lower()
    return Store(scheme, found[2], tuple(sorted(options)), _environment(scheme)), key


def locate_file(address: str, near: Store | None = None) -> tuple[Store | None, str] | None:
    """Find a file that a table's log names, taken as written: its store and key, or its local path. None: not known here.

    `near` is the store of the table itself, with its options; S3A and S3N are names for S3.
    """
    found = ADDRESS.fullmatch(address)
    if found is None or found[1].lower() == "file":
        return None, re.sub(r"^file:(//(localhost)?(?=/))?", "", address)
    scheme = {"s3a": "s3", "s3n": "s3"}.get(found[1].lower(), found[1].lower())
    if scheme not in OPTIONS:
        return None
    options = near.options if near is not None and near.scheme == scheme else ()
    return Store(scheme, found[2], options, _environment(scheme)), found[3].strip("/")


def has_endpoint() -> bool:
    """Tell whether the environment says where S3 is."""
    return any(os.environ.get(name) for name in ENDPOINTS)


def _environment(scheme: str) -> tuple[tuple[str, str], ...]:
    if scheme != "s3":
        return ()
    endpoint = next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), None)
    region = next((os.environ[name] for name in REGIONS if os.environ.get(name)), None)
    found = {} if region is None else {"region": region}
    if endpoint is not None:
        parsed = urlparse(endpoint if "://" in endpoint else f"https://{endpoint}")
        # Not what may stand before an @ in it.
        found |= {"scheme": parsed.scheme, "endpoint_override": parsed.netloc.rpartition("@")[2]}
    return tuple(sorted(found.items()))


def can_open(store: Store) -> bool:
    """Tell whether pyarrow has this kind of file system here, with what it needs: HDFS needs Hadoop's own library."""
    try:
        _open_store(store)
    except (OSError, pa.ArrowException, ImportError):
        return False
    return True


@lru_cache(maxsize=16)
def _open_store(store: Store) -> tuple[Any, str]:
    """Open the file system; say where the store begins in it."""
    from pyarrow import fs  # slow, and for stores alone

    if store.scheme == "s3":
        options = dict(store.options)
        if "endpoint_override" not in options:
            options = {**dict(store.environment), **options}
        region = options.setdefault("region", dict(store.environment).get("region", ""))
        if not region and "endpoint_override" not in options:
            region = _region_of(store.authority)
        options = {**options, "region": region}
        return fs.S3FileSystem(**{name: value for name, value in options.items() if value}), store.authority
    options = dict(store.options)
    if store.scheme == "gs":
        options.setdefault("retry_limit_seconds", "60")  # its own default is a quarter of an hour
    query = "&".join(f"{name}={value}" for name, value in options.items())
    opened, root = fs.FileSystem.from_uri(f"{store.scheme}://{store.authority}/" + (f"?{query}" if query else ""))
    return opened, root.rstrip("/")


def _region_of(bucket: str) -> str:
    from pyarrow import fs

    try:
        return fs.resolve_s3_region(bucket)
    except (OSError, pa.ArrowException):
        return ""


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Raise whatever pyarrow raises as the error that files raise."""
    try:
        yield
    except OSError:
        raise
    except pa.ArrowException as error:
        raise OSError(type(error).__name__) from None
