"""The text of a plan, as Spark writes it out: all that Spark Connect shows, and a way to recognise the same DataFrame again.

It may quote values: it is kept in this process alone, and goes into no log, error or file.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpspark.errors import SourceError
from dpspark.spark.failures import condition
from dpspark.spark.session import is_connect

CUT = re.compile(r"\.\.\. \d+ more (characters|fields)|Truncated plan of \d+ characters")
IN_FULL = {"spark.sql.debug.maxToStringFields": "1000000", "spark.sql.maxPlanStringLength": "2147483632"}
_settings = threading.Lock()


def plan_text(frame: Any, what: str) -> str:
    """Write out the analysed plan in full, or refuse. `what` names the source in messages."""
    spark = frame.sparkSession
    try:
        with _show_in_full(spark):
            if is_connect(spark):
                text = cut_plan(frame._explain_string(extended=True))
            else:
                text = str(frame._jdf.queryExecution().analyzed().toString())
    except Exception as error:
        failed = SourceError(f"{what}: Spark cannot plan it ({condition(error)}).")
    else:
        if text and not CUT.search(text):
            return text
        failed = SourceError(f"{what}: Spark does not show its plan in full. Write it to a table, and read that.")
    raise failed


def cut_plan(explained: str) -> str:
    """Cut the analysed plan out of an explanation; nothing if a literal in it looks like a heading."""
    heads = ("== Analyzed Logical Plan ==\n", "\n== Optimized Logical Plan ==")
    if any(explained.count(head) != 1 for head in heads):
        return ""
    inner = explained.partition(heads[0])[2].partition(heads[1])[0]
    return inner.partition("\n")[2]  # the first line is its schema


@contextmanager
def _show_in_full(spark: Any) -> Iterator[None]:
    """Let Spark write plans in full during this block."""
    with _settings:  # two at once would restore each other's settings
        before = {key: spark.conf.get(key) for key in IN_FULL}
        try:
            for key, value in IN_FULL.items():
                spark.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)
