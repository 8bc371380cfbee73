"""Deliberately broken copies of the product, each with the attack that must catch it: proof that the audit has teeth.

They wrap the real objects. Nothing in the product can be switched to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.audit.confs import specs_of
from dpspark.audit.floating_point import move_finding, order_finding
from dpspark.audit.hostile import errors_finding, publish
from dpspark.audit.redraw import Ask, asks, redraw_finding, some_rows
from dpspark.audit.tables import Raw, bounded_rows
from dpspark.audit.target import Attack, Mutant, found_without_noise
from dpspark.audit.targets import TARGETS
from dpspark.core.domain import Domain
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.choose import choose_lines
from dpspark.spec.spec import Spec


def _spec(kind: str, name: str) -> Spec:
    return specs_of(kind, name)[0]


def float_sum(domain: Domain, parts: Sequence[Raw]) -> list[float]:
    """Products of scaled values, not rounded to a grid, added up as they come."""
    totals = []
    for rows in parts:
        z = bounded_rows(domain, rows)
        raw = np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=float)
        for at, column in enumerate(domain.numeric):
            with np.errstate(over="ignore", invalid="ignore"):
                z[:, at + 1] = np.nan_to_num(np.clip((raw[:, at] - column.middle) / column.half, -1.0, 1.0))
        total = np.zeros((domain.width, domain.width))
        for row in z:
            total = total + np.outer(row, row)
        totals.append(total)
    return (sum(totals[1:], totals[0])[np.triu_indices(domain.width)] * domain.steps_per_row).tolist()


def unscaled_float_sum(domain: Domain, parts: Sequence[Raw]) -> list[float]:
    """Add up in the data's own units: an outlier beyond 10¹⁵⁴ makes the sums infinite, or no number at all."""
    total = np.zeros((domain.width, domain.width))
    with np.errstate(all="ignore"):
        for rows in parts:
            raw = np.array([[1.0, *(np.nan if value is None else value for value in row)] for row in rows], dtype=float)
            for row in np.nan_to_num(raw):
                total = total + np.outer(row, row)
    return (total[np.triu_indices(domain.width)]).tolist()


def quoting(spec: Spec, rows: Raw, noise: NoiseSource) -> Any:
    """An error for a value that is not finite, with the value in it."""
    for row in rows:
        for value in row:
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"cannot use {value}")
    return publish(spec, rows, noise)


def warning_of_overflow(spec: Spec, rows: Raw, noise: NoiseSource) -> Any:
    """numpy's own warning, let through."""
    np.array([value for row in rows for value in row if isinstance(value, float)] or [0.0]) * 10.0
    return publish(spec, rows, noise)


def new_secret_each_time(spec: Spec, folder: Path) -> Ask:
    """Noise drawn inside the executors' function: every action of Spark draws again."""
    kernel = choose_lines(spec).kernel
    x, y = (np.array(column, dtype=float) for column in zip(*some_rows(spec), strict=True))
    return lambda: kernel.fit(x, y, KeyedRandom.fresh(), "group", 0)


def without_reservation(spec: Spec, folder: Path) -> Ask:
    """A retried job that does not find what it staged: a release of its own each time."""
    places = iter(range(100))

    def ask() -> Any:
        place = folder / str(next(places))
        place.mkdir()
        return asks(spec, place)()

    return ask


def mutants() -> list[Mutant]:
    """List every broken copy: of each mechanism, and of what all of them stand on."""
    own = [mutant for target in TARGETS.values() for mutant in target.mutants(_spec(target.kind, target.name))]
    return [*own, *_shared_mutants()]


def _shared_mutants() -> list[Mutant]:
    """List the mutants of what all mechanisms stand on: sums, retries, errors."""

    def errors(of: Any) -> Attack:
        return found_without_noise(lambda: errors_finding(_spec("gram", "gaussian"), "gram gaussian", of))

    def redraw(kind: str, name: str, of: Any) -> Attack:
        return found_without_noise(lambda: redraw_finding(_spec(kind, name), f"{kind} {name}", of))

    gaussian, depth = ("gram", "gaussian"), ("theil_sen", "depth")
    return [
        Mutant("sums", "order", "float sums", found_without_noise(lambda: order_finding(float_sum))),
        Mutant(
            "sums",
            "move",
            "float sums in the data's units",
            found_without_noise(lambda: move_finding(unscaled_float_sum)),
        ),
        Mutant(*depth, "a new draw at each action", redraw(*depth, new_secret_each_time)),
        Mutant(*gaussian, "a retry draws again", redraw(*gaussian, without_reservation)),
        Mutant(*gaussian, "an error quotes a value", errors(quoting)),
        Mutant(*gaussian, "a warning tells of an overflow", errors(warning_of_overflow)),
    ]
