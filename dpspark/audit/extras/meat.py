"""Attacks on the meats of regressions: with the matrix that they are released with, and what a record moves them by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case
from dpspark.audit.likelihood import additive_std
from dpspark.audit.sensitivity_attack import CHANGES, ROOM
from dpspark.audit.tables import Raw, TableRows, gram_of, upper_of
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.records import Change
from dpspark.exact.residuals import Residual, meat_steps
from dpspark.mechanisms.errors.asked import AskedRegression, asked_of
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import Sensitivity, residual_meat
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec

Claim = Callable[[Domain, Change, int], Sensitivity]
CLIP = 1.0  # half of the response's range: a residual of 0 or of ±1 is easily had


def meat_case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell matrix and meats of two neighbours apart, together: a record at its bounds, with a residual beyond the clip.

    `quieter` is how many times too small the noise of the meats is.
    """
    mechanism = choose(spec)
    assert isinstance(mechanism, GaussianGram)
    meats = mechanism.meats
    assert meats is not None
    drawn = replace(meats, mu=meats.mu * quieter)
    regressions, clips = meats.asked.regressions, [CLIP] * len(meats.each)
    tables = _neighbours(mechanism.domain, regressions[0], spec.records.change, spec.records.rows)
    grams = [gram_of(mechanism.domain, rows) for rows in tables]
    sums = [
        TableRows.of(meats.domain, rows).residual_grams(meats.domain, _plain(meats.domain, regressions), clips)
        for rows in tables
    ]
    silent = replace(meats, mu=math.inf)
    exact = [
        np.concatenate([upper_of(gram), _uppers(silent.release(each, clips, _Silent()))])
        for gram, each in zip(grams, sums, strict=True)
    ]
    stds = [additive_std(meats.noise(at, CLIP), len(one.terms(meats.domain))) for at, one in enumerate(regressions)]
    std = np.concatenate([additive_std(mechanism.noise, mechanism.domain.width), *stds])

    def see(side: int, noise: NoiseSource) -> np.ndarray:
        matrix = np.array(mechanism.release(grams[side], noise).upper, dtype=float) / mechanism.domain.steps_per_row
        return np.concatenate([matrix, _uppers(drawn.release(sums[side], clips, noise))])

    return additive_case(spec, spec.release_budget, "gaussian", std, exact, see, "extra residual bounds")


class _Silent:
    """No noise at all."""

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return [0] * count

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


def _uppers(noisy: Sequence[Any]) -> np.ndarray:
    return np.concatenate([one.matrix[np.triu_indices(len(one.matrix))] for one in noisy])


def _plain(domain: Domain, regressions: Sequence[AskedRegression]) -> tuple[Residual, ...]:
    """Residuals of coefficients that are all 0: of the response itself."""
    found = []
    for one in regressions:
        places = one.places(domain)
        found.append(Residual.of(domain, np.zeros(len(places)), domain.terms.index(one.formula.response), places))
    return tuple(found)


def _neighbours(domain: Domain, one: AskedRegression, change: Change, rows: int) -> tuple[Raw, Raw]:
    """Two tables that differ by one record at the upper bounds: its response is there, too, or in the middle."""

    def row(response: float) -> tuple[Any, ...]:
        return tuple(
            column.categories[-1]
            if isinstance(column, Categorical)
            else column.middle + (response if column.name == one.formula.response else 1.0) * column.half
            for column in domain.columns
        )

    return ([] if change == "added" else [row(0.0)] * rows), [row(1.0)] * rows


def meat_finding(target: str, neighbours: str, domains: dict[str, Domain], claim: Claim = residual_meat) -> Finding:
    """Find how far a record moves the meat of a response on all other columns, through the code that executors run."""
    change, found = CHANGES[neighbours], []
    for name, columns in domains.items():
        domain = replace(columns, columns=(*columns.columns, Numeric("response", -1.0, 1.0)), response=None)
        products = "".join(f" + {product.name}" for product in domain.products)
        one = asked_of(domain, 0.1, [f"response ~ .{products}"]).regressions[0]
        for rows in (1, 3):
            claimed = claim(one.regressors(domain), change, rows)
            moved = max(_moved(domain, one, change, rows, claimed, clip) for clip in (0.5, 2.0**-7))
            note = f"{name}, {rows} row{'s' if rows > 1 else ''} a record"
            found.append((moved / claimed.value, claimed.value, moved, note))
    ratio, most, moved, note = max(found)
    unit = "R²/2 of the meat"
    return Finding("sensitivity", target, neighbours, unit, most, moved, len(found), ratio > ROOM, note=note)


def _moved(domain: Domain, one: AskedRegression, change: Change, rows: int, claimed: Sensitivity, clip: float) -> float:
    """Try residuals of 0 and beyond the clip, at some corners, and of some coefficients.

    The response is small where the clip is: it takes little of a row's norm then.
    """
    rng, width, places = np.random.default_rng(2), len(one.terms(domain)), one.places(domain)
    at, worst = np.triu_indices(width), 0.0
    twice = np.where(at[0] != at[1], 2.0, 1.0) if claimed.shape == "symmetric" else 1.0
    for number in range(24):
        coefficients = np.zeros(width) if number % 2 else rng.normal(size=width)
        residual = Residual.of(domain, coefficients, domain.terms.index(one.formula.response), places)
        corner = [_corner(column, rng, number < 2) for column in domain.columns[:-1]]
        tables: list[Raw] = [[] if change == "added" else [(*corner, 0.0)] * rows, [(*corner, 8 * clip)] * rows]
        sums = [
            np.array(TableRows.of(domain, table).residual_grams(domain, [residual], [clip]).reveal(), dtype=float)
            for table in tables
        ]
        change_of = (sums[1] - sums[0]) / meat_steps(domain)
        worst = max(worst, math.sqrt(float((twice * change_of**2).sum())))
    return worst


def _corner(column: Numeric | Categorical, rng: np.random.Generator, upper: bool) -> Any:
    if isinstance(column, Categorical):
        return column.categories[-1 if upper else int(rng.integers(len(column.categories)))]
    return column.upper if upper or rng.random() < 0.5 else column.lower
