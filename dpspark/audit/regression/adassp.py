"""The attack on adassp: among others whose least eigenvalue follows the record alone."""

from __future__ import annotations

from collections.abc import Mapping

from dpspark.audit.attacks import Case
from dpspark.audit.neighbours import orthogonal_rows
from dpspark.audit.regression.statistics import chosen, ends_of, noise_free, statistics_case
from dpspark.audit.target import Attack, Target, seen
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell statistics of two neighbours apart, the least eigenvalue with them."""
    mechanism = chosen(spec)
    record = tuple(ends_of(spec, mechanism)[1][0])
    return statistics_case(spec, mechanism, mechanism.quieter(quieter), orthogonal_rows(mechanism.domain, record))


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ 2": seen(lambda: case(spec, 2.0))}


TARGET = Target("regression", "adassp", case, noise_free, broken)
