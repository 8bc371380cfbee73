"""Delta tables whose files the tasks read: the rows of one version, as the table's log has them."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from object_store import Bucket

from dpspark.core.domain import Domain, GroupKey, Numeric
from dpspark.errors import SourceError
from dpspark.source import parquet
from dpspark.source.delta import is_table_name, open_delta, refuse_both
from dpspark.source.listing import NothingThere
from dpspark.source.parquet import ParquetSource, decode, open_parquet
from dpspark.source.reading import Reading, read_rows
from dpspark.source.stamps import SourceChanged
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.parquet_frames import open_parquet_frame
from tests.lake_tables import MAPPING, delta_add, delta_field, delta_vector, write_delta

X = Numeric("x", 0.0, 100.0)
FIELDS = [delta_field("x", "long"), delta_field("y", "double")]


def rows(source: ParquetSource) -> pa.Table:
    """All rows of the columns that the source reads, as tasks see them."""
    kinds = source.frame_columns().types
    found = []
    for part in source.parts:
        found += decode(part, list(range(len(part.row_group_bytes))), list(kinds))
    return pa.Table.from_batches(found) if found else pa.table({name: pa.nulls(0) for name in kinds})


def opened(place: Path | str, *mentioned: str, version: int | None = None, columns: Sequence[Any] = (X,)) -> Any:
    return open_delta(str(place), version, columns, {"where": set(mentioned)} if mentioned else {})


def table_of(count: int, start: int = 0) -> pa.Table:
    return pa.table({"x": np.arange(start, start + count), "y": np.arange(start, start + count) / 7})


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A table of four versions: two writings, a deletion and a row more."""
    place = tmp_path / "t"
    write_deltalake(place, table_of(50))
    write_deltalake(place, table_of(50, 50), mode="append")
    DeltaTable(place).delete("x % 3 = 0")
    write_deltalake(place, table_of(1, 100), mode="append")
    return place


def test_rows_of_each_version(written: Path) -> None:
    """Kills: reading all files of the directory; reading the newest version always."""
    expected = [list(range(50)), list(range(100)), [x for x in range(100) if x % 3]]
    expected.append([*expected[2], 100])
    for version, wanted in enumerate(expected):
        found = opened(written, version=version)
        assert sorted(rows(found)["x"].to_pylist()) == wanted
        assert found.snapshot is not None
        assert (found.snapshot.format, found.snapshot.id) == ("delta", version)
        assert found.snapshot.table == str(DeltaTable(written).metadata().id)
    assert opened(written).snapshot == opened(written, version=3).snapshot


def test_the_version_is_pinned(written: Path) -> None:
    """Kills: listing the files again when they are read."""
    found, before = opened(written), rows(opened(written))
    write_deltalake(written, table_of(5), mode="overwrite")
    assert rows(found).equals(before)
    found.check_unchanged()


def test_the_same_sums_as_of_the_rows_that_are_left(spark: Any, tmp_path: Path) -> None:
    """Kills: rows of a deletion vector that count; a mask that is off by a row group."""
    place, rng = tmp_path / "t", np.random.default_rng(1)
    place.mkdir()
    table = pa.table({"x": rng.integers(0, 100, 30_000), "y": rng.normal(size=30_000)})
    gone = np.flatnonzero(rng.random(30_000) < 0.3)
    pq.write_table(table, place / "a b%c.parquet", row_group_size=7000)
    pq.write_table(table, place / "d.parquet", row_group_size=7000)
    vector = delta_vector(place, "u", gone.tolist())
    adds = [delta_add("a%20b%25c.parquet", 30_000, deletionVector=vector), delta_add("d.parquet", 30_000)]
    write_delta(place, FIELDS, adds, ["deletionVectors"])
    kept = table.filter(pa.array(~np.isin(np.arange(30_000), gone)))
    pq.write_table(pa.concat_tables([kept, table]), tmp_path / "plain.parquet", row_group_size=20_000)
    columns = (X, Numeric("y", -2.0, 2.0))
    domain = Domain(columns, "drop_row").with_bits(20)
    found = exact_gram(spark, opened(place, columns=columns), domain)
    plain = exact_gram(spark, open_parquet(str(tmp_path / "plain.parquet"), columns), domain)
    assert found.reveal() == plain.reveal()
    frame, _ = open_parquet_frame(spark, opened(place, columns=columns))
    assert frame.dtypes == [("x", "bigint"), ("y", "double")]
    assert frame.count() == 60_000 - len(gone)


@pytest.mark.parametrize("storage", ["i", "u", "p"])
@pytest.mark.parametrize("pieces", [False, True])
def test_deletion_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str, pieces: bool) -> None:
    if pieces:  # large row groups are read so
        monkeypatch.setattr(parquet, "WHOLE_ROW_GROUP", 0)
        monkeypatch.setattr(parquet, "BATCH_ROWS", 7)
    for name in ("a", "b"):
        pq.write_table(table_of(100), tmp_path / f"{name}.parquet", row_group_size=30)
    gone = [0, 1, 29, 30, 59, *range(60, 90), 99]
    vector = delta_vector(tmp_path, storage, gone)
    adds = [delta_add("a.parquet", 100, deletionVector=vector), delta_add("b.parquet", 100)]
    write_delta(tmp_path, FIELDS, adds, ["deletionVectors"])
    found = opened(tmp_path)
    left = [x for x in range(100) if x not in gone]
    assert rows(found)["x"].to_pylist() == [*left, *range(100)]
    # Each row group by itself, in any order, and no column at all.
    part = found.parts[0]
    apart = [x for group in (3, 0, 2, 1) for batch in decode(part, [group], ["x"]) for x in batch["x"].to_pylist()]
    assert sorted(apart) == left
    assert sum(batch.num_rows for batch in decode(part, [0, 1, 2, 3], [])) == len(left)
    assert sum(batch.num_rows for batch in read_rows(Reading((X,)), part, [0, 1, 2, 3])) == len(left)


def test_deleted_rows_of_a_file_elsewhere(tmp_path: Path) -> None:
    """Paths in a log may be absolute, as in a clone, and are written in several ways."""
    for name in ("other b", "t"):
        (tmp_path / name).mkdir()
    pq.write_table(table_of(5), tmp_path / "other b" / "a.parquet")
    address = (tmp_path / "other b" / "a.parquet").as_uri()
    for written in (address, address.replace("file:///", "file:/")):
        vector = delta_vector(tmp_path / "t", "i", [1, 2])
        write_delta(tmp_path / "t", FIELDS, [delta_add(written, 5, deletionVector=vector)], ["deletionVectors"])
        assert rows(opened(tmp_path / "t"))["x"].to_pylist() == [0, 3, 4]


def test_deleted_rows_that_no_file_has(tmp_path: Path) -> None:
    pq.write_table(table_of(10), tmp_path / "a.parquet")
    vector = delta_vector(tmp_path, "i", [3, 15])
    write_delta(tmp_path, FIELDS, [delta_add("a.parquet", 20, deletionVector=vector)], ["deletionVectors"])
    with pytest.raises(SourceError, match="that the file does not have"):
        opened(tmp_path)


def test_partition_columns(tmp_path: Path) -> None:
    """Values are the log's, in the table's types, with odd characters in paths."""
    table = pa.table(
        {
            "x": [1.0, 2.0, 3.0, 4.0],
            "text": ["a b", "c%20d/", "é=ü&?#", None],
            "day": [datetime.date(2020, 1, 1), None, datetime.date(1500, 1, 1), datetime.date(2020, 1, 2)],
            "whole": pa.array([1, None, -3, 2**62], pa.int64()),
            "small": pa.array([1, None, -3, 4], pa.int8()),
            "yes": [True, False, None, True],
            "price": pa.array([Decimal("1.20"), None, Decimal("-3.00"), Decimal("4.00")], pa.decimal128(10, 2)),
            "real": pa.array([0.1, float("inf"), None, -1e-7], pa.float32()),
            "local": pa.array([datetime.datetime(2020, 1, 1, 1, 2, 3, 4), None] * 2, pa.timestamp("us")),
        }
    )
    write_deltalake(tmp_path / "t", table, partition_by=table.column_names[1:])
    found = opened(tmp_path / "t", *table.column_names[1:])
    assert rows(found).sort_by("x").equals(table)
    kinds = found.frame_columns().types
    assert kinds["small"] == "tinyint"
    assert kinds["price"] == "decimal(10,2)"
    assert kinds["local"] == "timestamp_ntz"
    assert opened(tmp_path / "t", columns=[X, GroupKey("text")]).parts[0].columns[1].kind == "string"


def test_partition_values_that_writers_do_not_agree_about(tmp_path: Path) -> None:
    table = pa.table({"x": [1], "at": pa.array([0], pa.timestamp("us", "UTC")), "raw": [b"1"]})
    write_deltalake(tmp_path / "t", table, partition_by=["at", "raw"])
    assert rows(opened(tmp_path / "t")).num_rows == 1
    for name in ("at", "raw"):
        with pytest.raises(SourceError, match=f"column '{name}': the table is partitioned by it.*\n.*source.table"):
            opened(tmp_path / "t", name)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping(tmp_path: Path, mode: str) -> None:
    """Columns that were renamed, added, and dropped and made again. Kills: reading by the table's names."""
    old = pa.table({"col-1": [1, 2], "y": [0.5, 1.5]})  # `y` was dropped: another column has that name now
    new = pa.table({"col-1": [3], "col-9": [2.5]})
    for number, (name, table) in enumerate([("a", old), ("b", new)]):
        ids = {"col-1": b"1", "y": b"2", "col-9": b"3"}
        kinds = [pa.field(f.name, f.type, metadata={"PARQUET:field_id": ids[f.name]}) for f in table.schema]
        pq.write_table(table.cast(pa.schema(kinds)), tmp_path / f"{name}.parquet")
        assert number < 2
    fields = [
        delta_field("x", "long", 1, "col-1"),
        delta_field("y", "double", 3, "col-9"),
        delta_field("region", "integer", 4, "col-4"),
    ]
    adds = [delta_add("a.parquet", 2, {"col-4": "7"}), delta_add("b.parquet", 1, {"col-4": None})]
    write_delta(tmp_path, fields, adds, ["columnMapping"], ["region"], {f"{MAPPING}.mode": mode})
    found = rows(opened(tmp_path, "y", "region"))
    assert found.to_pydict() == {"x": [1, 2, 3], "y": [None, None, 2.5], "region": [7, 7, None]}


def test_field_ids_that_a_file_lacks(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    fields = [delta_field("x", "long", 1, "x")]
    write_delta(tmp_path, fields, [delta_add("a.parquet", 1)], ["columnMapping"], (), {f"{MAPPING}.mode": "id"})
    with pytest.raises(SourceError, match="has no field ids"):
        opened(tmp_path)


def test_an_added_column(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", table_of(2))
    more = table_of(2, 2).append_column("z", pa.array(["a", None]))
    write_deltalake(tmp_path / "t", more, mode="append", schema_mode="merge")
    found = rows(opened(tmp_path / "t", "z")).sort_by("x")
    assert found["z"].to_pylist() == [None, None, "a", None]
    assert found["z"].type == pa.string()


def test_types_that_were_widened(tmp_path: Path) -> None:
    """Exact ones are read as the table's type; others are refused, before a row is read."""
    table = pa.table({"x": pa.array([1, None, 3], pa.int16()), "y": pa.array([1, 2, 3], pa.int32())})
    pq.write_table(table, tmp_path / "a.parquet")
    write_delta(tmp_path, FIELDS, [delta_add("a.parquet", 3)], ["typeWidening"])
    found = rows(opened(tmp_path, "y"))
    assert found.schema.types == [pa.int64(), pa.float64()]
    assert found["x"].to_pylist() == [1, None, 3]
    narrow = [delta_field("x", "byte"), delta_field("y", "string")]
    write_delta(tmp_path, narrow, [delta_add("a.parquet", 3)])
    with pytest.raises(SourceError, match=r"column 'x' is tinyint in the table, and smallint in .*a.parquet"):
        opened(tmp_path)
    with pytest.raises(SourceError, match="'y' is string in the table, and int in"):
        opened(tmp_path, "y", columns=())


def test_dates_of_an_old_spark(tmp_path: Path) -> None:
    table = pa.table({"x": [1], "day": [datetime.date(1500, 1, 1)]})
    facts = {"org.apache.spark.version": "2.4.8"}
    pq.write_table(table.replace_schema_metadata(facts), tmp_path / "a.parquet")
    write_delta(tmp_path, [*FIELDS, delta_field("day", "date")], [delta_add("a.parquet", 1)])
    assert rows(opened(tmp_path)).num_rows == 1
    with pytest.raises(SourceError, match="in an old Spark's calendar"):
        opened(tmp_path, "day")


def test_times_as_int96(tmp_path: Path) -> None:
    """Kills: times in nanoseconds, which wrap around before 1677."""
    times = pa.array([datetime.datetime(1600, 1, 1), datetime.datetime(2020, 1, 1, 1, 2, 3, 4)], pa.timestamp("us"))
    pq.write_table(pa.table({"x": [1, 2], "at": times}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    write_delta(tmp_path, [*FIELDS, delta_field("at", "timestamp")], [delta_add("a.parquet", 2)])
    found = rows(opened(tmp_path, "at"))["at"]
    assert found.type == pa.timestamp("us", "UTC")
    assert found.combine_chunks().equals(pc.assume_timezone(times, "UTC"))


@pytest.mark.parametrize("feature", ["variantType", "catalogManaged", "somethingNew"])
def test_a_feature_that_is_not_known(tmp_path: Path, feature: str) -> None:
    pq.write_table(table_of(1), tmp_path / "a.parquet")
    write_delta(tmp_path, FIELDS, [delta_add("a.parquet", 1)], [feature])
    with pytest.raises(SourceError, match=f"needs '{feature}' of its readers(.|\n)*source.table"):
        opened(tmp_path)


@pytest.mark.parametrize("feature", ["timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening-preview"])
def test_features_that_change_nothing(tmp_path: Path, feature: str) -> None:
    pq.write_table(table_of(1), tmp_path / "a.parquet")
    write_delta(tmp_path, FIELDS, [delta_add("a.parquet", 1)], [feature])
    assert rows(opened(tmp_path))["x"].to_pylist() == [0]


def vacuumed(place: Path) -> None:
    table = DeltaTable(place)
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def test_a_vacuumed_file(written: Path) -> None:
    """Before it is opened, and between opening and reading."""
    found = opened(written, version=1)
    vacuumed(written)
    with pytest.raises(SourceError, match=r"was vacuumed or replaced while it was read. Nothing was released.\n"):
        found.check_unchanged()
    with pytest.raises(SourceChanged):
        rows(found)
    with pytest.raises(SourceError, match="is not there, though the snapshot has it: it was vacuumed"):
        opened(written, version=1)
    assert rows(opened(written)).num_rows == 67


def test_a_file_that_was_replaced(written: Path) -> None:
    found = opened(written)
    pq.write_table(table_of(3), found.parts[0].path)
    with pytest.raises(SourceError, match="was vacuumed or replaced"):
        found.check_unchanged()


def test_a_version_that_is_not_there(written: Path) -> None:
    with pytest.raises(SourceError, match=r"version 9 cannot be read; the newest is 3\.(.|\n)*source.version"):
        opened(written, version=9)
    (written / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(SourceError, match=r"its log cannot be read|version 1 cannot be read"):
        opened(written, version=1)


def test_what_is_no_table(tmp_path: Path) -> None:
    for path, why in (("nothing", "no such directory"), ("people", "no Delta table there")):
        (tmp_path / "people").mkdir(exist_ok=True)
        pq.write_table(table_of(1), tmp_path / "people" / "a.parquet")
        with pytest.raises(NothingThere, match=why):
            opened(tmp_path / path)
    with pytest.raises(NothingThere, match=r"written with its schema: default.people"):
        opened("some-people")
    with pytest.raises(SourceError, match=r"Write s3:// for s3a://"):
        opened("s3a://bucket/people")
    with pytest.raises(SourceError, match=r"Rename the directory"):
        opened("s3://bucket/my people")


def test_a_directory_that_the_library_would_take_for_another(tmp_path: Path) -> None:
    """Kills: reading a table called aAb for one called a%41b."""
    for name in ("aAb", "a%41b"):
        write_deltalake(tmp_path / "t", table_of(len(name)), mode="overwrite")
        shutil.copytree(tmp_path / "t", tmp_path / name)
    with pytest.raises(SourceError, match="could read another one"):
        opened(tmp_path / "a%41b")


def test_odd_names_of_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_deltalake(tmp_path / "t", table_of(3))
    for name in ("a b=é", "a#b?c", "a%b", "x.y"):
        shutil.copytree(tmp_path / "t", tmp_path / name)
        for place in (f"./{name}", str(tmp_path / name), (tmp_path / name).as_uri()):
            assert rows(opened(place))["x"].to_pylist() == [0, 1, 2]
    assert os.path.isabs(opened("t").parts[0].path)  # executors have a working directory of their own


def test_names_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("db.people", "cat.db.people", "cat.`my db`.people"):
        assert is_table_name(name)
    for path in ("people", "./db.people", "/data/db.people", "s3://b/db.people", "..", "data/../x.y"):
        assert not is_table_name(path)
    monkeypatch.chdir(tmp_path)
    refuse_both("db.people")
    write_deltalake(tmp_path / "db.people", table_of(1))
    with pytest.raises(SourceError, match=r"Write ./db.people for the directory"):
        refuse_both("db.people")


@contextmanager
def nobody() -> Iterator[None]:
    """Without the rights of root, if these are root's tests."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_no_right_to_read() -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        write_deltalake(home / "t", table_of(3))
        data = next((home / "t").glob("*.parquet"))
        checks = [
            (data, "cannot be opened"),
            (home / "t" / "_delta_log", "its log cannot be read|no Delta table there"),
        ]
        for place, why in [*checks, (home / "t", "cannot be listed"), (home, "cannot be listed")]:
            before = place.stat().st_mode
            place.chmod(0)
            with nobody(), pytest.raises(SourceError, match=why):
                opened(home / "t")
            place.chmod(before)


def test_a_log_that_is_damaged(written: Path) -> None:
    log = sorted((written / "_delta_log").glob("*.json"))[-1]
    log.write_text(log.read_text() + '\n{"secret value')
    with pytest.raises(SourceError, match="its log cannot be read") as caught:
        opened(written)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("by_option", [True, False])
def test_in_a_store(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_option: bool, spark: Any
) -> None:
    pq.write_table(table_of(20), tmp_path / "a b%c.parquet", row_group_size=6)
    (tmp_path / "k=é").mkdir()
    pq.write_table(table_of(20, 20), tmp_path / "k=é" / "b.parquet")
    vector = delta_vector(tmp_path, "u", [2, 19])
    adds = [delta_add("a%20b%25c.parquet", 20, deletionVector=vector), delta_add("k=%C3%A9/b.parquet", 20)]
    write_delta(tmp_path, FIELDS, adds, ["deletionVectors"])
    for path in sorted(p for p in tmp_path.rglob("*") if p.is_file()):
        bucket.put(f"lake/my-people=1/{path.relative_to(tmp_path)}", path)
    address = bucket.address("lake/my-people=1")
    if not by_option:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{bucket.endpoint}")
        address = address.partition("?")[0]
    found = opened(address)
    assert found.in_store
    assert sorted(rows(found)["x"].to_pylist()) == [x for x in range(40) if x not in (2, 19)]
    assert open_parquet_frame(spark, found)[0].count() == 38
    bucket.delete("lake/my-people=1/a b%c.parquet")
    with pytest.raises(SourceError, match="was vacuumed or replaced"):
        found.check_unchanged()
    with pytest.raises(SourceError, match="is not there, though the snapshot has it"):
        opened(address)
    with pytest.raises(NothingThere, match="no Delta table there"):
        opened(address.replace("my-", "no-"))


def test_columns_that_do_not_fit(written: Path) -> None:
    checks: list[tuple[Callable[[], Any], str]] = [
        (lambda: opened(written, columns=[Numeric("xx", 0.0, 1.0)]), "columns.xx: no such column in the table"),
        (lambda: opened(written, "z"), "no column 'z' in the source"),
        (
            lambda: opened(written, columns=[GroupKey("y")]) and opened(written, columns=[GroupKey("q")]),
            "no such column",
        ),
    ]
    for check, why in checks:
        with pytest.raises(SourceError, match=why):
            check()


def test_the_same_file_twice(tmp_path: Path) -> None:
    """Kills: a person who counts twice."""
    pq.write_table(table_of(1), tmp_path / "a.parquet")
    adds = [delta_add("a.parquet", 1), delta_add((tmp_path / "a.parquet").as_uri(), 1)]
    write_delta(tmp_path, FIELDS, adds)
    with pytest.raises(SourceError, match="names a file twice"):
        opened(tmp_path)


def test_an_empty_table(tmp_path: Path) -> None:
    write_delta(tmp_path, FIELDS, [])
    found = opened(tmp_path)
    assert found.parts == ()
    assert found.frame_columns().types == {"x": "bigint"}
