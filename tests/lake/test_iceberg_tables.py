"""Iceberg tables that Iceberg's own Spark runtime writes: merge-on-read, renames, partitions, time travel, clean-ups."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.errors import SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.spark import snapshots
from tests.lake.releases import PLAIN, WAYS, before_passes, conf_of, is_direct, numbers, plain_file, released
from tests.noises import NoNoiseFixedSecret

pytestmark = pytest.mark.lake
MERGE_ON_READ = ", ".join(f"'write.{what}.mode'='merge-on-read'" for what in ("delete", "update", "merge"))


@dataclass(frozen=True)
class Written:
    """A table, the path of its newest metadata, and the rows of each of its snapshots."""

    name: str
    metadata: str
    snapshots: list[int]
    states: list[pa.Table]


def metadata_of(spark: Any, name: str) -> str:
    found = spark.sql(f"select file from {name}.metadata_log_entries order by timestamp desc limit 1").collect()
    return str(found[0].file)


def newest(spark: Any, name: str) -> int:
    found = spark.sql(f"select snapshot_id from {name}.refs where name = 'main'").collect()
    return int(found[0].snapshot_id)


def table_of(spark: Any, name: str) -> Any:
    """The table as Iceberg's Java has it."""
    return spark.table(name)._jdf.queryExecution().analyzed().children().apply(0).table().table()


def take(table: pa.Table, keep: np.ndarray) -> pa.Table:
    return table.filter(pa.array(keep))


@pytest.fixture(scope="module", params=[2, 3], ids=["positions", "vectors"])
def written(spark: Any, request: pytest.FixtureRequest, rows: pa.Table, rows_file: Path) -> Written:
    """People who were deleted, updated, renamed and added to, without a data file being written again."""
    name = f"lake.db.people_v{request.param}"
    spark.read.parquet(str(rows_file)).createOrReplaceTempView("rows")
    spark.sql("create namespace if not exists lake.db")
    properties = f"'format-version'='{request.param}', {MERGE_ON_READ}"
    spark.sql(
        f"create table {name} (id bigint, person bigint, age int, pay double, sex string, day date) using iceberg "
        f"partitioned by (sex, bucket(2, id), months(day)) tblproperties ({properties})"
    )
    spark.sql(f"insert into {name} select id, person, age, income, sex, day from rows where id < 4000")
    snapshots, states = [newest(spark, name)], [rows.slice(0, 4000)]
    spark.sql(f"delete from {name} where id % 7 = 0")
    snapshots.append(newest(spark, name))
    states.append(take(states[-1], states[-1]["id"].to_numpy() % 7 != 0))
    spark.sql(f"update {name} set pay = pay * 2 where id % 11 = 3")
    snapshots.append(newest(spark, name))
    doubled = pc.if_else(
        pa.array(states[-1]["id"].to_numpy() % 11 == 3), pc.multiply(states[-1]["income"], 2.0), states[-1]["income"]
    )
    states.append(states[-1].set_column(states[-1].schema.get_field_index("income"), "income", doubled))
    spark.sql(f"alter table {name} rename column pay to income")
    spark.sql(f"alter table {name} add column educ int")
    spark.sql(f"alter table {name} alter column age type bigint")
    spark.sql(f"insert into {name} select id, person, age, income, sex, day, educ from rows where id >= 4000")
    spark.sql(f"delete from {name} where id % 13 = 1")
    snapshots.append(newest(spark, name))
    at = states[-1].schema.get_field_index("educ")
    old = states[-1].set_column(at, "educ", pa.nulls(len(states[-1]), pa.int32()))
    both = pa.concat_tables([old, rows.slice(4000)])
    states.append(take(both, both["id"].to_numpy() % 13 != 1))
    return Written(name, metadata_of(spark, name), snapshots, states)


def test_it_has_deletes(spark: Any, written: Written) -> None:
    """Kills: a table on which the other tests would say nothing."""
    files = spark.sql(f"select content, file_format from {written.name}.delete_files").collect()
    assert {(file.content, file.file_format) for file in files} == {
        (1, "PARQUET" if written.name.endswith("2") else "PUFFIN")
    }


@pytest.mark.parametrize("way", WAYS)
def test_the_newest_snapshot(spark: Any, conf: dict[str, Any], written: Written, tmp_path: Path, way: str) -> None:
    """By its name, through Spark, and by its metadata: the same numbers as of a file of the same rows."""
    plain = released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", written.states[-1]))
    named, path = {"table": written.name}, {"iceberg": written.metadata}
    assert is_direct(conf, spark, way, **named)
    assert is_direct(conf, spark, way, **path)
    assert not is_direct(conf, spark, way, **named, reader="spark")
    by_name = released(conf, spark, way, "name", **named)
    by_path = released(conf, spark, way, "path", **path)
    assert by_path.manifest["source"]["snapshot"]["id"] == written.snapshots[-1]
    for found in (by_name, by_path, released(conf, spark, way, "spark", **named, reader="spark")):
        assert numbers(found) == numbers(plain)
        assert found.manifest["source"]["snapshot"] == by_path.manifest["source"]["snapshot"]


def test_filters_on_floats(spark: Any, conf: dict[str, Any], written: Written, tmp_path: Path) -> None:
    """To Spark NaN is above all numbers, and Iceberg's statistics leave it out: tasks read it, Spark's reader is refused."""
    conf["where"] = "income > 300000"
    plain = released(conf, spark, "plain", "plain", **plain_file(tmp_path / "plain.parquet", written.states[-1]))
    assert is_direct(conf, spark, "plain", table=written.name)
    for version, source in (("name", {"table": written.name}), ("path", {"iceberg": written.metadata})):
        assert numbers(released(conf, spark, "plain", version, **source)) == numbers(plain)
    with pytest.raises(
        SourceError, match="a filter on floats, which its source applies by statistics that leave NaN out"
    ):
        released(conf, spark, "plain", "spark", table=written.name, reader="spark")
    del conf["where"]
    rich = f"select * from (select *, income > 300000 as rich from {written.name}) where rich"  # Spark moves it below
    with pytest.raises(SourceError, match="a filter on floats, which its source applies by statistics"):
        released(conf, spark, "plain", "query", sql=rich)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_older_snapshots(spark: Any, conf: dict[str, Any], written: Written, tmp_path: Path, at: int) -> None:
    """With the names of their time. Kills: the newest rows or names for a snapshot that was asked for."""
    conf["columns"] = {"age": PLAIN["age"], "pay": PLAIN["income"], "sex": {"categories": ["F", "M"]}}
    number = written.snapshots[at]
    names = ["pay" if name == "income" else name for name in written.states[at].column_names]
    plain = plain_file(tmp_path / "plain.parquet", written.states[at].rename_columns(names))
    expected = numbers(released(conf, spark, "plain", "plain", **plain))
    path = {"iceberg": written.metadata, "snapshot": number}
    named = {"table": f"{written.name}.snapshot_id_{number}"}
    query = {"sql": f"select * from {written.name} version as of {number}"}
    for version, source in (("path", path), ("name", named), ("query", query)):
        assert is_direct(conf, spark, "plain", **source) is (version != "query")
        assert numbers(released(conf, spark, "plain", version, **source)) == expected


def test_branches_and_tags(spark: Any, conf: dict[str, Any], rows_file: Path, tmp_path: Path, rows: pa.Table) -> None:
    """Kills: the main branch for another that is asked for."""
    name = "lake.db.branches"
    spark.sql(f"create table {name} using iceberg as select * from parquet.`{rows_file}` where id < 3000")
    spark.sql(f"alter table {name} create tag early")
    spark.sql(f"alter table {name} create branch audited")
    spark.sql(f"insert into {name}.branch_audited select * from parquet.`{rows_file}` where id >= 5000")
    spark.sql(f"insert into {name} select * from parquet.`{rows_file}` where id between 3000 and 4999")
    ids = rows["id"].to_numpy()
    for end, keep in {
        ".tag_early": ids < 3000,
        ".branch_audited": (ids < 3000) | (ids >= 5000),
        ".branch_main": ids < 5000,
        "": ids < 5000,
    }.items():
        plain = released(conf, spark, "plain", f"p{end}", **plain_file(tmp_path / "plain.parquet", take(rows, keep)))
        assert is_direct(conf, spark, "plain", table=name + end)
        assert numbers(released(conf, spark, "plain", f"d{end}", table=name + end)) == numbers(plain)
    spark.conf.set("spark.wap.branch", "audited")
    try:
        assert not is_direct(conf, spark, "plain", table=name)
    finally:
        spark.conf.unset("spark.wap.branch")
    with pytest.raises(SourceError, match="whether a row is one record cannot be seen"):  # of Iceberg's own metadata
        released({**conf, "columns": {"record_count": PLAIN["age"]}}, spark, "plain", "files", table=f"{name}.files")


def test_columns_that_change_after_the_last_row(
    spark: Any, conf: dict[str, Any], rows_file: Path, rows: pa.Table, tmp_path: Path
) -> None:
    """Names that are swapped, without a new snapshot. Kills: the names of the last snapshot for those of the table."""
    name = "lake.db.swapped"
    spark.sql(
        f"create table {name} using iceberg as select age, cast(educ as bigint) educ, income from parquet.`{rows_file}`"
    )
    for old, new in (("age", "was"), ("educ", "age"), ("was", "educ")):
        spark.sql(f"alter table {name} rename column {old} to {new}")
    spark.sql(f"alter table {name} add column sex string")
    swapped = pa.table(
        {"age": rows["educ"], "educ": rows["age"], "income": rows["income"], "sex": pa.nulls(len(rows), pa.string())}
    )
    conf["nulls"] = "midpoint"
    plain = numbers(released(conf, spark, "plain", "plain", **plain_file(tmp_path / "plain.parquet", swapped)))
    for version, source in (
        ("name", {"table": name}),
        ("spark", {"table": name, "reader": "spark"}),
        ("path", {"iceberg": metadata_of(spark, name)}),
    ):
        assert numbers(released(conf, spark, "plain", version, **source)) == plain
    assert is_direct(conf, spark, "plain", table=name)


def test_equality_deletes(spark: Any, conf: dict[str, Any], rows_file: Path, rows: pa.Table, tmp_path: Path) -> None:
    """As streaming writers leave them: Spark reads such a table; tasks and source.iceberg do not."""
    name = "lake.db.equality"
    spark.sql(
        f"create table {name} using iceberg tblproperties ('format-version'='2') as select * from parquet.`{rows_file}`"
    )
    table = table_of(spark, name)
    field = pa.field("educ", pa.int32(), metadata={"PARQUET:field_id": str(table.schema().findField("educ").fieldId())})
    path = tmp_path / "deletes.parquet"
    pq.write_table(pa.table({"educ": pa.array([3, 5], pa.int32())}, schema=pa.schema([field])), path)
    java = spark.sparkContext._jvm.smfs.shaded.org.apache.iceberg
    numbers_of_fields = spark.sparkContext._gateway.new_array(spark.sparkContext._jvm.int, 1)
    numbers_of_fields[0] = table.schema().findField("educ").fieldId()
    entry = java.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(numbers_of_fields).withPath(str(path))
    entry = entry.withFormat("parquet").withFileSizeInBytes(path.stat().st_size).withRecordCount(2).build()
    table.newRowDelta().addDeletes(entry).commit()
    left = take(rows, ~np.isin(rows["educ"].to_numpy(zero_copy_only=False), [3, 5]))
    plain = released(conf, spark, "plain", "plain", **plain_file(tmp_path / "plain.parquet", left))
    assert not is_direct(conf, spark, "plain", table=name)
    assert numbers(released(conf, spark, "plain", "name", table=name)) == numbers(plain)
    with pytest.raises(SourceError, match=r"equality deletes, which pyiceberg cannot read(.|\n)*source.table"):
        released(conf, spark, "plain", "path", iceberg=metadata_of(spark, name))
    assert Ledger(conf["ledger"]["url"]).find("people", "income", "path") is None  # nothing was charged


def overwritten(spark: Any, name: str, end: str = "") -> None:
    """Keep about half of the rows."""
    name += end
    spark.sql(f"insert overwrite {name} select * from {name} where id < (select max(id) div 2 from {name})")


def compacted(spark: Any, name: str) -> None:
    actions = spark.sparkContext._jvm.smfs.shaded.org.apache.iceberg.spark.actions.SparkActions.get()
    actions.rewriteDataFiles(table_of(spark, name)).option("rewrite-all", "true").execute()


def expired(spark: Any, name: str) -> None:
    overwritten(spark, name)
    spark.sql(
        f"call lake.system.expire_snapshots(table => '{name}', older_than => timestamp '2100-01-01 00:00:00', "
        "retain_last => 1)"
    )


@pytest.fixture
def table(spark: Any, rows_file: Path, request: pytest.FixtureRequest) -> str:
    """A table of its own with deletes, of all rows but some."""
    name = f"lake.db.t{abs(hash(request.node.name))}"
    spark.sql("create namespace if not exists lake.db")
    spark.sql(
        f"create table {name} using iceberg tblproperties ('format-version'='2', {MERGE_ON_READ}) as "
        f"select * from parquet.`{rows_file}`"
    )
    spark.sql(f"delete from {name} where id % 5 = 0")
    return name


@pytest.mark.parametrize("way", ["plain", "bounds", "persons"])
@pytest.mark.parametrize("change", [overwritten, compacted])
def test_a_table_that_changes(
    spark: Any, conf: dict[str, Any], table: str, rows: pa.Table, tmp_path: Path, change: Any, way: str
) -> None:
    """Between the opening and each pass: all passes read the snapshot that was opened."""
    left = take(rows, rows["id"].to_numpy() % 5 != 0)
    plain = numbers(released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", left)))
    opened: list[int] = []
    for version, source in (("path", {"iceberg": metadata_of(spark, table)}), ("name", {"table": table})):
        if version == "name" and change is overwritten:
            spark.sql(f"call lake.system.rollback_to_snapshot('{table}', {opened[0]})")
        opened.append(newest(spark, table))
        found = released(conf, spark, way, version, before_passes(lambda: change(spark, table)), **source)
        assert numbers(found) == plain
        assert newest(spark, table) != opened[-1]


@pytest.mark.parametrize("way", ["plain", "where", "bounds"])
@pytest.mark.parametrize("kind", ["path", "name", "spark"])
def test_a_snapshot_that_expires(spark: Any, conf: dict[str, Any], table: str, kind: str, way: str) -> None:
    """Its files are deleted under the release: nothing is drawn, and the budget stays reserved."""
    sources = {"path": {"iceberg": metadata_of(spark, table)}, "spark": {"table": table, "reader": "spark"}}
    source = sources.get(kind, {"table": table})
    gone = rf"snapshot {newest(spark, table)} has expired, or its files were deleted, while it was read. Nothing was released"
    message = gone if kind == "spark" else "was vacuumed or replaced while it was read. Nothing was released"
    with pytest.raises(SourceError, match=message) as raised:
        released(conf, spark, way, "1", before_passes(lambda: expired(spark, table)), **source)
    assert raised.value.exit_code == 4
    entry = Ledger(conf["ledger"]["url"]).find("people", "income", "1")
    assert entry is not None
    assert entry.state == "reserved"
    if kind == "path":
        with pytest.raises(SourceError, match="expired"):
            released(conf, spark, way, "2", iceberg=metadata_of(spark, table), snapshot=1)
    else:
        again = released(conf, spark, way, "1", **source)
        assert again.manifest["source"]["snapshot"]["id"] == newest(spark, table)


@pytest.mark.parametrize("told", ["by Java", "by SQL"])
@pytest.mark.parametrize("end", ["", ".branch_audited", ".tag_early", ".snapshot_id"])
def test_a_table_that_changes_under_spark_s_reader(
    spark: Any,
    conf: dict[str, Any],
    table: str,
    rows: pa.Table,
    tmp_path: Path,
    end: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows are those of the start, in all passes, however it is named; a server is told the same by SQL alone."""
    if told == "by SQL":
        monkeypatch.setattr(snapshots, "is_connect", lambda session: True)
    if end == ".snapshot_id":
        end += f"_{newest(spark, table)}"
    elif end:
        spark.sql(f"alter table {table} create {end[1:].replace('_', ' ')}")
    start = newest(spark, table)
    left = take(rows, rows["id"].to_numpy() % 5 != 0)
    plain = released(conf, spark, "bounds", "plain", **plain_file(tmp_path / "plain.parquet", left))
    report = before_passes(lambda: overwritten(spark, table, end if end == ".branch_audited" else ""))
    source = {"table": table + end, "reader": "spark"}
    if end == ".branch_audited" and told == "by SQL":  # its columns may be newer than its rows, for all that SQL says
        with pytest.raises(SourceError, match="changed while it was read"):
            released(conf, spark, "bounds", "spark", report, **source)
        return
    found = released(conf, spark, "bounds", "spark", report, **source)
    assert numbers(found) == numbers(plain)
    assert found.manifest["source"]["snapshot"]["id"] == start


@pytest.mark.parametrize("told", ["by Java", "by SQL"])
def test_columns_that_change_before_a_table_changes(
    spark: Any, conf: dict[str, Any], table: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark cannot be told that snapshot, which has other columns. Kills: passes that read two states."""
    if told == "by SQL":
        monkeypatch.setattr(snapshots, "is_connect", lambda session: True)
    for old, new in (("age", "was"), ("educ", "age"), ("was", "educ")):
        spark.sql(f"alter table {table} rename column {old} to {new}")
    source = {"table": table, "reader": "spark"}
    before = released(conf, spark, "bounds", "before", **source)
    assert before.manifest["source"]["snapshot"]["id"] == newest(spark, table)
    with pytest.raises(SourceError, match="changed while it was read"):
        released(conf, spark, "bounds", "1", before_passes(lambda: overwritten(spark, table)), **source)


def test_queries_and_frames_of_several_passes(spark: Any, conf: dict[str, Any], table: str) -> None:
    """Kills: passes that read two snapshots of a table that a query or a DataFrame names."""
    change = before_passes(lambda: overwritten(spark, table))
    sources: dict[str, dict[str, Any]] = {
        "query": {"sql": f"select * from {table}"},
        "subquery": {"sql": f"select * from {table} where id in (select id from {table})", "rows_per_record": 1},
    }
    for version, source in sources.items():
        with pytest.raises(SourceError, match="changed while it was read"):
            released(conf, spark, "bounds", version, change, **source)
        assert released(conf, spark, "bounds", version, **source)
    for way, refused in (("bounds", True), ("plain", False)):  # one pass reads one snapshot
        made = conf_of(conf, way, f"frame-{way}", {"dataframe": True})
        with pytest.raises(SourceError, match="changed while") if refused else nullcontext():
            dpspark.release(made, spark.table(table), noise=NoNoiseFixedSecret(), report=change)
