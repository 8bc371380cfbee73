"""The judgement of a source: who says that a row is one record, and whether a value of a record can make its row go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

JudgedBy = Literal["files", "plan", "statement"]


@dataclass(frozen=True)
class Judgement:
    """Who said it: `files` that were read directly, Spark's `plan`, or the operator's `statement` (source.rows_per_record)."""

    by: JudgedBy
    drops: bool = False


FILES = Judgement("files")  # a row of a file is a record, and none is left out
