"""The attack on adassp: among others whose least eigenvalue follows the record alone."""

from __future__ import annotations

from dpspark.audit.attacked import Attacked, Broken
from dpspark.audit.attacks import Case
from dpspark.audit.neighbours import orthogonal_rows
from dpspark.audit.regression.statistics import ends_of, statistics_case
from dpspark.audit.sensitivity_attack import statistics_finding
from dpspark.mechanisms.regression.base import StatisticsMechanism
from dpspark.spec.spec import Spec


def eigenvalue_case(spec: Spec, mechanism: StatisticsMechanism, drawn: StatisticsMechanism | None = None) -> Case:
    """The released statistics, the least eigenvalue with them."""
    record = tuple(ends_of(spec, mechanism)[1][0])
    return statistics_case(spec, mechanism, drawn, orthogonal_rows(mechanism.domain, record))


ATTACKED = Attacked(
    eigenvalue_case,
    (statistics_finding,),
    (Broken("noise ÷ 2", lambda spec, made: eigenvalue_case(spec, made, made.quieter(2.0))),),
)
