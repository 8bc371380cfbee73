"""The parts of a summary: lines and tables, rendered as text here, and as HTML by dpspark.show.html."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import category, east_asian_width


@dataclass(frozen=True)
class Grid:
    """A table; its first row is the head. Columns in `left` are text, the others numbers."""

    cells: list[list[str]]
    left: frozenset[int] = frozenset({0})


Part = str | Grid
FIRST_YEAR, LAST_YEAR = 1000, 2999


def bound_texts(lower: float, upper: float, digits: int = 10) -> list[str]:
    """Write two bounds with thousands apart, unless both look like years."""
    years = all(FIRST_YEAR <= bound <= LAST_YEAR and float(bound).is_integer() for bound in (lower, upper))
    return [f"{bound:.{digits}g}" if years else f"{bound:,.{digits}g}" for bound in (lower, upper)]


def as_text(parts: Iterable[Part]) -> str:
    """Render the parts of a summary as text for a terminal."""
    lines = [line for part in parts for line in ([part] if isinstance(part, str) else aligned(part.cells, part.left))]
    return "\n".join(lines)


def aligned(cells: list[list[str]], left: set[int] | frozenset[int]) -> list[str]:
    """Align the columns of a table: those in `left` left, the others right."""
    widths = _widths(cells)
    lines = ("  ".join(_padded(cell, widths[i], i in left) for i, cell in enumerate(row)) for row in cells)
    return [line.rstrip() for line in lines]


def folded(cells: list[list[str]], most: int) -> list[str]:
    """Align numbers in blocks of columns that are no wider than `most`; the first column names the rows of each."""
    widths = _widths(cells)
    blocks: list[list[int]] = []
    for at in range(1, len(widths)):
        if not blocks or sum(widths[i] + 2 for i in (*blocks[-1], at)) + widths[0] > most:
            blocks.append([])
        blocks[-1].append(at)
    parts = (aligned([[row[i] for i in (0, *block)] for row in cells], {0}) for block in blocks)
    return "\n\n".join("\n".join(part) for part in parts).split("\n")


def _widths(cells: list[list[str]]) -> list[int]:
    return [max(width(row[i]) for row in cells) for i in range(len(cells[0]))]


def _padded(cell: str, to: int, left: bool) -> str:
    space = " " * (to - width(cell))
    return cell + space if left else space + cell


def width(text: str) -> int:
    """Count places in a terminal: an East Asian letter takes two, an accent of its own none."""
    if text.isascii():
        return len(text)
    return sum((1 + (east_asian_width(c) in "WF")) * (category(c) not in ("Mn", "Me", "Cf")) for c in text)
