"""A summary's lines and tables as HTML: escaped, in the colours of the page it is shown on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from dpspark.errors import printable
from dpspark.show.tables import Grid, Part

FIRST_ROWS, LAST_ROWS = 40, 10  # of a long table
LONGEST_NAME, LONGEST_LINE = 80, 700
STATUS = re.compile(r"(NOT IDENTIFIED|NO.INTERVAL|AT.RADIUS|SHRUNK|UNSTABLE|WARNING)(: .*)", re.S)
# No colour but the page's own, so that it can be read on a dark one too. Notebooks stripe tables, and align all cells
# right: what is said of `table tr` outweighs them.
STYLE = """<style>
.dpspark {max-width: 70em; line-height: 1.4; overflow-x: auto}
.dpspark p {margin: 0.15em 0; white-space: pre-wrap}
.dpspark .dps-title {font-weight: 600; font-size: 1.05em}
.dpspark .dps-head {font-weight: 600; margin-top: 0.9em}
.dpspark .dps-in {padding-left: 1.5em}
.dpspark .dps-note {font-size: 0.92em; opacity: 0.85}
.dpspark .dps-status {margin: 0.6em 0; padding: 0.2em 0.8em; border-left: 4px solid currentColor}
.dpspark table {border-collapse: collapse; margin: 0.6em 0; width: auto; font-variant-numeric: tabular-nums;
  border-top: 1px solid; border-bottom: 1px solid; border-color: currentColor}
.dpspark table tr, .dpspark table th, .dpspark table td {background: none !important; color: inherit; border: none}
.dpspark table thead tr {border-bottom: 1px solid currentColor}
.dpspark table th, .dpspark table td {padding: 0.15em 0.7em; text-align: right; white-space: nowrap; font-size: 0.95em;
  vertical-align: baseline}
.dpspark table th {font-weight: 600}
.dpspark table tr .dps-two {text-align: center}
.dpspark table tr .dps-text {text-align: left; white-space: normal; overflow-wrap: anywhere}
.dpspark table tbody th {font-weight: 400}
</style>"""


def as_html(parts: Sequence[Part]) -> str:
    """Render the parts of a summary as HTML.

    The first line is the title. Empty lines part sections; in one with a table, what stands above heads it.
    """
    sections: list[list[Part]] = [[]]
    for part in parts:
        if part == "":
            sections.append([])
        elif part != "---":  # a table has its own rule
            sections[-1].append(part)
    shown = "".join(_section(section, number == 0) for number, section in enumerate(sections))
    return f'{STYLE}<div class="dpspark">{shown}</div>'


def _section(parts: Sequence[Part], first: bool) -> str:
    tables = [at for at, part in enumerate(parts) if isinstance(part, Grid)]
    shown = []
    for at, part in enumerate(parts):
        if isinstance(part, Grid):
            shown.append(_table(part))
        elif at == 0 and (first or tables):
            shown.append(_line(part, "dps-title" if first else "dps-head"))
        else:
            shown.append(_line(part, "dps-note" if tables and at > tables[0] else ""))
    return "".join(shown)


def _line(text: str, kind: str) -> str:
    status = STATUS.fullmatch(text)
    if status is not None:
        return f'<p class="dps-status"><strong>{_safe(status[1])}</strong>{_safe(status[2])}</p>'
    kind = "dps-in" if text.startswith("  ") else kind
    return f'<p class="{kind}">{_safe(text.strip())}</p>' if kind else f"<p>{_safe(text)}</p>"


def _safe(text: str, longest: int = LONGEST_LINE) -> str:
    """Escape a name from a conf or a file, which may be anything: no markup, no control characters, no megabytes."""
    if len(text) > longest:
        text = f"{text[: longest * 2 // 3]} … {text[-longest // 3 :]}"
    return escape(printable(text))


def _table(grid: Grid) -> str:
    head, *rows = grid.cells
    body = [_row(row, grid.left) for row in rows]
    left_out = len(rows) - FIRST_ROWS - LAST_ROWS
    if left_out > 1:
        gap = f'<tr><td class="dps-text" colspan="{len(head)}">⋮ {left_out:,} more rows</td></tr>'
        body = [*body[:FIRST_ROWS], gap, *body[-LAST_ROWS:]]
    return f"<table><thead>{_head(head, grid.left)}</thead><tbody>{''.join(body)}</tbody></table>"


def _head(cells: Sequence[str], left: frozenset[int]) -> str:
    """Lay out the head: a name also stands over a next column of numbers that has none, as the high end of an interval."""
    shown, at = [], 0
    while at < len(cells):
        two = bool(cells[at]) and at + 1 < len(cells) and not cells[at + 1] and at + 1 not in left
        how = ' class="dps-two" colspan="2"' if two else ' class="dps-text"' if at in left else ""
        shown.append(f"<th{how}>{_safe(cells[at], LONGEST_NAME)}</th>")
        at += 1 + two
    return f"<tr>{''.join(shown)}</tr>"


def _row(cells: Sequence[str], left: frozenset[int]) -> str:
    shown = []
    for at, cell in enumerate(cells):
        tag = "th" if at == 0 and at in left else "td"
        longest = LONGEST_NAME if at == 0 else LONGEST_LINE
        how = ' class="dps-text"' if at in left else ""
        shown.append(f"<{tag}{how}>{_safe(cell, longest)}</{tag}>")
    return f"<tr>{''.join(shown)}</tr>"
