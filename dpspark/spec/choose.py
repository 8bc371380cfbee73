"""Which mechanism a spec asks for, calibrated to its budget. From public things alone."""

from __future__ import annotations

from fractions import Fraction

from dpspark.errors import ConfError
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.base import GramMechanism
from dpspark.mechanisms.lines.grouped import GroupedLines, choose_lines
from dpspark.mechanisms.quantiles.exponential import QuantileRelease
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.spec.spec import Spec

Mechanism = GramMechanism | RegressionMechanism | GroupedLines | QuantileRelease


def choose(spec: Spec) -> Mechanism:
    if spec.release.kind == "theil_sen":
        return choose_lines(spec)
    if spec.release.kind == "quantiles":
        assert spec.release.probabilities is not None
        # A record that moves between groups changes two of them: each has half.
        budget = spec.release_budget.part(Fraction(1, 2)) if spec.records.moves else spec.release_budget
        return QuantileRelease.for_budget(
            spec.domain, spec.release.probabilities, spec.records.change, spec.records.rows, budget
        )
    return choose_regression(spec) if spec.release.kind == "regression" else choose_gram(spec)


def choose_regression(spec: Spec) -> RegressionMechanism:
    _one_row_only(spec)
    found = spec.mechanism_class.for_budget(problem_of(spec), spec.release_budget, spec.options)
    assert isinstance(found, RegressionMechanism)
    return found


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
