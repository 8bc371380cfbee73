"""Figures that leave nothing open behind them, and the colours and labels that all pictures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpspark.errors import ConfError, printable
from dpspark.show.notebook import in_notebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpspark.core.domain import Domain

# Okabe & Ito (2008): told apart by the colour-blind.
BLUE, VERMILION, GREEN, PINK, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
GREY = "0.35"
NEGATIVE, NONE, POSITIVE = "#E0862F", "#F6F6F4", "#4F93D8"  # of correlations, as in a report
COLOURS = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")  # for print


def new_figure(size: tuple[float, float], what: str = "plot") -> Figure:
    """Make a figure of a size in inches.

    A notebook shows it with the cell, and closes it; elsewhere pyplot never hears of it.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfError(f"{what} needs matplotlib. Run: pip install 'dpspark[plot]'") from None
    if in_notebook():
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout="constrained")
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def diverging() -> Any:
    """Make a colour map from negative to positive, as in a report; black can be read on all of it."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("dpspark", [NEGATIVE, NONE, POSITIVE])


def axes_for(ax: Any, size: tuple[float, float]) -> Axes:
    """Return the caller's axes, or those of a new figure."""
    return new_figure(size).subplots() if ax is None else ax


def label(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Write a title and labels. Names of columns may hold a $: it is no formula."""
    axes.set_title(title, fontsize=13, parse_math=False)
    axes.set_xlabel(x, fontsize=11, parse_math=False)
    axes.set_ylabel(y, fontsize=11, parse_math=False)
    axes.tick_params(labelsize=10)


def legend_above(axes: Axes) -> None:
    """Put the legend between the title and the picture, where it hides nothing."""
    if axes.get_legend_handles_labels()[0]:
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2}
        legend = axes.legend(fontsize=10, ncols=3, frameon=False, **place)
        no_math(legend.get_texts())
        axes.set_title(axes.get_title(), fontsize=13, pad=24, parse_math=False)


def no_math(texts: Any) -> None:
    """Take a $ in these texts as it is."""
    for text in texts:
        text.set_parse_math(False)


def short(name: str, longest: int = 30) -> str:
    """Shorten a name, so that it leaves room for the picture."""
    name = printable(name)
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def bounds_of(domain: Domain | None) -> dict[str, tuple[float, float]]:
    """Collect the bounds of the columns that are numbers."""
    return {} if domain is None else {column.name: (column.lower, column.upper) for column in domain.numeric}
