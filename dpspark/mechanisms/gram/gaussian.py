"""Discrete Gaussian noise on the exact second-moment matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import GAUSSIAN, Currency, Problem
from dpspark.mechanisms.errors.meat import OTHER_GRID, Meats, mu_with, read_meats, share_differs, split_mu
from dpspark.mechanisms.gram.base import GramMechanism, GramOptions, check_count
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoisyGram
from dpspark.privacy.budget import Budget, zcdp_epsilon
from dpspark.privacy.calibration import Route, distance_from_rounded, largest_mu, sampler_delta
from dpspark.privacy.cost import Cost, gaussian_cost
from dpspark.privacy.events import ROUNDED_UP, Event, Gaussian
from dpspark.privacy.noise import LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import Sensitivity, group_moments


@dataclass(frozen=True)
class GaussianGram(GramMechanism):
    """Discrete Gaussian noise on the integer Gram matrix of bounded rows.

    Privacy
        Unit         one record: `sensitivity` says which rows it can change
        Requires     every row inside `domain` (bounds.grid_rows)
        Sensitivity  sensitivity.second_moment(domain, ...)
        Guarantee    (epsilon, delta) by the better of two routes, or rho; mu = sensitivity / sigma
        Source       analytic: Balle & Wang (2018), Theorem 8, less (1 + e^epsilon)·eta for the sampler's distance eta from a
                     rounded Gaussian; zcdp: Canonne, Kamath & Steinke (2020), Theorem 4 and Proposition 7
        Public       column names, bounds, sigma; the number of rows only if `sensitivity.count_is_public`
        Excluded     timing
        Tested by    tests/mechanisms/test_gaussian.py, tests/privacy/test_sensitivity.py
    """

    name: ClassVar[str] = "gaussian"
    words: ClassVar[str] = "Gaussian noise, added once to each entry of the matrix."
    currencies: ClassVar[tuple[Currency, ...]] = GAUSSIAN
    weighted: ClassVar[bool] = True
    robust_errors: ClassVar[bool] = True
    sensitivity: Sensitivity
    sigma: float  # standard deviation in units of 1.0: of every entry (spherical), or of the diagonal (symmetric)
    route: Route | str
    meats: Meats | None = None  # of regressions, which have a part of mu²

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: GramOptions | None = None) -> Self:
        """The least noise within the budget; every rounding is towards more noise. The grid gets coarser if sigma is huge."""
        mu, route = largest_mu(budget, lambda mu: cls._at(problem, mu, "analytic").eta)
        return cls._at(problem, mu, route)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        noise, sensitivity = facts.part("noise"), group_moments(problem.domain, problem.records)
        noise.text("law", "gaussian")
        diagonal, off = noise.positive("diagonal_std"), noise.positive("off_diagonal_std")
        check_count(noise.flag("count_is_exact"), sensitivity.count_is_public)
        # The smaller of what both say of sigma: a tie by the shape's definition, but for rounding up off the diagonal.
        sigma = min(diagonal, off if sensitivity.shape == "spherical" else off * math.sqrt(2))
        meats = read_meats(problem, facts)
        return cls(problem.domain, sensitivity, sigma, facts.text("calibration"), meats)

    @classmethod
    def _at(cls, problem: Problem, total: float, route: Route) -> Self:
        domain, sensitivity = problem.domain, group_moments(problem.domain, problem.records)
        mu, meats = split_mu(problem, total) if total > 0 else (total, None)
        sigma = sensitivity.value / mu * (1 + 1e-12) if mu > 0 else math.inf
        bits = domain.most_bits if meats is None else min(domain.most_bits, meats.domain.bits)
        while bits > 0 and sigma * domain.with_bits(bits).steps_per_row > LARGEST_SIGMA:
            bits -= 1
        if not 0 < sigma * domain.with_bits(bits).steps_per_row <= LARGEST_SIGMA:
            raise ConfError(
                f"The budget asks for noise of {sigma:g} rows, which cannot be drawn. Use another epsilon, delta or rho."
            )
        domain = domain.with_bits(bits)
        return cls(domain, sensitivity, sigma, route, None if meats is None else meats.on_grid_of(domain))

    @property
    def mu(self) -> float:
        """Of the matrix alone."""
        return self.sensitivity.value / self.sigma

    @property
    def total_mu(self) -> float:
        """Of the matrix and of the meats of regressions, if there are any."""
        return mu_with(self.mu, self.meats)

    def paid_meats(self) -> Meats | None:
        return self.meats

    def for_domain(self, domain: Domain) -> Self:
        return replace(self, domain=domain, meats=None if self.meats is None else self.meats.for_domain(domain))

    @property
    def rho(self) -> float:
        return self.mu**2 / 2

    @property
    def diagonal_std(self) -> float:
        return self.sigma

    @property
    def off_diagonal_std(self) -> float:
        if self.sensitivity.shape == "spherical":
            return self.sigma
        return math.nextafter(self.sigma / math.sqrt(2), math.inf)

    @property
    def noise(self) -> AdditiveNoise:
        return AdditiveNoise(self.diagonal_std, self.off_diagonal_std, self.sensitivity.count_is_public)

    @property
    def count_is_public(self) -> bool:
        return self.sensitivity.count_is_public

    @property
    def noisy_entries(self) -> int:
        width = self.domain.width
        return width * (width + 1) // 2 - self.sensitivity.count_is_public

    @property
    def eta(self) -> float:
        """Total variation between the noise and a rounded continuous Gaussian's; 1 (no claim) on a coarse grid.

        Of all the matrices that one record can change: the others have the same law with and without it.
        """
        entries = self.sensitivity.groups * self.noisy_entries
        others = 0.0 if self.meats is None else self.meats.distance
        return min(1.0, distance_from_rounded(entries, self._steps(self.off_diagonal_std)) + others)

    def sampler_delta(self, epsilon: float) -> float:
        """Compute what the discrete sampler adds to the analytic delta."""
        return sampler_delta(self.eta, epsilon)

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at epsilon, by either route."""
        return gaussian_cost(self.total_mu, self.eta).delta_at(epsilon)

    def epsilon(self, delta: float) -> float:
        """An epsilon that holds at delta, by the zCDP route."""
        return zcdp_epsilon(self.total_mu**2 / 2, delta)

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw the noise, once, and add it."""
        self._check_domain(gram)
        width = self.domain.width
        diagonal = noise.discrete_gaussian(self._steps(self.diagonal_std), width)
        off = noise.discrete_gaussian(self._steps(self.off_diagonal_std), width * (width - 1) // 2)
        diagonal_draws, off_draws = iter(diagonal), iter(off)
        exact = iter(gram.reveal())
        upper = [
            next(exact) + (next(diagonal_draws) if i == j else next(off_draws))
            for i in range(width)
            for j in range(i, width)
        ]
        if self.sensitivity.count_is_public:
            upper[0] = gram.reveal()[0]
        return NoisyGram(self.domain, tuple(upper), self.noise)

    def _steps(self, std: float) -> float:
        return std * self.domain.steps_per_row  # a power of two, or covered by the 1e-12 in sigma

    def events(self) -> tuple[Event, ...]:
        return (Gaussian.of(self.total_mu * ROUNDED_UP, self.eta),)

    def cost(self) -> Cost:
        """Price it as it was calibrated: the event's rounding up would be too much for a delta below 1e-30."""
        return gaussian_cost(self.total_mu, self.eta)

    def differences(self, stated: Facts) -> tuple[str, ...]:
        own = super().differences(stated)
        if self.meats is None:
            return own
        grid = () if self.meats.is_on_grid_of(self.domain) else (OTHER_GRID,)
        return (*own, *grid, *self.meats.differences(stated.part("errors")), *share_differs(self.mu, self.meats))

    def sensitivity_in_words(self) -> tuple[float, str]:
        spherical = self.sensitivity.shape == "spherical"
        return self.sensitivity.value, "l2 of the upper triangle" if spherical else "Frobenius"

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "exact discrete Gaussian, independent in each entry of the upper triangle, drawn once",
            "calibration": self.route,
            "sampler_distance": self.eta,
            "noise_shape": self.sensitivity.shape,
            "mu": self.mu,
            "rho": self.rho,
            "sensitivity": {
                "value": self.sensitivity.value,
                "norm": self.sensitivity_in_words()[1],
                "because": self.sensitivity.reason,
            },
            **({} if self.meats is None else {"errors": self.meats.facts()}),
        }
