"""The second step of a refined regression: how its coefficients come from what was released, and how sure they are.

Post-processing: no cost. All in scaled coordinates. With G = Σ x xᵀ, released as G + E, H = (G + E)⁻¹, β the least squares of
the rows and θ₀ the start, the released sum g = Σ x·(y − x·θ₀) + e is G(β − θ₀) + e where nothing is clipped, so that
    θ₀ + H·g − β = H·E·(θ₀ − β) + H·e.
The noise of the matrix is multiplied by what the start was off by: it is of second order, and given the start its covariance
is that of E along θ₀ − β, which the estimate tells. As the start has the same noise, θ₀ − β = −H·E·β + ..., its mean is not
zero: E[−H·E·H·E·β] = −H·M·β with M = E[E·H·E], which is added again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpspark.exact.residuals import octave_axis, octaves
from dpspark.mechanisms.regression.ridge import RidgeRule, invert_with_ridge
from dpspark.mechanisms.regression.solver import NO_INTERVAL, SHRUNK, Solver
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise

# The head-room that is tried, and how many times longer than an exponential one the tail is that it is made for.
HEADROOMS = tuple(1 + step / 20 for step in range(41))
LONGER_TAIL = 4.0
ENOUGH_ROWS = 100  # times the rank of the clip, for intervals: of fewer rows too many residuals may be clipped
FEW_ROWS = (
    "There are about {rows:,.0f} rows, fewer than {enough:,}: the residuals that were clipped may bias the estimates by more "
    "than an interval would say."
)


@dataclass(frozen=True)
class RefinedNoise(StatisticsNoise):
    """Also of the sums of clipped residuals, in units of the clip and of its square."""

    residual_cross_std: float
    residual_response_std: float


@dataclass(frozen=True)
class Refinement:
    """What the second step released."""

    start: np.ndarray  # the coefficients that the residuals are of
    clip: float
    cross: np.ndarray  # Σ x·clip(r), with noise
    response: float  # Σ clip(r)², with noise
    noise: RefinedNoise

    @property
    def cross_std(self) -> float:
        return self.noise.residual_cross_std * self.clip

    @property
    def response_std(self) -> float:
        return self.noise.residual_response_std * self.clip**2


@dataclass(frozen=True)
class RefinedSolver(Solver):
    """θ₀ + H·g, and H·M times that where the signal is strong enough for a correction; `rank` is the clip's."""

    rule: RidgeRule
    rank: int

    @property
    def bootstrapped(self) -> bool:
        return False

    def start(self, statistics: NoisyStatistics) -> np.ndarray:
        """Find the coefficients that the second step starts from. Anything will do, if it is a number."""
        return np.nan_to_num(self.rule.solve(statistics), posinf=0.0, neginf=0.0)

    def headroom(self, statistics: NoisyStatistics, cross_std: float) -> float:
        """Find how many times larger than what was drawn the clip is, from the first step alone.

        With so much head-room h the noise adds h²·c²·cross_std²·tr(H) to the squared error of all rows' fits; a one-sided
        exponential tail, of which k of n residuals are beyond c, biases it by k·(k/n)^(h−1)·c/ln(n/k) residuals, whose square
        over n is added. The least sum for a tail that is LONGER_TAIL times as long: c is in all of it, and does not matter.
        """
        inverse, _ = invert_with_ridge(self.rule, statistics)
        spread = cross_std**2 * max(0.0, float(np.trace(inverse)))
        rows = max(float(statistics.squares[0, 0]), 2.0 * self.rank)
        share = self.rank / rows
        beyond = LONGER_TAIL * self.rank / -math.log(share)
        return min(HEADROOMS, key=lambda h: h * h * spread + (beyond * share ** (h - 1)) ** 2 / rows)

    def solve(self, statistics: NoisyStatistics) -> np.ndarray:
        found = _refinement(statistics)
        inverse, ridge = invert_with_ridge(self.rule, statistics)
        theta = found.start + inverse @ found.cross
        if ridge > 0:
            return theta
        factor = np.linalg.cholesky(inverse)  # enough signal: it is positive definite
        return theta + inverse @ statistics.squares_noise.spread(factor, statistics.squares) @ theta

    def equations(self, statistics: NoisyStatistics) -> NoisyStatistics:
        """The regression of the residuals: their squares, their products with the regressors, and the noise of both."""
        found = _refinement(statistics)
        noise = replace(statistics.noise, cross_std=found.cross_std, response_std=found.response_std)
        return NoisyStatistics(statistics.squares, found.cross, found.response, None, noise, statistics.known)

    def direction(self, statistics: NoisyStatistics, theta: np.ndarray) -> np.ndarray:
        return theta - _refinement(statistics).start

    def why_none(self, statistics: NoisyStatistics) -> str:
        rows, enough = float(statistics.squares[0, 0]), ENOUGH_ROWS * self.rank
        return "" if rows >= enough else FEW_ROWS.format(rows=max(0.0, rows), enough=enough)

    def again(self, truth: NoisyStatistics, cross: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError("intervals of refined are by the delta method")

    def status(self, statistics: NoisyStatistics) -> str:
        return SHRUNK if invert_with_ridge(self.rule, statistics)[1] > 0 else NO_INTERVAL

    def consistent(self, statistics: NoisyStatistics) -> bool:
        """Tell whether start and clip follow from the first step, as far as that is known: the clip was drawn."""
        found = _refinement(statistics)
        wanted = self.start(statistics)
        near = np.abs(found.start - wanted).max() <= 1e-5 * max(1.0, float(np.abs(wanted).max()))
        axis = octave_axis("")
        drawn = found.clip / self.headroom(statistics, found.noise.residual_cross_std)
        edge = (float(octaves(np.array([drawn]))[0]) - axis.lowest) * axis.cells / (axis.highest - axis.lowest)
        return bool(near) and abs(edge - round(edge)) < 1e-6 and 1 <= round(edge) <= axis.cells


def _refinement(statistics: NoisyStatistics) -> Refinement:
    found = statistics.refinement
    if found is None:
        raise ValueError("these statistics have no second step")
    return found
