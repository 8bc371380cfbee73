"""The law of a release's noise, by running its own kernel on groups of known lines: deterministic from the release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import Plane
from dpspark.privacy.keyed import KeyedRandom

SIZES = (0, 6, 12, 24, 40, 64, 96, 140, 200, 300, 500, 1000, 2500, 6000)  # rows of simulated groups
DRAWS = 320  # of each size up to MANY rows; fewer of larger ones
MANY, FEWEST_DRAWS = 500, 80
CALM, CALM_ROWS, CALM_DRAWS = 1e4, 2000, 40  # for the line that the kernel aims at: next to no noise, many rows
LEAST_RESPONSE = 0.02
CHANCE = 2.0  # standard deviations


class Law(Protocol):
    """A law that rows are drawn from."""

    def draw(self, rows: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw x and residuals, in units of the bounds."""
        ...


@dataclass(frozen=True)
class NoiseLaw:
    """How a drawn line follows the true one, by a group's rows: draw = target + offset + response·(true − target) + noise.

    Values are at the anchors, in units of y's bounds. A draw of few rows follows little of the truth: it falls anywhere.
    """

    sizes: np.ndarray
    target: np.ndarray  # k: the values that the kernel aims at on the pooled line
    offset: np.ndarray  # sizes × k
    response: np.ndarray  # of each size
    noise: np.ndarray  # sizes × k × k

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Interpolate offset, response and noise for groups of so many rows; beyond the largest size noise falls with rows."""
        last = self.sizes[-1]
        place = np.interp(np.log1p(np.clip(rows, 0, last)), np.log1p(self.sizes), np.arange(len(self.sizes)))
        low = np.minimum(place.astype(int), len(self.sizes) - 2)
        share = place - low
        offset = self.offset[low] * (1 - share)[:, None] + self.offset[low + 1] * share[:, None]
        response = self.response[low] * (1 - share) + self.response[low + 1] * share
        noise = self.noise[low] * (1 - share)[:, None, None] + self.noise[low + 1] * share[:, None, None]
        return offset, response, noise * np.minimum(1.0, last / np.maximum(rows, 1.0))[:, None, None]


def simulate_noise(
    kernel: Kernel,
    plane: Plane,
    law: Law,
    line: np.ndarray,
    between: np.ndarray,
    most_rows: float,
    seed: bytes,
    draws: int = DRAWS,
) -> NoiseLaw:
    """Draw lines of groups of several sizes, whose true lines scatter around a pooled one with covariance `between`."""
    run = _Simulation(kernel, plane, law, KeyedRandom(seed), np.random.default_rng(list(seed)))
    sizes = _sizes_up_to(most_rows)
    target, target_variance = run.target(line)
    roots = np.linalg.cholesky(between + 1e-12 * np.eye(len(between)))
    found = [run.size(rows, line, roots, _draws(rows, draws)) for rows in sizes]
    noise = np.array([noise for _, _, noise in found])
    offset = np.array([offset for offset, _, _ in found]) - (target - line)
    errors = np.diagonal(noise, axis1=1, axis2=2) / np.array([[_draws(rows, draws)] for rows in sizes]) + target_variance
    return NoiseLaw(
        np.array(sizes, dtype=float),
        target,
        _beyond_chance(offset, errors),
        np.maximum(LEAST_RESPONSE, np.maximum.accumulate([response for _, response, _ in found])),
        noise,
    )


def _beyond_chance(offset: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Take an offset for none where it is not clearly more than the error of its simulation; `errors` are variances."""
    return offset * np.maximum(0.0, 1 - CHANCE**2 * errors / np.maximum(offset**2, 1e-300))


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
    random: KeyedRandom
    generator: np.random.Generator

    def target(self, line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values that the kernel finds with many rows and next to no noise, and the variance of their simulation."""
        calm = self.kernel.quieter(CALM)
        found = [self._values(calm, CALM_ROWS, line, "target", i) for i in range(CALM_DRAWS)]
        return np.nanmean(found, axis=0), np.nanvar(found, axis=0) / CALM_DRAWS

    def size(self, rows: int, line: np.ndarray, roots: np.ndarray, draws: int) -> tuple[np.ndarray, float, np.ndarray]:
        """Draw groups of one size: the mean of draw − true line, how draws follow it, and the rest's covariance."""
        moved = self.generator.standard_normal((draws, len(line))) @ roots.T
        found = np.array([self._values(self.kernel, rows, line + step, rows, i) for i, step in enumerate(moved)])
        there = np.isfinite(found).all(axis=1)
        if there.sum() < 2 * len(line) + 2:  # the kernel finds no line with so few rows
            return np.zeros(len(line)), 0.0, np.eye(len(line)) * 1e6
        moved, found = moved[there], found[there]
        moved, off = moved - moved.mean(axis=0), found - line - moved
        slope = float((moved * (found - found.mean(axis=0))).sum() / max((moved**2).sum(), 1e-300))
        response = float(np.clip(slope, 0.0, 1.0)) if rows else 0.0
        rest = found - found.mean(axis=0) - response * moved
        return off.mean(axis=0), response, rest.T @ rest / (len(rest) - 2)

    def _values(self, kernel: Kernel, rows: int, line: np.ndarray, *labels: str | int) -> np.ndarray:
        """One drawn line's values at the anchors."""
        x, residual = self.law.draw(rows, self.generator)
        anchors = self.plane.anchors
        if len(anchors) == 1:
            level = np.full(rows, line[0])
        else:
            level = line[0] + (line[1] - line[0]) / (anchors[1] - anchors[0]) * (x - anchors[0])
        (x_low, x_high), (y_low, y_high) = self.plane.x_bounds, self.plane.y_bounds
        y = np.clip(level + residual, 0.0, 1.0)
        fit = kernel.fit(x_low + (x_high - x_low) * x, y_low + (y_high - y_low) * y, self.random, "smooth", *labels)
        at = np.argsort(self.plane.wanted)
        ends = [at[0], at[-1]] if len(anchors) > 1 else [0]
        return (np.array(fit.estimate)[ends] - y_low) / (y_high - y_low)
