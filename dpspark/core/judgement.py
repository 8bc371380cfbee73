"""Who says that a row of the source is one record, and whether a value of a record can make its row go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

JudgedBy = Literal["files", "plan", "statement"]


@dataclass(frozen=True)
class Judgement:
    """`files` were read directly, Spark's `plan` was read, or the operator made a `statement`: source.rows_per_record."""

    by: JudgedBy
    drops: bool = False


FILES = Judgement("files")  # a row of a file is a record, and none is left out
