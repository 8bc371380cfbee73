"""Iceberg tables whose files the tasks read: the rows of one snapshot, by field ids, without those that were deleted."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_store import Bucket
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)

from dpspark.core.domain import Domain, Numeric
from dpspark.errors import SourceError
from dpspark.source.iceberg import open_iceberg
from dpspark.source.listing import NothingThere
from dpspark.source.parquet import ParquetSource, decode, open_parquet
from dpspark.source.stamps import SourceChanged
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.parquet_frames import open_parquet_frame
from tests.lake_tables import commit_iceberg, equality_deletes, iceberg_catalog, position_deletes, puffin_deletes

X, Y = Numeric("x", 0.0, 100.0), Numeric("y", -2.0, 2.0)


def rows(source: ParquetSource) -> pa.Table:
    """All rows of the columns that the source reads, as tasks see them."""
    kinds = source.frame_columns().types
    found = []
    for part in source.parts:
        found += decode(part, list(range(len(part.row_group_bytes))), list(kinds))
    return pa.Table.from_batches(found)


def opened(
    *mentioned: str, name: str = "lake.db.t", snapshot: int | None = None, columns: Sequence[Any] = (X,)
) -> ParquetSource:
    return open_iceberg(name, snapshot, columns, {"where": set(mentioned)} if mentioned else {})


def values(source: ParquetSource) -> list[Any]:
    return sorted(rows(source)["x"].to_pylist())


def table_of(count: int, start: int = 0) -> pa.Table:
    return pa.table({"x": np.arange(start, start + count), "y": np.arange(start, start + count) / 700})


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return iceberg_catalog(monkeypatch, tmp_path / "lake é=1")


@pytest.fixture
def table(catalog: Any) -> Any:
    return catalog.create_table("db.t", schema=table_of(1).schema)


def paths_of(table: Any) -> list[str]:
    """The data files, the one of the smallest row first."""
    found = [task.file.file_path for task in table.scan().plan_files()]
    return sorted(found, key=lambda path: pq.read_table(path.removeprefix("file://"))["x"][0].as_py())


def test_snapshots(table: Any) -> None:
    """Kills: reading all files of the directory; reading the newest snapshot always."""
    table.append(table_of(50))
    table.append(table_of(50, 50))
    table.delete("x < 10")
    first, second, *_, newest = [one.snapshot_id for one in table.metadata.snapshots]
    assert values(opened(snapshot=first)) == list(range(50))
    assert values(opened(snapshot=second)) == list(range(100))
    assert values(opened()) == list(range(10, 100))
    found = opened().snapshot
    assert found is not None
    assert found.public() == {"format": "iceberg", "id": newest, "table": str(table.metadata.table_uuid)}


def test_the_snapshot_is_pinned(table: Any) -> None:
    table.append(table_of(5))
    found = opened()
    table.overwrite(table_of(3))
    assert values(found) == [0, 1, 2, 3, 4]
    found.check_unchanged()


def test_a_table_that_was_never_written_to(table: Any) -> None:
    found = opened()
    assert (found.parts, found.snapshot and found.snapshot.id) == ((), None)
    assert found.frame_columns().types == {"x": "bigint"}


@pytest.mark.parametrize("write", [position_deletes, puffin_deletes])
def test_deleted_rows(spark: Any, table: Any, tmp_path: Path, write: Any) -> None:
    """The same sums as of a file of the rows that are left. Kills: deletes of another file; deletes that are not read."""
    rng = np.random.default_rng(2)
    content = pa.table({"x": rng.integers(0, 100, 20_000), "y": rng.normal(size=20_000)})
    table.append(content.slice(0, 12_000))
    table.append(content.slice(12_000))
    first, second = [task.file.file_path for task in table.scan().plan_files()]
    if pq.read_metadata(first.removeprefix("file://")).num_rows != 12_000:
        first, second = second, first
    gone = np.flatnonzero(rng.random(20_000) < 0.2)
    early, late = gone[gone < 12_000], gone[gone >= 12_000] - 12_000
    commit_iceberg(table, [write(table, {first: early.tolist(), second: late.tolist()})])
    before = table.current_snapshot().parent_snapshot_id
    kept = content.filter(pa.array(~np.isin(np.arange(20_000), gone)))
    domain = Domain((X, Y), "drop_row").with_bits(20)
    for snapshot, expected in ((None, kept), (before, content)):
        pq.write_table(expected, tmp_path / "plain.parquet", row_group_size=5000)
        found = exact_gram(spark, opened(columns=(X, Y), snapshot=snapshot), domain)
        plain = exact_gram(spark, open_parquet(str(tmp_path / "plain.parquet"), (X, Y)), domain)
        assert found.reveal() == plain.reveal()
    assert open_parquet_frame(spark, opened(columns=(X, Y)))[0].count() == len(kept)


def test_deletes_add_up(table: Any) -> None:
    """Several delete files for one data file, old and new kinds; and files written after them are not theirs."""
    table.append(table_of(10))
    table.append(table_of(10, 10))
    first, second = paths_of(table)
    commit_iceberg(
        table, [position_deletes(table, {first: [0, 9]}), position_deletes(table, {first: [1], second: [5]})]
    )
    commit_iceberg(table, [puffin_deletes(table, {second: [5, 6]})])
    table.append(table_of(3, 20))
    assert values(opened()) == [2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 17, 18, 19, 20, 21, 22]
    assert values(opened()) == sorted(table.scan().to_arrow()["x"].to_pylist())


def test_equality_deletes(table: Any) -> None:
    table.append(table_of(10))
    commit_iceberg(table, [equality_deletes(table)])
    with pytest.raises(SourceError, match=r"equality deletes, which pyiceberg cannot read(.|\n)*source.table"):
        opened()


def test_columns_by_field_ids(table: Any) -> None:
    """Renamed, added, dropped and made again, and widened. Kills: reading by names."""
    table.append(table_of(3))
    old = table.current_snapshot().snapshot_id
    with table.update_schema() as update:
        update.delete_column("y")
    with table.update_schema() as update:
        update.rename_column("x", "age")
    with table.update_schema() as update:
        update.add_column("y", DoubleType())
        update.add_column("x", IntegerType())
    assert rows(opened("age", "x", "y")).to_pydict() == {"age": [0, 1, 2], "y": [None] * 3, "x": [None] * 3}
    table.append(pa.table({"age": [7], "y": [0.5], "x": pa.array([9], pa.int32())}))
    with table.update_schema() as update:
        update.update_column("x", LongType())
    found = rows(opened("age", "y")).sort_by("age")
    assert found.to_pydict() == {"age": [0, 1, 2, 7], "y": [None, None, None, 0.5], "x": [None, None, None, 9]}
    assert found.schema.field("x").type == pa.int64()
    before = rows(opened("y", snapshot=old))
    assert before.to_pydict() == {"x": [0, 1, 2], "y": [0.0, 1 / 700, 2 / 700]}
    with pytest.raises(SourceError, match="no column 'age' in the source"):
        opened("age", snapshot=old)


def test_defaults(table: Any) -> None:
    """What a file lacks is the column's first default; one that cannot be honoured is refused if it is used."""
    table.append(table_of(2))
    with table.update_schema() as update:
        update.add_column("z", LongType(), default_value=7)
        update.add_column("day", DateType(), default_value=18262)
    assert rows(opened("z")).to_pydict() == {"x": [0, 1], "z": [7, 7]}
    with pytest.raises(SourceError, match="column 'day': it has a default other than null"):
        opened("day")


def data_file(path: str, count: int, partition: Record, kind: FileFormat = FileFormat.PARQUET) -> DataFile:
    """The entry of a data file for a manifest."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=kind,
        partition=partition,
        record_count=count,
        file_size_in_bytes=1,
    )


KINDS = [
    ("text", StringType()),
    ("day", DateType()),
    ("whole", IntegerType()),
    ("at", TimestamptzType()),
    ("price", DecimalType(10, 2)),
    ("yes", BooleanType()),
]


def test_partitions(catalog: Any, tmp_path: Path) -> None:
    """Values are the file's where it has them, and the partition's where it does not; odd characters in paths."""
    schema = Schema(NestedField(9, "x", LongType()), *(NestedField(i + 1, *kind) for i, kind in enumerate(KINDS)))
    fields = [PartitionField(i + 1, 1000 + i, IdentityTransform(), name) for i, (name, _) in enumerate(KINDS)]
    made = catalog.create_table("db.t", schema=schema, partition_spec=PartitionSpec(*fields))
    at = datetime.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=datetime.UTC)
    columns = {
        "x": [1, 2, 3],
        "text": ["a b%20c/", "é=ü&?#", None],
        "day": [datetime.date(2020, 1, 1), None, datetime.date(1500, 1, 1)],
        "whole": pa.array([1, None, -3], pa.int32()),
        "at": pa.array([at, None, at], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.20"), None, Decimal("-3.00")], pa.decimal128(10, 2)),
        "yes": [True, False, None],
    }
    content = pa.table(columns)
    made.append(content)
    names = [name for name, _ in KINDS]
    assert rows(opened(*names)).sort_by("x").equals(content)
    # A file without the columns that it is partitioned by, as other tools leave them.
    bare = tmp_path / "bare.parquet"
    number = str(made.schema().find_field("x").field_id)  # the catalog gives them anew
    kinds = pa.schema([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": number})])
    pq.write_table(pa.table({"x": [4]}, schema=kinds), bare)
    record = Record("a b", 18262, 7, 1577840523000004, Decimal("9.50"), False)
    entry = data_file(f"file://{bare}", 1, record, FileFormat.PARQUET)
    commit_iceberg(made, [entry], deletes=False)
    last = rows(opened(*names)).sort_by("x").slice(3).to_pylist()[0]
    assert last == {
        "x": 4,
        "text": "a b",
        "day": datetime.date(2020, 1, 1),
        "whole": 7,
        "at": datetime.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=datetime.UTC),
        "price": Decimal("9.50"),
        "yes": False,
    }


def test_a_partition_by_a_function_of_a_column(catalog: Any, tmp_path: Path) -> None:
    """Kills: taking the number of a bucket for a value."""
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "x_bucket"))
    schema = Schema(NestedField(1, "x", LongType()), NestedField(2, "y", DoubleType()))
    made = catalog.create_table("db.t", schema=schema, partition_spec=spec)
    kinds = pa.schema([pa.field("y", pa.float64(), metadata={"PARQUET:field_id": "2"})])
    pq.write_table(pa.table({"y": [0.5]}, schema=kinds), tmp_path / "bare.parquet")
    commit_iceberg(made, [data_file(f"file://{tmp_path / 'bare.parquet'}", 1, Record(3))], deletes=False)
    assert rows(opened("y")).to_pydict() == {"x": [None], "y": [0.5]}


def test_files_without_field_ids(table: Any, tmp_path: Path) -> None:
    """They are read by the table's mapping of names, and refused without one."""
    pq.write_table(table_of(4).rename_columns(["old_x", "y"]), tmp_path / "bare.parquet")
    entry = data_file(f"file://{tmp_path / 'bare.parquet'}", 4, Record(), FileFormat.PARQUET)
    commit_iceberg(table, [entry], deletes=False)
    with pytest.raises(
        SourceError, match=r"bare.parquet has no field ids, and the table no schema.name-mapping.default"
    ):
        opened()
    with table.transaction() as transaction:
        mapping = '[{"field-id": 1, "names": ["x", "old_x"]}, {"field-id": 2, "names": ["y"]}]'
        transaction.set_properties({"schema.name-mapping.default": mapping})
    assert values(opened()) == [0, 1, 2, 3]


def test_other_formats_and_types(catalog: Any, table: Any) -> None:
    entry = data_file(f"{table.location()}/a.orc", 4, Record(), FileFormat.ORC)
    commit_iceberg(table, [entry], deletes=False)
    with pytest.raises(SourceError, match=r"files of the format ORC(.|\n)*source.table"):
        opened()
    fields = (NestedField(1, "x", LongType()), NestedField(2, "id", UUIDType()))
    catalog.create_table("db.u", schema=Schema(*fields))
    assert opened(name="lake.db.u").parts == ()
    with pytest.raises(SourceError, match="column 'id': its type is Iceberg's uuid, which tasks cannot read"):
        opened("id", name="lake.db.u")


def test_a_file_that_is_gone(table: Any) -> None:
    table.append(table_of(4))
    found = opened()
    Path(paths_of(table)[0].removeprefix("file://")).unlink()
    with pytest.raises(SourceError, match="was vacuumed or replaced while it was read"):
        found.check_unchanged()
    with pytest.raises(SourceChanged):
        rows(found)
    with pytest.raises(SourceError, match="is not there, though the snapshot has it"):
        opened()


def test_snapshots_that_are_not_there(table: Any) -> None:
    table.append(table_of(4))
    old = table.current_snapshot()
    with pytest.raises(SourceError, match=r"it has no snapshot 123: it never had, or that one has expired\."):
        opened(snapshot=123)
    table.append(table_of(4))
    Path(old.manifest_list.removeprefix("file://")).unlink()
    with pytest.raises(SourceError, match="the list of the snapshot's files is not there"):
        opened(snapshot=old.snapshot_id)
    table.maintenance.expire_snapshots().by_id(old.snapshot_id).commit()
    with pytest.raises(SourceError, match=f"it has no snapshot {old.snapshot_id}"):
        opened(snapshot=old.snapshot_id)


def test_names_that_are_none(table: Any, tmp_path: Path) -> None:
    with pytest.raises(NothingThere, match="no such table in the catalog 'lake'"):
        opened(name="lake.db.people")
    with pytest.raises(NothingThere, match="no such table"):
        opened(name="lake.no.people")
    with pytest.raises(SourceError, match="the catalog 'moon' cannot be opened"):
        opened(name="moon.db.t")
    for name in ("t", "db.t", ".db.t", "lake."):
        with pytest.raises(SourceError, match=r"expected catalog.db.table|cannot be opened"):
            opened(name=name)
    for path in (tmp_path / "nothing", tmp_path / "nothing.metadata.json"):
        with pytest.raises(NothingThere, match="no Iceberg metadata there"):
            opened(name=str(path))


def test_by_its_metadata(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(table_of(4))
    old = table.metadata_location
    table.append(table_of(4, 4))
    path = Path(old.removeprefix("file://"))
    assert values(opened(name=str(path))) == [0, 1, 2, 3]
    assert values(opened(name=table.metadata_location.removeprefix("file://"))) == list(range(8))
    monkeypatch.chdir(path.parent)
    assert values(opened(name=path.name)) == [0, 1, 2, 3]
    (path.parent / "version-hint.text").write_text(path.name)
    assert values(opened(name=str(path.parent.parent))) == [0, 1, 2, 3]


def test_in_a_store(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    """Also deletes, and S3A as a name for S3. The store's settings are the catalog's or the environment's."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{bucket.endpoint}")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__ENDPOINT", f"http://{bucket.endpoint}")
    catalog = iceberg_catalog(monkeypatch, tmp_path / "lake")
    made = catalog.create_table("db.t", schema=table_of(1).schema, location=f"s3a://{bucket.name}/lake/t")
    made.append(table_of(10))
    assert values(opened()) == list(range(10))
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    found = opened()
    assert found.in_store
    assert open_parquet_frame(spark, found)[0].count() == 10
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{bucket.endpoint}")
    address = made.metadata_location.replace("s3a://", "s3://")
    assert values(opened(name=address)) == list(range(10))
    for key in bucket.keys("lake/t/data"):
        bucket.delete(key)
    with pytest.raises(SourceError, match="was vacuumed or replaced"):
        found.check_unchanged()


def test_a_moved_table(table: Any, tmp_path: Path) -> None:
    """Iceberg's paths are absolute: a copy's metadata names the files of the original."""
    table.append(table_of(4))
    home = Path(table.location().removeprefix("file://"))
    shutil.move(home, tmp_path / "moved")
    newest = max((tmp_path / "moved" / "metadata").glob("*.metadata.json"))
    with pytest.raises(SourceError, match="is not there"):
        opened(name=str(newest))
    with pytest.raises(SourceError, match="its metadata is not there"):
        opened()
