"""Where randomness comes from: OpenDP's exact discrete samplers, fed by the operating system.

No conf file can reach a seed. Tests inject another NoiseSource.
"""

from __future__ import annotations

from typing import Protocol

LARGEST_SIGMA = 2.0**57  # samples are int64: 64 standard deviations fit


class NoiseSource(Protocol):
    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        """Independent draws with P(k) proportional to exp(-k²/2σ²)."""
        ...


class OpenDPNoise:
    """Canonne, Kamath & Steinke (2020) exact sampling, as implemented by OpenDP."""

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        if not 0 <= sigma <= LARGEST_SIGMA:
            raise ValueError(f"sigma={sigma}; expected a number from 0 to {LARGEST_SIGMA:g}")
        if sigma == 0 or count == 0:
            return [0] * count
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        return dp.m.make_gaussian(*space, scale=sigma)([0] * count)
