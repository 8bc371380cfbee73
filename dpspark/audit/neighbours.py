"""Worst-case neighbours: the records whose presence, or whose change, is easiest to see."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpspark.audit.tables import Raw, bounded_rows
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.records import Change

Norm = Literal["l1", "l2", "frobenius"]
MOST_CORNERS = 1 << 10
STARTS = 12  # of the climb, where corners are too many to try them all

Bounding = Callable[[Domain, Raw], np.ndarray]


@dataclass(frozen=True)
class Worst:
    """A row before (None: absent) and after, and how far it moves the sum of zzᵀ."""

    before: tuple[object, ...] | None
    after: tuple[object, ...]
    moved: float


def hostile_values(column: Numeric | Categorical) -> list[object]:
    """List what a record may hold in a column: bounds, their middle, far outliers, infinities, NaN, null, no known category."""
    if isinstance(column, Categorical):
        unknown = "\0unknown" if isinstance(column.categories[0], str) else None
        return [*column.categories, unknown, None]
    tiny = math.ulp(max(abs(column.lower), abs(column.upper)))
    return [
        column.upper,
        column.lower,
        column.middle,
        column.upper + tiny,
        1e308,
        -math.inf,
        math.inf,
        math.nan,
        5e-324,
        -0.0,
        None,
    ]


def corner_values(column: Numeric | Categorical) -> list[object]:
    return list(column.categories) if isinstance(column, Categorical) else [column.upper, column.lower]


def size_of(before: np.ndarray, after: np.ndarray, norm: Norm) -> np.ndarray:
    """The norm of Σ after − Σ before for each pair of rows, the last axis being a row's."""
    change = after[..., :, None] * after[..., None, :] - before[..., :, None] * before[..., None, :]
    if norm == "frobenius":
        return np.sqrt((change**2).sum(axis=(-2, -1)))
    upper = change[(..., *np.triu_indices(change.shape[-1]))]
    return np.abs(upper).sum(axis=-1) if norm == "l1" else np.sqrt((upper**2).sum(axis=-1))


def worst_change(domain: Domain, change: Change, norm: Norm, bound: Bounding = bounded_rows) -> Worst:
    """The largest change of the exact matrix by one row, over the hostile values of every column.

    All combinations if they are few; else by climbing from random corners, one value at a time. Through the real bounding code.
    """
    choices = [hostile_values(column) for column in domain.columns]
    if math.prod(map(len, choices)) <= MOST_CORNERS:
        rows = list(itertools.product(*choices))
        return _largest(rows, bound(domain, rows), change, norm)
    return _climb(domain, choices, change, norm, bound)


def _largest(rows: list[tuple[Any, ...]], z: np.ndarray, change: Change, norm: Norm) -> Worst:
    distinct = np.unique(z, axis=0, return_index=True)[1]
    rows, z = [rows[i] for i in distinct], z[distinct]
    found: list[Worst] = []
    if change != "replaced":
        sizes = size_of(np.zeros_like(z), z, norm)
        found.append(Worst(None, rows[int(sizes.argmax())], float(sizes.max())))
    if change != "added":
        for at, row in enumerate(rows):
            sizes = size_of(np.broadcast_to(z[at], z.shape), z, norm)
            found.append(Worst(row, rows[int(sizes.argmax())], float(sizes.max())))
    return max(found, key=lambda worst: worst.moved)


def _climb(domain: Domain, choices: list[list[object]], change: Change, norm: Norm, bound: Bounding) -> Worst:
    rng = np.random.default_rng(0)  # which corners are tried first: nothing secret
    sides = {"added": (1,), "replaced": (0, 1), "either": (0, 1)}[change]
    absent = {"added": (True,), "replaced": (False,), "either": (True, False)}[change]
    best = Worst(None, (), -1.0)
    for alone, _ in itertools.product(absent, range(STARTS)):
        pair = [[column[rng.integers(2)] for column in map(corner_values, domain.columns)] for _ in (0, 1)]
        for _ in range(2):
            for side, at in itertools.product((1,) if alone else sides, range(len(choices))):
                tries = [[*pair[side][:at], value, *pair[side][at + 1 :]] for value in choices[at]]
                z = bound(domain, [*tries, pair[1 - side]])
                other = np.zeros_like(z[-1]) if alone else z[-1]
                sizes = size_of(np.broadcast_to(other, z[:-1].shape), z[:-1], norm)
                pair[side] = tries[int(sizes.argmax())]
                if sizes.max() > best.moved:
                    best = Worst(None if alone else tuple(pair[0]), tuple(pair[1]), float(sizes.max()))
    return best


def hostile_pairs(domain: Domain, change: Change, count: int = 400) -> Iterator[tuple[Raw, Raw]]:
    """Try tables before and after a change of one record: corners first, then random mixtures of hostile values."""
    rng = np.random.default_rng(1)  # which are tried: nothing secret
    choices = [hostile_values(column) for column in domain.columns]
    for number in range(count):
        few = 2 if number < count // 2 else None
        rows = [tuple(values[rng.integers(few or len(values))] for values in choices) for _ in (0, 1)]
        yield ([] if change == "added" else [rows[0]]), [rows[1]]


def neighbour_tables(domain: Domain, change: Change, rows_per_record: int, norm: Norm) -> tuple[Raw, Raw]:
    """Two tables that differ by one record of `rows_per_record` equal rows."""
    worst = worst_change(domain, change, norm)
    before = [] if worst.before is None else [worst.before] * rows_per_record
    return before, [worst.after] * rows_per_record


def orthogonal_rows(domain: Domain, to: tuple[object, ...], copies: int = 50) -> Raw:
    """Rows that leave the least eigenvalue of Σ x xᵀ to the one direction `to`: then that one record moves it all the way.

    Only rows of ±1 that are orthogonal to it; there are none for every number of columns, and then no rows.
    """
    regressors = domain.regressors
    rows = list(itertools.islice(itertools.product(*map(corner_values, regressors.columns)), MOST_CORNERS))
    cut = len(regressors.columns)
    along = bounded_rows(regressors, [to[:cut]])[0]
    flat = [(column.middle,) for column in domain.columns[cut:] if isinstance(column, Numeric)]
    kept = [row for row, z in zip(rows, bounded_rows(regressors, rows), strict=True) if abs(z @ along) < 1e-9]
    return [(*row, *itertools.chain(*flat)) for row in kept[:8] for _ in range(copies)]
