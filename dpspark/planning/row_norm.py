"""What a row norm leaves of guessed rows: normal rows of a fixed seed, bounded as the release bounds them."""

from __future__ import annotations

import numpy as np

from dpspark.core.domain import Domain

ROWS = 20_000


def made_up_rows(mean: np.ndarray, covariance: np.ndarray, rows: int, seed: int = 0) -> np.ndarray:
    """Normal rows of this mean and covariance, in scaled coordinates, within their bounds."""
    values, vectors = np.linalg.eigh(covariance)
    drawn = np.random.default_rng(seed).standard_normal((rows, len(mean)))
    return np.clip(mean + drawn * np.sqrt(np.maximum(values, 0.0)) @ vectors.T, -1.0, 1.0)


def shortened(domain: Domain, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, covariance, and how much a row counts: less than 1 where its intercept is shortened with it."""
    norm = domain.row_norm
    assert norm is not None
    rows = made_up_rows(mean, covariance, ROWS)
    measured = rows if domain.response is None else rows[:, :-1]
    squared = (measured**2).sum(axis=1)
    if norm.include_response:
        weights = norm.longest**2 / (1 + squared)
        weights = weights if norm.mode == "project" else np.minimum(1.0, weights)
        centre = weights @ rows / weights.sum()
        apart = rows - centre
        return centre, (apart * weights[:, None]).T @ apart / weights.sum(), float(weights.mean())
    factor = norm.radius / np.sqrt(np.maximum(squared, 1e-24))
    measured *= (factor if norm.mode == "project" else np.minimum(1.0, factor))[:, None]
    return rows.mean(axis=0), np.atleast_2d(np.cov(rows.T)), 1.0
