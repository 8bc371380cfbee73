"""Discrete Gaussian noise on the meats Σ s·sᵀ of clusters' scores, on the number of clusters and on what tells clipping.

s is the sum of x·clip(r, ±R) over a cluster's rows, shortened to a norm of C. What one row, or one person who is a cluster,
moves Σ s·sᵀ by is a public function of C and R: sensitivity.cluster_step. Everything is in units of it until C, which is found
by mechanisms.errors.score_bounds, is known.

Beside the meats: the number of clusters, which t has its degrees of freedom by; Σ clip(r)² in R², which tells how much
residuals were clipped; and Σ ‖t‖ of sums that were not shortened, in scores of a row, which tells how much of them a bound can
leave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dpspark.core.domain import FINEST_BITS, SCORE_STEPS
from dpspark.core.facts import Facts
from dpspark.core.records import Clusters
from dpspark.errors import ConfError
from dpspark.exact.scores import EDGES, ExactScoreGrams, ExactScoreNorms
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.errors.asked import AskedErrors
from dpspark.mechanisms.errors.meat import Meats, NoisyMeat
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.cost import same
from dpspark.privacy.noise import LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import (
    Sensitivity,
    cluster_count,
    cluster_step,
    cluster_steps,
    norm_step,
    row_scores_moved,
    squares_moved,
)

# Of the meats' mu²: the meats themselves, and the numbers beside them.
PARTS = {"meats": 0.7, "count": 0.15, "squares": 0.1, "totals": 0.05}


@dataclass(frozen=True)
class NoisyClusters:
    """The numbers beside the meats, with noise."""

    count: float
    squares: tuple[float, ...]  # in R², of each regression
    totals: tuple[float, ...]  # in scores of a row

    def to_manifest(self, targets: Sequence[float]) -> dict[str, Any]:
        """Say it, beside what the bounds were asked to take away, in scores of a row."""
        totals, squares = list(self.totals), list(self.squares)
        return {"count": self.count, "squares": squares, "totals": totals, "targets": list(targets)}


@dataclass(frozen=True)
class ClusterMeats(Meats):
    """The meats of all regressions, and what is beside them, calibrated together.

    Privacy
        Unit         one record: `Clusters` says which clusters it can change
        Requires     every row inside `domain` (bounds.grid_rows); coefficients, clips of residuals and bounds of scores that
                     are published
        Sensitivity  sensitivity.cluster_steps of sensitivity.cluster_step; sensitivity.cluster_count, sensitivity.squares_moved
                     and sensitivity.row_scores_moved beside it
        Guarantee    mu² is the sum of (sensitivity / sigma)² over all of it: a Gaussian mechanism beside that of the release,
                     with which it composes adaptively; the mechanism that has it prices both as one
        Source       Liang & Zeger (1986); Dong, Roth & Su (2022), Corollary 3.3, for the composition
        Public       formulas, column names, bounds, every sigma; clips and bounds of scores, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_cluster_errors.py, tests/privacy/test_cluster_sensitivity.py
    """

    parts: tuple[float, ...] = tuple(PARTS.values())  # of mu², in the order of PARTS

    @classmethod
    def at(cls, problem: Problem, mu: float) -> Self:
        found = cls._of(problem, mu)
        if not 0 < found.sigma * SCORE_STEPS**2 <= LARGEST_SIGMA or not found.distance < 1:
            raise ConfError(
                "release.errors_share: the budget asks for noise that cannot be drawn. Use another share or epsilon."
            )
        return found

    @classmethod
    def _of(cls, problem: Problem, mu: float) -> Self:
        asked = problem.errors
        assert asked is not None
        clusters = clusters_of(asked)
        reason = "a person is a cluster" if clusters.whole else f"{clusters.records.rows} rows, in any clusters"
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

    def differences(self, stated: Facts) -> tuple[str, ...]:
        own, beside = super().differences(stated), stated.part("beside")
        found = self.facts()["beside"]
        differs = [key for key, value in found.items() if not same(beside.number(key), value)]
        whole = clusters_of(self.asked).whole
        as_asked = stated.text("column") == self.asked.by and stated.flag("clusters_are_people") == whole
        by = [] if as_asked else ["errors: clusters by another column than asked for"]
        shares = zip(self.parts, PARTS.values(), strict=True)
        split = [] if all(abs(part / share - 1) < 1e-9 for part, share in shares) else ["errors: another split of mu²"]
        return (*own, *by, *split, *(f"errors: {key}" for key in differs))

    @property
    def moved_beside(self) -> dict[str, float]:
        """How far one record moves what is beside the meats, all regressions together."""
        clusters, root = clusters_of(self.asked), math.sqrt(len(self.each)) * (1 + 1e-12)
        return {
            "count": float(cluster_count(clusters)),
            "squares": squares_moved(clusters) * root,
            "totals": row_scores_moved(clusters) * root,
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

    def step(self, at: int, radius: int) -> float:
        """What one step moves a regression's meat by, in C²."""
        regressors = self.asked.regressions[at].regressors(self.domain)
        return cluster_step(clusters_of(self.asked), regressors, radius)

    @property
    def distance(self) -> float:
        """The same as of other meats, with the widest bounds: there the noise has the fewest steps."""
        widest, total = int(EDGES[-1]), 0.0
        for at in range(len(self.each)):
            width, unit = len(self._places(at)), self.step(at, widest) * SCORE_STEPS**2
            total += distance_from_rounded(width, self.sigma * unit)
            total += distance_from_rounded(width * (width - 1) // 2, self._off(at) * unit)
        for name, std in self.stds_beside().items():
            entries = 1 if name == "count" else len(self.each)
            total += distance_from_rounded(entries, std * SCORE_STEPS)
        return min(1.0, total)

    def release_clusters(
        self, norms: ExactScoreNorms, grams: ExactScoreGrams, clips: Sequence[float], noise: NoiseSource
    ) -> tuple[tuple[NoisyMeat, ...], NoisyClusters]:
        """Draw the noise, once, and add it."""
        meats = tuple(
            self._release_one(at, grams.reveal(at), clip, radius, noise)
            for at, (clip, radius) in enumerate(zip(clips, grams.radii, strict=True))
        )
        return meats, self._release_beside(norms, noise)

    def _release_one(self, at: int, exact: Sequence[int], clip: float, radius: int, noise: NoiseSource) -> NoisyMeat:
        width, values = len(self._places(at)), iter(exact)
        steps, size = self.step(at, radius) * SCORE_STEPS**2, (clip * radius / SCORE_STEPS**2) ** 2
        diagonal = iter(noise.discrete_gaussian(self.sigma * steps, width))
        off = iter(noise.discrete_gaussian(self._off(at) * steps, width * (width - 1) // 2))
        matrix = np.zeros((width, width))
        for i in range(width):
            for j in range(i, width):
                noisy = next(values) + (next(diagonal) if i == j else next(off))
                matrix[i, j] = matrix[j, i] = noisy * size
        unit = self.unit(at, clip, radius)
        return NoisyMeat(matrix, AdditiveNoise(self.sigma * unit, self._off(at) * unit), 0.0)

    def _release_beside(self, norms: ExactScoreNorms, noise: NoiseSource) -> NoisyClusters:
        stds, every = self.stds_beside(), range(len(self.each))
        count = norms.reveal_count() * SCORE_STEPS + noise.discrete_gaussian(stds["count"] * SCORE_STEPS, 1)[0]
        squares = noise.discrete_gaussian(stds["squares"] * SCORE_STEPS, len(self.each))
        rows = [norm_step(one.regressors(self.domain)) for one in self.asked.regressions]
        totals = [noise.discrete_gaussian(stds["totals"] * row, 1)[0] for row in rows]
        return NoisyClusters(
            count / SCORE_STEPS,
            tuple((norms.reveal_squares(at) + squares[at]) / SCORE_STEPS for at in every),
            tuple((norms.reveal_excess(at)[0] + totals[at]) / rows[at] for at in every),
        )

    def unit(self, at: int, clip: float, radius: int) -> float:
        """What one step moves a regression's meat by, in scaled coordinates."""
        return self.step(at, radius) * (clip * radius / SCORE_STEPS) ** 2

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


def clusters_of(asked: AskedErrors) -> Clusters:
    """What one record can change of the clusters that are asked for."""
    assert asked.clusters is not None
    return asked.clusters
