"""The second step of a refined regression: how its coefficients come from what was released, and how sure they are.

Post-processing: no cost. All in scaled coordinates. With G = Σ x xᵀ, released as G + E, H = (G + E)⁻¹, β the least squares of
the rows and θ₀ the start, the released sum g = Σ x·(y − x·θ₀) + e is G(β − θ₀) + e where nothing is clipped, so that
    θ₀ + H·g − β = H·E·(θ₀ − β) + H·e.
The noise of the matrix is multiplied by what the start was off by: it is of second order, and given the start its covariance
is that of E along θ₀ − β, which the estimate tells (or its usual size, if that is more). The start has the same noise: as
θ₀ − β = −H·E·β + ..., the mean is not zero but E[−H·E·H·E·β] = −H·M·β with M = E[E·H·E], which is added again. A ridge in H
adds itself to E.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from dpspark.exact.residuals import octave_axis, octaves
from dpspark.mechanisms.regression.ridge import RidgeRule, invert_with_ridge
from dpspark.mechanisms.regression.solver import NO_INTERVAL, SHRUNK, Solver
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise

# The head-room that is tried, and how many times longer than an exponential one the tail is that it is made for.
HEADROOMS = tuple(1 + step / 20 for step in range(41))
LONGER_TAIL = 4.0
START_RIDGE, STEP_RIDGE = 0.5, 0.25  # parts of the ridge that both steps have where there is enough signal
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
    """θ₀ + H·g, and H·M times that where the signal is strong enough for a correction; `rank` is the clip's.

    Where the noise drowns the signal, both steps have the ridge of the `rule`; else a part of it, which is small beside the
    noise: it keeps what a start that is far off does to the second step within bounds.
    """

    rule: RidgeRule
    rank: int

    @property
    def bootstrapped(self) -> bool:
        return False

    @property
    def step_ridge(self) -> float:
        return STEP_RIDGE * self.rule.amount

    def start(self, statistics: NoisyStatistics) -> np.ndarray:
        """Find the coefficients that the second step starts from. Anything will do, if it is a number."""
        found = self._inverse(statistics, START_RIDGE * self.rule.amount)[0] @ statistics.cross
        return np.nan_to_num(found, posinf=0.0, neginf=0.0)

    def headroom(self, statistics: NoisyStatistics, cross_std: float) -> float:
        """Find how many times larger than what was drawn the clip is, from the first step alone.

        With so much head-room h the noise adds h²·c²·cross_std²·tr(H) to the squared error of all rows' fits; a one-sided
        exponential tail, of which k of n residuals are beyond c, biases it by k·(k/n)^(h−1)·c/ln(n/k) residuals, whose square
        over n is added. The least sum for a tail that is LONGER_TAIL times as long: c is in all of it, and does not matter.
        """
        inverse, _ = self._inverse(statistics, self.step_ridge)
        spread = cross_std**2 * max(0.0, float(np.trace(inverse)))
        rows = max(float(statistics.squares[0, 0]), 2.0 * self.rank)
        share = self.rank / rows
        beyond = LONGER_TAIL * self.rank / -math.log(share)
        return min(HEADROOMS, key=lambda h: h * h * spread + (beyond * share ** (h - 1)) ** 2 / rows)

    def clip(self, drawn: float, statistics: NoisyStatistics, start: np.ndarray, cross_std: float) -> float:
        """Find where residuals are clipped: no later than where there can be none, as |y| <= 1 and |x| <= 1."""
        return min(drawn * self.headroom(statistics, cross_std), _reach(start))

    def solve(self, statistics: NoisyStatistics) -> np.ndarray:
        found = _refinement(statistics)
        inverse, enough = self._inverse(statistics, self.step_ridge)
        theta = found.start + inverse @ found.cross
        if not enough:
            return theta
        factor = np.linalg.cholesky(inverse)
        return theta + inverse @ statistics.squares_noise.spread(factor, statistics.squares) @ theta

    def _inverse(self, statistics: NoisyStatistics, ridge: float) -> tuple[np.ndarray, bool]:
        """Invert Σ x xᵀ, with this ridge where there is enough signal: then it is positive definite. Also say whether."""
        inverse, added = invert_with_ridge(self.rule, statistics)
        if added > 0:
            return inverse, False
        return np.linalg.inv(statistics.squares + ridge * np.eye(len(inverse))), True

    def equations(self, statistics: NoisyStatistics) -> NoisyStatistics:
        """The regression of the residuals: their squares, their products with the regressors, and the noise of both."""
        found = _refinement(statistics)
        noise = replace(statistics.noise, cross_std=found.cross_std, response_std=found.response_std)
        return NoisyStatistics(statistics.squares, found.cross, found.response, None, noise, statistics.known)

    def direction(self, statistics: NoisyStatistics, theta: np.ndarray) -> np.ndarray:
        """What the start was off by, or as much as it usually is: a small one may be chance, as its noise is in both steps."""
        found, squares = theta - _refinement(statistics).start, statistics.squares
        inverse, ridge = self._inverse(statistics, START_RIDGE * self.rule.amount)[0], START_RIDGE * self.rule.amount
        noise = statistics.squares_noise.along(theta, squares) + statistics.noise.cross_std**2 * np.eye(len(theta))
        usual = inverse @ (noise + ridge**2 * np.outer(theta, theta)) @ inverse
        size = float(found @ squares @ found)
        return found * math.sqrt(max(1.0, float(np.trace(usual @ squares)) / size)) if size > 0 else found

    def beyond_clip(self, statistics: NoisyStatistics, sigma2: float) -> tuple[float, float]:
        """The share of residuals that are likely beyond the clip, and the mean of max(0, |r| − clip) over all of them, in σ.

        Sizes of residuals are taken as log-normal with σ² for their mean square, and `rank` of them beyond what was drawn: a
        drawn size of many σ means a long tail. It is the longest such tail where even that does not reach what was drawn.
        """
        found, sigma = _refinement(statistics), math.sqrt(max(sigma2, 1e-300))
        share = self.rank / max(float(statistics.squares[0, 0]), 2.0 * self.rank)
        clip, depth = found.clip / sigma, float(ndtri(1 - share))
        drawn = clip / self.headroom(statistics, found.noise.residual_cross_std)
        spread = max((depth - math.sqrt(max(0.0, depth**2 - 4 * math.log(max(drawn, 1.0))))) / 2, 1e-3)
        away = (math.log(clip) + spread**2) / spread  # log|r| has the mean −spread²
        return float(ndtr(-away)), max(
            0.0, float(math.exp(-(spread**2) / 2) * ndtr(spread - away) - clip * ndtr(-away))
        )

    def why_none(self, statistics: NoisyStatistics) -> str:
        rows, enough = float(statistics.squares[0, 0]), ENOUGH_ROWS * self.rank
        return "" if rows >= enough else FEW_ROWS.format(rows=max(0.0, rows), enough=enough)

    def again(self, truth: NoisyStatistics, cross: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError("intervals of refined are by the delta method")

    def status(self, statistics: NoisyStatistics) -> str:
        return NO_INTERVAL if self._inverse(statistics, 0.0)[1] else SHRUNK

    def consistent(self, statistics: NoisyStatistics) -> bool:
        """Tell whether start and clip follow from the first step, as far as that is known: the clip was drawn."""
        found = _refinement(statistics)
        wanted = self.start(statistics)
        near = np.abs(found.start - wanted).max() <= 1e-5 * max(1.0, float(np.abs(wanted).max()))
        if abs(found.clip / _reach(found.start) - 1) < 1e-9:
            return bool(near)
        axis = octave_axis("")
        drawn = found.clip / self.headroom(statistics, found.noise.residual_cross_std)
        edge = (float(octaves(np.array([drawn]))[0]) - axis.lowest) * axis.cells / (axis.highest - axis.lowest)
        return bool(near) and abs(edge - round(edge)) < 1e-6 and 1 <= round(edge) <= axis.cells


def _reach(start: np.ndarray) -> float:
    return 1.0 + float(np.abs(start).sum())


def _refinement(statistics: NoisyStatistics) -> Refinement:
    found = statistics.refinement
    if found is None:
        raise ValueError("these statistics have no second step")
    return found
