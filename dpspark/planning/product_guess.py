"""The guessed moments of blocks of products, from those of the columns: what nobody guessed is taken as independent."""

from __future__ import annotations

from math import prod

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.products import Part


def with_products(domain: Domain, moments: np.ndarray) -> np.ndarray:
    """Complete E[z zᵀ] of the intercept and the columns by the rows of the domain's products.

    A product of two columns is guessed already. With one category and two numbers: numbers vary around their means of the
    category as they do around those of every other. All else is independent. Where no data have such moments, which guessed
    correlations can make, the nearest that some have.
    """
    if not domain.products:
        return moments
    width = len(moments)
    places = {part: at for at, part in enumerate(domain.parts[:width])}
    guessed = _Guessed(moments, places)
    found = np.zeros((domain.width, domain.width))
    for i, one in enumerate(domain.parts):
        for j, other in enumerate(domain.parts[: i + 1]):
            made = one.times(other)
            found[i, j] = found[j, i] = 0.0 if made is None else guessed.mean(made)
    found[:width, :width] = moments
    values, vectors = np.linalg.eigh(found)
    if values[0] < -1e-9 * values[-1]:
        found = (vectors * np.maximum(values, 1e-9 * values[-1])) @ vectors.T
        found /= found[0, 0]
    return found


class _Guessed:
    def __init__(self, moments: np.ndarray, places: dict[Part, int]):
        self.moments, self.places = moments, places

    def mean(self, part: Part) -> float:
        singles = [Part((cell,)) for cell in part.cells] + [Part(numbers=(number,)) for number in part.numbers]
        if len(singles) <= 2:
            return self._two(*singles)
        if len(part.cells) == 1:
            return self._within(*singles)
        share = prod(self._two(Part((cell,))) for cell in part.cells)
        return share * self._two(*(Part(numbers=(number,)) for number in part.numbers))

    def _two(self, first: Part | None = None, second: Part | None = None) -> float:
        return float(self.moments[self.places[first or Part()], self.places[second or Part()]])

    def _within(self, category: Part, x: Part, y: Part) -> float:
        """E[1_c·x·y], with the covariance of x and y the same within every category."""
        ((column, _),) = category.cells
        shares, spread = self._two(category), self._two(x, y)
        every = [part for part in self.places if len(part.cells) == 1 and part.cells[0][0] == column]
        for part in every:
            share = self._two(part)
            spread -= self._two(part, x) * self._two(part, y) / share if share > 0 else 0.0
        own = self._two(category, x) * self._two(category, y) / shares if shares > 0 else 0.0
        return shares * spread + own
