"""Discrete Gaussian noise on the statistics of one regression: Σ x xᵀ, Σ x y, Σ y² and, if asked for, λ_min(Σ x xᵀ)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts
from dpspark.core.tables import KnownFacts
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.errors.meat import OTHER_GRID, Meats, mu_with, share_differs, split_mu
from dpspark.mechanisms.gram.base import check_count
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import Route, distance_from_rounded, largest_mu
from dpspark.privacy.cost import Cost, gaussian_cost, same
from dpspark.privacy.events import ROUNDED_UP, Event, Gaussian
from dpspark.privacy.noise import LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import EIGENVALUE_STEPS, RegressionSensitivity

if TYPE_CHECKING:
    from dpspark.mechanisms.regression.refinement import Refinement


@dataclass(frozen=True)
class Shares:
    """The part of mu² that each statistic gets; they add up to 1."""

    squares: float
    cross: float
    response: float = 0.0
    least_eigenvalue: float = 0.0


# Σ y² is for the residual variance alone, which needs little.
PLAIN = Shares(squares=0.48, cross=0.48, response=0.04)


@dataclass(frozen=True)
class StatisticsNoise:
    """Standard deviations in units of the scaled matrix."""

    diagonal_std: float
    off_diagonal_std: float
    cross_std: float
    response_std: float | None
    least_eigenvalue_std: float | None
    count_is_exact: bool

    @property
    def squares(self) -> AdditiveNoise:
        return AdditiveNoise(self.diagonal_std, self.off_diagonal_std, self.count_is_exact)


@dataclass(frozen=True)
class NoisyStatistics:
    """Unbiased estimates in scaled coordinates, the intercept first."""

    squares: np.ndarray
    cross: np.ndarray
    response: float | None
    least_eigenvalue: float | None
    noise: StatisticsNoise
    known: KnownFacts | None = None  # of the squares: it is in them already
    refinement: Refinement | None = None  # of a second step, where a mechanism has one

    @property
    def squares_noise(self) -> NoiseModel:
        """The noise of the squares, less what is known not to be signal."""
        return self.noise.squares.given(self.known)

    def given(self, domain: Domain) -> NoisyStatistics:
        """Put in what is known exactly of Σ x xᵀ. Post-processing: no cost."""
        found = replace(self, known=domain.regressors.known)
        return replace(found, squares=found.squares_noise.project(self.squares))


@dataclass(frozen=True)
class GaussianStatistics:
    """Discrete Gaussian noise on the integer statistics of bounded rows, all calibrated together.

    Privacy
        Unit         one record: `sensitivity` says how far it moves each statistic
        Requires     every row inside `domain` (bounds.grid_rows); fewer than 10¹¹ rows for λ_min
        Sensitivity  sensitivity.regression_statistics(domain, ...)
        Guarantee    mu² = Σ (sensitivity / sigma)²: (epsilon, delta) by the better of two routes, or rho
        Source       Wang (2018), AdaSSP, calibrated jointly; Balle & Wang (2018) and Canonne, Kamath & Steinke (2020) as
                     for gaussian.GaussianGram
        Public       column names, bounds, every sigma; the number of rows only if `count_is_public`
        Excluded     timing
        Tested by    tests/mechanisms/test_regression_statistics.py
    """

    domain: Domain
    sensitivity: RegressionSensitivity
    mu: float
    route: Route | str
    shares: Shares
    meats: Meats | None = None  # beside them, with a part of mu² of their own

    @classmethod
    def for_budget(
        cls,
        domain: Domain,
        sensitivity: RegressionSensitivity,
        budget: Budget,
        shares: Shares,
        problem: Problem | None = None,
    ) -> GaussianStatistics:
        """The least noise within the budget at these shares, and of the meats that the problem asks for, if it is given."""

        def both_at(mu: float, route: Route) -> GaussianStatistics:
            own, meats = (mu, None) if problem is None or mu <= 0 else split_mu(problem, mu)
            found = cls.at(domain, sensitivity, own, route, shares)
            if meats is None:
                return found
            coarser = found.domain.with_bits(min(found.domain.bits, meats.domain.bits))
            return replace(found, domain=coarser, meats=meats.on_grid_of(coarser))

        return both_at(*largest_mu(budget, lambda mu: both_at(mu, "analytic").distance))

    @classmethod
    def at(
        cls, domain: Domain, sensitivity: RegressionSensitivity, mu: float, route: Route | str, shares: Shares
    ) -> GaussianStatistics:
        """Calibrate with the finest grid on which this noise can be drawn."""
        bits = domain.most_bits
        found = cls(domain.with_bits(bits), sensitivity, mu, route, shares)
        largest = found._std(sensitivity.squares.value, shares.squares)
        largest = max(
            largest,
            found._std(sensitivity.cross, shares.cross),
            found._optional(sensitivity.response, shares.response) or 0.0,
        )
        while bits > 0 and largest * domain.with_bits(bits).steps_per_row > LARGEST_SIGMA:
            bits -= 1
        if not 0 < largest * domain.with_bits(bits).steps_per_row <= LARGEST_SIGMA:
            raise ConfError(f"The budget asks for noise of {largest:g} rows, which cannot be drawn. Use a larger one.")
        eigenvalue = found.noise.least_eigenvalue_std
        if eigenvalue is not None and not eigenvalue * EIGENVALUE_STEPS <= LARGEST_SIGMA:
            raise ConfError("The budget asks for more noise than can be drawn. Use a larger one.")
        return replace(found, domain=domain.with_bits(bits))

    @classmethod
    def from_facts(cls, domain: Domain, sensitivity: RegressionSensitivity, facts: Facts) -> GaussianStatistics:
        """Read it back from a manifest: mu and its shares are those of the standard deviations that are stated."""
        noise, squares = facts.part("noise"), sensitivity.squares
        check_count(noise.flag("count_is_exact"), squares.count_is_public)
        diagonal, off = noise.positive("diagonal_std"), noise.positive("off_diagonal_std")
        # The smaller of what both say of sigma: a tie by the shape's definition, but for rounding up off the diagonal.
        sigma = min(diagonal, off if squares.shape == "spherical" else off * math.sqrt(2))
        spent = {
            "squares": (squares.value / sigma) ** 2,
            "cross": (sensitivity.cross / noise.positive("cross_std")) ** 2,
        }
        for name, moved in (
            ("response", sensitivity.response),
            ("least_eigenvalue", sensitivity.solved_eigenvalue),
        ):
            if noise.has(f"{name}_std"):
                spent[name] = (moved / noise.positive(f"{name}_std")) ** 2
        total = sum(spent.values())
        shares = Shares(**{name: part / total for name, part in spent.items()})
        return cls(domain, sensitivity, math.sqrt(total), facts.text("calibration"), shares)

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states of it and is not so."""
        bound, sensitivity = self.sensitivity, stated.part("sensitivity")
        found = {"squares": bound.squares.value, "cross": bound.cross, "response": bound.response}
        if self.shares.least_eigenvalue:
            found["least_eigenvalue"] = bound.solved_eigenvalue
        differs = [f"sensitivity of {key}" for key, value in found.items() if not same(sensitivity.number(key), value)]
        numbers = (("mu", self.mu), ("rho", self.mu**2 / 2))
        differs += [key for key, value in numbers if not same(stated.number(key), value)]
        if self.meats is not None:
            differs += [] if self.meats.is_on_grid_of(self.domain) else [OTHER_GRID]
            differs += [*self.meats.differences(stated.part("errors")), *share_differs(self.mu, self.meats)]
        return tuple(differs)

    def quieter(self, times: float) -> GaussianStatistics:
        """Make a copy with so many times less noise, on the same grid."""
        return replace(self, mu=self.mu * times)

    def _std(self, sensitivity: float, share: float) -> float:
        return sensitivity / (self.mu * math.sqrt(share)) * (1 + 1e-12) if self.mu > 0 and share > 0 else math.inf

    def _optional(self, sensitivity: float, share: float) -> float | None:
        return self._std(sensitivity, share) if share > 0 else None

    @property
    def noise(self) -> StatisticsNoise:
        diagonal = self._std(self.sensitivity.squares.value, self.shares.squares)
        spherical = self.sensitivity.squares.shape == "spherical"
        return StatisticsNoise(
            diagonal_std=diagonal,
            off_diagonal_std=diagonal if spherical else math.nextafter(diagonal / math.sqrt(2), math.inf),
            cross_std=self._std(self.sensitivity.cross, self.shares.cross),
            response_std=self._optional(self.sensitivity.response, self.shares.response),
            least_eigenvalue_std=self._optional(self.sensitivity.solved_eigenvalue, self.shares.least_eigenvalue),
            count_is_exact=self.count_is_public,
        )

    @property
    def count_is_public(self) -> bool:
        return self.sensitivity.squares.count_is_public

    @property
    def distance(self) -> float:
        noise, steps, width = self.noise, self.domain.steps_per_row, self.domain.width - 1
        entries = [
            (noise.diagonal_std * steps, width),
            (noise.off_diagonal_std * steps, width * (width - 1) // 2),
            (noise.cross_std * steps, width),
        ]
        if noise.response_std is not None:
            entries.append((noise.response_std * steps, 1))
        if noise.least_eigenvalue_std is not None:
            entries.append((noise.least_eigenvalue_std * EIGENVALUE_STEPS, 1))
        groups = self.sensitivity.squares.groups
        found = sum(distance_from_rounded(groups * count, sigma) for sigma, count in entries if count)
        return min(1.0, found + (0.0 if self.meats is None else self.meats.distance))

    @property
    def total_mu(self) -> float:
        """Of the statistics and of the meats together."""
        return mu_with(self.mu, self.meats)

    def event(self) -> Event:
        """Say what is run, for the ledger."""
        return Gaussian.of(self.total_mu * ROUNDED_UP, self.distance)

    def cost(self) -> Cost:
        """Price it as it was calibrated: the event's rounding up would be too much for a delta below 1e-30."""
        return gaussian_cost(self.total_mu, self.distance)

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at epsilon, by either route."""
        return self.cost().delta_at(epsilon)

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyStatistics:
        """Draw the noise, once, and add it."""
        if gram.domain != self.domain:
            raise ValueError("the matrix was made for another domain")
        stds, width, unit = self.noise, self.domain.width - 1, self.domain.steps_per_row
        exact = iter(gram.reveal())
        diagonal = iter(self._draw(noise, stds.diagonal_std, width))
        off = iter(self._draw(noise, stds.off_diagonal_std, width * (width - 1) // 2))
        cross = self._draw(noise, stds.cross_std, width)
        squares, products = np.zeros((width, width)), np.zeros(width)
        for i in range(width):
            for j in range(i, width):
                value, draw = next(exact), next(diagonal) if i == j else next(off)
                public = i == j == 0 and self.count_is_public
                squares[i, j] = squares[j, i] = (value + (0 if public else draw)) / unit
            products[i] = (next(exact) + cross[i]) / unit
        response = None
        if stds.response_std is not None:
            response = (next(exact) + self._draw(noise, stds.response_std, 1)[0]) / unit
        return NoisyStatistics(squares, products, response, self._least_eigenvalue(gram, noise), stds)

    def _least_eigenvalue(self, gram: ExactGram, noise: NoiseSource) -> float | None:
        std = self.noise.least_eigenvalue_std
        if std is None:
            return None
        least = float(np.linalg.eigvalsh(scaled_matrix(gram)[:-1, :-1])[0])
        steps = math.floor(least * EIGENVALUE_STEPS) + noise.discrete_gaussian(std * EIGENVALUE_STEPS, 1)[0]
        return steps / EIGENVALUE_STEPS

    def _draw(self, noise: NoiseSource, std: float, count: int) -> list[int]:
        return noise.discrete_gaussian(std * self.domain.steps_per_row, count)

    def facts(self) -> dict[str, Any]:
        """List for the manifest every number needed to recompute the guarantee."""
        bound = self.sensitivity
        return {
            "sampler": "exact discrete Gaussian, independent in each statistic, drawn once",
            "calibration": self.route,
            "sampler_distance": self.distance,
            "mu": self.mu,
            "rho": self.mu**2 / 2,
            "shares_of_mu_squared": asdict(self.shares),
            "sensitivity": {
                "squares": bound.squares.value,
                "squares_norm": "l2 of the upper triangle" if bound.squares.shape == "spherical" else "Frobenius",
                "cross": bound.cross,
                "response": bound.response,
                "least_eigenvalue": bound.solved_eigenvalue if self.shares.least_eigenvalue else None,
                "because": bound.squares.reason,
            },
            "noise": asdict(self.noise),
            **({} if self.meats is None else {"errors": self.meats.facts()}),
        }
