"""The way from scaled coordinates z to original units: x = T z.

Every term leans on one other term: x_i = middle_i · z_parent + half_i · z_i. The parent of a number is the intercept; that of
a product of a category and a number is the category: sex[c]·educ = middle·sex[c] + half·(z_c·t). All others are themselves.

Analyses want x_i = middle_i + half_i · u_i with the intercept alone beside it. So they turn the matrix to coordinates u = A z
first, which are z but for those products: u_i = z_i + (middle_i/half_i)·z_parent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.core.domain import Domain, Numeric
from dpspark.core.products import Part


@dataclass(frozen=True)
class Leaning:
    """x_i = middle_i · z_parent + half_i · z_i, for each term. The intercept is its own parent, with middle 1 and half 0."""

    parent: np.ndarray
    middle: np.ndarray
    half: np.ndarray

    @classmethod
    def of(cls, domain: Domain) -> Leaning:
        places = {part: at for at, part in enumerate(domain.parts)}
        found = [(0, 1.0, 0.0)]
        for part in domain.parts[1:]:
            if not part.numbers:
                found.append((0, 0.0, 1.0))
                continue
            number = domain.columns[part.numbers[0]]
            assert isinstance(number, Numeric)
            found.append((places[Part(part.cells)], number.middle, number.half))
        parent, middle, half = zip(*found, strict=True)
        return cls(np.array(parent), np.array(middle), np.array(half))


def centre_and_scale(domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """m and h with x = m + h·u for each term. The intercept is m = 1, h = 0; a category's column is itself."""
    leaning = Leaning.of(domain)
    return np.where(leaning.parent == 0, leaning.middle, 0.0), leaning.half


def turn_of(domain: Domain) -> np.ndarray | None:
    """A with u = A z; None where u is z."""
    leaning = Leaning.of(domain)
    at = np.flatnonzero(leaning.parent)
    if not len(at):
        return None
    turn = np.eye(domain.width)
    turn[at, leaning.parent[at]] = leaning.middle[at] / leaning.half[at]
    return turn


def back_transform(middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    """T with (1, x) = T u."""
    back = np.diag(np.concatenate([[1.0], half[1:]]))
    back[1:, 0] = middle[1:]
    return back


def congruence_of(domain: Domain) -> np.ndarray:
    """T with (1, x) = T z."""
    leaning = Leaning.of(domain)
    back = np.diag(np.concatenate([[1.0], leaning.half[1:]]))
    back[np.arange(1, domain.width), leaning.parent[1:]] += leaning.middle[1:]
    return back


def congruence_std(variances: np.ndarray, middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    """The standard deviations of T E Tᵀ from the variances of E, of entries that are not correlated where m is not 0."""
    h2, m2, first = half**2, middle**2, variances[0]
    beside = np.outer(h2, m2) * first[:, None]
    found = np.outer(h2, h2) * variances + beside + beside.T + variances[0, 0] * np.outer(m2, m2)
    np.fill_diagonal(found, h2**2 * np.diag(variances) + 4 * h2 * m2 * first + variances[0, 0] * m2**2)
    return np.sqrt(found)


def independent_std(variances: np.ndarray, back: np.ndarray) -> np.ndarray:
    """The same for any T of terms that lean on others, of entries of E that are not correlated at all.

    Two of its rows have one column in common at most, so that (T E Tᵀ)_ij has an entry of E twice only for i = j.
    """
    squares = back**2
    apart = variances - np.diag(np.diag(variances))
    return np.sqrt(squares @ variances @ squares.T + np.diag(((squares @ apart) * squares).sum(axis=1)))


def unscale(domain: Domain, upper: tuple[int, ...]) -> np.ndarray:
    """T S Tᵀ, exactly, then rounded once."""
    width, leaning = domain.width, Leaning.of(domain)
    # Doubles are whole multiples of a power of two: one common exponent makes everything an integer.
    numbers = np.concatenate([leaning.middle, leaning.half]).tolist()
    exponent = max(f.as_integer_ratio()[1].bit_length() - 1 for f in numbers)
    m = [_scaled(f, exponent) for f in leaning.middle.tolist()]
    h = [_scaled(f, exponent) for f in leaning.half.tolist()]
    p = leaning.parent.tolist()
    s = np.zeros((width, width), dtype=object)
    s[np.triu_indices(width)] = list(upper)
    s = s + np.triu(s, 1).T
    shift = 2 * exponent + 2 * domain.bits
    # A whole weight step is upper / steps rows.
    times, over = (1, 1) if domain.weight is None else domain.weight.most.as_integer_ratio()
    over *= 1 if domain.weight is None else domain.weight.steps
    out = np.zeros((width, width))
    for i in range(width):
        for j in range(i, width):
            first = m[i] * (m[j] * s[p[i], p[j]] + h[j] * s[p[i], j])
            total = first + h[i] * (m[j] * s[i, p[j]] + h[j] * s[i, j])
            out[i, j] = out[j, i] = (total * times) / (over << shift)
    return out


def _scaled(value: float, exponent: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * ((1 << exponent) // denominator)
