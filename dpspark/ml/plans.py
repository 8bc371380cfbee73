"""What can be seen of a DataFrame without reading it: whether its rows are stable, and whether it is the same again.

A plan's text is looked at and kept in this process alone: it may quote values, and goes into no log, error or file.
"""

from __future__ import annotations

import hashlib
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpspark.data.frames import condition
from dpspark.errors import ConfError, LedgerError, SourceError
from dpspark.expressions import UNSTABLE
from dpspark.released import Release
from dpspark.session import is_connect

# Steps that make each row of one row. Others may make one record change several rows.
UNARY = {
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "Sort"),
    *("Repartition", "RepartitionByExpression", "RebalancePartitions"),
}
LEAVES = {
    *("Relation", "LogicalRelation", "RelationV2", "DataSourceV2Relation", "HiveTableRelation"),
    *("LogicalRDD", "LocalRelation", "Range", "InMemoryRelation"),
}
ROW_LOCAL = UNARY | LEAVES
# Steps that an error may name: on Connect, what looks like a step may be a piece of a literal.
ACROSS = {
    *("Join", "LateralJoin", "AsOfJoin", "Union", "Except", "Intersect", "WithCTE", "Subquery", "Checkpoint"),
    *("Aggregate", "Window", "Pivot", "Expand", "Generate", "Distinct", "Deduplicate"),
    *("GlobalLimit", "LocalLimit", "Offset", "Tail", "CollectMetrics", "SerializeFromObject"),
    *("MapInPandas", "MapInArrow", "MapPartitions", "FlatMapGroupsInPandas"),
}
RANDOM = re.compile(rf"(?<![\w.])({'|'.join(sorted(UNSTABLE))})\(", re.I)
HIDDEN = re.compile(r"(?<!\w)_metadata(?!\w)", re.I)
CUT = re.compile(r"\.\.\. \d+ more (characters|fields)|Truncated plan of \d+ characters")
IN_FULL = {"spark.sql.debug.maxToStringFields": "1000000", "spark.sql.maxPlanStringLength": "2147483632"}
_settings = threading.Lock()


@dataclass(frozen=True)
class Plan:
    """An analysed plan: its text, the names of its steps, and what Spark itself says of it."""

    text: str
    steps: tuple[str, ...]
    deterministic: bool = True
    hidden: bool = False  # a column that a source makes up, such as the number of a row in its file


def plan_of(frame: Any) -> Plan:
    """The analysed plan, in full. Spark Connect gives its text alone."""
    spark = frame.sparkSession
    try:
        with _untruncated(spark):
            if is_connect(spark):
                plan = _of_text(_analysed(frame._explain_string(extended=True)))
            else:
                plan = _of_nodes(frame._jdf.queryExecution().analyzed())
    except Exception as error:
        failed = SourceError(f"the DataFrame: Spark cannot plan it ({condition(error)}).")
    else:
        if plan.text and not CUT.search(plan.text):
            return plan
        failed = SourceError("the DataFrame: Spark does not show its plan in full. Write it to a table, and fit that.")
    raise failed


def _analysed(explained: str) -> str:
    """The part of an explanation; nothing if a literal in it looks like a heading."""
    heads = ("== Analyzed Logical Plan ==\n", "\n== Optimized Logical Plan ==")
    if any(explained.count(head) != 1 for head in heads):
        return ""
    inner = explained.partition(heads[0])[2].partition(heads[1])[0]
    return inner.partition("\n")[2]  # the first line is its schema


def _of_text(text: str) -> Plan:
    lines = [re.match(r"([\s:+-]*)(\w*)", line) for line in text.splitlines() if line.strip()]
    steps = [line[2] for line in lines if line is not None]
    # Beside a colon is a second child, or a subquery.
    beside = any(line is not None and ":" in line[1] for line in lines)
    return Plan(text, (*steps, *(["Subquery"] if beside else [])))


def _of_nodes(root: Any) -> Plan:
    """Node by node, subqueries too: a literal in the text cannot hide one, nor look like one."""
    steps, random, hidden, left = [], False, False, [root]
    while left:
        node = left.pop()
        name = str(node.getClass().getSimpleName())
        steps.append(name)
        children, subqueries = _listed(node.children()), _listed(node.subqueries())
        if subqueries:
            steps.append("Subquery")
        left += [*children, *subqueries]
        if not node.deterministic():  # or a node below it
            random = random or any(map(_is_random, _listed(node.expressions())))
        if not children:
            hidden = hidden or any(each.metadata().contains("__metadata_col") for each in _listed(node.output()))
        # Rows that were computed before: how is not in the plan.
        if name == "LogicalRDD" and node.rdd().checkpointData().isDefined():
            steps.append("Checkpoint")
    return Plan(str(root.toString()), tuple(steps), not random, hidden)


def _is_random(expression: Any) -> bool:
    """Whether Spark says so of an expression, or of a part. Its own feature stages say so to be run once: they are not."""
    if expression.deterministic():
        return False
    parts, kind = _listed(expression.children()), str(expression.getClass().getSimpleName())
    if kind in ("ScalaUDF", "PythonUDF"):
        itself = not expression.udfDeterministic()
    else:
        itself = all(part.deterministic() for part in parts)
    if itself and kind == "ScalaUDF":
        itself = not str(expression.function().getClass().getName()).startswith("org.apache.spark.ml.feature.")
    return itself or any(map(_is_random, parts))


def _listed(found: Any) -> list[Any]:
    return [found.apply(at) for at in range(found.size())]


@contextmanager
def _untruncated(spark: Any) -> Iterator[None]:
    with _settings:  # two fits at once would restore each other's settings
        before = {key: spark.conf.get(key) for key in IN_FULL}
        try:
            for key, value in IN_FULL.items():
                spark.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)


def check_plan(plan: Plan, rows_per_record: int | None) -> None:
    """Refuse rows that are drawn at random, and steps across rows unless it is said what one record can change."""
    what = _unstable(plan)
    if what is not None:
        raise ConfError(
            f"the DataFrame has {what} in its plan: which rows there are would change with their order, or with every "
            "run.\nFit all rows, or choose them by a rule of one row's own values, such as a hash of its id."
        )
    across = next((step for step in plan.steps if step not in ROW_LOCAL), None)
    if across is not None and rows_per_record is None:
        named = f" ({across})" if across in ACROSS else ""
        raise ConfError(
            f"the DataFrame has a step across rows in its plan{named}.\n"
            "Set rowsPerRecord: how many rows of the DataFrame one record can change."
        )


def _unstable(plan: Plan) -> str | None:
    found = RANDOM.search(plan.text)
    if found is not None:
        return f"{found[1].lower()}()"
    if "Sample" in plan.steps:
        return "a sample of rows"
    if plan.hidden or HIDDEN.search(plan.text):
        return "_metadata, or another hidden column of its source,"
    return None if plan.deterministic else "a function that is not deterministic"


class Identity(NamedTuple):
    """Of what is fitted: the plan without the numbers that Spark gives out, the files, and what it begins with."""

    plan: str
    files: str  # empty if Spark does not tell: of rows from memory, and of a cache
    leaves: str  # with Spark's numbers: the same again is the same DataFrame


_fitted: dict[str, Identity] = {}  # by the ledger's id of a release that this process made


def identity(frame: Any, plan: Plan) -> Identity:
    text = re.sub(r"#\d+L?|(?<=_)[0-9a-f]{12}", "#", plan.text)
    leaves = sorted(line.strip(" :+-") for line in plan.text.splitlines())
    leaves = [line for line in leaves if line.startswith(tuple(LEAVES))]
    try:
        files = sorted(frame.inputFiles())
    except Exception:
        files = []
    return Identity(text, _digest(files), _digest(leaves))


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def check_same(made: Release, mine: Identity, was_read: bool) -> None:
    """Whether a release is of this DataFrame: one that was drawn before was made without a look at it."""
    entry = made.manifest["ledger"]["id"]
    name = f"release {made.manifest['release']['name']} {made.manifest['release']['version']}"
    if was_read:
        _fitted[entry] = mine
    old = _fitted.get(entry)
    # Of a DataFrame that is cached Spark tells no files.
    if old is not None and (mine.plan != old.plan or (mine.files and old.files and mine.files != old.files)):
        raise LedgerError(
            f"{name} was fitted on another DataFrame before: this one was not read.\n"
            "Give other rows a new releaseVersion; they are charged on their own."
        )
    if old is None:
        why = "was made before"
    elif mine.leaves != old.leaves and not (mine.files and old.files):
        why = "was made of a DataFrame that looks like this one, which may have other rows,"
    else:
        return
    warnings.warn(
        f"{name} {why} and is returned as it is: this DataFrame was not read. Other rows need a new releaseVersion.",
        stacklevel=4,  # the caller of fit
    )
