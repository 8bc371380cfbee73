"""The law of a release's noise, by running its own kernel on groups of known lines: deterministic from the release."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import Plane
from dpspark.privacy.keyed import KeyedRandom
from dpspark.smoothing.between import normal_density

SIZES = (0, 6, 12, 24, 40, 64, 96, 140, 200, 300, 500, 1000, 2500, 6000)  # rows of simulated groups
DRAWS = 400  # of each size up to MANY rows; fewer of larger ones
MANY, FEWEST_DRAWS = 500, 80
CALM, CALM_ROWS, CALM_DRAWS = 1e4, 2000, 20  # for the line that the kernel aims at: next to no noise, many rows
SPREAD_DRAWS = 40  # of each size, for the spread of residuals
LEAST_SPREAD, MOST_SPREAD = 0.1, 1.5  # of its square
FEWEST_FOUND = 20  # draws: a kernel may find no line with few rows
FEW_WILD = 0.06  # a share of wild draws below which they are taken for the tails of the others
ROUNDS = 40


Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # of an invented group: x, y, and its line at each x


class Law(Protocol):
    """A law that rows are drawn from."""

    def draw(self, rows: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw x and residuals, in units of the bounds."""
        ...

    def scaled(self, factor: float) -> Law:
        """The same with residuals so many times as large, if they were measured around released lines."""
        ...


@dataclass(frozen=True)
class NoiseLaw:
    """How a drawn line is off the true one, by a group's rows: near it, with a covariance, or anywhere among the candidates.

    Values are at the anchors, in units of y's bounds. A draw of few rows falls anywhere: with none, it always does.
    """

    sizes: np.ndarray
    target: np.ndarray  # k: the values that the kernel aims at on the pooled line
    noise: np.ndarray  # sizes × k × k: of draws that are near
    wild: np.ndarray  # of each size: the probability of a draw that is not
    offset: np.ndarray  # sizes × k: the mean of what privacy noise does to near draws; 0 if it was not asked for
    offset_noise: np.ndarray  # sizes × k × k: how well that mean is known

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Interpolate noise and wild draws for groups of so many rows; beyond the largest size noise falls with rows."""
        last = self.sizes[-1]
        low, share = self._between(rows)
        wild = self.wild[low] * (1 - share) + self.wild[low + 1] * share
        noise = self.noise[low] * (1 - share)[:, None, None] + self.noise[low + 1] * share[:, None, None]
        return noise * np.minimum(1.0, last / np.maximum(rows, 1.0))[:, None, None], wild

    def shares(self, rows: np.ndarray) -> np.ndarray:
        """Say which simulated sizes stand for groups of so many rows: groups × sizes."""
        low, share = self._between(rows)
        found, at = np.zeros((len(rows), len(self.sizes))), np.arange(len(rows))
        found[at, low], found[at, low + 1] = 1 - share, share
        return found

    def _between(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the simulated size below, and how far it is to the next."""
        last, logs = self.sizes[-1], np.log1p(self.sizes)
        place = np.interp(np.log1p(np.clip(rows, 0, last)), logs, np.arange(len(self.sizes)))
        low = np.minimum(place.astype(int), len(self.sizes) - 2)
        return low, place - low


def simulate_noise(
    kernel: Kernel,
    plane: Plane,
    law: Law,
    line: np.ndarray,
    between: np.ndarray,
    rows: np.ndarray,
    seed: bytes,
    slope: float = 0.0,
    draws: int = DRAWS,
    offsets: bool = False,
) -> NoiseLaw:
    """Draw lines of groups of several sizes, whose true lines scatter around a pooled one with covariance `between`.

    `rows` are numbers of rows of the groups; `slope`, in units of the bounds, is that of all lines where there is one cut.
    `offsets` are for means of many groups: of one group they are lost in its noise.
    """
    sizes = _sizes_up_to(float(rows.max()))
    roots = np.linalg.cholesky(between + 1e-12 * np.eye(len(between)))
    run = _Simulation(kernel, plane, law, slope, KeyedRandom(seed), np.random.default_rng(list(seed)), offsets)
    run = replace(run, law=law.scaled(run.true_spread(sizes[1:], line, roots, rows)))
    target = run.target(line)
    found = [run.size(rows, target - line, line, roots, _draws(rows, draws)) for rows in sizes[1:]]
    noise, wild, offset, offset_noise = (np.array([each[i] for each in found]) for i in range(4))
    first = np.concatenate([[1.0], np.minimum.accumulate(wild)])
    noise, offset, offset_noise = (np.concatenate([each[:1], each]) for each in (noise, offset, offset_noise))
    return NoiseLaw(np.array(sizes, dtype=float), target, noise, first, offset, offset_noise)


def _sizes_up_to(most: float) -> list[int]:
    """List the sizes that are simulated, the first one that is not below `most` among them."""
    return [size for before, size in zip((0, 0, *SIZES), SIZES, strict=False) if before < most or size < 10]


def _draws(rows: int, draws: int) -> int:
    return draws if rows <= MANY else max(min(draws, FEWEST_DRAWS), draws * MANY // rows)


@dataclass(frozen=True)
class _Simulation:
    kernel: Kernel
    plane: Plane
    law: Law
    slope: float
    random: KeyedRandom
    generator: np.random.Generator
    offsets: bool

    def target(self, line: np.ndarray) -> np.ndarray:
        """The values that the kernel finds with many rows and next to no noise."""
        calm = self.kernel.quieter(CALM)
        found = [self._draw(calm, CALM_ROWS, line, "target", i)[0] for i in range(CALM_DRAWS)]
        return np.nanmean(found, axis=0)

    def size(
        self, rows: int, aim: np.ndarray, line: np.ndarray, roots: np.ndarray, draws: int
    ) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
        """Draw groups of one size: second moments of draws near the line aimed at, the share of others, and the offset."""
        moved = self.generator.standard_normal((draws, len(line))) @ roots.T
        drawn = [self._group(rows, line + step) for step in moved]
        found = np.array([self._fit(self.kernel, each, rows, i) for i, each in enumerate(drawn)])
        off, nothing = found - line - aim - moved, np.zeros((len(line), len(line)))
        there = np.isfinite(found).all(axis=1)
        if there.sum() < FEWEST_FOUND:
            return np.eye(len(line)), 1.0, nothing[0], nothing
        offset = self._offset(drawn, found, off, rows) if self.offsets else (nothing[0], nothing)
        return (*separate(off[there], density(self.plane)), *offset)

    def _offset(
        self, drawn: list[Rows], found: np.ndarray, off: np.ndarray, rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Average what the noise does to draws of the same rows, and say how well that is known. Wild ones do not count."""
        calm = self.kernel.quieter(CALM)
        by_noise = found - np.array([self._fit(calm, each, "calm", rows, i) for i, each in enumerate(drawn)])
        there = np.isfinite(by_noise).all(axis=1)
        weights = near_draws(off[there], density(self.plane))
        mean = weights @ by_noise[there] / weights.sum()
        left = (by_noise[there] - mean) * weights[:, None]
        return mean, left.T @ left / weights.sum() ** 2

    def true_spread(self, sizes: list[int], line: np.ndarray, roots: np.ndarray, rows: np.ndarray) -> float:
        """Find how much smaller residuals are around true lines than around drawn ones, as the law has them."""
        seen, law = np.zeros(len(sizes)), np.zeros(len(sizes))
        for at, size in enumerate(sizes):
            moved = self.generator.standard_normal((SPREAD_DRAWS, len(line))) @ roots.T
            drawn = [self._draw(self.kernel, size, line + step, "spread", size, i)[1:] for i, step in enumerate(moved)]
            seen[at], law[at] = np.nanmean([each[0] for each in drawn]), np.mean([each[1] for each in drawn])
        weights = np.interp(np.log1p(rows), np.log1p(sizes), np.arange(len(sizes)))
        more = (np.interp(weights, np.arange(len(sizes)), seen - law) * rows).sum() / max(rows.sum(), 1.0)
        return math.sqrt(min(MOST_SPREAD, max(LEAST_SPREAD, 1 - more / law.mean())))

    def _draw(self, kernel: Kernel, rows: int, line: np.ndarray, *labels: str | int) -> tuple[np.ndarray, float, float]:
        """One drawn line's values at the anchors, and the mean squares of residuals around it and around the true one."""
        x, y, level = group = self._group(rows, line)
        found, anchors = self._fit(kernel, group, *labels), self.plane.anchors
        steep = self.slope if len(anchors) == 1 else (found[1] - found[0]) / (anchors[1] - anchors[0])
        off = y - found[0] - steep * (x - anchors[0])
        return found, float((off**2).mean()) if rows else 0.0, float(((y - level) ** 2).mean()) if rows else 0.0

    def _group(self, rows: int, line: np.ndarray) -> Rows:
        """Invent a group's rows: x and y, in units of the bounds, and where its line is at each."""
        x, residual = self.law.draw(rows, self.generator)
        anchors = self.plane.anchors
        slope = self.slope if len(anchors) == 1 else (line[1] - line[0]) / (anchors[1] - anchors[0])
        level = line[0] + slope * (x - anchors[0])
        return x, np.clip(level + residual, 0.0, 1.0), level

    def _fit(self, kernel: Kernel, group: Rows, *labels: str | int) -> np.ndarray:
        """Draw a group's line: its values at the anchors, in units of the bounds."""
        (x, y, _), plane = group, self.plane
        (x_low, x_high), (y_low, y_high) = plane.x_bounds, plane.y_bounds
        fit = kernel.fit(x_low + (x_high - x_low) * x, y_low + (y_high - y_low) * y, self.random, "smooth", *labels)
        at = np.argsort(plane.wanted)
        ends = [at[0], at[-1]] if len(plane.anchors) > 1 else [0]
        return (np.array(fit.estimate)[ends] - y_low) / (y_high - y_low)


def density(plane: Plane) -> float:
    """The density of a draw that may be anywhere among the candidates."""
    low, high = plane.candidate_range
    return float((high - low) ** -len(plane.anchors))


def separate(off: np.ndarray, wild_density: float) -> tuple[np.ndarray, float]:
    """Split errors into normal ones around 0 and ones that may be anywhere: the covariance of the first, the second's share."""
    covariance, wild, _ = _mixture(off, wild_density)
    return (off.T @ off / len(off), 0.0) if wild < FEW_WILD else (covariance, wild)


def near_draws(off: np.ndarray, wild_density: float) -> np.ndarray:
    """Say how likely each error is not just anywhere."""
    _, wild, share = _mixture(off, wild_density)
    return np.ones(len(off)) if wild < FEW_WILD else share


def _mixture(off: np.ndarray, wild_density: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Fit the two laws: the covariance of the first, the second's share, and how likely each error is of the first."""
    size = off.shape[1]
    covariance = np.diag((np.median(abs(off), axis=0) * 1.4826 + 1e-9) ** 2)
    wild = 0.1
    for _ in range(ROUNDS):
        near = (1 - wild) * normal_density(off, covariance[None])
        share = near / (near + wild * wild_density + 1e-300)
        total = max(share.sum(), 1e-9)
        covariance = (off * share[:, None]).T @ off / total + 1e-12 * np.eye(size)
        wild = float(np.clip(1 - share.mean(), 0.0, 1.0))
    return covariance, wild, share
