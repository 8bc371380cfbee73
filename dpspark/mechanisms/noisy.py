"""What a mechanism gives out, and all that may be written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.data.domain import Domain, Numeric


@dataclass(frozen=True)
class NoisyGram:
    """A noisy second-moment matrix in grid units, and the standard deviations of its noise in units of 1.0."""

    domain: Domain
    upper: tuple[int, ...]
    diagonal_std: float
    off_diagonal_std: float
    count_is_exact: bool

    def second_moment(self) -> tuple[np.ndarray, np.ndarray]:
        """The matrix in original units and the standard deviation of each entry's noise. Post-processing: no cost.

        The congruence T S Tᵀ is done in whole numbers scaled by powers of two, and rounded to a double once at the end.
        """
        return unscale(self.domain, self.upper), self.noise_std()

    def noise_std(self) -> np.ndarray:
        middle, half = centre_and_scale(self.domain)
        count = 0.0 if self.count_is_exact else self.diagonal_std**2
        off, diagonal = self.off_diagonal_std**2, self.diagonal_std**2
        h2, m2 = half**2, middle**2
        # Var (T E Tᵀ)_ij with x_i = m_i + h_i z_i; the intercept is m = 1, h = 0.
        variance = off * (np.outer(h2, h2) + np.outer(h2, m2) + np.outer(m2, h2)) + count * np.outer(m2, m2)
        np.fill_diagonal(variance, diagonal * h2**2 + 4 * off * h2 * m2 + count * m2**2)
        return np.sqrt(variance)


def centre_and_scale(domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """m and h with x = m + h·z for each term. The intercept is m = 1, h = 0; a category's column is itself."""
    middle, half = [1.0], [0.0]
    for column in domain.columns:
        if isinstance(column, Numeric):
            middle.append(column.middle)
            half.append(column.half)
        else:
            middle += [0.0] * len(column.categories)
            half += [1.0] * len(column.categories)
    return np.array(middle), np.array(half)


def unscale(domain: Domain, upper: tuple[int, ...]) -> np.ndarray:
    """T S Tᵀ, exactly, then rounded once."""
    width = domain.width
    middle, half = centre_and_scale(domain)
    # Doubles are whole multiples of a power of two: one common exponent makes everything an integer.
    exponent = max(f.as_integer_ratio()[1].bit_length() - 1 for f in np.concatenate([middle, half]).tolist())
    m = [_scaled(f, exponent) for f in middle.tolist()]
    h = [_scaled(f, exponent) for f in half.tolist()]
    s = np.zeros((width, width), dtype=object)
    s[np.triu_indices(width)] = list(upper)
    shift = 2 * exponent + 2 * domain.bits
    out = np.zeros((width, width))
    for i in range(width):
        for j in range(i, width):
            if i == 0:
                total = m[0] * (m[j] * s[0, 0] + (h[j] * s[0, j] if j else 0))
            else:
                total = m[i] * (m[j] * s[0, 0] + h[j] * s[0, j]) + h[i] * (m[j] * s[0, i] + h[j] * s[i, j])
            out[i, j] = out[j, i] = total / (1 << shift)
    return out


def _scaled(value: float, exponent: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * ((1 << exponent) // denominator)
