"""How plots look: readable at half size, told apart by the colour-blind and in print, with bands for the spread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.errors import OutputError
from dpspark.show.canvas import BLUE, GREEN, ORANGE, PINK, SKY, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A method has the same colour, line and mark in every plot; see `look`.
PRINTED, CORRECTED, DEFAULT, OTHER, FIFTH, SIXTH = VERMILION, ORANGE, BLUE, GREEN, PINK, SKY
PALETTE = (PRINTED, CORRECTED, DEFAULT, OTHER, FIFTH, SIXTH, "#000000", "#999933")
MARKS = ("s", "^", "o", "D", "v", "P", "X", "*")
LINES = ("--", "-.", "-", ":", (0, (3, 1, 1, 1)), (0, (5, 1)), (0, (1, 1)), (0, (7, 2)))
TRUTH = "0.25"
PANEL = (5.6, 4.2)  # inches


def look(index: int, **more: Any) -> dict[str, Any]:
    """Colour, line and mark of the method of this number: 0 as printed, 1 corrected, 2 dpspark's default, then others."""
    at = index % len(PALETTE)
    return {"color": PALETTE[at], "ls": LINES[at], "marker": MARKS[at], "lw": 2.0, "ms": 6, **more}


def panels(count: int, wide: int = 2, size: tuple[float, float] = PANEL) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, in rows of at most `wide`."""
    wide = min(wide, count)
    high = -(-count // wide)
    figure = new_figure((size[0] * wide, size[1] * high), "evaluate")
    grid = list(figure.subplots(high, wide, squeeze=False).flat)
    for spare in grid[count:]:
        spare.remove()
    for axes in grid[:count]:
        axes.grid(True, color="0.9", lw=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=11)
    return figure, grid[:count]


def label(axes: Axes, title: str, x: str, y: str, legend: bool = True) -> None:
    axes.set_title(title, fontsize=13)
    axes.set_xlabel(x, fontsize=12)
    axes.set_ylabel(y, fontsize=12)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=10, framealpha=0.9)


def common_legend(figure: Figure, axes: Axes) -> None:
    """Below all panels, where they have the same lines: those of `axes`."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=11)


def log_axis(axes: Axes, which: str, values: Sequence[float]) -> None:
    """A logarithmic axis with marks at just these values, as plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(FixedLocator(sorted(set(values))))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axis.set_minor_locator(NullLocator())


def short_number(value: float) -> str:
    """0.05, 40, 10k, 1.2M"""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.2g}{letter}" if abs(value) < 100 * size else f"{value / size:.0f}{letter}"
    return f"{value:g}"


def bin_edges(values: Any, left_out: float, bins: int = 40) -> list[float]:
    """Of a histogram without this share of the values at either end."""
    low, high = np.nanquantile(values, [left_out, 1 - left_out])
    return [float(edge) for edge in np.linspace(low, high, bins + 1)]


def curve(axes: Axes, x: Sequence[float], middle: Any, low: Any, high: Any, index: int, name: str) -> None:
    """A line with a band: a median with its quartiles, say; the title or the caption says which."""
    axes.plot(x, middle, label=name, **look(index))
    axes.fill_between(np.asarray(x, float), low, high, color=PALETTE[index % len(PALETTE)], alpha=0.18, lw=0)


def save(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, dpi=100)
    except OSError as error:
        raise OutputError(f"{str(path)!r}: {error.strerror}. Choose another --out.") from None
