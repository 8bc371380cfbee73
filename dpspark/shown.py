"""What a summary is made of: lines and tables. `as_text` is for a terminal; dpspark.notebook.html makes HTML of the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A table; its first row is the head. Columns in `left` are text, the others numbers."""

    cells: list[list[str]]
    left: frozenset[int] = frozenset({0})


Part = str | Grid
FIRST_YEAR, LAST_YEAR = 1000, 2999


def bound_texts(lower: float, upper: float, digits: int = 10) -> list[str]:
    """With thousands apart, unless both look like years."""
    years = all(FIRST_YEAR <= bound <= LAST_YEAR and float(bound).is_integer() for bound in (lower, upper))
    return [f"{bound:.{digits}g}" if years else f"{bound:,.{digits}g}" for bound in (lower, upper)]


def as_text(parts: Iterable[Part]) -> str:
    lines = [line for part in parts for line in ([part] if isinstance(part, str) else aligned(part.cells, part.left))]
    return "\n".join(lines)


def aligned(cells: list[list[str]], left: set[int] | frozenset[int]) -> list[str]:
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = (
        "  ".join(
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return [line.rstrip() for line in lines]
