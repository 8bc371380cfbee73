"""The attack on refined: both steps' sums, and the clip that is drawn between them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from dpspark.audit.attacks import Case, Finding, NoiseView
from dpspark.audit.cases import case_of
from dpspark.audit.likelihood import additive_ratio, statistics_vector
from dpspark.audit.neighbours import hostile_pairs
from dpspark.audit.quantiles.exponential import log_cell
from dpspark.audit.regression.statistics import ends_of, exact_of, std_of
from dpspark.audit.sensitivity_attack import CHANGES, ROOM, statistics_finding
from dpspark.audit.tables import TableRows
from dpspark.audit.target import Attack, Target, found_without_noise, measured
from dpspark.core.domain import Clip, Domain, Numeric
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.gradient import ExactGradient
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import ExactSums, Residual, octave_axis, octave_size
from dpspark.mechanisms.quantiles.exponential import CellLaw
from dpspark.mechanisms.regression.refined import NAME, Refined
from dpspark.mechanisms.regression.residual_clip import ResidualClip
from dpspark.mechanisms.regression.statistics import NoisyStatistics
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import clipped_residuals
from dpspark.spec.choose import choose_regression
from dpspark.spec.spec import Spec

PRICE = 1.0
Pair = tuple[np.ndarray, np.ndarray]


@dataclass
class Watched:
    """Two tables of which a mechanism sees one: what it asked for is kept of both."""

    tables: Sequence[TableRows]
    side: int
    histograms: list[ExactHistogram] = field(default_factory=list)
    sums: list[np.ndarray] = field(default_factory=list)

    def gram(self, domain: Domain) -> ExactGram:
        return self.tables[self.side].gram(domain)

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        return self.tables[self.side].gradient(domain, theta, clip)

    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram:
        self.histograms = [table.residual_histograms(domain, residuals) for table in self.tables]
        return self.histograms[self.side]

    def residual_sums(self, domain: Domain, residual: Residual, clip: float) -> ExactSums:
        found = [table.residual_sums(domain, residual, clip) for table in self.tables]
        self.sums = [np.array(each.reveal(), dtype=float) / domain.steps_per_row for each in found]
        return found[self.side]

    def residual_grams(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]) -> ExactSums:
        return self.tables[self.side].residual_grams(domain, residuals, clips)


@dataclass(frozen=True)
class Attacker:
    """Knows the mechanism as it claims to be, and both tables."""

    claimed: Refined
    drawn: Refined
    tables: Sequence[TableRows]

    def ratio(self, side: int, noise: NoiseSource) -> float:
        """How much more likely everything that a release says is from table 1."""
        rows, found = self._released(side, noise)
        zero, one = exact_of(self.claimed, self.tables)
        total = additive_ratio("gaussian", std_of(self.claimed), (zero, one))(statistics_vector(found))
        laws = [self.claimed.clip.draws.law(each, octave_axis(NAME), "upper") for each in rows.histograms]
        total += self._log_clip(found, laws[1]) - self._log_clip(found, laws[0])
        return total + additive_ratio("gaussian", self._std, (rows.sums[0], rows.sums[1]))(_second(found))

    def view(self) -> NoiseView:
        """The noise of both steps; a record whose residual is clipped moves the second one's sums by its regressors."""
        zero, one = exact_of(self.claimed, self.tables)
        used = std_of(self.claimed) > 0
        most = self.claimed.residuals.sensitivity
        moved = [most.cross, *np.zeros(len(self._std) - 2), most.response] / self._std
        shift = np.concatenate([(one - zero)[used] / std_of(self.claimed)[used], moved])

        def seen(noise: NoiseSource) -> np.ndarray:
            rows, found = self._released(1, noise)
            first = (statistics_vector(found) - one)[used] / std_of(self.claimed)[used]
            return np.concatenate([first, (_second(found) - rows.sums[1]) / self._std])

        return NoiseView("gaussian", shift, seen)

    @property
    def _std(self) -> np.ndarray:
        of = self.claimed.residuals
        return np.array([*[of.cross_std] * (self.claimed.domain.width - 1), of.response_std])

    def _released(self, side: int, noise: NoiseSource) -> tuple[Watched, NoisyStatistics]:
        rows = Watched(self.tables, side)
        found = self.drawn.release(rows, noise, lambda step: None).statistics
        assert found is not None
        return rows, found

    def _log_clip(self, found: NoisyStatistics, law: CellLaw) -> float:
        """The probability of a released clip: of its cell, or of all from which the same one comes."""
        step = found.refinement
        assert step is not None
        times = self.claimed.solver.headroom(found.given(self.claimed.domain), self.claimed.residuals.cross_std)
        ends = times * cell_ends()
        first = int(np.searchsorted(ends, step.clip * (1 - 1e-9)))
        at_reach = step.clip < ends[first] * (1 - 1e-9)
        return log_from(law, first) if at_reach else log_cell(law, first)


@cache
def cell_ends() -> np.ndarray:
    """The upper end of each cell of the scale of octaves."""
    axis = octave_axis(NAME)
    return np.array([octave_size(axis.edge(cell + 1)) for cell in range(axis.cells)])


def log_from(law: CellLaw, cell: int) -> float:
    """The probability of this cell and all above it."""
    run = bisect_right(law.first, cell) - 1
    below = (law.sums[run - 1] if run else 0) + (cell - law.first[run]) * law.weights[run]
    return math.log(law.sums[-1] - below) - math.log(law.sums[-1])


def _second(found: NoisyStatistics) -> np.ndarray:
    """The sums of the second step, in units of the clip."""
    step = found.refinement
    assert step is not None
    return np.append(step.cross / step.clip, step.response / step.clip**2)


def case(spec: Spec, first: float = 1.0, second: float = 1.0) -> Case:
    """Tell all that is released of two neighbours apart; `first` and `second` are how many times too small the noise is."""
    claimed = choose_regression(spec)
    assert isinstance(claimed, Refined)
    drawn = replace(claimed, statistics=claimed.statistics.quieter(first), residuals=claimed.residuals.quieter(second))
    attacker = Attacker(claimed, drawn, [TableRows.of(claimed.domain, rows) for rows in ends_of(spec, claimed)])
    return case_of(spec, spec.release_budget, attacker.ratio, view=attacker.view())


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [statistics_finding(target, neighbours), sums_finding(target, neighbours), clip_finding(target, neighbours)]


def sums_finding(target: str, neighbours: str, wider: float = 1.0) -> Finding:
    """Sums of clipped residuals at several coefficients; `wider` is how many times too late they are clipped."""
    change = CHANGES[neighbours]
    domain = Domain((Numeric("a", -2, 5), Numeric("b", -2, 5), Numeric("y", 0, 9)), "midpoint", response="y")
    most, found = clipped_residuals(domain, change), []
    for clip in (0.03, 0.6):
        for before, after in hostile_pairs(domain, change, 60):
            for theta in (np.zeros(3), np.array([0.5, -3.0, 1e6])):
                residual = Residual.of(domain, theta)
                sums = [
                    np.array(TableRows.of(domain, rows).residual_sums(domain, residual, wider * clip).reveal())
                    for rows in (before, after)
                ]
                moved = (sums[1] - sums[0]).astype(float) / domain.steps_per_row
                found.append((float(np.linalg.norm(moved[:-1])) * wider / most.cross, "Σ x·clip(r)"))
                found.append((abs(float(moved[-1])) * wider**2 / most.response, "Σ clip(r)²"))
    ratio, note = max(found)
    claim = most.cross if note.startswith("Σ x") else most.response
    return Finding(
        "sensitivity", target, neighbours, "clips", claim, ratio * claim, len(found), ratio > ROOM, note=note
    )


def clip_finding(target: str, neighbours: str, times: float = 1.0) -> Finding:
    """Find by the exact law how far a record drives the draw of a clip apart; γ is `times` too large."""
    clip, added = ResidualClip.for_epsilon(1, PRICE), CHANGES[neighbours] == "added"
    draws = replace(clip.draws, exponent=times * clip.draws.exponent)
    domain = Domain((Numeric("a", -1, 1), Numeric("y", -1, 1)), "midpoint", response="y")
    residual, axis = Residual.of(domain, np.zeros(2)), octave_axis(NAME)
    loss = 0.0
    for around in range(-3, 4):
        # As many residuals as the rank beyond, and more or fewer; the record's is the largest, or was the smallest.
        rest = [(0.0, 0.7)] * (clip.rank + around) + [(0.0, 0.1)] * clip.rank
        tables = [[*rest, *([] if added else [(0.0, 0.01)])], [*rest, (0.0, 0.9)]]
        laws = [
            draws.law(TableRows.of(domain, rows).residual_histograms(domain, {NAME: residual}), axis, "upper")
            for rows in tables
        ]
        loss = max(loss, *(abs(log_cell(laws[1], cell) - log_cell(laws[0], cell)) for cell in range(axis.cells)))
    return Finding("price", target, neighbours, "epsilon", PRICE, loss, 7, loss > PRICE, note="the clip, by its law")


def broken(spec: Spec) -> Mapping[str, Attack]:
    target, neighbours = "regression refined", spec.privacy.neighbours
    return {
        "noise ÷ √3": measured(lambda: case(spec, math.sqrt(3), math.sqrt(3))),
        "noise of the second step ÷ 3": measured(lambda: case(spec, second=3.0)),
        "residuals clipped at twice the size": found_without_noise(lambda: sums_finding(target, neighbours, wider=2.0)),
        "γ of the clip twice as large": found_without_noise(lambda: clip_finding(target, neighbours, times=2.0)),
    }


TARGET = Target("regression", "refined", case, noise_free, broken)
