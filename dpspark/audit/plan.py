"""Which attacks an audit makes: for every mechanism, and for what all of them stand on."""

from __future__ import annotations

from dpspark.audit.attacks import Case
from dpspark.audit.cases import counts_case, descent_case, gram_case, statistics_case, target_of
from dpspark.audit.line_cases import line_case, quantile_case
from dpspark.mechanisms.choose import GramMechanism, choose
from dpspark.mechanisms.lines import GroupedLines
from dpspark.mechanisms.quantile import QuantileRelease
from dpspark.mechanisms.regression import DescentRegression
from dpspark.spec import Spec
from dpspark.stages import bound_quantiles, clipped_counts


def release_case(spec: Spec) -> Case:
    """The distinguishing attack on the mechanism that a spec asks for."""
    mechanism = choose(spec)
    if isinstance(mechanism, GroupedLines):
        return line_case(spec, mechanism)
    if isinstance(mechanism, QuantileRelease):
        return quantile_case(spec, mechanism.quantiles, spec.release_budget, target_of(spec))
    if isinstance(mechanism, DescentRegression):
        return descent_case(spec, mechanism)
    if isinstance(mechanism, GramMechanism):
        return gram_case(spec, mechanism)
    return statistics_case(spec, mechanism)


def stage_case(spec: Spec, stage: str) -> Case:
    if stage == "bounds":
        return quantile_case(spec, bound_quantiles(spec), spec.stage_budget("bounds"), "stage bounds")
    return counts_case(spec, clipped_counts(spec, choose(spec).domain))
