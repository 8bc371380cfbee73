"""How coefficients come from the statistics of one regression, and what is known of them when no interval is valid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from dpspark.core.domain import Domain
from dpspark.mechanisms.regression.statistics import NoisyStatistics

OK = "OK"
SHRUNK = "SHRUNK"
UNSTABLE = "UNSTABLE"
NO_INTERVAL = "NO_INTERVAL"
AT_RADIUS = "AT_RADIUS"


class Solver(ABC):
    """Makes coefficients of statistics, in scaled coordinates. Read from a manifest, it repeats what the release did."""

    follows: ClassVar[bool] = True  # the published coefficients follow from the published statistics

    @property
    @abstractmethod
    def bootstrapped(self) -> bool:
        """Whether intervals come from replicates; else by the delta method, from least squares without a ridge."""

    @abstractmethod
    def solve(self, statistics: NoisyStatistics) -> np.ndarray:
        """Make coefficients of statistics, without further noise."""

    @abstractmethod
    def again(self, truth: NoisyStatistics, cross: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Simulate the mechanism's estimates from a truth, one for each row of cross products.

        The cross products have sampling error but no privacy noise yet.
        """

    @abstractmethod
    def status(self, statistics: NoisyStatistics) -> str:
        """Name what the coefficients are where no interval is valid."""

    def equations(self, statistics: NoisyStatistics) -> NoisyStatistics:
        """The least squares that the coefficients' errors are those of, with the noise of its sums."""
        return statistics

    def direction(self, statistics: NoisyStatistics, theta: np.ndarray) -> np.ndarray | None:
        """Find what the noise of Σ x xᵀ is multiplied by in these equations; None: their own solution."""
        return None

    @property
    def step_ridge(self) -> float:
        """What is added to the diagonal of Σ x xᵀ in these equations where there is enough signal for intervals."""
        return 0.0

    def why_none(self, statistics: NoisyStatistics) -> str:
        """Say why no interval is valid for statistics like these; nothing if there may be one."""
        return ""

    def beyond_clip(self, statistics: NoisyStatistics, sigma2: float) -> tuple[float, float]:
        """The share of residuals that are likely clipped, and the mean over all of them of what that took off, in σ."""
        return 0.0, 0.0

    def consistent(self, statistics: NoisyStatistics) -> bool:
        """Tell whether those of the statistics that follow from others do so."""
        return True

    def published(self, statistics: NoisyStatistics, domain: Domain) -> np.ndarray:
        """Make the coefficients that were published with statistics as they were released."""
        return self.solve(statistics.given(domain))

    def now(self) -> Solver:
        """The way in which this version makes coefficients of such a release; by default as it was."""
        return self

    def at_edge(self, theta: np.ndarray) -> bool:
        """Tell whether coefficients lie at the edge of where they are looked for."""
        return False
