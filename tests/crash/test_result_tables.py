"""Kill -9 between a release and its tables, in real processes: the next run loads what is missing, and charges nothing."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from places import Place

from dpspark.warehouse.shapes import RELEASES

RESULT = "dpspark_second_moments"


def rows(place: Place, table: str, spark: Any) -> int:
    tables = place.conf["output"]["tables"]
    if not tables.startswith("delta:"):
        return spark.table(f"{tables}.{table}").count()
    return DeltaTable(f"{tables.removeprefix('delta:')}/{table}").to_pyarrow_table().num_rows


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "step"), [("delta", "before the tables"), ("delta", "between the tables"), ("spark", "before the tables")]
)
def test_a_run_that_was_killed_before_its_tables(
    place: Place, kind: str, step: str, tmp_path: Path, spark: Any
) -> None:
    """Kills: "already published" that loads nothing; a row of the release before its results; a second charge."""
    schema = f"killed_{tmp_path.name}".replace("-", "_")
    if kind == "spark":
        spark.sql(f"CREATE SCHEMA {schema} LOCATION '{tmp_path / 'warehouse'}'")
    place.conf["output"]["tables"] = f"delta:{tmp_path / 'lake'}" if kind == "delta" else schema
    assert place.run(step) == -signal.SIGKILL, place.log
    assert place.final.is_dir()
    spent = place.balance.spent_epsilon
    assert rows(place, RELEASES, spark) == 0
    assert rows(place, RESULT, spark) == (9 if step == "between the tables" else 0)

    Path(place.conf["source"]["parquet"]).unlink()
    for _ in range(2):
        assert place.run() == 0, place.log
        assert "already published" in place.log
        assert (rows(place, RELEASES, spark), rows(place, RESULT, spark)) == (1, 9)
    assert place.balance.spent_epsilon == spent
    if kind == "spark":
        spark.sql(f"DROP SCHEMA {schema} CASCADE")
