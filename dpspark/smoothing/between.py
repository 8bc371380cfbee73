"""How far groups truly differ: the covariance between them, by moments, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

ROUNDS = 60
SETTLED = 1e-9
LEAST_ROOM = 0.05  # of 1 − leverage: a group that the covariates alone explain says nothing about the others
MANY_GROUPS = 1000  # with so many the covariance is known well: fewer values of it are tried
FEW_VALUES, MANY_VALUES = 3, 11


@dataclass(frozen=True)
class Between:
    """The covariance of the groups' true values around what covariates say of them.

    Its size is one number, the trace; `shape` is the covariance over its trace. The size plus the average noise is distributed
    as a multiple of χ² over its degrees of freedom: that is how well it is known.
    """

    shape: np.ndarray  # k × k, of trace 1
    size: float  # as estimated; below 0 where groups differ by less than their noise does
    noise: float  # the average trace of the noise's covariance
    degrees: float

    @property
    def covariance(self) -> np.ndarray:
        return max(0.0, self.size) * self.shape

    def quantile(self, share: np.ndarray) -> np.ndarray:
        """Find sizes below which the true one is with these probabilities; they may be below 0."""
        return (self.size + self.noise) * self.degrees / stats.chi2.isf(share, self.degrees) - self.noise

    def interval(self, level: float) -> tuple[float, float]:
        """Bound the size; from 0 where groups may not differ at all."""
        ends = self.quantile(np.array([(1 - level) / 2, (1 + level) / 2]))
        return max(0.0, float(ends[0])), max(0.0, float(ends[1]))

    def sizes(self, groups: int) -> np.ndarray:
        """List sizes that are equally likely, none below 0."""
        count = FEW_VALUES if groups > MANY_GROUPS else MANY_VALUES
        negative = float(stats.chi2.sf((self.size + self.noise) * self.degrees / self.noise, self.degrees))
        shares = negative + (1 - negative) * (np.arange(count) + 0.5) / count
        return np.maximum(0.0, self.quantile(np.minimum(shares, 1 - 1e-12)))


@dataclass(frozen=True)
class Seen:
    """What is seen of n groups, in units of the noise: k values, the noise's covariance, q covariates, and wild draws."""

    values: np.ndarray  # n × k
    noise: np.ndarray  # n × k × k
    design: np.ndarray  # n × q
    wild: np.ndarray  # n: the density of values that say nothing, times their probability
    tame: np.ndarray  # n: the probability of others

    def near(self, left: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Compute how likely each group's values say something, by how far they are from what is expected."""
        likely = self.tame * normal_density(left, self.noise + covariance)
        return np.where(self.wild > 0, likely / (likely + self.wild + 1e-300), 1.0)


@dataclass(frozen=True)
class Mean:
    """What covariates say of the groups: weighted least squares, one regression for each of the k values."""

    weights: np.ndarray  # of the groups
    slopes: np.ndarray  # q × k
    inverse: np.ndarray  # q × q
    leverage: np.ndarray  # of the groups
    near: np.ndarray  # how likely each group's values say something


def fit_between(seen: Seen, noise_error: float = 0.0) -> tuple[Between, Mean]:
    """Estimate the mean and the covariance between groups in turn, until they settle (Fay & Herriot, by moments).

    `noise_error` says how wrong the noise may be, as a share.
    """
    values, noise, near = seen.values, seen.noise, (seen.tame > 0).astype(float)
    middle = np.median(values[near > 0], axis=0)
    covariance = np.diag((1.4826 * np.median(abs(values[near > 0] - middle), axis=0)) ** 2)
    for _ in range(ROUNDS):
        before = covariance
        mean = fit_mean(seen, covariance, near)
        left = values - seen.design @ mean.slopes
        near = seen.near(left, covariance)
        found = _moments(left, noise, mean)
        covariance = positive(found)
        if abs(covariance - before).max() <= SETTLED * (abs(covariance).max() + SETTLED):
            break
    mean = fit_mean(seen, covariance, near)
    average = np.average(noise, axis=0, weights=mean.weights**2)
    trace, noisy = float(np.trace(covariance)), float(np.trace(average))
    estimated = max(trace if trace > 0 else float(np.trace(found)), -0.999 * noisy)
    badly = _entries_variance(noise, mean, covariance) + noise_error**2 * float((average**2).sum())
    shape = _shape(found, badly) if trace > 0 else average / noisy
    variance = _variance_of_size(left, noise, mean, covariance, estimated) + (noise_error * noisy) ** 2
    degrees = max(1.0, 2 * (estimated + noisy) ** 2 / variance)
    groups = float(near.sum())
    if groups < MANY_GROUPS:
        degrees = min(degrees, values.shape[1] * max(1.0, groups - seen.design.shape[1]))
    return Between(shape, estimated, noisy, degrees), mean


def _shape(found: np.ndarray, variance: float) -> np.ndarray:
    """Draw what was found towards a shape that is alike in all directions, by how badly it is known (Ledoit & Wolf, 2004).

    Else groups that differ little would seem not to differ at all in some direction, and be given intervals of no width there.
    `variance` is that of all its entries together.
    """
    size = len(found)
    level = np.trace(found) / size * np.eye(size)
    off = float(((found - level) ** 2).sum())
    share = min(1.0, variance / off) if off > 0 else 1.0
    drawn = positive(level + (1 - share) * (found - level))
    trace = float(np.trace(drawn))
    return drawn / trace if trace > 0 else np.eye(size) / size


def _entries_variance(noise: np.ndarray, mean: Mean, covariance: np.ndarray) -> float:
    """The variance of all entries of the covariance between groups together, as normal values have it."""
    total, share = noise + covariance, mean.weights**2 / (mean.weights**2).sum()
    squares = np.trace(total, axis1=1, axis2=2) ** 2 + np.einsum("gjk,gkj->g", total, total)
    return float((share**2 * squares).sum())


def fit_mean(seen: Seen, covariance: np.ndarray, near: np.ndarray) -> Mean:
    """Fit the covariates, groups with less noise counting for more."""
    weights, design = near / np.trace(seen.noise + covariance, axis1=1, axis2=2), seen.design
    weighted = design * weights[:, None]
    inverse = np.linalg.pinv(weighted.T @ design, hermitian=True)
    leverage = np.einsum("gq,qr,gr->g", weighted, inverse, design)
    return Mean(weights, inverse @ weighted.T @ seen.values, inverse, leverage, near)


def _moments(left: np.ndarray, noise: np.ndarray, mean: Mean) -> np.ndarray:
    """The squares of what the mean leaves, less the noise's. It need not be positive."""
    left = left / np.sqrt(np.maximum(LEAST_ROOM, 1 - mean.leverage))[:, None]
    squares = mean.weights**2
    return (np.einsum("g,gj,gk->jk", squares, left, left) - np.einsum("g,gjk->jk", squares, noise)) / squares.sum()


def _variance_of_size(left: np.ndarray, noise: np.ndarray, mean: Mean, covariance: np.ndarray, size: float) -> float:
    """The larger of what normal values have, and of what these values show."""
    total, share = noise + covariance, mean.weights**2 / (mean.weights**2).sum()
    normal = float((share**2 * 2 * np.einsum("gjk,gkj->g", total, total)).sum())
    squares = (left**2).sum(axis=1) / np.maximum(LEAST_ROOM, 1 - mean.leverage)
    seen = float((share**2 * (squares - np.trace(noise, axis1=1, axis2=2) - size) ** 2).sum())
    return max(normal, seen)


def positive(matrix: np.ndarray) -> np.ndarray:
    """Find the nearest covariance: negative eigenvalues become 0."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def normal_density(off: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The density of normal errors, one for each row, with one covariance or one each."""
    covariance = np.broadcast_to(covariance, (len(off), off.shape[1], off.shape[1]))
    squared = np.einsum("gj,gj->g", off, np.linalg.solve(covariance, off[:, :, None])[:, :, 0])
    return np.exp(-squared / 2) / np.sqrt(np.linalg.det(2 * np.pi * covariance))
