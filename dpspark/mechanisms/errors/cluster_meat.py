"""Discrete Gaussian noise on the meats Σ s·sᵀ of clusters' scores, and on what has to be known of clusters before and after.

s is the weighted sum of a cluster's scores, shortened to a norm of C. What one row, or one person who is a cluster, moves Σ
s·sᵀ by is a public function of C and of a row's largest score: sensitivity.cluster_step. The noise is in units of it.

First come the number of clusters, by which t has its degrees of freedom; Σ clip(r)² in R², which tells how much residuals were
clipped; and Σ |t_j| over clusters for each axis j, in scores of a row: the mean over clusters is the axis's scale. A regressor
that is alike within clusters has long scores, and its noise would drown the others' without that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dpspark.core.domain import FINEST_BITS, SCORE_STEPS, Domain
from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.scores import ExactScoreGrams, ExactScoreTotals
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.errors.asked import clusters_of
from dpspark.mechanisms.errors.meat import Meats, NoisyMeat
from dpspark.mechanisms.errors.score_map import ScoreMap, ScoreNoise, scales_of
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.cost import same
from dpspark.privacy.noise import LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import (
    LEAST_STEP,
    Sensitivity,
    cluster_count,
    cluster_step,
    cluster_steps,
    row_scores_moved,
    squares_moved,
)

# Of the meats' mu²: the meats themselves, and the numbers beside them.
PARTS = {"meats": 0.7, "count": 0.1, "squares": 0.05, "totals": 0.15}


@dataclass(frozen=True)
class NoisyClusters:
    """The numbers beside the meats, with noise."""

    count: float
    squares: tuple[float, ...]  # in R², of each regression
    totals: tuple[tuple[float, ...], ...]  # of each axis, in the longest score of a row on it

    def to_manifest(self) -> dict[str, Any]:
        return {"count": self.count, "squares": list(self.squares), "totals": [list(each) for each in self.totals]}

    @property
    def scales(self) -> tuple[tuple[int, ...], ...]:
        return tuple(scales_of(totals, self.count) for totals in self.totals)


@dataclass(frozen=True)
class ClusterMeats(Meats):
    """The meats of all regressions, and what is beside them, calibrated together.

    Privacy
        Unit         one record: `Clusters` says which clusters it can change
        Requires     every row inside `domain` (bounds.grid_rows); coefficients, clips of residuals, axes and scales, and
                     bounds of scores that are published
        Sensitivity  sensitivity.cluster_steps of sensitivity.cluster_step; sensitivity.cluster_count, sensitivity.squares_moved
                     and sensitivity.row_scores_moved beside it
        Guarantee    mu² is the sum of (sensitivity / sigma)² over all of it: a Gaussian mechanism beside that of the release,
                     with which it composes adaptively; the mechanism that has it prices both as one
        Source       Liang & Zeger (1986); Dong, Roth & Su (2022), Corollary 3.3, for the composition
        Public       formulas, column names, bounds, every sigma; clips, scales and bounds of scores, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_cluster_errors.py, tests/privacy/test_cluster_sensitivity.py
    """

    parts: tuple[float, ...] = tuple(PARTS.values())  # of mu², in the order of PARTS

    @classmethod
    def at(cls, problem: Problem, mu: float) -> Self:
        found = cls._of(problem, mu)
        if not 0 < found.sigma * SCORE_STEPS**2 <= LARGEST_SIGMA:
            raise ConfError(
                "release.errors_share: the budget asks for noise that cannot be drawn. Use another share or epsilon."
            )
        return found

    @classmethod
    def _of(cls, problem: Problem, mu: float) -> Self:
        asked = problem.errors
        assert asked is not None
        clusters = clusters_of(asked)
        rows = clusters.records.rows
        reason = "a person is a cluster" if clusters.whole else f"{rows} row{'s' if rows > 1 else ''}, in any cluster"
        one = Sensitivity(cluster_steps(clusters), "symmetric", False, reason)
        return cls(problem.domain.with_bits(FINEST_BITS), asked, (one,) * len(asked.regressions), mu)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts) -> Self:
        """Read it back from a manifest: mu and its parts are those of the standard deviations that are stated."""
        found = cls._of(problem, 1.0)
        stds = [
            min(one.positive("diagonal_std"), one.positive("off_diagonal_std") * math.sqrt(2))
            for one in facts.parts("regressions")
        ]
        beside = facts.part("beside")
        spent = [(found.together / min(stds)) ** 2]
        for name, moved in found.moved_beside.items():
            spent.append((moved / beside.positive(f"{name}_std")) ** 2)
        total = math.fsum(spent)
        domain = found.domain.with_bits(min(found.domain.bits, facts.whole("grid_bits", 0)))
        return replace(found, domain=domain, mu=math.sqrt(total), parts=tuple(part / total for part in spent))

    def on_grid_of(self, matrix: Domain) -> Self:
        """Keep the grid of scores: no matrix is added to them."""
        return self

    def is_on_grid_of(self, matrix: Domain) -> bool:
        return True

    def differences(self, stated: Facts) -> tuple[str, ...]:
        own, beside = super().differences(stated), stated.part("beside")
        found = self.facts()["beside"]
        differs = [key for key, value in found.items() if not same(beside.number(key), value)]
        whole = clusters_of(self.asked).whole
        as_asked = stated.text("column") == self.asked.by and stated.flag("clusters_are_people") == whole
        by = [] if as_asked else ["errors: clusters by another column than asked for"]
        shares = zip(self.parts, PARTS.values(), strict=True)
        told = stated.part("parts_of_mu_squared")
        as_told = all(same(told.number(name), part) for name, part in zip(PARTS, self.parts, strict=True))
        even = as_told and all(abs(part / share - 1) < 1e-9 for part, share in shares)
        split = [] if even else ["errors: another split of mu²"]
        return (*own, *by, *split, *(f"errors: {key}" for key in differs))

    @property
    def moved_beside(self) -> dict[str, float]:
        """How far one record moves what is beside the meats, all regressions together.

        Σ |t_j| as a vector over the axes of all regressions: each row moves each of them by an axis's longest score at most.
        """
        clusters, root = clusters_of(self.asked), math.sqrt(len(self.each)) * (1 + 1e-12)
        terms = sum(len(one.terms(self.domain)) for one in self.asked.regressions)
        return {
            "count": float(cluster_count(clusters)),
            "squares": squares_moved(clusters) * root,
            "totals": row_scores_moved(clusters) * math.sqrt(terms) * (1 + 1e-12),
        }

    @property
    def sigma(self) -> float:
        """The standard deviation of the diagonal, in units of what one step moves a meat by."""
        return self._std(self.together, 0)

    def stds_beside(self) -> dict[str, float]:
        """The standard deviations of what is beside the meats."""
        return {name: self._std(moved, at) for at, (name, moved) in enumerate(self.moved_beside.items(), 1)}

    def _std(self, moved: float, part: int) -> float:
        return moved / (self.mu * math.sqrt(self.parts[part])) * (1 + 1e-12) if self.mu > 0 else math.inf

    @property
    def distance(self) -> float:
        """The same as of other meats, where a step is the least that it can be."""
        total, unit = 0.0, LEAST_STEP * SCORE_STEPS**2
        for at in range(len(self.each)):
            width = len(self._places(at))
            total += distance_from_rounded(width, self.sigma * unit)
            total += distance_from_rounded(width * (width - 1) // 2, self._off(at) * unit)
        terms = sum(len(one.terms(self.domain)) for one in self.asked.regressions)
        entries = {"count": 1, "squares": len(self.each), "totals": terms}
        for name, std in self.stds_beside().items():
            total += distance_from_rounded(entries[name], std * SCORE_STEPS)
        return min(1.0, total)

    def release_beside(self, exact: ExactScoreTotals, noise: NoiseSource) -> NoisyClusters:
        """Draw the noise of what is beside the meats, once, and add it."""
        stds, squares, totals = self.stds_beside(), [], []
        count = exact.reveal_count() * SCORE_STEPS + noise.discrete_gaussian(stds["count"] * SCORE_STEPS, 1)[0]
        for at in range(len(self.each)):
            sizes, square = exact.reveal(at)
            drawn = noise.discrete_gaussian(stds["totals"] * SCORE_STEPS, len(sizes))
            totals.append(tuple((size + more) / SCORE_STEPS for size, more in zip(sizes, drawn, strict=True)))
            squares.append((square + noise.discrete_gaussian(stds["squares"] * SCORE_STEPS, 1)[0]) / SCORE_STEPS)
        return NoisyClusters(count / SCORE_STEPS, tuple(squares), tuple(totals))

    def release_meats(
        self, exact: ExactScoreGrams, maps: Sequence[ScoreMap], noise: NoiseSource
    ) -> tuple[NoisyMeat, ...]:
        """Draw the noise of the meats, once, and add it."""
        return tuple(self._release_one(at, exact.reveal(at), one, noise) for at, one in enumerate(maps))

    def _release_one(self, at: int, exact: Sequence[int], by: ScoreMap, noise: NoiseSource) -> NoisyMeat:
        width, values, unit = len(self._places(at)), iter(exact), self.unit(by)
        diagonal = iter(noise.discrete_gaussian(self.sigma * unit * SCORE_STEPS**2, width))
        off = iter(noise.discrete_gaussian(self._off(at) * unit * SCORE_STEPS**2, width * (width - 1) // 2))
        matrix = np.zeros((width, width))
        for i in range(width):
            for j in range(i, width):
                noisy = next(values) + (next(diagonal) if i == j else next(off))
                matrix[i, j] = matrix[j, i] = noisy / SCORE_STEPS**2
        terms = by.back @ matrix @ by.back.T
        return NoisyMeat((terms + terms.T) / 2, ScoreNoise(self.sigma * unit, by.back), 0.0)

    def relative_noise(self, width: int, score: float, count: float, radius: int) -> float:
        """Say the noise of a meat, at a bound, over what it is at least on each axis: the mean square is above 1 there."""
        step = cluster_step(clusters_of(self.asked), width, score / radius)
        return self.sigma * step * (radius / SCORE_STEPS) ** 2 / max(count, 1.0)

    def unit(self, by: ScoreMap) -> float:
        """What one step moves a meat by, in C²."""
        return cluster_step(clusters_of(self.asked), by.axes.width, by.score / by.radius)

    def facts(self) -> dict[str, Any]:
        """List for the manifest every number needed to recompute the guarantee: in units of what one step moves a meat by."""
        beside = {f"{name}_std": std for name, std in self.stds_beside().items()}
        return {
            **super().facts(),
            "unit": "what one row, or one person who is a cluster, moves it by",
            "column": self.asked.by,
            "clusters_are_people": clusters_of(self.asked).whole,
            "parts_of_mu_squared": dict(zip(PARTS, self.parts, strict=True)),
            "beside": beside,
        }
