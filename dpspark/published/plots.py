"""A release as a picture: correlations, lines or their slopes, quantiles. Post-processing: no cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.content.quantiles import QuantilesContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.analysis.options import Asked
from dpspark.errors import ConfError
from dpspark.show.canvas import (
    BLUE,
    COLOURS,
    GREY,
    MARKERS,
    VERMILION,
    axes_for,
    bounds_of,
    diverging,
    label,
    legend_above,
    no_math,
    short,
)
from dpspark.source.group_keys import key_label

MOST_NUMBERS = 12  # columns of a heat map with a number in each cell
MOST_NAMES = 60
MOST_LINES = 12  # drawn one by one; of more, the slopes
MOST_QUANTILES = 40  # rows
WEAK = "weakly_identified"  # a line that the noise may have drowned


def plot_content(release: Content, ax: Any = None) -> Any:
    """Draw what a release holds."""
    if isinstance(release, RegressionContent):
        return release.regress(Asked()).plot(ax)
    if isinstance(release, GramContent):
        return _correlations(release, ax)
    if isinstance(release, LinesContent):
        return _lines(release, ax)
    if isinstance(release, QuantilesContent):
        return _quantiles(release, ax)
    if isinstance(release, GroupedContent):
        raise release.no_group_chosen()
    raise ConfError(f"plot: there is no picture of a release of kind {release.kind}.")


def _correlations(release: GramContent, ax: Any) -> Any:
    """Draw a heat map: in each cell the correlation and the standard deviation of its noise, while there is room."""
    terms = release.terms[1:]
    values, noise = release.correlation(), release.correlation_std()
    side = 2.2 + 0.75 * min(len(terms), 12)
    axes = axes_for(ax, (side + 1.2, side))
    label(axes, f"Correlations\n{release.title}", "")
    image = axes.imshow(values, cmap=diverging(), vmin=-1, vmax=1)
    axes.figure.colorbar(image, ax=axes, shrink=0.8, label="correlation")
    names = [short(term, 20) for term in terms]
    if len(terms) <= MOST_NAMES:
        size = 10 if len(terms) <= MOST_NUMBERS else 6
        axes.set_xticks(range(len(terms)), names, rotation=45, ha="right", fontsize=size)
        axes.set_yticks(range(len(terms)), names, fontsize=size)
        no_math([*axes.get_xticklabels(), *axes.get_yticklabels()])
    if len(terms) <= MOST_NUMBERS:
        _write_cells(axes, values, noise)
        axes.set_xlabel("± is the standard deviation of the privacy noise", fontsize=10)
    else:
        axes.set_xlabel(f"standard deviation of the privacy noise: {np.nanmax(noise):.2g} at most", fontsize=10)
    return axes


def _write_cells(axes: Any, values: np.ndarray, noise: np.ndarray) -> None:
    for (i, j), value in np.ndenumerate(values):
        spread = f"\n±{noise[i, j]:.1g}" if i != j and np.isfinite(noise[i, j]) else ""
        text = f"{round(value, 2) + 0.0:.2f}{spread}" if np.isfinite(value) else "–"
        axes.text(j, i, text, ha="center", va="center", fontsize=9, color="black")


def _lines(release: LinesContent, ax: Any) -> Any:
    table, asked = release.table.to_pandas(), release.manifest["release"]
    keys = list(release.group_by)
    cuts = max(1, table["x"].nunique())
    axes = axes_for(ax, (7.2, 4.6))
    x, y = short(asked["x"]), short(asked["y"])
    by = f" by {', '.join(map(short, keys))}" if keys else ""
    count = len(table) // cuts
    title = f"{y} at {x}: {count:,} line{'' if count == 1 else 's'}{by}\n{release.title}"
    intervals = "" if release.level is None else f"{100 * release.level:g}% intervals"
    if count > MOST_LINES:
        weak = int((table["status"].to_numpy()[::cuts] == WEAK).sum())
        more = f"; {weak:,} of them {WEAK}" if weak else ""
        return _slopes(axes, table["slope"].to_numpy()[::cuts], title, x, y, more)
    left, right = bounds_of(release.domain).get(asked["x"], (table["x"].min(), table["x"].max()))
    for k in range(count):
        rows = table.iloc[k * cuts : (k + 1) * cuts]
        colour, marker, first = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)], rows.iloc[0]
        weak = first["status"] == WEAK
        name = (", ".join(short(key_label(first[key])) for key in keys) or "line") + (f" ({WEAK})" if weak else "")
        ends = np.array([left, right])
        axes.plot(ends, first["intercept"] + first["slope"] * ends, color=colour, lw=1.6, ls="--" if weak else "-")
        reach = [np.maximum(0, rows["estimate"] - rows["ci_low"]), np.maximum(0, rows["ci_high"] - rows["estimate"])]
        look: dict[str, Any] = {"color": colour, "fmt": marker, "mfc": "white" if weak else colour}
        axes.errorbar(rows["x"], rows["estimate"], np.nan_to_num(reach), capsize=4, label=name, **look)
    label(axes, f"{title}, {intervals}" if intervals else title, x, y)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.grid(True, alpha=0.3)
    if keys or (table["status"] == WEAK).any():
        no_math(axes.legend(fontsize=9).get_texts())
    return axes


def _slopes(axes: Any, slopes: np.ndarray, title: str, x: str, y: str, more: str) -> Any:
    """Draw how slopes are spread over the groups: their middle 98%, so that a few wild ones leave the rest to be seen."""
    known = slopes[np.isfinite(slopes)]
    if len(known):
        low, high = np.quantile(known, [0.01, 0.99])
        bins = int(min(40, max(10, math.sqrt(len(known)))))
        axes.hist(known, bins=np.linspace(low, high, bins + 1) if high > low else bins, color=BLUE, alpha=0.75)
        axes.axvline(float(np.median(known)), color=VERMILION, lw=2, label=f"median: {np.median(known):.3g}")
        axes.axvline(0, color=GREY, lw=1, ls="--")
    label(
        axes, title, f"slope: {y} per unit of {x} (the middle 98% of the lines; privacy noise included{more})", "lines"
    )
    axes.grid(True, axis="y", alpha=0.3)
    if len(known):
        axes.legend(fontsize=10)
    return axes


def _quantiles(release: QuantilesContent, ax: Any) -> Any:
    """Draw a row for each column, of one group or of a few; of many groups, a row for each quantile, spread over them."""
    table = release.table.to_pandas()
    keys = list(release.group_by)
    table = table.assign(**{key: table[key].map(key_label) for key in keys})
    bounds = bounds_of(release.domain)
    one = table["column"].nunique() == 1
    if not one:  # units differ: each in its own bounds
        low, high = (table["column"].map({name: ends[k] for name, ends in bounds.items()}) for k in (0, 1))
        table = table.assign(estimate=(table["estimate"] - low) / (high - low))
    unit = short(str(table["column"].iloc[0])) if one else "place between the bounds of each column: 0 lower, 1 upper"
    named = {name: f"{short(name, 20)} ({low:g} to {high:g})" for name, (low, high) in bounds.items()}
    spread = table.groupby([*keys, "column"]).ngroups > MOST_QUANTILES
    rows = list(table.groupby(["column", "probability"] if spread else [*keys, "column"], sort=False))[:MOST_QUANTILES]
    axes = axes_for(ax, (8.0, 1.8 + 0.36 * max(3, len(rows))))
    draw = _draw_spread if spread else _draw_points
    names = []
    for place, (of, found) in enumerate(rows):
        draw(axes, place, found)
        parts = [f"{part:g}" if isinstance(part, float) else named.get(part, short(str(part), 20)) for part in of]
        names.append(", ".join(parts))
    groups = f" in {len(table.drop_duplicates(keys)):,} groups" if keys else ""
    label(axes, f"Quantiles{groups}\n{release.title}", unit)
    if not one:
        axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), names)
    no_math(axes.get_yticklabels())
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.grid(True, axis="x", alpha=0.3)
    legend_above(axes)
    return axes


def _draw_points(axes: Any, place: int, found: Any) -> None:
    first = "" if place == 0 else "_"  # a legend leaves out names that begin so
    axes.plot([found["estimate"].min(), found["estimate"].max()], [place, place], color=GREY, lw=1.5, zorder=0)
    for k, row in enumerate(found.itertuples()):
        look = {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)], "ls": "none", "ms": 7}
        axes.plot(row.estimate, place, label=f"{first}{row.probability:g}", **look)


def _draw_spread(axes: Any, place: int, found: Any) -> None:
    first = "" if place == 0 else "_"
    known = found["estimate"].dropna()
    if len(known):
        far_low, low, middle, high, far_high = np.quantile(known, [0.01, 0.25, 0.5, 0.75, 0.99])
        axes.plot([far_low, far_high], [place] * 2, color=VERMILION, lw=2, label=f"{first}98% of groups")
        axes.plot([low, high], [place] * 2, color=BLUE, lw=7, alpha=0.6, label=f"{first}half of them")
        axes.plot(middle, place, "o", color="black", ms=5)
