"""The noise of the sums of clipped residuals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpspark.core.domain import Domain
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.sensitivity import ResidualSensitivity


@dataclass(frozen=True)
class ResidualNoise:
    """Discrete Gaussian noise on sums of clipped residuals, in units of the clip and of its square."""

    sensitivity: ResidualSensitivity
    cross_std: float
    response_std: float

    @classmethod
    def at(cls, sensitivity: ResidualSensitivity, mu: float, shares: tuple[float, float]) -> ResidualNoise:
        """Calibrate both to their parts of mu²."""
        if not mu > 0:
            return cls(sensitivity, math.inf, math.inf)
        cross, response = (math.sqrt(share) * mu for share in shares)
        return cls(sensitivity, sensitivity.cross / cross * (1 + 1e-12), sensitivity.response / response * (1 + 1e-12))

    @property
    def mu(self) -> float:
        return math.hypot(self.sensitivity.cross / self.cross_std, self.sensitivity.response / self.response_std)

    def distance(self, domain: Domain) -> float:
        """Total variation between all of it and rounded Gaussians. A clip has as many steps as 1.0."""
        steps = domain.steps_per_row
        return distance_from_rounded(domain.width - 1, self.cross_std * steps) + distance_from_rounded(
            1, self.response_std * steps
        )

    def quieter(self, times: float) -> ResidualNoise:
        return replace(self, cross_std=self.cross_std / times, response_std=self.response_std / times)
