"""A release of any kind as lines and tables, for a notebook. Post-processing of what was published: no cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.content.quantiles import QuantilesContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.analysis.options import Asked
from dpspark.analysis.remarks import definition_lines, interval_remarks
from dpspark.bundle.storage import near
from dpspark.published.description import NOISE, column_facts, columns_grid, gram_rows, rows_line
from dpspark.show.tables import Grid, Part

ENDS = 6  # rows at either end of a table that may have a hundred thousand


def content_parts(release: Content) -> list[Part]:
    """Show what a release holds, its most important numbers first."""
    if isinstance(release, RegressionContent):
        return [*release.regress(Asked()).parts(), *_about(release)]
    what: list[Part] = []
    if isinstance(release, GramContent):
        what = _gram(release)
    elif isinstance(release, GroupedContent):
        what = _grouped(release)
    elif isinstance(release, LinesContent):
        what = _lines(release)
    elif isinstance(release, QuantilesContent):
        what = [*_ends(release.table), *release.notes, "All of them: .quantiles(); a picture: .plot()"]
    return [release.title, *_about(release), *what, *definition_lines(release.definitions)]


def _about(release: Content) -> list[Part]:
    mechanism = release.manifest["mechanism"]
    return [
        f"Kind {release.kind} by {mechanism.get('kernel', mechanism['name'])}, in {near(release.path)}",
        str(release.manifest["guarantee"]),
    ]


def _gram(release: GramContent) -> list[Part]:
    return [
        rows_line(gram_rows(release)),
        columns_grid(column_facts(release)),
        NOISE,
        f"Next: .regress('{release.example()}'), .correlation(), .pca(2), .plot(), .describe()",
    ]


def _grouped(release: GroupedContent) -> list[Part]:
    width = release.domain.width
    name, each = ("second_moment", width**2) if release.kind == "gram" else ("coefficients", width - 1)
    table = release.tables[name].select(list(release.group_by))
    firsts = table.take(pa.array(np.arange(0, table.num_rows, each)))  # of each group: all have as many rows
    keys = {key: firsts[key][0].as_py() for key in release.group_by} if firsts.num_rows else {}
    example = ", ".join(f"{key}={value!r}" for key, value in keys.items())
    return [
        f"{firsts.num_rows:,} groups",
        *_ends(firsts),
        f"One of them: .group({example}), which can do all that a release of kind {release.kind} can",
    ]


def _lines(release: LinesContent) -> list[Part]:
    table, asked = release.table, release.manifest["release"]
    cuts = max(1, pc.count_distinct(table["x"]).as_py())
    lines = table.num_rows // cuts
    by = f" by {', '.join(release.group_by)}" if release.group_by else ""
    mechanism = release.manifest["mechanism"]
    head = f"{asked['y']} at {asked['x']}: {lines:,} line{'' if lines == 1 else 's'}{by}"
    chosen = [f"Chosen because {mechanism['chosen']}"] if "chosen" in mechanism else []
    return [
        head,
        release.aim,
        *chosen,
        *_ends(table),
        *release.notes,
        *interval_remarks(release.manifest),
        "All of them: .predictions(); a picture: .plot()",
    ]


def _ends(table: pa.Table, ends: int = ENDS) -> list[Part]:
    """Show the first and the last rows, without columns that have no value at all."""
    names = [field.name for field in table.schema if not _empty(table[field.name])]
    left = frozenset(i for i, name in enumerate(names) if pa.types.is_string(table.schema.field(name).type))
    whole = table.num_rows <= 2 * ends + 1
    first, last = (table, None) if whole else (table.slice(0, ends), table.slice(table.num_rows - ends))
    cells = [names, *_cells(first.select(names))]
    if last is not None:
        cells += [["⋮"] * len(names), *_cells(last.select(names))]
    return [Grid(cells, left), *([] if whole else [f"{table.num_rows:,} rows in all"])]


def _empty(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.all(pc.is_null(column, nan_is_null=True)).as_py())


def _cells(table: pa.Table) -> list[list[str]]:
    return [[_number(v) if isinstance(v, float) else str(v) for v in row.values()] for row in table.to_pylist()]


def _number(value: Any) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.5g}"
