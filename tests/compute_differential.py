"""Evaluates expressions by Spark and by compiled programs, and tells where they differ by one bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpspark.source.compute.compile import compile_expression
from dpspark.source.compute.program import keep_mask
from dpspark.spark.settings import forgive_sql, hold_settings, set_time_zone

AT_ONCE = 100  # expressions in one query
SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.codegen.wholeStage": "false",  # one projection, the same expressions: quicker to compile
}


def differences(spark: Any, texts: Sequence[str], columns: Mapping[str, Any], timezone: str, folder: Path) -> list[str]:
    """Name the expressions for which Spark and the program differ, and how; all must compile."""
    found = []
    if spark.version < "4":
        texts = [text for text in texts if "::" not in text]  # of Spark 4
    with forgive_sql(spark), set_time_zone(spark, timezone), hold_settings(spark, SETTINGS):
        frame = read(spark, columns, folder)
        types = dict(frame.dtypes)
        for start in range(0, len(texts), AT_ONCE):
            found += _compare(frame, types, texts[start : start + AT_ONCE], columns, timezone)
    return found


def read(spark: Any, columns: Mapping[str, Any], folder: Path) -> Any:
    """Write the columns to a file, and let Spark read it."""
    rows = len(next(iter(columns.values())))
    table = pa.table({**columns, "row_id": pa.array(range(rows))})
    pq.write_table(table, folder / "rows.parquet", store_schema=False, row_group_size=64)
    return spark.read.parquet(str(folder / "rows.parquet"))


def kept_rows(spark: Any, texts: Sequence[str], columns: Mapping[str, Any], folder: Path) -> list[list[int]]:
    """The rows that Spark keeps, for each of some filters."""
    with forgive_sql(spark), set_time_zone(spark, "UTC"), hold_settings(spark, SETTINGS):
        frame = read(spark, columns, folder)
        return [sorted(row.row_id for row in frame.where(text).select("row_id").collect()) for text in texts]


def _compare(frame: Any, types: Any, texts: Sequence[str], columns: Any, timezone: str) -> list[str]:
    try:
        answers, kinds = spark_answers(frame, texts)
    except Exception as error:
        if len(texts) > 1:
            middle = len(texts) // 2
            parts = texts[:middle], texts[middle:]
            return [one for part in parts for one in _compare(frame, types, part, columns, timezone)]
        return [f"{texts[0]}: Spark fails: {str(error)[:300]}"]
    rows, found = len(answers[0]), []
    for text, answer, kind in zip(texts, answers, kinds, strict=True):
        program = compile_expression(text, types, timezone)
        problem = _differ(program.run(columns, rows), program.type, answer, kind, program, columns)
        if problem:
            found.append(f"{text}: {problem}")
    return found


def spark_answers(frame: Any, texts: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Evaluate expressions by Spark, in the order of the rows."""
    chosen = frame.selectExpr("row_id", *(f"{text} as a{i}" for i, text in enumerate(texts)))
    table = pa.Table.from_batches(chosen._collect_as_arrow()) if not hasattr(chosen, "toArrow") else chosen.toArrow()
    table = table.combine_chunks().sort_by("row_id")
    kinds = [kind for _, kind in chosen.dtypes][1:]
    return [table.column(i + 1).combine_chunks() for i in range(len(texts))], kinds


def _differ(ours: Any, our_kind: str, spark: Any, kind: str, program: Any, columns: Any) -> str | None:
    if our_kind != kind:
        return f"the type is {our_kind}, not {kind}"
    if isinstance(spark, pa.ChunkedArray):
        spark = spark.combine_chunks()
    ours.validate(full=not pa.types.is_string(ours.type))  # some rows are no UTF-8
    if str(ours.type).replace("large_", "") != str(spark.type).replace("large_", "").replace("tz=Etc/UTC", "tz=UTC"):
        if not pa.types.is_timestamp(ours.type):
            return f"Arrow's type is {ours.type}, not {spark.type}"
        spark = spark.cast(ours.type)
    wrong = np.flatnonzero(_unequal(ours, spark))
    if len(wrong):
        row = int(wrong[0])
        read = {name: _shown(columns[name], row) for name in program.columns}
        return f"{_shown(ours, row)}, not {_shown(spark, row)}, of {read} ({len(wrong)} rows)"
    if kind == "boolean":
        mask = keep_mask(program, columns, len(ours))
        kept = pc.fill_null(spark, False).to_numpy(zero_copy_only=False)
        if not np.array_equal(kept, np.ones(len(ours), bool) if mask is None else mask):
            return "the filter keeps other rows"
    return None


def _shown(array: Any, row: int) -> str:
    value = array[row].cast(pa.binary()) if pa.types.is_string(array.type) else array[row]
    if pa.types.is_temporal(value.type):
        value = value.cast(pa.int32() if pa.types.is_date(value.type) else pa.int64())
    return repr(value.as_py())


def _unequal(one: Any, other: Any) -> np.ndarray:
    nulls, other_nulls = one.is_null().to_numpy(zero_copy_only=False), other.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(one.type):
        word = np.uint32 if one.type == pa.float32() else np.uint64
        left, right = (pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False) for array in (one, other))
        same = (left.view(word) == right.view(word)) | (np.isnan(left) & np.isnan(right))
    else:
        same = pc.fill_null(pc.equal(one, other.cast(one.type)), True).to_numpy(zero_copy_only=False)
    return (nulls != other_nulls) | (~nulls & ~same)
