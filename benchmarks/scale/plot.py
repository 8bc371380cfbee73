"""The benchmark's curves as small pictures, one a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale.text import TITLES
from dpspark.errors import DpsparkError, OutputError
from dpspark.planning.plot import COLOURS, MARKERS

LABELS = {
    "rows": "rows",
    "columns": "columns",
    "files": "files",
    "cores": "cores",
    "tree": "partitions, one partial sum each",
}


def plot_studies(results: dict[str, Any], directory: Path) -> None:
    """scaling-rows.png and so on."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise DpsparkError("--plot needs matplotlib. Run: pip install 'dpspark[plot]'") from None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, study in results["studies"].items():
            figure = Figure(figsize=(7.0, 5.2), dpi=100, layout="constrained")
            _draw(figure.add_subplot(), name, study)
            figure.legend(loc="outside lower center", ncols=2, fontsize=12, frameon=False)
            figure.savefig(directory / f"scaling-{name}.png", pil_kwargs={"optimize": True})
    except OSError as error:
        raise OutputError(f"--plot {str(directory)!r}: {error.strerror}.") from None


def short_number(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _draw(axes: Any, name: str, study: dict[str, Any]) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    exponents = {fit["series"]: fit["exponent"] for fit in study["fits"]}
    for i, series in enumerate(exponents):
        x, y = np.array(sorted((p["x"], p["seconds"]) for p in study["points"] if p["series"] == series)).T
        slope = "" if exponents[series] is None else f" (exponent {exponents[series]:.2f})"
        style = {"color": COLOURS[i], "marker": MARKERS[i], "linewidth": 2, "markersize": 8}
        axes.plot(x, y, label=f"{series}{slope}", **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(f"{TITLES[name]}\n{study['fixed'].split('. ')[0]}", fontsize=14)
    axes.set_xlabel(LABELS[name], fontsize=14)
    axes.set_ylabel("seconds", fontsize=14)
    axes.tick_params(labelsize=12)
    ticks = sorted({point["x"] for point in study["points"]})
    axes.set_xticks(ticks, [short_number(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda *_: "")
    axes.grid(True, which="major", color="#dddddd")
