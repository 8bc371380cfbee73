"""A plan as a picture: error against the budget, both on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.errors import ConfError, OutputError
from dpspark.planning.budget import budget_value, with_budget
from dpspark.planning.predict import short_formula
from dpspark.planning.target import Target, measure_of
from dpspark.spec import Spec

if TYPE_CHECKING:
    from dpspark.planning.lines import SimulatedPlan
    from dpspark.planning.planner import Plan

# Okabe & Ito (2008): told apart by the colour-blind; and line styles, for print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
POINTS, SIMULATED_POINTS = 25, 9
REACH = 30.0  # times the conf's budget, either way
MOST_PANELS, MOST_LINES = 4, 6

Curve = tuple[str, np.ndarray, float]  # label, values, floor (NaN: none)


def plot_plan(plan: Plan, path: str | Path) -> None:
    """One panel for an entry of the matrix, one for each regression."""
    setting, spec = plan.setting, plan.spec
    budgets = _budgets(spec, POINTS)
    panels: list[tuple[str, str, list[Curve]]] = []
    if spec.release.kind == "gram":
        entry = measure_of(setting, Target("entry", None, 1.0))[1]
        spectral = measure_of(setting, Target("spectral", None, 1.0))[1]
        curves = [
            (label, np.array([_tried(lambda s, m=measure: [m(s)], spec, value, 1)[0] for value in budgets]), math.nan)
            for label, measure in (("off-diagonal entry", entry), ("spectral norm", spectral))
        ]
        likely = f"error bound, probability {1 - setting.beta:g}, in rows"
        panels.append(("Noise in the scaled matrix", likely, curves))
    for i, fit in enumerate(plan.fits[: MOST_PANELS - len(panels)]):
        found = fit.prediction
        shown = [k for k, term in enumerate(found.terms) if k or len(found.terms) == 1][:MOST_LINES]
        errors = np.array(
            [
                _tried(lambda s, i=i: setting.predictions(s)[i].std_errors.tolist(), spec, value, len(found.terms))
                for value in budgets
            ]
        )
        lines = [(found.terms[k], errors[:, k], float(found.sampling[k])) for k in shown]
        response = found.formula.split("~")[0].strip()
        panels.append((short_formula(found.formula, 60), f"standard error, {response} per unit of the term", lines))
    title = f"{spec.release.name} {spec.release.version}: {plan.chosen}, {plan.setting.guess.rows:,.0f} rows"
    _draw(panels, budgets, spec, title, path)


def plot_simulated(plan: SimulatedPlan, path: str | Path) -> None:
    budgets = _budgets(plan.spec, SIMULATED_POINTS)
    count = len(plan.wrong)
    errors = np.array([_tried(lambda s: [w.total for w in plan.at(s)], plan.spec, value, count) for value in budgets])
    curves = [(w.what, errors[:, k], w.silent) for k, w in enumerate(plan.wrong[:MOST_LINES])]
    title = f"{plan.spec.release.name} {plan.spec.release.version}: {plan.mechanism}, {plan.guess.rows:,.0f} rows"
    _draw([("Released values", "typical error, in units of each", curves)], budgets, plan.spec, title, path)


def _budgets(spec: Spec, points: int) -> np.ndarray:
    middle = budget_value(spec)
    return np.geomspace(middle / REACH, middle * REACH, points)


def _tried(measure: Any, spec: Spec, value: float, count: int) -> list[float]:
    """NaN where a mechanism cannot have the budget."""
    try:
        return list(measure(with_budget(spec, float(value))))
    except ConfError:
        return [math.nan] * count


def _draw(
    panels: Sequence[tuple[str, str, list[Curve]]], budgets: np.ndarray, spec: Spec, title: str, path: str | Path
) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogFormatter
    except ImportError:
        raise ConfError("--plot needs matplotlib. Run: pip install 'dpspark[plot]'") from None
    wide = min(2, len(panels))
    high = -(-len(panels) // wide)
    figure = Figure(figsize=(6.4 * wide, 4.9 * high + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, panel in zip(figure.subplots(high, wide, squeeze=False).flat, panels, strict=False):
        _panel(axes, panel, budgets, spec)
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.8)))
    for axes in figure.axes[len(panels) :]:
        axes.remove()
    figure.suptitle(title, fontsize=15)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise OutputError(f"--plot {str(path)!r}: {getattr(error, 'strerror', None) or error}.") from None


def _panel(axes: Any, panel: tuple[str, str, list[Curve]], budgets: np.ndarray, spec: Spec) -> None:
    name, unit, curves = panel
    for k, (label, values, floor) in enumerate(curves):
        colour = COLOURS[k % len(COLOURS)]
        marker = MARKERS[k % len(MARKERS)]
        axes.loglog(budgets, values, color=colour, lw=2.2, marker=marker, markevery=4, ms=7, label=label)
        if math.isfinite(floor) and floor > 0:
            axes.axhline(floor, color=colour, lw=1.4, ls="--")
    if any(math.isfinite(floor) for _, _, floor in curves):
        axes.plot([], [], color="0.35", lw=1.4, ls="--", label="without noise")
    unknown = np.isnan(np.array([values for _, values, _ in curves])).all(axis=0)
    if unknown[0] and not unknown.all():
        axes.axvspan(budgets[0], budgets[np.argmin(unknown)], color="0.9", label="not identified")
    now = budget_value(spec)
    key = "epsilon" if spec.privacy.rho is None else "rho"
    axes.axvline(now, color="0.35", lw=1.4, ls=":", label=f"this conf: {now:g}")
    axes.set_title(name, fontsize=14)
    delta = f" (delta = {spec.privacy.delta:g})" if spec.privacy.delta else ""
    axes.set_xlabel(f"{key}{delta}", fontsize=13)
    axes.set_ylabel(unit, fontsize=13)
    axes.tick_params(labelsize=12)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}" if 1e-4 < value < 1e5 else f"{value:.0e}")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=12, framealpha=0.9)
