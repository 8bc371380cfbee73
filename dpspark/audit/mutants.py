"""Deliberately broken copies of the product, each with the attack that must catch it: proof that the audit has teeth.

They wrap the real objects. Nothing in the product can be switched to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.audit.attacks import Case
from dpspark.audit.confs import specs_of
from dpspark.audit.floating_point import move_finding, order_finding
from dpspark.audit.hostile import errors_finding, publish
from dpspark.audit.line_cases import line_case
from dpspark.audit.quantile_cases import quantile_case
from dpspark.audit.redraw import Ask, asks, redraw_finding, some_rows
from dpspark.audit.spread_attack import pairing_finding, smooth_finding
from dpspark.audit.tables import Raw, bounded_rows
from dpspark.audit.target import Attack, Mutant, found_without_noise, measured, seen
from dpspark.audit.targets import TARGETS
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.pairs import matchings
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.choose import choose
from dpspark.spec.extras import bound_quantiles
from dpspark.spec.spec import Spec


def _spec(kind: str, name: str) -> Spec:
    return specs_of(kind, name)[0]


def _line(name: str, quieter: float = 1.0, **times: float) -> Case:
    spec = _spec("theil_sen", name)
    mechanism = choose(spec)
    assert isinstance(mechanism, LineMechanism)
    kernel: Any = mechanism.kernel
    broken = replace(kernel, **{key: getattr(kernel, key) * by for key, by in times.items()})
    return line_case(spec, mechanism, broken, quieter)


def _quantiles() -> Case:
    """Both ends of a column's bounds with all of the release's epsilon, where the stage has half of it for both."""
    spec = specs_of("stage", "bounds")[1]
    of = bound_quantiles(spec)
    assert spec.privacy.epsilon is not None
    return quantile_case(
        spec, of, spec.stage_budget("bounds"), "stage bounds", replace(of, epsilon_each=spec.privacy.epsilon)
    )


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
    """In the data's own units: an outlier beyond 10¹⁵⁴ makes them infinite, or no number at all."""
    total = np.zeros((domain.width, domain.width))
    with np.errstate(all="ignore"):
        for rows in parts:
            raw = np.array([[1.0, *(np.nan if value is None else value for value in row)] for row in rows], dtype=float)
            for row in np.nan_to_num(raw):
                total = total + np.outer(row, row)
    return (total[np.triu_indices(domain.width)]).tolist()


def cut_before_shuffle(rows: int, count: int, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """OpenDP #2950: an odd table loses its last record, then the rest is shuffled."""
    return matchings(rows - rows % 2, count, stream)


def short_smooth_sensitivity(values: np.ndarray, per_record: int, decay: float, cells: int) -> float:
    """Alabi et al.'s code: its loop ends before t = (l + 1)·k."""
    middle, m = (len(values) - 1) // 2, len(values)

    def at(i: int) -> int:
        return 0 if i < 0 else cells if i >= m else int(values[i])

    return max(
        math.exp(-decay * others) * max(at(middle + t) - at(middle + t - (others + 1) * per_record) for t in range(q))
        for others in range(m // per_record + 2)
        if (q := (others + 1) * per_record)
    )


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
    mechanism = choose(spec)
    assert isinstance(mechanism, LineMechanism)
    x, y = (np.array(column, dtype=float) for column in zip(*some_rows(spec), strict=True))
    return lambda: mechanism.kernel.fit(x, y, KeyedRandom.fresh(), "group", 0)


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
    return [*own, *_line_mutants(), *_shared_mutants()]


def _line_mutants() -> list[Mutant]:
    both, root, smooth = "both cuts with all of ε", math.sqrt(3), "smooth_sensitivity"
    cut = found_without_noise(lambda: pairing_finding("theil_sen exponential", "add_remove", cut_before_shuffle))
    short = found_without_noise(lambda: smooth_finding(f"theil_sen {smooth}", "replace_one", short_smooth_sensitivity))
    return [
        Mutant("theil_sen", "depth", "exponent × 2", seen(lambda: _line("depth", exponent=2.0), 3)),
        Mutant("theil_sen", "huber", "exponent × 3", seen(lambda: _line("huber", exponent=3.0))),
        Mutant("theil_sen", "exponential", both, seen(lambda: _line("exponential", exponent=2.0), 12)),
        Mutant("theil_sen", "exponential", "cut before shuffle (OpenDP #2950)", cut),
        Mutant("theil_sen", "all_pairs", "exponent × 4", seen(lambda: _line("all_pairs", exponent=4.0))),
        Mutant("theil_sen", "widened", "exponent × 4", seen(lambda: _line("widened", exponent=4.0))),
        Mutant("theil_sen", smooth, "noise ÷ 8, decay × 8", seen(lambda: _line(smooth, noise=8.0, decay=8.0))),
        Mutant("theil_sen", smooth, "loop misses t = (l+1)k (Alabi)", short),
        Mutant("theil_sen", "sufficient_statistics", "noise ÷ 5", seen(lambda: _line("sufficient_statistics", 5.0))),
        Mutant("theil_sen", "gradient_descent", "noise ÷ √3", measured(lambda: _line("gradient_descent", root))),
        Mutant("theil_sen", "gram", "noise ÷ √3", measured(lambda: _line("gram", root))),
        Mutant("stage", "bounds", "every quantile with ε = 1", seen(_quantiles, 2)),
    ]


def _shared_mutants() -> list[Mutant]:
    """Of what all mechanisms stand on: sums, retries, errors."""

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
