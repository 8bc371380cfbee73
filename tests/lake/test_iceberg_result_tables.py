"""Results as tables of a catalog of Iceberg's that Spark knows: each table by transactions of its own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import dpspark
from dpspark.errors import OutputError
from dpspark.warehouse.load import find_address, table_store
from dpspark.warehouse.rows import rows_of
from dpspark.warehouse.shapes import RELEASES
from tests.kinds_of_release import CONFS
from tests.lake.releases import conf_of
from tests.report.bundles import conf_with, people, published

pytestmark = pytest.mark.lake
MOMENTS = "dpspark_second_moments"


@pytest.fixture
def schema(spark: Any, request: pytest.FixtureRequest) -> str:
    found = f"lake.results_{abs(hash(request.node.name))}"
    spark.sql(f"create namespace {found}")
    return found


def rows_in(spark: Any, schema: str, table: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.table(f"{schema}.{table}").collect()]


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own; NaN is equal to itself."""
    return sorted(repr(sorted({**row, "group_keys": dict(row["group_keys"])}.items())) for row in rows)


def test_every_row_once(spark: Any, schema: str, tmp_path: Path) -> None:
    """Kills: rows that differ from the bundle's, that are there twice, or that a second release takes away."""
    values = people(2000)
    kinds = ("gram by group", "quantiles by group")
    paths = [
        published(tmp_path / str(i), {**CONFS[kind], "release": {**CONFS[kind]["release"], "name": f"r{i}"}}, values)
        for i, kind in enumerate(kinds)
    ]
    for path in (*paths, *paths):
        dpspark.load(path, schema, spark)
    assert dpspark.load(paths[0], schema, spark, replace=True).new
    for table in (MOMENTS, "dpspark_quantiles"):
        expected = [row for path in paths for row in rows_of(dpspark.read_release(path)).tables[table].to_pylist()]
        assert plain(rows_in(spark, schema, table)) == plain(expected)
        assert expected
    assert sorted(row["release"] for row in rows_in(spark, schema, RELEASES)) == ["r0", "r1"]
    table_store(find_address(schema), spark).remove(MOMENTS, "r0", "1")
    assert rows_in(spark, schema, MOMENTS) == []
    assert dpspark.load(paths[0], schema, spark).new  # what was lost comes back
    assert rows_in(spark, schema, MOMENTS)


def test_a_release_writes_its_tables(spark: Any, schema: str, conf: dict[str, Any], rows_file: Path) -> None:
    """Kills: output.tables that is not loaded, is loaded twice, or is charged for a schema that is not there."""
    made = conf_of(conf, "plain", "1", {"parquet": str(rows_file)})
    made["output"] = {**conf["output"], "tables": schema}
    for _ in range(2):
        dpspark.release(made, spark=spark)
    assert [row["version"] for row in rows_in(spark, schema, RELEASES)] == ["1"]
    assert len(rows_in(spark, schema, MOMENTS)) == 36
    missing = {
        **made,
        "output": {**conf["output"], "tables": "lake.nothing"},
        "release": {**made["release"], "version": "2"},
    }
    with pytest.raises(OutputError, match=r"Spark's catalog has no schema 'lake\.nothing'"):
        dpspark.release(missing, spark=spark)


def test_several_at_once(spark: Any, schema: str, tmp_path: Path) -> None:
    """Kills: a load that is lost to the commit of another, or fails because another came first."""
    values = people(300)
    paths = [published(tmp_path / str(i), conf_with(release={"name": f"n{i}"}), values) for i in range(3)]
    dpspark.load(paths[0], schema, spark)  # makes the tables
    failed: list[BaseException] = []

    def load(path: Path) -> None:
        try:
            dpspark.load(path, schema, spark)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=load, args=(path,)) for path in paths[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sorted(row["release"] for row in rows_in(spark, schema, RELEASES)) == ["n0", "n1", "n2"]
    assert len(rows_in(spark, schema, MOMENTS)) == 3 * 81
