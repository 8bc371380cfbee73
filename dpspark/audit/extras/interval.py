"""Attacks on the sums behind a line's interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case
from dpspark.audit.sensitivity_attack import CHANGES
from dpspark.audit.target import Attack, Target, measured
from dpspark.audit.theil_sen.shared import PLANE, fresh_stream, in_units, spread_finding
from dpspark.core.domain import Domain
from dpspark.core.records import Records
from dpspark.mechanisms.lines.plane import line_fit
from dpspark.mechanisms.lines.spread import UNIT, SpreadSums
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import SQUARE_WEIGHT, X_WEIGHT, rounded_spread, spread_l1
from dpspark.spec.choose import choose_lines
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell the sums apart, around a level line: a record far from it at the end of x, or one that was on it.

    `quieter` is how many times too small the noise is.
    """
    interval = choose_lines(spec).interval
    assert interval is not None
    sums, plane = interval.sums, interval.problem.plane
    line = line_fit(plane, plane.joint_anchors, (0.0, 0.0))
    elsewhere = (1 - X_WEIGHT / (2 * SQUARE_WEIGHT)) / 2 if sums.law == "laplace" else 0.0
    ones, zeros = np.ones(spec.records.rows), np.zeros(spec.records.rows)
    before = (ones[:0], ones[:0]) if spec.records.change == "added" else (ones * elsewhere, zeros)
    tables = [plane.rows(*in_units(plane, data)) for data in (before, (ones, ones))]
    exact = [sums.features(rows, line).sum(axis=1) / UNIT for rows in tables]
    std = np.array([0.0 if sums.public_rows else sums.std, *[sums.std] * 3])

    drawn = replace(sums, scale=sums.scale / quieter)

    def see(side: int, _: NoiseSource) -> np.ndarray:
        return np.array(drawn.noisy(tables[side], line, fresh_stream()))

    return additive_case(spec, spec.extra_budget("interval"), sums.law, std, exact, see, "extra interval")


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find how far a record moves the sums in the l1 norm, around a level line: each place of a record, and for another."""
    change, line = CHANGES[neighbours], line_fit(PLANE, PLANE.joint_anchors, (0.0, 0.0))
    sums = SpreadSums(PLANE, "laplace", 1.0, change == "replaced", 0.5)
    x, y = (part.ravel() for part in np.meshgrid(np.linspace(0, 1, 41), (0.0, 0.5, 1.0)))
    features = sums.features(PLANE.rows(x, y), line)
    others = np.zeros((4, 1), dtype=np.int64) if change == "added" else features
    moved = abs(features[:, :, None] - others[:, None, :]).sum(axis=0)
    most = spread_l1(change) + rounded_spread(Records(change)) / UNIT
    return [spread_finding(target, neighbours, most, float(moved.max()) / UNIT, moved.size, "sums, l1")]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ 2": measured(lambda: case(spec, 2))}


TARGET = Target(
    "extra",
    "interval",
    case,
    noise_free,
    broken,
    beside=("theil_sen", "depth"),
    asks={"release": {"interval": {"epsilon_share": 0.5}}},
)
