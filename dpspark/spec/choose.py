"""Which mechanism a spec asks for, calibrated to its budget. From public things alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpspark.errors import ConfError
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.base import GramMechanism
from dpspark.mechanisms.lines.base import AskedInterval, LineMechanism, LineProblem
from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles, QuantileProblem
from dpspark.mechanisms.regression.descent import GradientDescent
from dpspark.mechanisms.regression.objective import ObjectivePerturbation
from dpspark.mechanisms.regression.regressions import (
    PLAIN,
    DescentRegression,
    ObjectiveRegression,
    RegressionMechanism,
    adassp,
    gram_ridge,
    ssp,
)
from dpspark.mechanisms.regression.statistics import GaussianStatistics
from dpspark.privacy.sensitivity import (
    in_groups,
    moved_statistics,
    regression_statistics,
)
from dpspark.spec.spec import Spec

Mechanism = GramMechanism | RegressionMechanism | LineMechanism | ExponentialQuantiles
INTERVAL_SHARE = Fraction(1, 5)  # of an objective release's budget, for the statistics that its intervals come from


def choose(spec: Spec) -> Mechanism:
    if spec.release.kind == "theil_sen":
        return choose_lines(spec)
    if spec.release.kind == "quantiles":
        return choose_quantiles(spec)
    return choose_regression(spec) if spec.release.kind == "regression" else choose_gram(spec)


def choose_regression(spec: Spec) -> RegressionMechanism:
    name, options, budget, domain = spec.mechanism_name, spec.options, spec.release_budget, spec.domain
    change, rows = spec.records.change, spec.records.rows
    if name == "gradient_descent":
        return DescentRegression(GradientDescent.for_budget(domain, change, rows, budget, options.steps, options.clip))
    sensitivity = moved_statistics(domain, rows) if spec.records.moves else regression_statistics(domain, change, rows)
    if spec.release.group_by is not None and not spec.records.moves:
        sensitivity = replace(sensitivity, squares=in_groups(sensitivity.squares, rows))
    if name == "gram_ridge":
        return gram_ridge(domain, sensitivity, budget)
    if name == "ssp":
        return ssp(domain, sensitivity, budget)
    if name == "adassp":
        return adassp(domain, sensitivity, budget, options.constants or "joint")
    _one_row_only(spec)
    rest = budget.part(1 - INTERVAL_SHARE)
    assert rest.epsilon is not None
    assert rest.delta
    statistics = GaussianStatistics.for_budget(domain, sensitivity, budget.part(INTERVAL_SHARE), PLAIN)
    objective = ObjectivePerturbation.for_budget(
        statistics.domain,
        sensitivity,
        change != "added",
        rest.epsilon,
        rest.delta,
        options.calibration or "exact",
        options.radius,
    )
    return ObjectiveRegression(statistics, objective, float(INTERVAL_SHARE))


def _one_row_only(spec: Spec) -> None:
    """Refuse several rows a record where the mechanism is proved for one alone."""
    if spec.records.rows > 1 and spec.mechanism_class.one_row:
        other = spec.mechanism_class.rows_alternative
        unit = spec.privacy.unit
        given = "source.rows_per_record" if unit is None or unit.max_rows == 1 else "privacy.unit.max_rows"
        value = spec.records.rows if unit is None or unit.max_rows == 1 else unit.max_rows
        raise ConfError(
            f"mechanism {spec.mechanism_name} is proved for one row a record; {given}={value}.\nUse mechanism {other}."
        )


def problem_of(spec: Spec) -> Problem:
    """Say what the spec asks a mechanism for."""
    return Problem(spec.domain, spec.records, spec.release.expected_rows)


def choose_gram(spec: Spec) -> GramMechanism:
    _one_row_only(spec)
    found = spec.mechanism_class.for_budget(problem_of(spec), spec.release_budget, spec.options)
    assert isinstance(found, GramMechanism)
    return found


def choose_lines(spec: Spec) -> LineMechanism:
    found = spec.mechanism_class.for_budget(line_problem(spec), spec.release_budget, spec.options)
    assert isinstance(found, LineMechanism)
    return found


def line_problem(spec: Spec) -> LineProblem:
    """Say what the spec asks a mechanism of lines for."""
    release = spec.release
    return LineProblem.of(
        spec.domain,
        spec.records,
        by_group=release.group_by is not None,
        cuts=release.cuts or (),
        candidates=release.candidates,
        expected_rows=release.expected_rows,
        x_variance=release.x_variance,
        y_spread=release.y_spread,
        target=spec.target,
        interval=_interval(spec),
    )


def _interval(spec: Spec) -> AskedInterval | None:
    """The interval that is asked for. A mechanism that needs no share for it has the line's and the share together."""
    asked, shares = spec.release.interval, spec.shares
    if asked is None or "interval" not in shares:
        return None if asked is None else AskedInterval(asked.level)
    others = sum((share for extra, share in shares.items() if extra != "interval"), Fraction(0))
    return AskedInterval(asked.level, spec.stage_budget("interval"), spec.privacy.budget.part(1 - others))


def choose_quantiles(spec: Spec) -> ExponentialQuantiles:
    assert spec.release.probabilities is not None
    problem = QuantileProblem(spec.domain, spec.records, probabilities=spec.release.probabilities)
    return ExponentialQuantiles.for_budget(problem, spec.release_budget)
