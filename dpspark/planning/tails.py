"""How the values of a guess go on beyond a bound: log-normal, or with a Pareto tail where the guess gives its index.

One side is looked at, from a point on the other side of the mean, the base: the public bound there, or two standard
deviations off where both sides are private. Distances from it have the guess's mean and standard deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpspark.core.domain import Numeric, Side

TOP = 0.01  # of the values: from there on an index holds
BASE = 2.0  # standard deviations


@dataclass(frozen=True)
class Tail:
    """The distances of a column's values from a base, towards one side."""

    side: Side
    base: float
    location: float  # of the logarithm of the distance
    scale: float
    index: float | None = None  # of Pareto's law, for the furthest hundredth

    @classmethod
    def of(cls, column: Numeric, side: Side, mean: float, sd: float, index: float | None) -> Tail:
        """Fit it to a column's guessed mean and standard deviation."""
        other = column.lower if side == "upper" else column.upper
        base = other if side not in column.private_sides or len(column.private_sides) == 1 else None
        if base is None or not abs(mean - base) > 0:
            base = mean - BASE * sd if side == "upper" else mean + BASE * sd
        distance = abs(mean - base)
        variance = math.log1p((sd / distance) ** 2)
        return cls(side, base, math.log(distance) - variance / 2, math.sqrt(variance), index)

    def value_at(self, share: float) -> float:
        """The value that such a share is beyond."""
        top = share if self.index is None else max(share, TOP)
        distance = math.exp(self.location - self.scale * float(special.ndtri(min(top, 1 - 1e-12))))
        if self.index is not None and share < TOP:
            distance *= (TOP / share) ** (1 / self.index)
        return self.base + distance if self.side == "upper" else self.base - distance

    def share_beyond(self, value: float) -> float:
        return float(self._shares(np.array([self._distance(value)]))[0])

    def excess(self, value: float) -> float:
        """The mean distance of the values beyond from that value: the area under their shares, over the first of them."""
        start = self._distance(value)
        steps = np.geomspace(start, start * 1e4, 2000)
        shares = self._shares(steps)
        area = float(np.sum((shares[1:] + shares[:-1]) / 2 * np.diff(steps)))
        return area / float(shares[0]) if shares[0] > 0 else 0.0

    def _distance(self, value: float) -> float:
        away = value - self.base if self.side == "upper" else self.base - value
        return max(away, 1e-12 * math.exp(self.location))

    def _shares(self, distances: np.ndarray) -> np.ndarray:
        plain = special.ndtr((self.location - np.log(distances)) / self.scale)
        if self.index is None:
            return np.asarray(plain)
        top = abs(self.value_at(TOP) - self.base)
        return np.where(distances > top, TOP * (distances / top) ** -self.index, plain)
