"""The source of randomness: OpenDP's exact discrete samplers, fed by the operating system.

No conf file can reach a seed. Tests inject another NoiseSource.
"""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from dpspark.errors import DpsparkError

LARGEST_SIGMA = 2.0**57  # samples are int64: 64 standard deviations fit
LARGEST_SCALE = 2.0**54  # of Laplace noise: 512 scales fit


class NoiseSource(Protocol):
    """A source of noise for a release."""

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        """Draw independently with P(k) proportional to exp(-k²/2σ²)."""
        ...

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        """Draw independently with P(k) proportional to exp(-|k|/scale)."""
        ...

    def below(self, limit: int) -> int:
        """Draw a whole number from 0 to limit − 1, each exactly as likely as the others, however long the numbers are."""
        ...

    def uniforms(self, count: int) -> np.ndarray:
        """Draw independently from the open interval (0, 1), for samplers in floating point."""
        ...

    def secret(self) -> bytes:
        """Draw 256 bits, for draws that happen on executors."""
        ...


class OpenDPNoise:
    """Exact sampling by Canonne, Kamath & Steinke (2020), as implemented by OpenDP."""

    def __init__(self) -> None:
        """Refuse at once where OpenDP is missing: a release that finds out when it draws has been charged."""
        if find_spec("opendp") is None:
            raise DpsparkError(
                "Noise is drawn by OpenDP, and this Python does not have it. Run: pip install 'dpspark[spark]'\n"
                "Where there is a pyspark that must stay: pip install 'dpspark[release]'."
            )

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        if not 0 <= sigma <= LARGEST_SIGMA:
            raise ValueError(f"sigma={sigma}; expected a number from 0 to {LARGEST_SIGMA:g}")
        if sigma == 0 or count == 0:
            return [0] * count
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        return dp.m.make_gaussian(*space, scale=sigma)([0] * count)

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        if not 0 < scale <= LARGEST_SCALE:
            raise ValueError(f"scale={scale}; expected a number from 0 to {LARGEST_SCALE:g}")
        if count == 0:
            return []
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return dp.m.make_laplace(*space, scale=scale)([0] * count)

    def below(self, limit: int) -> int:
        return secrets.randbelow(limit)

    def uniforms(self, count: int) -> np.ndarray:
        bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
        return (bits.astype(float) + 0.5) * 2.0**-53

    def secret(self) -> bytes:
        return os.urandom(32)
