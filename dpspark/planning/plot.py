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
from dpspark.show.canvas import COLOURS, GREY, MARKERS, label, new_figure, no_math
from dpspark.spec.spec import Spec

if TYPE_CHECKING:
    from dpspark.planning.lines import SimulatedPlan
    from dpspark.planning.planner import Plan

POINTS, SIMULATED_POINTS = 25, 9
REACH = 30.0  # times the conf's budget, either way
MOST_PANELS, MOST_LINES = 4, 6

Curve = tuple[str, np.ndarray, float]  # label, values, floor (NaN: none)
Panel = tuple[str, str, list[Curve]]  # title, unit


def plot_plan(plan: Plan, path: str | Path | None = None, ax: Any = None) -> list[Any]:
    """One panel for an entry of the matrix, one for each regression."""
    setting, spec = plan.setting, plan.spec
    budgets = _budgets(spec, POINTS)
    panels: list[Panel] = []
    if spec.release.kind == "gram":
        entry = measure_of(setting, Target("entry", None, 1.0))[1]
        spectral = measure_of(setting, Target("spectral", None, 1.0))[1]
        curves = [
            (what, np.array([_tried(lambda s, m=measure: [m(s)], spec, value, 1)[0] for value in budgets]), math.nan)
            for what, measure in (("off-diagonal entry", entry), ("spectral norm", spectral))
        ]
        likely = (
            f"error bound, probability {1 - setting.beta:g}, in {'rows' if setting.spec.weight is None else 'weights'}"
        )
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
        response = found.formula.split("~")[0].strip(" `")
        panels.append((short_formula(found.formula, 60), f"standard error, {response} per unit of the term", lines))
    title = f"{spec.release.name} {spec.release.version}: {plan.chosen}, {plan.setting.guess.rows:,.0f} rows"
    return _draw(panels, budgets, spec, title, path, ax)


def plot_simulated(plan: SimulatedPlan, path: str | Path | None = None, ax: Any = None) -> list[Any]:
    budgets = _budgets(plan.spec, SIMULATED_POINTS)
    count = len(plan.wrong)
    errors = np.array([_tried(lambda s: [w.total for w in plan.at(s)], plan.spec, value, count) for value in budgets])
    curves = [(w.what, errors[:, k], w.silent) for k, w in enumerate(plan.wrong[:MOST_LINES])]
    title = f"{plan.spec.release.name} {plan.spec.release.version}: {plan.mechanism}, {plan.guess.rows:,.0f} rows"
    panels = [("Released values", "typical error, in units of each", curves)]
    return _draw(panels, budgets, plan.spec, title, path, ax)


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
    panels: Sequence[Panel], budgets: np.ndarray, spec: Spec, title: str, path: str | Path | None, ax: Any
) -> list[Any]:
    if ax is None:
        grid, shown = _new_axes(len(panels), title), list(panels)
    else:
        grid = list(np.atleast_1d(ax).flat)
        shown = list(panels) if len(grid) == len(panels) else list(panels[1:2])
        if len(grid) != len(shown):
            raise ConfError(f"plot: ax is {len(grid)} Axes; expected 1, or one for each of {len(panels)} panels.")
    for axes, panel in zip(grid, shown, strict=True):
        _panel(axes, panel, budgets, spec)
    if path is not None:
        _save(grid[0].figure, path)
    return grid


def _new_axes(count: int, title: str) -> list[Any]:
    wide = min(2, count)
    high = -(-count // wide)
    figure = new_figure((6.4 * wide, 4.9 * high + 0.3), "--plot")
    figure.suptitle(title, fontsize=15, parse_math=False)
    grid = list(figure.subplots(high, wide, squeeze=False).flat)
    for spare in grid[count:]:
        spare.remove()
    return grid[:count]


def _save(figure: Any, path: str | Path) -> None:
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise OutputError(f"--plot {str(path)!r}: {getattr(error, 'strerror', None) or error}.") from None


def _panel(axes: Any, panel: Panel, budgets: np.ndarray, spec: Spec) -> None:
    from matplotlib.ticker import LogFormatter

    name, unit, curves = panel
    for k, (what, values, floor) in enumerate(curves):
        colour = COLOURS[k % len(COLOURS)]
        marker = MARKERS[k % len(MARKERS)]
        axes.loglog(budgets, values, color=colour, lw=2.2, marker=marker, markevery=4, ms=7, label=what)
        if math.isfinite(floor) and floor > 0:
            axes.axhline(floor, color=colour, lw=1.4, ls="--")
    if any(math.isfinite(floor) for _, _, floor in curves):
        axes.plot([], [], color=GREY, lw=1.4, ls="--", label="without noise")
    unknown = np.isnan(np.array([values for _, values, _ in curves])).all(axis=0)
    if unknown[0] and not unknown.all():
        axes.axvspan(budgets[0], budgets[np.argmin(unknown)], color="0.9", label="not identified")
    now = budget_value(spec)
    key = "epsilon" if spec.privacy.rho is None else "rho"
    axes.axvline(now, color=GREY, lw=1.4, ls=":", label=f"this conf: {now:g}")
    delta = f" (delta = {spec.privacy.delta:g})" if spec.privacy.delta else ""
    label(axes, name, f"{key}{delta}", unit)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}" if 1e-4 < value < 1e5 else f"{value:.0e}")
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.8)))
    axes.grid(True, which="major", alpha=0.3)
    no_math(axes.legend(fontsize=11, framealpha=0.9).get_texts())
