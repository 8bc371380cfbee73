"""Coarser levels of groups: what the finest groups say of a county or a state, as a problem of smoothing of its own.

Of lines, the target is the mean of the lines of its finest groups, each by its number of rows. The estimate is the same mean of
published values, by noisy rows. Its noise has four parts: that of the values; that of the rows, by as much as groups differ;
groups whose value says nothing; and what all groups have in common, which no average takes away.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.groups import GroupedContent
from dpspark.pooling.levels import LevelContent
from dpspark.smoothing.coefficients import coefficients_problem
from dpspark.smoothing.model import Areas, Smoothed
from dpspark.smoothing.problem import Problem, RowsOfGroups
from dpspark.smoothing.result import BESIDE
from dpspark.source.hierarchy import Hierarchy

LEAST_SAID = 0.05  # of the rows of a group: where less is in values that say something, it has no value of its own


def matrices_of_level(content: GroupedContent, finest: Problem, level: str) -> Problem:
    """Fit the regression of the finest level to the matrices of a coarser one."""
    hierarchy = content.hierarchy
    assert hierarchy is not None
    first = content.tables["second_moment"]["value"].to_numpy().reshape(len(hierarchy.keys), -1)[:, 0]
    share = _shares(np.maximum(first, 0.0), hierarchy.places(level))
    problem = coefficients_problem(LevelContent.of(content, level), None, finest.notes["formula"])
    design = _sums(share[:, None] * finest.areas.design, hierarchy.places(level))
    return replace(problem, areas=replace(problem.areas, design=design), covariates=finest.covariates)


def lines_of_level(finest: Problem, found: Smoothed, hierarchy: Hierarchy, groups: pa.Table, level: str) -> Problem:
    """Average the lines of the finest groups, `found` of which says how far they differ and which of them say something."""
    rows, places = finest.rows, hierarchy.places(level)
    assert rows is not None
    share = _shares(rows.likely.mean(axis=1), places)
    near = np.where(finest.areas.known, found.near, 0.0)
    said = _sums(share * near, places)
    weight = share * near / np.maximum(said, LEAST_SAID)[places]
    values = np.where(finest.areas.known[:, None], finest.areas.values, 0.0)
    sizes = rows.law.shares(rows.likely.mean(axis=1))
    mean = _sums(weight[:, None] * (values - sizes @ rows.law.offset), places)
    noise = _noise(finest, found, share, weight, near, values - mean[places], places)
    mean[said < LEAST_SAID] = np.nan
    areas = Areas(mean, noise, _sums(share[:, None] * finest.areas.design, places), finest.areas.noise_error)
    return replace(
        finest,
        groups=groups,
        areas=areas,
        raw=finest.shift + mean @ finest.shown.T,
        target=f"{finest.target}, averaged over {hierarchy.finest} by rows",
        beside={
            BESIDE[0]: _sums(rows.noisy, places),
            BESIDE[1]: rows.noisy_std * np.sqrt(hierarchy.sizes(level)),
        },
        parts=1 / np.maximum(_sums(weight**2, places), 1e-12),
        shared=_shared(rows, _sums(weight[:, None] * sizes, places)),
        rows=None,
    )


def groups_of_level(table: pa.Table, hierarchy: Hierarchy, level: str) -> pa.Table:
    """The keys of a level's groups, from the published table of all levels."""
    _, first = np.unique(hierarchy.places(level), return_index=True)
    return table.select(list(hierarchy.up_to(level))).take(pa.array(first))


def _noise(
    finest: Problem,
    found: Smoothed,
    share: np.ndarray,
    weight: np.ndarray,
    near: np.ndarray,
    off: np.ndarray,
    places: np.ndarray,
) -> np.ndarray:
    """The covariance of what a mean of published values is off the mean of the true ones, by the true rows."""
    assert finest.rows is not None
    likely = finest.rows.likely
    total = np.maximum(_sums(likely.mean(axis=1), places), 1.0)[places]
    # True rows are not the likely ones: by so much too few or too many a group's own difference counts.
    moved = (weight - share) ** 2 + likely.var(axis=1) / total**2
    known = finest.areas.known[:, None, None]
    noise = _sums(weight[:, None, None] ** 2 * np.where(known, finest.areas.noise, 0.0), places)
    noise += _sums(moved, places)[:, None, None] * found.covariance_between
    # A value that may say nothing: whether it does is not known.
    doubt = share**2 * near * (1 - near) / np.maximum(_sums(share * near, places), LEAST_SAID)[places] ** 2
    return noise + _sums(doubt[:, None, None] * np.einsum("gj,gk->gjk", off, off), places)


def _shared(rows: RowsOfGroups, sizes: np.ndarray) -> np.ndarray:
    """How well the simulation knows what noise does to draws on average."""
    return np.einsum("gs,sjk->gjk", sizes**2, rows.law.offset_noise)


def _shares(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Each finest group's part of the rows of its group; where no group has rows, all count the same."""
    rows = rows + 1e-9
    return rows / _sums(rows, places)[places]


def _sums(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Add up over the finest groups of each group."""
    found = np.zeros((int(places.max()) + 1, *values.shape[1:]))
    np.add.at(found, places, values)
    return found
