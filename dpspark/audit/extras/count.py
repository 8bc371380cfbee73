"""Attacks on the number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case
from dpspark.audit.neighbours import hostile_pairs
from dpspark.audit.sensitivity_attack import CHANGES, DOMAINS
from dpspark.audit.tables import arrays
from dpspark.audit.target import Attack, Target, measured
from dpspark.core.domain import Domain
from dpspark.exact.row_count import ExactCount, RowCounter
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import row_count
from dpspark.spec.extras import counted_rows
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Count rows: a record's, or none; `quieter` is how many times too small the noise is."""
    counted, counts = counted_rows(spec), [ExactCount(0), ExactCount(spec.records.rows)]
    exact = [np.array([float(count.reveal())]) for count in counts]

    drawn = replace(counted, scale=counted.scale / quieter)

    def see(side: int, noise: NoiseSource) -> np.ndarray:
        return np.array([float(drawn.release(counts[side], noise).rows)])

    std = np.array([counted.noise_std])
    return additive_case(spec, spec.extra_budget("count"), counted.law.name, std, exact, see, "extra count")


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find how far a record moves the number of rows, nulls left out or not."""
    change, worst, tried, domain = CHANGES[neighbours], 0, 0, DOMAINS["3 numbers"]
    for drop_nulls in (False, True):
        for before, after in hostile_pairs(domain, change):
            counts = []
            for rows in (before, after):
                counter = RowCounter(domain.columns, drop_nulls)
                counter.add(arrays(domain, rows), len(rows))
                counts.append(counter.count)
            worst, tried = max(worst, abs(counts[1] - counts[0])), tried + 1
    most = row_count(change)
    return [Finding("sensitivity", target, neighbours, "rows", most, worst, tried, worst > most)]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ 2": measured(lambda: case(spec, 2))}


# A number of rows is public where records are replaced.
TARGET = Target(
    "extra",
    "count",
    case,
    noise_free,
    broken,
    relations=("add_remove",),
    beside=("quantiles", "exponential"),
    asks={"count": {"epsilon_share": 0.5}},
)
