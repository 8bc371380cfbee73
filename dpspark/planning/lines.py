"""Plans of robust lines and of quantiles: the very kernels, run on made-up rows that look like the guess.

To be quick, a large group is simulated by fewer rows and as much more budget: what the mechanism does depends on their
product. What sampling adds is simulated alone, with a budget so large that there is no noise, and scaled to all rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.core.domain import Numeric
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.defaults import RESIDUAL, ROWS
from dpspark.mechanisms.lines.grid import Grid as LineGrid
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.planning.accuracy import check_beta
from dpspark.planning.budget import least_budget
from dpspark.planning.budget_left import BudgetLeft
from dpspark.planning.fits import number
from dpspark.planning.guess import Guess, find_guess
from dpspark.planning.levels import LevelPlan, level_parts, line_levels
from dpspark.planning.row_norm import made_up_rows
from dpspark.planning.target import Reached, Target
from dpspark.privacy.keyed import KeyedRandom
from dpspark.show.tables import Grid, Part, as_text
from dpspark.spec.choose import choose_lines
from dpspark.spec.spec import Spec

FIXED = KeyedRandom(bytes(32))  # simulations repeat; nothing here is secret
SLOW_ROWS, SLOW_DRAWS, SLOW_CELLS = 100, 60, 100
QUICK_ROWS, QUICK_DRAWS = 400, 100
NO_NOISE = 1e4  # times the budget
SLOPE = "slope"
ERROR_TOLERANCE = 0.02  # of the logarithm of a budget; what is found by simulation is no more exact


@dataclass(frozen=True)
class Wrong:
    """Root mean squared errors of one released number, in its own units."""

    what: str
    silent: float  # what would be left without noise: sampling, and the estimator's own
    privacy: float
    step: float = 0.0  # of the grid that it was simulated on: noise that is finer than this may not be seen

    @property
    def total(self) -> float:
        return math.hypot(self.silent, self.privacy)

    @property
    def unseen(self) -> bool:
        """Whether no draw left the best cell of the grid: the noise is below its step, and not none."""
        return self.privacy == 0 and self.step > 0

    @property
    def shown(self) -> Wrong:
        """The error with a bound in the place of noise that was not seen."""
        return replace(self, privacy=self.step) if self.unseen else self

    def cells(self) -> list[str]:
        """Show the error in all, without noise, and by privacy."""
        below = "below " if self.unseen else ""
        return [f"{below}{self.shown.total:.3g}", f"{self.silent:.3g}", f"{below}{self.shown.privacy:.3g}"]

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "error": number(self.shown.total),
            "without_noise": number(self.silent),
            "privacy": number(self.shown.privacy),
            "privacy_is_a_bound": self.unseen,
        }


@dataclass(frozen=True)
class SimulatedPlan:
    """The plan of a release of kind theil_sen or quantiles."""

    spec: Spec
    guess: Guess
    mechanism: str
    why: str
    wrong: tuple[Wrong, ...]
    notes: tuple[str, ...]
    budget_left: BudgetLeft
    beta: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.spec.release.kind,
            "budget": self._budget,
            "mechanism": self.mechanism,
            **({"target": self.spec.target} if self.spec.release.kind == "theil_sen" else {}),
            "because": self.why or None,
            "beta": self.beta,
            "guess": {"rows": self.guess.rows, "from": self.guess.source, "assumed": self.guess.assumed},
            "ledger": self.budget_left.to_dict(),
            "errors": [found.to_dict() for found in self.wrong],
            **({"levels": [level.to_dict() for level in self.levels]} if self.levels else {}),
            "notes": list(self.notes),
        }

    @cached_property
    def levels(self) -> tuple[LevelPlan, ...]:
        """The errors of each level of a hierarchy; none without one."""
        return line_levels(self.spec, self.guess.rows, self.wrong)

    @property
    def _budget(self) -> str:
        return f"{self.spec.privacy.budget}, {self.spec.privacy.neighbours}"

    def summary(self) -> str:
        return as_text(self.parts())

    def parts(self) -> list[Part]:
        release = self.spec.release
        each = f" in each of {len(release.group_keys):,} groups" if release.group_by else ""
        cells = [["typical error (root mean square)", "in all", "without noise", "privacy"]]
        for found in self.wrong:
            cells.append([found.what, *found.cells()])
        return [
            f"Plan of {release.name} {release.version}: {release.kind} by {self.mechanism}, {self._budget}; "
            "no data was read",
            str(self.budget_left),
            f"Guess: {self.guess.rows:,.0f} rows{each}; {self.guess.source}",
            *([f"Aims at the {self.spec.target} of {release.y}"] if release.kind == "theil_sen" else []),
            *([f"Chosen because {self.why}"] if self.why else []),
            "",
            Grid(cells),
            *self.notes,
            *(["", *level_parts(self.levels)] if self.levels else []),
        ]

    def plot(self, path: str | Path | None = None, ax: Any = None) -> list[Any]:
        """Error against the budget, as matplotlib Axes; written to a `path`, if given."""
        from dpspark.planning.plot import plot_simulated

        return plot_simulated(self, path, ax)

    def _repr_html_(self) -> str:
        from dpspark.show.html import as_html

        return as_html(self.parts())

    def at(self, spec: Spec) -> tuple[Wrong, ...]:
        """The errors with another budget."""
        return _wrong(spec, self.guess)

    def __str__(self) -> str:
        return self.summary()


def plan_lines(
    spec: Spec, guess: str | Path | Mapping[str, Any] | None, rows: int | None, beta: float, budget_left: BudgetLeft
) -> SimulatedPlan:
    check_beta(beta)
    found = _guess(spec, guess, rows)
    if spec.release.kind == "quantiles":
        from dpspark.planning.quantiles import rank_notes

        return SimulatedPlan(
            spec, found, spec.mechanism_name, "", _wrong(spec, found), rank_notes(spec, found, beta), budget_left, beta
        )
    lines = choose_lines(spec)
    notes = _notes(lines, found, beta)
    return SimulatedPlan(spec, found, lines.kernel_name, lines.reason, _wrong(spec, found), notes, budget_left, beta)


def _guess(spec: Spec, given: str | Path | Mapping[str, Any] | None, rows: int | None) -> Guess:
    found = find_guess(spec, given, rows)
    unsaid = found.assumed and rows is None and spec.release.expected_rows is None
    if unsaid and spec.release.kind == "theil_sen":  # what the mechanism's own defaults assume
        return replace(found, rows=float(ROWS), source="assumed: set release.expected_rows, or --rows")
    return found


def reach_lines(
    spec: Spec, target: Target, guess: str | Path | Mapping[str, Any] | None, rows: int | None, beta: float
) -> Reached:
    """The least budget for `error=VALUE` (the largest error of all), or, of quantiles, `rank=SHARE`."""
    check_beta(beta)
    found = _guess(spec, guess, rows)
    if target.kind == "rank" and spec.release.kind == "quantiles":
        from dpspark.planning.quantiles import rank_error

        what, tolerance = "the rank of every quantile, as a share of the rows,", 1e-4

        def measure(there: Spec) -> float:
            return rank_error(there, found, beta)
    elif target.kind == "error" and target.of is None:
        what, tolerance = "the typical error of every released value (simulated: about)", ERROR_TOLERANCE

        def measure(there: Spec) -> float:
            return max(wrong.total for wrong in _wrong(there, found) if wrong.what != SLOPE)
    else:
        takes = "error=VALUE or rank=SHARE" if spec.release.kind == "quantiles" else "error=VALUE"
        raise ConfError(f"--target {target.kind}: a conf of kind {spec.release.kind} takes {takes}.")

    def reached(there: Spec) -> bool:
        return measure(there) <= target.value

    budget = least_budget(spec, reached, tolerance)
    if budget is None:
        raise ConfError(
            f"--target {target.value:g}: {what} is not reached with any budget: sampling alone is more. Use more rows."
        )
    given = {"rho": budget.rho} if budget.rho is not None else {"epsilon": budget.epsilon}
    there = spec.model_copy(update={"privacy": spec.privacy.model_copy(update=given)})
    return Reached(target, what, budget, measure(there), beta)


def _wrong(spec: Spec, guess: Guess) -> tuple[Wrong, ...]:
    if spec.release.kind == "quantiles":
        from dpspark.planning.quantiles import quantile_errors

        return tuple(Wrong(*parts) for parts in quantile_errors(spec, guess, FIXED))
    lines = choose_lines(spec)
    rows = max(3, min(int(guess.rows), SLOW_ROWS if lines.slow else QUICK_ROWS))
    draws = SLOW_DRAWS if lines.slow else QUICK_DRAWS
    x, y = _rows(spec, guess, rows * draws)
    truth = np.polynomial.polynomial.polyfit(x, y, 1)
    fewer = guess.rows / rows
    kernel = lines.kernel_for(rows, fewer, SLOW_CELLS)
    noisy, exact = (_released(each, x, y, rows, truth) for each in (kernel, kernel.quieter(NO_NOISE)))
    silent = np.sqrt(np.nanmean(exact**2, axis=0)) / math.sqrt(fewer)
    steps = np.zeros(len(silent))
    own, simulated = lines.line.grid, kernel.grid
    if own is not None and simulated is not None:
        silent = np.hypot(silent, _steps(own)[: len(silent)] / math.sqrt(12))
        steps = _steps(simulated)[: len(silent)]
    privacy = np.sqrt(np.nanmean((noisy - exact) ** 2, axis=0))
    labels = [f"{spec.release.y} at {spec.release.x} = {cut:g}" for cut in lines.plane.wanted]
    if len(lines.plane.wanted) > 1:
        labels.append(SLOPE)
    parts = (silent.tolist(), privacy.tolist(), steps.tolist())
    return tuple(Wrong(*found) for found in zip(labels, *parts, strict=False))


def _steps(grid: LineGrid) -> np.ndarray:
    """Compute the steps of a grid of lines, at the cuts and of the slope. More rows do not make the release's own finer."""
    plane, (first, last) = grid.plane, grid.plane.joint_anchors
    (left, right), (bottom, top), (low, high) = plane.x_bounds, plane.y_bounds, plane.candidate_range
    step = (high - low) * (top - bottom) / grid.cells
    shares = [((cut - left) / (right - left) - first) / (last - first) for cut in plane.wanted]
    return np.array(
        [
            *(step * math.hypot(1 - share, share) for share in shares),
            step * math.sqrt(2) / ((last - first) * (right - left)),
        ]
    )


def _rows(spec: Spec, guess: Guess, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows of the guess; where there is none, x over its bounds and y around the middle of the candidates."""
    x, y = (column for column in spec.domain.columns if isinstance(column, Numeric))
    release = spec.release
    if not guess.assumed:
        z = made_up_rows(guess.mean, guess.covariance, count)
        return x.middle + x.half * z[:, 0], y.middle + y.half * z[:, 1]
    rng = np.random.default_rng(0)
    width = math.sqrt(12 * release.x_variance) if release.x_variance is not None else 1.0
    across = rng.uniform(-1, 1, count) if width <= 1 else rng.choice([-1.0, 1.0], count)
    low, high = release.candidates or (y.lower, y.upper)
    spread = (RESIDUAL if release.y_spread is None else release.y_spread) * (high - low)
    up = (low + high) / 2 + spread * rng.standard_normal(count)
    return x.middle + x.half * min(width, 1.0) * across, np.clip(up, y.lower, y.upper)


def _released(kernel: Kernel, x: np.ndarray, y: np.ndarray, rows: int, truth: np.ndarray) -> np.ndarray:
    """Errors at the cuts, and of the slope, a row for each group."""
    found = []
    for i, start in enumerate(range(0, len(x), rows)):
        fit = kernel.fit(x[start : start + rows], y[start : start + rows], FIXED, i)
        line = truth[0] + truth[1] * np.array(fit.x)
        found.append([*(np.array(fit.estimate) - line), fit.slope - truth[1]])
    return np.array(found)


def _notes(lines: LineMechanism, guess: Guess, beta: float) -> tuple[str, ...]:
    """Say what theory says beside it."""
    notes = ["Simulated with the mechanism itself on made-up rows: about, and as good as the guess"]
    share = lines.rank_share(guess.rows, beta)
    if share is not None:
        notes.append(
            f"Rank of each released value among the pairs' values: off by {min(share, 0.5):.2g} of them at most, with "
            f"probability {1 - beta:g}"
        )
    return tuple(notes)
