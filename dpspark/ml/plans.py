"""What can be seen of a DataFrame without reading it: whether its rows are stable, and whether it is the same again.

A plan's text is looked at and kept in this process alone: it may quote values, and goes into no log, error or file.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpspark.data.frames import condition
from dpspark.errors import ConfError, LedgerError, SourceError
from dpspark.expressions import UNSTABLE
from dpspark.released import Release
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


Identity = tuple[str, str]
_fitted: dict[str, Identity] = {}  # by the ledger's id of a release that this process made


def identity(frame: Any, plan: str) -> Identity:
    """Of what is fitted: the plan without the numbers that Spark gives out, and the files that it reads, if it says so."""
    text = re.sub(r"#\d+L?|(?<=_)[0-9a-f]{12}", "#", plan)
    try:
        files = sorted(frame.inputFiles())
    except Exception:
        files = []
    return text, hashlib.sha256("\n".join(files).encode()).hexdigest() if files else ""


def check_same(made: Release, mine: Identity, published_before: bool) -> None:
    """Whether a release is of this DataFrame: one that was published before was made without a look at it."""
    entry, (plan, files) = made.manifest["ledger"]["id"], mine
    name = f"release {made.manifest['release']['name']} {made.manifest['release']['version']}"
    if not published_before:
        _fitted[entry] = mine
    elif entry not in _fitted:
        warnings.warn(
            f"{name} was published before and is returned as it is: this DataFrame was not read. "
            "Other rows need a new releaseVersion.",
            stacklevel=4,  # the caller of fit
        )
    old_plan, old_files = _fitted.get(entry, mine)
    # Of a DataFrame that is cached Spark tells no files.
    if plan != old_plan or (files and old_files and files != old_files):
        raise LedgerError(
            f"{name} was fitted on another DataFrame before: this one was not read.\n"
            "Give other rows a new releaseVersion; they are charged on their own."
        )
