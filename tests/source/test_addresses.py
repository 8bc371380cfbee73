"""What an address means, and that none can hold a secret."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import dpspark
from dpspark.bundle.storage import StorePath, place_of, same_place
from dpspark.errors import ConfError
from dpspark.source.parquet import open_source
from dpspark.source.stores import can_open, parse_address, problem_with

SECRET = "wJalrXUtnFEMI"
WITH_SECRETS = [
    f"s3://AKID:{SECRET}@bucket/people",
    f"s3://{SECRET}@bucket/people",
    f"s3a://AKID:{SECRET}@bucket/people",
    f"s3://AKID:wJ/alr/{SECRET}@bucket/people",  # half of all AWS keys have a slash
    f"s3a://AKID:{SECRET}/x@bucket/people",
    f"s3://bucket/people?endpoint_override=AKID:{SECRET}@minio:9000",
    f"hdfs://user:{SECRET}/x@name-node:8020/people",
    f"s3://bucket/people?access_key=AKID&secret_key={SECRET}",
    f"s3://bucket/people?scheme=http&session_token={SECRET}",
    f"gs://{SECRET}@bucket/people",
    f"abfss://container:{SECRET}@account.dfs.core.windows.net/people",
    f"abfs://c@account.dfs.core.windows.net/people?client_secret={SECRET}",
    f"hdfs://user:{SECRET}@name-node:8020/people",
    f"wasbs://container@account.blob.core.windows.net/people?sig={SECRET}",
]


@pytest.mark.parametrize("address", WITH_SECRETS)
def test_no_secret_in_a_conf_or_a_message(conf: dict[str, Any], address: str) -> None:
    """Kills: a key that is hashed into a spec, published in a manifest, kept in the ledger or shown in an error."""
    for key, part in (("source", "parquet"), ("output", "path")):
        with pytest.raises(ConfError, match=f"{key}.*(environment)") as refused:
            dpspark.load_spec({**conf, key: {part: address}})
        assert SECRET not in str(refused.value)
    with pytest.raises(ConfError) as refused:
        place_of(address)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "store", "key", "options"),
    [
        ("s3://bucket//a/b/", "bucket", "a/b", {}),
        ("s3://bucket/a%20b é/k=1%2F2", "bucket", "a%20b é/k=1%2F2", {}),  # as it is written
        ("S3://bucket/part-?.parquet", "bucket", "part-?.parquet", {}),
        ("s3://b/y=?/x?scheme=http&region=eu", "b", "y=?/x", {"scheme": "http", "region": "eu"}),
        ("abfss://c@account.dfs.core.windows.net/x", "c@account.dfs.core.windows.net", "x", {}),
        ("hdfs://user@name-node:8020/x", "user@name-node:8020", "x", {}),
        ("gs://bucket", "bucket", "", {}),
    ],
)
def test_parts_of_an_address(address: str, store: str, key: str, options: dict[str, str]) -> None:
    assert problem_with(address) is None
    parsed = parse_address(address)
    assert parsed is not None
    assert (parsed[0].authority, parsed[1], dict(parsed[0].options)) == (store, key, options)


def test_a_bucket_has_no_port() -> None:
    assert "a key or password" in (problem_with("gs://AKID:key/people") or "")
    assert problem_with("hdfs://name-node:8020/people@home") is not None  # rather than let a password pass
    assert problem_with("hdfs://name-node:8020/people") is None


def test_what_is_left_to_spark() -> None:
    """s3a:// has settings that only Hadoop knows; HDFS needs a library that is not there."""
    for address in ("s3a://bucket/people", "wasbs://c@account/people", "dbfs:/people", "viewfs://x/people"):
        assert parse_address(address) is None
    assert open_source("s3a://bucket/people", [], {}) is None
    hdfs, google = parse_address("hdfs://127.0.0.1:1/people"), parse_address("gs://bucket/people")
    assert hdfs is not None
    assert google is not None
    assert (can_open(hdfs[0]), can_open(google[0])) == (False, True)
    assert open_source("hdfs://127.0.0.1:1/people", [], {}) is None


def test_places_of_releases(tmp_path: Path) -> None:
    assert place_of(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert place_of(tmp_path) is tmp_path
    place = place_of("s3://bucket/releases//x/?scheme=http&endpoint_override=h:1")
    assert isinstance(place, StorePath)
    child = place / "income" / "1"
    assert str(child) == "s3://bucket/releases/x/income/1?endpoint_override=h:1&scheme=http"
    assert place_of(str(child)) == child
    assert child.parent.parent == place
    assert (child / "scaled.parquet").stem == "scaled"
    assert same_place("s3://bucket/a/", "s3://bucket//a")
    assert not same_place("s3://bucket/a", "s3://other/a")
    assert not same_place("s3://bucket/a", tmp_path)
    # Hadoop's names of S3 are the store's own place: what one run began, another goes on with.
    assert place_of("s3a://bucket/a") == place_of("S3N://bucket/a") == place_of("s3://bucket/a")
    assert str(place_of("s3a://bucket/a?region=eu")) == "s3://bucket/a?region=eu"
    for address in (
        "s3://bucket/../a",
        "s3a://bucket/../a",
        "s3a://bucket/a?fs.s3a.endpoint=x",
        "ftp://host/a",
        "hdfs://127.0.0.1:1/a",
    ):
        with pytest.raises(ConfError):
            place_of(address)


def test_what_travels_to_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's endpoint and region do, its keys do not. Kills: secrets in task closures."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:{SECRET}@127.0.0.1:9000")
    found = parse_address("s3://bucket/people")
    assert found is not None
    assert dict(found[0].environment)["endpoint_override"] == "127.0.0.1:9000"
    assert found[0].files.region
    assert SECRET.encode() not in pickle.dumps(found[0])
    assert SECRET not in repr(found[0])
