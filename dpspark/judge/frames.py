"""The judgement of a DataFrame: whether a row of it is one record, and what one record can do to its rows.

The judge reads the plan of the very DataFrame that is run. Where a plan cannot be read, nothing is assumed: the operator states
how many rows one record can change, and every change of them is protected against.
"""

from __future__ import annotations

import os
import re
from typing import Any

from dpspark.core.judgement import Judgement
from dpspark.errors import SourceError
from dpspark.judge.plan import Findings, read_plan
from dpspark.judge.plan_text import plan_text
from dpspark.source.lakes import follow_links
from dpspark.spark.failures import condition
from dpspark.spark.lake_tables import refuse_lake_paths
from dpspark.spark.session import is_connect
from dpspark.spec.expressions import UNSTABLE
from dpspark.spec.functions import MOMENTS

RANDOM = re.compile(rf"(?<![\w.])({'|'.join(sorted(UNSTABLE))})\(", re.I)
HIDDEN = re.compile(r"(?<!\w)_metadata(?!\w)", re.I)
MOMENT = re.compile(rf"\((?:cast\()?\s*(?:{'|'.join(MOMENTS)})\b", re.I)
STATE_IT = (
    "Set source.rows_per_record (in pyspark.ml, rowsPerRecord): how many of these rows one record can change. "
    "Every change of them is then protected against."
)


def judge_frame(frame: Any, what: str, stated: bool, ours: Any = None) -> Judgement:
    """Judge the DataFrame that will be run, or refuse it.

    `stated`: the operator said how many rows one record can change. `ours`: the frame of files that this one was made of, if
    this package made it. `what` names the source in messages.
    """
    found = _judge_text(frame, what) if is_connect(frame.sparkSession) else _judge_nodes(frame, what, ours)
    refuse_lake_paths(frame.sparkSession, what, _directories(found))
    if bool(frame.isStreaming):
        found.add_unstable("a stream")
    if _read_twice(found.files):
        found.add_across("a file that is read twice")
    if found.unstable is not None:
        raise SourceError(
            f"{what} has {found.unstable} in its plan: its rows would change with their order, or with every run.\n"
            "Use all rows, or choose them by a rule of one row's own values, such as a hash of its id."
        )
    if stated:
        return Judgement("statement", drops=True)
    if found.across is not None:
        raise SourceError(f"{what} has a step across rows in its plan ({found.across}).\n{STATE_IT}")
    if found.hidden is not None:
        raise SourceError(f"{what}: whether a row is one record cannot be seen: it has {found.hidden}.\n{STATE_IT}")
    return Judgement("plan", found.drops)


def _directories(found: Findings) -> set[str]:
    """Find where the files of a plan lie, and where links on this machine lead: one may lead to a lake table's files."""
    of_files = {parent for file in found.files for parent in map(_parent, _follow(file))}
    return {way for place in found.places for way in _follow(place)} | of_files


def _follow(place: str) -> list[str]:
    local = _local(place)
    return [place] if local is None else [f"file:{way}" for way in follow_links(local)]


def _read_twice(files: list[str]) -> bool:
    """Tell whether links on this machine lead to one file by several names."""
    local = [local for file in files if (local := _local(file)) is not None and os.path.exists(local)]
    return len({(at.st_dev, at.st_ino) for at in map(os.stat, local)}) < len(local)


def _local(place: str) -> str | None:
    return "/" + place.removeprefix("file:").lstrip("/") if place.startswith("file:/") else None


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _judge_nodes(frame: Any, what: str, ours: Any) -> Findings:
    """Judge by the nodes of the plan, on classic Spark."""
    try:
        found = read_plan(frame, ours)
    except Exception as error:
        failed = SourceError(f"{what}: its plan cannot be read ({condition(error)}). Nothing was released.")
    else:
        return found
    raise failed


def _judge_text(frame: Any, what: str) -> Findings:
    """Judge by the text of the plan, on Spark Connect. A literal can look like a step there: what it lacks proves nothing."""
    text = plan_text(frame, what)
    found = Findings(hidden="a plan that Spark Connect shows as text only")
    drawn = RANDOM.search(text)
    if drawn is not None:
        found.add_unstable(f"{drawn[1].lower()}()")
    if MOMENT.search(text):
        found.add_unstable("a text that can mean the time of the run")
    if re.search(r"^[\s:+-]*Sample\b", text, re.M):
        found.add_unstable("a sample of rows")
    if HIDDEN.search(text):
        found.add_unstable("_metadata, or another hidden column of its source,")
    return found
