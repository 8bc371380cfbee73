"""A second S3 server, which is not moto: rclone's, over a directory. Sources are read there; it cannot be an output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_store import Bucket

import dpspark
from dpspark.errors import OutputError, SourceError
from dpspark.ledger.ledger import Ledger
from tests.lake.releases import WAYS, before_passes, is_direct, numbers, plain_file, released
from tests.lake.servers import rclone_store
from tests.noises import NoNoiseFixedSecret

pytestmark = pytest.mark.lake


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with rclone_store(tmp_path_factory.mktemp("rclone")) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")  # of this process and its workers
        yield endpoint


@pytest.fixture
def bucket(server: str, spark: Any, rows: pa.Table, tmp_path: Path) -> Bucket:
    """The rows in two files of a bucket."""
    made = Bucket.create(server)
    for number, part in enumerate((rows.slice(0, 2500), rows.slice(2500))):
        pq.write_table(part, tmp_path / "part.parquet", row_group_size=1000)
        made.put(f"people/year={number}/a b+é.parquet", tmp_path / "part.parquet")
    return made


@pytest.mark.parametrize("way", WAYS)
def test_sources(spark: Any, conf: dict[str, Any], bucket: Bucket, rows: pa.Table, tmp_path: Path, way: str) -> None:
    """The same numbers as of a file on a disk."""
    plain = numbers(released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", rows)))
    assert numbers(released(conf, spark, way, "there", parquet=bucket.address("people"))) == plain


@pytest.mark.parametrize("kind", ["glob", "file", "directory"])
def test_listings(spark: Any, conf: dict[str, Any], bucket: Bucket, rows: pa.Table, tmp_path: Path, kind: str) -> None:
    place = {"glob": "people/year=*/a*", "file": "people/year=0/a b+é.parquet", "directory": "people/year=0"}[kind]
    table = rows if kind == "glob" else rows.slice(0, 2500)
    plain = numbers(released(conf, spark, "plain", "plain", **plain_file(tmp_path / "plain.parquet", table)))
    assert is_direct(conf, spark, "plain", parquet=bucket.address(place))
    assert numbers(released(conf, spark, "plain", "there", parquet=bucket.address(place))) == plain


def test_a_file_that_is_replaced(spark: Any, conf: dict[str, Any], bucket: Bucket, tmp_path: Path) -> None:
    """By as many bytes: its ETag and its time tell."""
    key = "people/year=0/a b+é.parquet"

    def replace() -> None:
        content = bytearray(bucket.files.open_input_file(f"{bucket.name}/{key}").read())
        content[100] ^= 1
        bucket.put(key, bytes(content))

    with pytest.raises(SourceError, match=r"changed while it was read\. Nothing was released"):
        released(conf, spark, "plain", "1", before_passes(replace), parquet=bucket.address("people"))
    entry = Ledger(conf["ledger"]["url"]).find("people", "income", "1")
    assert entry is not None
    assert entry.state == "reserved"


def test_a_lake_table_is_refused(spark: Any, conf: dict[str, Any], bucket: Bucket) -> None:
    bucket.put("people/_delta_log/00000000000000000000.json", b"{}")
    with pytest.raises(SourceError, match="is a Delta table"):
        released(conf, spark, "plain", "1", parquet=bucket.address("people/year=0"))


def test_delta_there(spark: Any, conf: dict[str, Any], bucket: Bucket, rows: pa.Table, tmp_path: Path) -> None:
    """Written to a disk and copied: what reads it there is delta-rs, and the tasks."""
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "t", rows.slice(0, 4000))
    write_deltalake(tmp_path / "t", rows.slice(4000), mode="append")
    for file in (tmp_path / "t").rglob("*"):
        if file.is_file():
            bucket.put(f"t/{file.relative_to(tmp_path / 't')}", file)
    plain = numbers(released(conf, spark, "where", "plain", **plain_file(tmp_path / "plain.parquet", rows)))
    assert numbers(released(conf, spark, "where", "there", delta=bucket.address("t"))) == plain


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "not empty"])
def test_it_cannot_be_an_output(spark: Any, conf: dict[str, Any], bucket: Bucket, filled: bool) -> None:
    """It loses files where others are deleted: refused before anything is charged. Kills: a draw that cannot be staged."""
    if filled:
        bucket.put("releases/.staging/x", b"x")
    conf["output"] = {"path": bucket.address("releases")}
    for _ in range(2):  # also when an earlier try left its mark
        with pytest.raises(OutputError, match=r"no longer once a file there was deleted|it cannot be written"):
            released(conf, spark, "plain", "1", parquet=bucket.address("people"))
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].entries == ()


def test_a_bucket_that_is_not_there(spark: Any, conf: dict[str, Any], bucket: Bucket, server: str) -> None:
    nowhere = Bucket("nobodys-bucket", server)
    with pytest.raises(SourceError):
        released(conf, spark, "plain", "1", parquet=nowhere.address("people"))
    with pytest.raises(OutputError):
        dpspark.release({**conf, "output": {"path": nowhere.address("out")}}, spark=spark, noise=NoNoiseFixedSecret())
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].entries == ()
