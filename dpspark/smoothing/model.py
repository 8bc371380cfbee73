"""Empirical Bayes over groups: each group's value is drawn towards what all groups say of it, the more the noisier it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.smoothing.between import Between, Mean, Seen, fit_between

FEWEST_GROUPS = 3
BADLY = 4.0  # standard deviations off what the model expects of a group's raw value


@dataclass(frozen=True)
class Areas:
    """What is known of each group: k noisy values, the covariance of their noise, and public covariates, 1 among them."""

    values: np.ndarray  # n × k; NaN where a group has none
    noise: np.ndarray  # n × k × k
    design: np.ndarray  # n × q
    noise_error: float = 0.0  # how wrong the noise may be, as a share
    wild: np.ndarray | None = None  # n: the probability that the values are anywhere, and say nothing
    wild_density: float = 1.0  # of such values

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
    near: np.ndarray  # n: how likely a group's values say something

    @property
    def covariance_between(self) -> np.ndarray:
        """How far groups differ, in the units of the values."""
        return self.between.covariance * np.outer(self.units, self.units)

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
    scale = np.outer(units, units)
    noise = np.where(known[:, None, None], areas.noise / scale, np.eye(len(units)))
    values, (design, sizes) = areas.values / units, _usable(areas.design, known)
    wild = np.where(known, 0.0 if areas.wild is None else areas.wild, 1.0)
    density = areas.wild_density * float(np.prod(units))
    seen = Seen(np.where(known[:, None], values, 0.0), noise, design, wild * density, 1 - wild)
    between, mean = fit_between(seen, areas.noise_error)
    expected = design @ mean.slopes
    spread = _mean_covariance(mean, noise, design, between.covariance)
    left = np.where(known[:, None], values - expected, 0.0)
    found, covariance, kept = _averaged(between, noise, left, spread, mean.near, int(known.sum()))
    total = np.diagonal(noise + between.covariance + spread, axis1=1, axis2=2)
    return Smoothed(
        (expected + found) * units,
        covariance * scale,
        kept * units[:, None] / units,
        expected * units,
        left / np.sqrt(total),
        between,
        mean.slopes * units / sizes[:, None],
        units,
        mean.near,
    )


def unsmoothed(areas: Areas) -> Smoothed:
    """Leave every group's value as it is, with its own noise, where groups are too few to be smoothed."""
    count, size = areas.values.shape
    nothing, units = np.zeros((count, size)), np.ones(size)
    between = Between(np.eye(size) / size, 0.0, 1.0, 1.0)
    kept = np.broadcast_to(np.eye(size), (count, size, size))
    slopes = np.zeros((areas.design.shape[1], size))
    own = np.where(areas.known[:, None], areas.values, np.nan)
    return Smoothed(own, areas.noise, kept, own, nothing, between, slopes, units, areas.known.astype(float))


def _usable(design: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale the covariates, by sizes that are returned; keep the constant alone unless groups are more than twice as many."""
    sizes = np.sqrt((design[known] ** 2).mean(axis=0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    rank = np.linalg.matrix_rank(design[known] / sizes)
    kept = slice(None) if known.sum() > 2 * rank + 1 else slice(1)
    return (design / sizes)[:, kept], sizes[kept]


def _mean_covariance(mean: Mean, noise: np.ndarray, design: np.ndarray, between: np.ndarray) -> np.ndarray:
    """The covariance of what the covariates say of each group."""
    weighted = design * mean.weights[:, None]
    middle = np.einsum("ga,gb,gjk->abjk", weighted, weighted, noise + between, optimize=True)
    at = design @ mean.inverse
    return np.einsum("ga,gb,abjk->gjk", at, at, middle, optimize=True)


def _averaged(
    between: Between, noise: np.ndarray, left: np.ndarray, spread: np.ndarray, near: np.ndarray, groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average over how large the covariance between groups may be, and over whether a group's value says anything."""
    sizes = between.sizes(groups)
    first = np.zeros_like(left)
    second, kept, own = (np.zeros_like(noise) for _ in range(3))
    says = near[:, None, None]
    for size in sizes:
        covariance = size * between.shape
        weight = np.swapaxes(np.linalg.solve(noise + covariance, np.broadcast_to(covariance, noise.shape)), 1, 2)
        rest = np.eye(len(covariance)) - weight
        found = np.einsum("gjk,gk->gj", weight, left)
        own += says * (covariance - weight @ covariance + rest @ spread @ np.swapaxes(rest, 1, 2))
        own += (1 - says) * (covariance + spread)
        first += near[:, None] * found
        second += says * np.einsum("gj,gk->gjk", found, found)
        kept += says * weight
    count = len(sizes)
    first /= count
    return first, own / count + second / count - np.einsum("gj,gk->gjk", first, first), kept / count
