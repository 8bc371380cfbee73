"""Empirical Bayes over groups: each group's value is drawn towards what all groups say of it, the more the noisier it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.smoothing.between import Between, Mean, fit_between, fit_mean

FEWEST_GROUPS = 3
BADLY = 4.0  # standard deviations off what the model expects of a group's raw value


@dataclass(frozen=True)
class Areas:
    """What is known of each group: k noisy values, the covariance of their noise, and public covariates, 1 among them."""

    values: np.ndarray  # n × k; NaN where a group has none
    noise: np.ndarray  # n × k × k
    design: np.ndarray  # n × q
    noise_error: float = 0.0  # how wrong the noise may be, as a share

    @property
    def known(self) -> np.ndarray:
        """Tell which groups have values."""
        return np.isfinite(self.values).all(axis=1) & np.isfinite(self.noise).all(axis=(1, 2))


@dataclass(frozen=True)
class Smoothed:
    """The smoothed values of each group, their covariance, and how they came about."""

    values: np.ndarray  # n × k
    covariance: np.ndarray  # n × k × k
    kept: np.ndarray  # n × k × k: which part of a raw value's distance from the mean is kept
    expected: np.ndarray  # n × k: what the covariates say
    distance: np.ndarray  # n × k: of the raw value from it, in standard deviations of what is expected
    between: Between
    slopes: np.ndarray  # q × k
    units: np.ndarray  # of the k values: `between` is in these

    @property
    def differ(self) -> bool:
        """Whether the groups differ measurably."""
        return self.between.interval(0.95)[0] > 0


def smooth(areas: Areas) -> Smoothed:
    """Fit the model and draw every group towards its mean; groups without a value have the mean itself.

    The covariance of a result holds what is left of a group's own noise, the error of the mean, and that of the covariance
    between groups, over which it is averaged.
    """
    known = areas.known
    if known.sum() < FEWEST_GROUPS:
        raise ValueError(f"fewer than {FEWEST_GROUPS} groups have values")
    units = np.sqrt(np.median(np.diagonal(areas.noise[known], axis1=1, axis2=2), axis=0))
    units = np.where(units > 0, units, 1.0)
    values, noise = areas.values / units, areas.noise / np.outer(units, units)
    design = _usable(areas.design, known)
    between, _ = fit_between(values[known], noise[known], design[known], areas.noise_error)
    mean = fit_mean(values[known], noise[known], design[known], between.covariance)
    expected = design @ mean.slopes
    spread = _mean_covariance(mean, noise[known], design, known, between.covariance)
    far = 1e6 * np.trace(between.covariance + noise[known].mean(axis=0))
    noise = np.where(known[:, None, None], noise, far * np.eye(len(units)))
    left = np.where(known[:, None], values - expected, 0.0)
    found, covariance, kept = _averaged(between, noise, left, spread, int(known.sum()))
    scale = np.outer(units, units)
    total = np.diagonal(noise + between.covariance + spread, axis1=1, axis2=2)
    return Smoothed(
        (expected + found) * units,
        covariance * scale,
        kept,
        expected * units,
        left / np.sqrt(total),
        between,
        mean.slopes * units,
        units,
    )


def _usable(design: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Keep the covariates while there are more groups than twice as many, else the constant alone."""
    rank = np.linalg.matrix_rank(design[known])
    return design if known.sum() > 2 * rank + 1 else design[:, :1]


def _mean_covariance(
    mean: Mean, noise: np.ndarray, design: np.ndarray, known: np.ndarray, between: np.ndarray
) -> np.ndarray:
    """The covariance of what the covariates say of each group."""
    weighted = design[known] * mean.weights[:, None]
    middle = np.einsum("ga,gb,gjk->abjk", weighted, weighted, noise + between, optimize=True)
    at = design @ mean.inverse
    return np.einsum("ga,gb,abjk->gjk", at, at, middle, optimize=True)


def _averaged(
    between: Between, noise: np.ndarray, left: np.ndarray, spread: np.ndarray, groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average over how large the covariance between groups may be."""
    sizes = between.sizes(groups)
    first = np.zeros_like(left)
    second, kept, own = (np.zeros_like(noise) for _ in range(3))
    for size in sizes:
        covariance = size * between.shape
        weight = np.swapaxes(np.linalg.solve(noise + covariance, np.broadcast_to(covariance, noise.shape)), 1, 2)
        rest = np.eye(len(covariance)) - weight
        found = np.einsum("gjk,gk->gj", weight, left)
        own += covariance - weight @ covariance + rest @ spread @ np.swapaxes(rest, 1, 2)
        first += found
        second += np.einsum("gj,gk->gjk", found, found)
        kept += weight
    count = len(sizes)
    first /= count
    return first, own / count + second / count - np.einsum("gj,gk->gjk", first, first), kept / count
