"""The law of a group's rows around its line, pooled over all groups: where x lies, and how residuals spread there.

It is a noisy histogram that was paid for (release.group_counts), or a public guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

# Groups are not alike: from one to the next the spread of residuals varies by a third or so, and x leans to a side by some
# 0.4 of its standard deviation. A law of all rows together would understate the noise of a group's line by a tenth or two.
UNEQUAL, LEAN = 0.3, 0.35


@dataclass(frozen=True)
class RowsLaw:
    """Cells of x and of residuals, in units of the bounds, with the share of rows in each; residuals may lean and fan out."""

    x_edges: np.ndarray
    residual_edges: np.ndarray
    shares: np.ndarray  # cells of x × cells of residuals
    factor: float = 1.0  # of residuals

    @classmethod
    def paid(cls, x_edges: np.ndarray, residual_edges: np.ndarray, counts: np.ndarray) -> RowsLaw | None:
        """Read a noisy histogram; None where the noise left nothing."""
        if not counts.sum() > 0:
            return None
        kept = nearest_counts(counts)
        inner = residual_edges[1:-1]
        beyond = inner[-1] - inner[-2]
        residual_edges = np.concatenate([[inner[0] - beyond], inner, [inner[-1] + beyond]])
        return cls(x_edges, residual_edges, kept / kept.sum())

    def draw(self, rows: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw a group's x and residuals. Beyond the last edges residuals fall off exponentially."""
        shares = self.shares * np.exp(LEAN * random.standard_normal() * self._standard_x)[:, None]
        cells = random.choice(shares.size, rows, p=shares.ravel() / shares.sum())
        at_x, at_residual = np.divmod(cells, self.shares.shape[1])
        low, high = self.x_edges[at_x], self.x_edges[at_x + 1]
        x = low + (high - low) * random.random(rows)
        low, high = self.residual_edges[at_residual], self.residual_edges[at_residual + 1]
        inside = low + (high - low) * random.random(rows)
        tail = random.exponential(1.0, rows) * self._beyond
        first, last = at_residual == 0, at_residual == self.shares.shape[1] - 1
        return x, self.factor * _factor(random) * np.where(first, high - tail, np.where(last, low + tail, inside))

    def scaled(self, factor: float) -> RowsLaw:
        """The same law with residuals so many times as large."""
        return replace(self, factor=self.factor * factor)

    @property
    def _standard_x(self) -> np.ndarray:
        """The middles of the cells of x, in standard deviations of x."""
        middles, weights = (self.x_edges[1:] + self.x_edges[:-1]) / 2, self.shares.sum(axis=1)
        middles = middles - weights @ middles
        width = self.x_edges[1] - self.x_edges[0]
        return middles / math.sqrt(weights @ middles**2 + width**2 / 12)

    @property
    def _beyond(self) -> float:
        """The scale of residuals beyond the last inner edges: the width of the cells next to them."""
        inner = self.residual_edges[1:-1]
        return float(inner[-1] - inner[-2])


@dataclass(frozen=True)
class GuessedLaw:
    """Normal residuals, wider in some groups than in others, and x spread evenly or as its guessed variance says."""

    residual: float  # standard deviation, in units of y's bounds
    x_variance: float | None = None

    def scaled(self, factor: float) -> GuessedLaw:
        """A guess is not of released lines: it stays as it is."""
        return self

    def draw(self, rows: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        variance = min(self.x_variance or 1 / 12, 0.249)
        shape = 1 / (4 * variance) - 1  # of a beta law: the sum of its two parameters
        first = shape / 2 + shape * LEAN * math.sqrt(variance) * random.standard_normal()
        first = min(max(first, 0.1 * shape), 0.9 * shape)
        x = random.beta(first, shape - first, rows)
        return x, self.residual * _factor(random) * random.standard_normal(rows)


def _factor(random: np.random.Generator) -> float:
    """How much wider the residuals of one group are; the mean of its square is 1."""
    return math.exp(UNEQUAL * random.standard_normal() - UNEQUAL**2)


def nearest_counts(noisy: np.ndarray) -> np.ndarray:
    """Find the nearest counts that are not negative and have the same sum.

    If negative ones were only left out, the noise of cells that are nearly empty would add up to long tails.
    """
    ordered = np.sort(noisy.ravel())[::-1]
    above = (np.cumsum(ordered) - noisy.sum()) / np.arange(1, len(ordered) + 1)
    last = np.flatnonzero(ordered > above)[-1]
    return np.maximum(0.0, noisy - above[last])
