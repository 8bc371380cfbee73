"""The guessed moments of blocks of products, from those of the columns: what nobody guessed is taken as independent."""

from __future__ import annotations

from math import prod

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.products import Part


def with_products(domain: Domain, moments: np.ndarray) -> np.ndarray:
    """Complete E[z zᵀ] of the intercept and the columns by the rows of the domain's products.

    A product of two columns is guessed already. In several categories numbers have the mean that each category gives them, and
    vary around it as they do in all others. Where no data have such moments, which guessed correlations can make, the nearest
    that some have.
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
        """E of a product of categories and at most two numbers."""
        cells = [Part((cell,)) for cell in part.cells]
        numbers = [Part(numbers=(number,)) for number in part.numbers]
        if len(cells) + len(numbers) <= 2:
            return self._two(*cells, *numbers)
        share = self._two(*cells) if len(cells) <= 2 else prod(self._two(cell) for cell in cells)
        inside = prod(self._given(number, cells) for number in numbers)
        return share * (inside + self._within(cells, *numbers) if len(numbers) == 2 else inside)

    def _two(self, first: Part | None = None, second: Part | None = None) -> float:
        return float(self.moments[self.places[first or Part()], self.places[second or Part()]])

    def _given(self, number: Part, cells: list[Part]) -> float:
        """The mean of a number in some categories: each moves it by itself."""
        mean = self._two(number)
        return mean + sum(self._two(cell, number) / self._two(cell) - mean for cell in cells if self._two(cell) > 0)

    def _within(self, cells: list[Part], x: Part, y: Part) -> float:
        """The covariance of two numbers that is left within categories: the same in each of a column's."""
        found = self._two(x, y) - self._two(x) * self._two(y)
        columns = {cell.cells[0][0] for cell in cells}
        for part in self.places:
            if len(part.cells) == 1 and part.cells[0][0] in columns and self._two(part) > 0:
                apart = [self._given(number, [part]) - self._two(number) for number in (x, y)]
                found -= self._two(part) * prod(apart)
        return found
