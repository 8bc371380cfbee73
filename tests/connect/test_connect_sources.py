"""Files through Spark Connect: lake tables that only the server sees, and files that do not agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.core.domain import Numeric
from dpspark.errors import SourceError
from dpspark.source.parquet import open_parquet
from dpspark.spark.failures import explain_failure
from dpspark.spark.frames import open_query, open_spark_parquet
from dpspark.spark.lake_tables import refuse_lake_paths

pytestmark = pytest.mark.connect


@pytest.mark.parametrize("mark", ["_delta_log/0.json", "metadata/v1.metadata.json", ".hoodie/hoodie.properties"])
def test_lake_tables_that_only_the_server_sees(remote: Any, tmp_path: Path, mark: str) -> None:
    """Fails on 0.2.0. Kills: a check by the driver's own JVM alone, which Connect does not have."""
    for name in ("la ke[1]/sex=F", "plain/metadata", (f"la ke[1]/{mark}").rpartition("/")[0]):
        (tmp_path / name).mkdir(parents=True)
    for name in ("la ke[1]/sex=F/a.parquet", "plain/a.parquet"):
        pq.write_table(pa.table({"x": [0.5]}), tmp_path / name)
    (tmp_path / "la ke[1]" / mark).write_text("{}")
    with pytest.raises(SourceError, match=r"la ke\[1\] is an? \w+ table"):
        open_spark_parquet(remote, f"{tmp_path}/la ke\\[1\\]/sex=*", None)
    assert open_spark_parquet(remote, f"{tmp_path}/plain/*.parquet", None)[0].count() == 1
    with pytest.raises(SourceError, match="cannot be told, as nowhere://a/ cannot be looked at"):
        refuse_lake_paths(remote, "the relation", ["nowhere://a/b"])


def test_files_that_do_not_agree(remote: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """Fails on 0.2.0, after the charge."""
    (tmp_path / "d").mkdir()
    for name, kind in (("a", "float32"), ("b", "float64")):
        more = {"unused": pa.array([1] * 100, pa.timestamp("ns")), "id": range(100)}
        pq.write_table(pa.table({"age": np.arange(100).astype(kind), **more}), tmp_path / "d" / f"{name}.parquet")
    columns = {"age": {"lower": 0, "upper": 100}}
    source = {"parquet": str(tmp_path / "d"), "rows_per_record": 1}
    assert dpspark.release({**conf, "source": source, "columns": columns, "where": "id >= 0"}, spark=remote).path


def test_only_directories(remote: Any, tmp_path: Path) -> None:
    (tmp_path / "d" / "year=2024").mkdir(parents=True)
    pq.write_table(pa.table({"at": pa.array([1, 2], pa.timestamp("ns"))}), tmp_path / "d" / "year=2024" / "a.parquet")
    files = open_parquet(str(tmp_path / "d"), [Numeric("year", 2000, 2030)])
    assert open_spark_parquet(remote, "d", files)[0].count() == 2


def test_a_file_that_the_server_cannot_read(remote: Any, tmp_path: Path) -> None:
    """Its names for it come over. Fails on 0.2.0: the source could not be read to the end."""
    pq.write_table(pa.table({"delay": [1.5] * 50}), tmp_path / "a.parquet")
    with pytest.raises(Exception) as raised:  # noqa: PT011  whatever Connect raises
        remote.read.schema("delay float").parquet(str(tmp_path / "a.parquet")).collect()
    told = explain_failure(raised.value)
    assert told.exit_code == 4
    assert "a.parquet could not be read by Spark (FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH" in str(told)
    assert "column 'delay'" in str(told)


def test_a_query_is_one_query(remote: Any) -> None:
    """Fails on 0.2.0. Kills: a command or a script, also behind a comment, that a server would run at once."""
    remote.sql("create or replace temp view kept as select 1 as x")
    for sql in ("drop view kept", "/* /*+ */ drop view kept -- */ select x from kept", "begin select x from kept; end"):
        with pytest.raises(SourceError):
            open_query(remote, sql)
    assert remote.catalog.tableExists("kept")
    assert open_query(remote, "select x from kept -- a comment").count() == 1
