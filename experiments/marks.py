"""Curves of errors that may be infinite: what is above the panel, or no line at all, is marked and not left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.style import TRUTH, curve, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEP = 0.8  # from one method's open marks to the next one's, so that they do not hide each other


def open_curve(axes: Axes, x: Sequence[float], lines: tuple[Any, Any, Any], index: int, name: str, top: float) -> None:
    """`lines`: median, lower and upper quartile. An open mark below the upper edge stands for a median above `top`."""
    middle, low, high = (np.asarray(line, float) for line in lines)
    shown = np.where(middle > top, np.nan, middle)
    # A band that goes on above the panel ends there, and one that lies above it is not seen.
    curve(axes, x, shown, np.minimum(low, 100 * top), np.minimum(high, 100 * top), index, name)
    over = np.asarray(x, float)[middle > top]
    if len(over):
        axes.plot(over, np.full(len(over), top * STEP ** (index + 1)), **look(index, ls="none", mfc="white", mew=1.5))


def ruled(axes: Axes, top: float, bottom: float) -> None:
    """The standard error, what open marks mean, and a logarithmic axis."""
    axes.axhline(1.0, color=TRUTH, lw=1.5, ls="--", label="one standard error")
    axes.plot(
        [], [], ls="none", marker="o", mfc="white", mew=1.5, color="0.4", label=f"open: above {top:g}, or no line"
    )
    axes.set(yscale="log", ylim=(bottom, top))


def legend_below(figure: Figure, axes: Axes) -> None:
    """As style.common_legend, for long names."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=11)
