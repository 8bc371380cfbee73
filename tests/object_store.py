"""A real server of the S3 API for the tests, on a free port of the loopback, and buckets in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET = "wJalrXUtnFEMI-7f21"  # no real one: tests look for it where it must not be
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_EC2_METADATA_DISABLED": "true",  # do not look for a cloud's own
    "AWS_REGION": "us-east-1",
}


@contextmanager
def object_store() -> Iterator[str]:
    """Its host and port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    finally:
        server.stop()


@dataclass(frozen=True)
class Bucket:
    name: str
    endpoint: str

    @staticmethod
    def create(endpoint: str) -> Bucket:
        made = Bucket(f"test-{uuid.uuid4().hex}", endpoint)
        made.files.create_dir(made.name)
        return made

    @property
    def files(self) -> Any:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            endpoint_override=self.endpoint, scheme="http", region="us-east-1", allow_bucket_creation=True
        )

    def address(self, key: str) -> str:
        return f"s3://{self.name}/{key}?endpoint_override={self.endpoint}&scheme=http"

    def put(self, key: str, content: bytes | Path) -> None:
        with self.files.open_output_stream(f"{self.name}/{key}") as file:
            file.write(content if isinstance(content, bytes) else content.read_bytes())

    def delete(self, key: str) -> None:
        self.files.delete_file(f"{self.name}/{key}")

    def keys(self, below: str = "") -> list[str]:
        """Of objects; empty directories do not count."""
        from pyarrow.fs import FileSelector

        where = FileSelector(f"{self.name}/{below}".rstrip("/"), recursive=True, allow_not_found=True)
        found = (info.path.removeprefix(f"{self.name}/") for info in self.files.get_file_info(where) if info.is_file)
        return sorted(found)
