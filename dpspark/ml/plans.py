"""The identity of a DataFrame: whether it is the one that a release was fitted on, as far as that shows without reading it."""

from __future__ import annotations

import hashlib
import re
import warnings
from typing import Any, NamedTuple

from dpspark.errors import LedgerError
from dpspark.judge.plan_text import plan_text
from dpspark.published.release import Release

LEAVES = (
    *("Relation", "LogicalRelation", "RelationV2", "DataSourceV2Relation", "HiveTableRelation"),
    *("LogicalRDD", "LocalRelation", "Range", "InMemoryRelation"),
)


class Identity(NamedTuple):
    """The identity of a DataFrame: its plan without the numbers that Spark gives out, its files, and what it begins with."""

    plan: str
    files: str  # empty if Spark does not tell: of rows from memory, and of a cache
    leaves: str  # with Spark's numbers: the same again is the same DataFrame


_fitted: dict[str, Identity] = {}  # by the ledger's id of a release that this process made


def identity(frame: Any) -> Identity:
    """Identify a DataFrame by its plan."""
    text = plan_text(frame, "the DataFrame")
    plan = re.sub(r"#\d+L?|(?<=_)[0-9a-f]{12}", "#", text)
    leaves = sorted(line.strip(" :+-") for line in text.splitlines())
    leaves = [line for line in leaves if line.startswith(LEAVES)]
    try:
        files = sorted(frame.inputFiles())
    except Exception:
        files = []
    return Identity(plan, _digest(files), _digest(leaves))


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def check_same(made: Release, mine: Identity, was_read: bool) -> None:
    """Refuse or warn if a release may not be of this DataFrame: one that was drawn before was made without a look at it."""
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
