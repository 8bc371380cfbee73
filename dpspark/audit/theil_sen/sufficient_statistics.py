"""Attacks on the noisy sums of DPSuffStats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import cast

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.likelihood import additive_ratio
from dpspark.audit.sensitivity_attack import CHANGES
from dpspark.audit.target import Attack, Target, seen
from dpspark.audit.theil_sen.shared import PLANE, TABLES, Draw, fresh_stream, in_units, small_tables, spread_finding
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.plane import FINE
from dpspark.mechanisms.lines.sufficient_statistics import UNIT, SufficientLines, SufficientStatistics, centred_sums
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import centred_products
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell noisy sums apart; `quieter` is how many times too small the noise is."""
    line = cast(SufficientLines, choose(spec)).line
    return case_of(spec, spec.release_budget, _sums(line, spec.records.change == "added", quieter))


def _sums(line: SufficientStatistics, added: bool, quieter: float) -> Draw:
    """All noisy sums: zeros, and a record at (1, 1)."""
    zeros = np.zeros(20)
    after = np.append(zeros if added else zeros[1:], 1.0)
    tables = [line.plane.rows(*in_units(line.plane, (part, part))) for part in (zeros, after)]

    def exact(which: int, slope: float | None) -> list[Fraction]:
        rows = tables[which]
        half = Fraction(len(rows), 2)
        right, up = (Fraction(int(part.sum()), FINE) - half for part in (rows.x, rows.y))
        level = [up - Fraction(slope or 0.0) * right] if line.public_rows else [Fraction(len(rows)), right, up]
        return [*centred_sums(rows), *level]

    def draw(side: int, _: NoiseSource) -> float:
        stream = fresh_stream(quieter)
        slope = line.slope(tables[side], stream)
        line.level(tables[side], slope, stream)
        zero, one = (np.array([float(part * UNIT) for part in exact(which, slope)]) for which in (0, 1))
        seen = (one if side else zero) + np.array(stream.draws, dtype=float)
        std = math.sqrt(2) * np.array([float(scale) for scale in stream.scales])
        return additive_ratio("laplace", std, (zero, one))(seen)

    return draw


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find how far a record moves Σ(x − x̄)(y − ȳ) and Σ(x − x̄)², exactly."""
    worst = Fraction(0)
    for before, after in small_tables(CHANGES[neighbours]):
        sums = [centred_sums(PLANE.rows(table[:, 0], table[:, 1])) for table in (before, after)]
        worst = max([worst, *(abs(one - zero) for zero, one in zip(*sums, strict=True))])
    return [spread_finding(target, neighbours, centred_products(), float(worst), TABLES, "centred sums")]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ 5": seen(lambda: case(spec, 5.0))}


TARGET = Target("theil_sen", "sufficient_statistics", case, noise_free, broken)
