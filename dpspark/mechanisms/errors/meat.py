"""Discrete Gaussian noise on the meats Σ r²·x xᵀ of some regressions: the middle of the sandwich H M H of robust errors.

Residuals r = y − xβ are of coefficients that were released with noise, clipped to ±R. What gets noise is
    Σ (r² − R²/2)·x xᵀ,
half as far from one row as Σ r²·x xᵀ is; R²/2 times the released Σ x xᵀ is added afterwards, which costs nothing. Everything
is in units of R²/2 until R, which is found by mechanisms.errors.clip, is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dpspark.core.domain import FINEST_BITS, Domain
from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.residuals import ExactSums, meat_steps
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.errors.asked import AskedErrors
from dpspark.mechanisms.errors.score_map import ScoreNoise
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoiseModel
from dpspark.mechanisms.gram.turned_noise import turned
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.cost import same
from dpspark.privacy.noise import LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import Sensitivity, meats_together, residual_meat

SAME_SHARE = 1e-9  # relative: several roundings
OTHER_GRID = "errors: grid_bits are not those of the matrix"


@dataclass(frozen=True)
class NoisyMeat:
    """Σ (r² − R²/2)·x xᵀ with noise, in scaled coordinates, and the noise: of one regression."""

    matrix: np.ndarray
    noise: AdditiveNoise | ScoreNoise
    clip: float  # R, in half-ranges of the response; 0 where nothing was taken off


@dataclass(frozen=True)
class Meats:
    """The meats of all regressions, with one standard deviation in units of R²/2.

    Privacy
        Unit         one record: `each` says how far it moves each meat
        Requires     every row inside `domain` (bounds.grid_rows); residuals of coefficients, and clips, that are published
        Sensitivity  sensitivity.residual_meat of each; sensitivity.meats_together of all
        Guarantee    mu = sensitivity / sigma: a Gaussian mechanism beside that of the release, with which it composes
                     adaptively, mu² to mu²; the mechanism that has it prices both as one. The clip is drawn between them,
                     within a budget of its own that is added: interleaved mechanisms cost what they cost one after another
        Source       White (1980); Dong, Roth & Su (2022), Corollary 3.3, for the composition; Vadhan & Zhang (2023) for what
                     is interleaved
        Public       formulas, column names, bounds, sigma; the clips, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_meats.py
    """

    domain: Domain  # of the release, on the finest grid on which this noise can be drawn
    asked: AskedErrors
    each: tuple[Sensitivity, ...]  # in units of R²/2
    mu: float

    @classmethod
    def at(cls, problem: Problem, mu: float) -> Self:
        """Calibrate with the finest grid on which this noise can be drawn."""
        found = cls._for(problem, mu)
        domain = problem.domain.with_bits(FINEST_BITS)
        while domain.bits > 0 and found.sigma * meat_steps(domain) > LARGEST_SIGMA:
            domain = domain.with_bits(domain.bits - 1)
        if not 0 < found.sigma * meat_steps(domain) <= LARGEST_SIGMA:
            raise ConfError(
                "release.errors_share: the budget asks for more noise than can be drawn. Use a larger share or epsilon."
            )
        return replace(found, domain=domain)

    @classmethod
    def _for(cls, problem: Problem, mu: float) -> Self:
        asked, records = problem.errors, problem.records
        assert asked is not None
        domains = [one.regressors(problem.domain) for one in asked.regressions]
        each = tuple(residual_meat(domain, records.change, records.rows) for domain in domains)
        return cls(problem.domain, asked, each, mu)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts) -> Self:
        """Read it back from a manifest: the smallest of what its standard deviations say of sigma."""
        found = cls._for(problem, 1.0)
        domain = problem.domain.with_bits(FINEST_BITS)
        stds = [
            min(one.positive("diagonal_std"), one.positive("off_diagonal_std") * _ratio(of))
            for of, one in zip(found.each, facts.parts("regressions"), strict=True)
        ]
        domain = domain.with_bits(min(domain.bits, facts.whole("grid_bits", 0)))
        return replace(found, domain=domain, mu=found.together / min(stds))

    def on_grid_of(self, matrix: Domain) -> Self:
        """Take the grid of the matrix, R²/2 times which is added to them: both are of the very same rows."""
        return replace(self, domain=self.domain.with_bits(matrix.bits))

    def is_on_grid_of(self, matrix: Domain) -> bool:
        return self.domain.bits == matrix.bits

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states of them and is not so. What is of a release's whole mu, its mechanism compares."""
        told, own, differs = stated.parts("regressions"), self.facts(), []
        if stated.text("kind") != own["kind"] or [one.text("formula") for one in told] != list(self.asked.texts):
            differs.append("errors: of other regressions, or of another kind, than asked for")
        numbers = ("sensitivity", "diagonal_std", "off_diagonal_std")
        pairs = [
            (one.number(key), found[key])
            for one, found in zip(told, own["regressions"], strict=True)
            for key in numbers
        ]
        if not all(same(*pair) for pair in pairs):
            differs.append("errors: the sensitivity or the noise of a meat")
        if not all(same(stated.number(key), own[key]) for key in ("mu", "sensitivity", "share_of_mu_squared")):
            differs.append("errors: mu, sensitivity or share_of_mu_squared")
        if stated.whole("grid_bits", 0) != self.domain.bits:
            differs.append("errors: grid_bits")
        named = (one.says(found, "norm", "because") for one, found in zip(told, own["regressions"], strict=True))
        if not (stated.says(own, "unit") and all(named)):
            differs.append("errors: unit, norm or because")
        return tuple(differs)

    @property
    def together(self) -> float:
        return meats_together(self.each)

    @property
    def sigma(self) -> float:
        """The standard deviation, of every entry (spherical) or of the diagonal (symmetric), in units of R²/2."""
        return self.together / self.mu * (1 + 1e-12) if self.mu > 0 else math.inf

    def noise(self, at: int, clip: float = math.sqrt(2.0)) -> AdditiveNoise:
        """The noise of one meat at a clip R; by default in units of R²/2."""
        size = clip * clip / 2
        return AdditiveNoise(self.sigma * size, self._off(at) * size)

    def law_of(self, at: int) -> NoiseModel:
        """What is left of the noise of one meat, in units of R²/2, once what is known of such a matrix is put in.

        In the coordinates of analyses.
        """
        regressors = self.asked.regressions[at].regressors(self.domain)
        return turned(self.noise(at).given(regressors.known), regressors)

    def _off(self, at: int) -> float:
        spherical = self.each[at].shape == "spherical"
        return self.sigma if spherical else math.nextafter(self.sigma / math.sqrt(2), math.inf)

    @property
    def distance(self) -> float:
        """Total variation between the noise and a rounded continuous Gaussian's, of all entries."""
        steps, total = meat_steps(self.domain), 0.0
        for at in range(len(self.each)):
            width = len(self._places(at))
            total += distance_from_rounded(width, self.sigma * steps)
            total += distance_from_rounded(width * (width - 1) // 2, self._off(at) * steps)
        return min(1.0, total)

    def _places(self, at: int) -> tuple[int, ...]:
        return self.asked.regressions[at].places(self.domain)

    def release(self, exact: ExactSums, clips: Sequence[float], noise: NoiseSource) -> tuple[NoisyMeat, ...]:
        """Draw the noise, once, and add it."""
        steps, values, found = meat_steps(self.domain), iter(exact.reveal()), []
        for at, clip in enumerate(clips):
            width = len(self._places(at))
            diagonal = iter(noise.discrete_gaussian(self.sigma * steps, width))
            off = iter(noise.discrete_gaussian(self._off(at) * steps, width * (width - 1) // 2))
            matrix = np.zeros((width, width))
            for i in range(width):
                for j in range(i, width):
                    noisy = next(values) + (next(diagonal) if i == j else next(off))
                    matrix[i, j] = matrix[j, i] = noisy / steps * (clip * clip / 2)
            found.append(NoisyMeat(matrix, self.noise(at, clip), clip))
        return tuple(found)

    def for_domain(self, domain: Domain) -> Self:
        """Make the same for other bounds: the sensitivity of scaled rows does not depend on them."""
        return replace(self, domain=replace(domain, bits=self.domain.bits))

    def facts(self) -> dict[str, Any]:
        """List for the manifest every number needed to recompute the guarantee: in units of R²/2."""
        each = [
            {
                "formula": text,
                "sensitivity": one.value,
                "norm": "l2 of the upper triangle" if one.shape == "spherical" else "Frobenius",
                "because": one.reason,
                "diagonal_std": self.sigma,
                "off_diagonal_std": self._off(at),
            }
            for at, (text, one) in enumerate(zip(self.asked.texts, self.each, strict=True))
        ]
        return {
            "kind": self.asked.kind,
            "unit": "half of the squared clip of its residuals",
            "share_of_mu_squared": self.asked.share,
            "mu": self.mu,
            "sensitivity": self.together,
            "grid_bits": self.domain.bits,
            "regressions": each,
        }


def split_mu(problem: Problem, mu: float) -> tuple[float, Meats | None]:
    """Divide mu between a release and the meats that are asked for beside it; it has all of it where none are."""
    if problem.errors is None:
        return mu, None
    own, rest = problem.errors.split(mu)
    return own, _class_of(problem.errors).at(problem, rest)


def read_meats(problem: Problem, facts: Facts) -> Meats | None:
    """Read the meats of a manifest's mechanism, where the spec asks for them."""
    if problem.errors is None:
        return None
    return _class_of(problem.errors).from_facts(problem, facts.part("errors"))


def _class_of(asked: AskedErrors) -> type[Meats]:
    from dpspark.mechanisms.errors.cluster_meat import ClusterMeats

    return Meats if asked.by is None else ClusterMeats


def mu_with(own: float, meats: Meats | None) -> float:
    """Compute mu of a release and its meats together."""
    return own if meats is None else math.hypot(own, meats.mu)


def share_differs(own: float, meats: Meats | None) -> tuple[str, ...]:
    """Say it where the meats have another part of mu² than was asked for."""
    if meats is None or abs(meats.mu**2 / (own**2 + meats.mu**2) / meats.asked.share - 1) <= SAME_SHARE:
        return ()
    return ("errors: another share of mu² than asked for",)


def _ratio(sensitivity: Sensitivity) -> float:
    return 1.0 if sensitivity.shape == "spherical" else math.sqrt(2)
