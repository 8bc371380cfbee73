"""Which mechanism a spec asks for, calibrated to its budget. From public things alone."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from dpspark.errors import ConfError
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.base import GramMechanism
from dpspark.mechanisms.lines.base import AskedInterval, LineMechanism, LineProblem
from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles, QuantileProblem
from dpspark.mechanisms.registry import lines
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.spec.spec import Spec

Mechanism = GramMechanism | RegressionMechanism | LineMechanism | ExponentialQuantiles


def choose(spec: Spec) -> Mechanism:
    """Calibrate the mechanism that a spec names."""
    _one_row_only(spec)
    return spec.mechanism_class.for_budget(problem_of(spec), spec.release_budget, spec.options)  # type: ignore[return-value]


def choose_gram(spec: Spec) -> GramMechanism:
    return cast(GramMechanism, choose(spec))


def choose_regression(spec: Spec) -> RegressionMechanism:
    return cast(RegressionMechanism, choose(spec))


def choose_lines(spec: Spec) -> LineMechanism:
    return cast(LineMechanism, choose(spec))


def choose_quantiles(spec: Spec) -> ExponentialQuantiles:
    return cast(ExponentialQuantiles, choose(spec))


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
    if spec.release.kind == "theil_sen":
        return _line_problem(spec)
    if spec.release.kind == "quantiles":
        return QuantileProblem(spec.domain, spec.records, probabilities=spec.release.probabilities or ())
    return Problem(spec.domain, spec.records, spec.release.expected_rows, spec.asked_errors)


def _line_problem(spec: Spec) -> LineProblem:
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
        smoothed=release.group_counts is not None,
    )


def _interval(spec: Spec) -> AskedInterval | None:
    """The interval that is asked for. A mechanism that needs no share for it has the line's and the share together."""
    asked, shares = spec.release.interval, spec.shares
    if asked is not None:
        _check_interval(spec)
    if asked is None or "interval" not in shares:
        return None if asked is None else AskedInterval(asked.level)
    others = sum((share for extra, share in shares.items() if extra != "interval"), Fraction(0))
    return AskedInterval(asked.level, spec.extra_budget("interval"), spec.privacy.budget.part(1 - others))


def _check_interval(spec: Spec) -> None:
    """Refuse an interval where the mechanism has none. What `auto` chooses has one."""
    having = [line.name for line in lines() if line.paid_interval or line.own_interval]
    if spec.line_class.drawn_by() and spec.mechanism_name not in having:
        others = f"{', '.join(having[:-1])} or {having[-1]}"
        raise ConfError(
            f"release.interval: mechanism {spec.mechanism_name} has none. Use {others}, or remove this key."
        )
