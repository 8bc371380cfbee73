"""What can be seen of a DataFrame without reading it: whether its rows are stable, and whether it is the same again.

A plan's text is looked at and kept in this process alone: it may quote values, and goes into no log, error or file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpspark.data.frames import condition
from dpspark.errors import ConfError, LedgerError, SourceError
from dpspark.expressions import UNSTABLE
from dpspark.session import is_connect

# Steps that make each row of one row. Others may make one record change several rows.
ROW_LOCAL = {
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "Sort"),
    *("Repartition", "RepartitionByExpression", "RebalancePartitions"),
    *("Relation", "RelationV2", "HiveTableRelation", "LogicalRDD", "LocalRelation", "Range", "InMemoryRelation"),
}
RANDOM = re.compile(rf"(?<![\w.])({'|'.join(sorted(UNSTABLE))})\(", re.I)
FIELDS = "spark.sql.debug.maxToStringFields"


def plan_of(frame: Any) -> str:
    """The analysed plan as text, in full."""
    spark = frame.sparkSession
    try:
        with _untruncated(spark):
            if not is_connect(spark):
                return str(frame._jdf.queryExecution().analyzed().toString())
            text = frame._explain_string(extended=True)
    except Exception as error:
        failed = SourceError(f"the DataFrame: Spark cannot plan it ({condition(error)}).")
    else:
        analysed = text.partition("== Analyzed Logical Plan ==\n")[2].partition("\n== Optimized Logical Plan ==")[0]
        return str(analysed.partition("\n")[2])  # the first line is its schema
    raise failed


@contextmanager
def _untruncated(spark: Any) -> Iterator[None]:
    before = spark.conf.get(FIELDS)
    spark.conf.set(FIELDS, "1000000")
    try:
        yield
    finally:
        spark.conf.set(FIELDS, before)


def check_plan(plan: str, rows_per_record: int | None) -> None:
    """Refuse rows that are drawn at random, and steps across rows unless it is said what one record can change."""
    steps = [re.match(r"[\s:+-]*(\w*)", line)[1] for line in plan.splitlines() if line.strip()]  # type: ignore[index]
    found = RANDOM.search(plan)
    if found is not None or "Sample" in steps:
        what = "a sample of rows" if found is None else f"{found[1]}()"
        raise ConfError(
            f"the DataFrame has {what} in its plan: which rows there are would change with their order, or with every "
            "run.\nFit all rows, or choose them by a rule of one row's own values, such as a hash of its id."
        )
    across = next((step for step in steps if step not in ROW_LOCAL), None)
    if across is not None and rows_per_record is None:
        raise ConfError(
            f"the DataFrame has a step across rows in its plan ({across[:40] or 'unknown'}).\n"
            "Set rowsPerRecord: how many rows of the DataFrame one record can change."
        )


Key = tuple[str, str, str, str]  # ledger, dataset, name, version
Identity = tuple[str, str]
_fitted: dict[Key, Identity] = {}


def identity(frame: Any, plan: str) -> Identity:
    """Of what is fitted: the plan without the numbers that Spark gives out, and the files that it reads, if it says so."""
    text = re.sub(r"#\d+L?|(?<=_)[0-9a-f]{12}", "#", plan)
    try:
        files = sorted(frame.inputFiles())
    except Exception:
        files = []
    return text, hashlib.sha256("\n".join(files).encode()).hexdigest() if files else ""


def check_same(key: Key, mine: Identity) -> None:
    """Refuse another DataFrame under a version that this process has fitted: its model would be of the first one."""
    (plan, files), (old_plan, old_files) = mine, _fitted.get(key, mine)
    # Of a DataFrame that is cached Spark tells no files.
    if plan != old_plan or (files and old_files and files != old_files):
        _, _, name, version = key
        raise LedgerError(
            f"release {name} {version} was fitted on another DataFrame before: this one is not read.\n"
            "Give other rows a new releaseVersion; they are charged on their own."
        )


def remember(key: Key, mine: Identity) -> None:
    _fitted.setdefault(key, mine)


def is_remembered(key: Key) -> bool:
    return key in _fitted
