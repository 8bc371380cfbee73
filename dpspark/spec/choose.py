"""Which mechanism a spec asks for, calibrated to its budget. From public things alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from dpspark.core.domain import Domain
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.adaptive import AdaptiveProjection
from dpspark.mechanisms.gram.noisy import NoiseModel, NoisyGram
from dpspark.mechanisms.gram.projection import Law, ProjectedGram
from dpspark.mechanisms.gram.wishart import WishartGram
from dpspark.mechanisms.lines.grouped import GroupedLines, choose_lines
from dpspark.mechanisms.quantiles.exponential import QuantileRelease
from dpspark.mechanisms.registry import mechanism_named
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.spec import Spec


@runtime_checkable
class GramMechanism(Protocol):
    """What turns an exact matrix into a noisy one."""

    @property
    def domain(self) -> Domain: ...
    @property
    def noise(self) -> NoiseModel: ...
    @property
    def count_is_public(self) -> bool: ...

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram: ...

    def facts(self) -> dict[str, Any]: ...


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


def with_domain(mechanism: Mechanism, domain: Domain) -> Mechanism:
    """The same mechanism for other bounds: the sensitivity of scaled rows does not depend on them."""
    if isinstance(mechanism, AdaptiveProjection | RegressionMechanism | GroupedLines | QuantileRelease):
        return mechanism.for_domain(domain)
    return replace(mechanism, domain=domain)  # type: ignore[type-var]


def choose_regression(spec: Spec) -> RegressionMechanism:
    mechanism = spec.mechanism_class
    if mechanism.one_row:
        _one_row_only(spec)
    found = mechanism.for_budget(problem_of(spec), spec.release_budget, spec.options)
    assert isinstance(found, RegressionMechanism)
    return found


def _one_row_only(spec: Spec) -> None:
    if spec.records.rows > 1:
        other = "gaussian or laplace" if spec.release.kind == "gram" else "gram_ridge"
        unit = spec.privacy.unit
        given = "source.rows_per_record" if unit is None or unit.max_rows == 1 else "privacy.unit.max_rows"
        value = spec.records.rows if unit is None or unit.max_rows == 1 else unit.max_rows
        raise ConfError(
            f"mechanism {spec.mechanism_name} is proved for one row a record; {given}={value}.\nUse mechanism {other}."
        )


def choose_squared_weights(spec: Spec, domain: Domain) -> GramMechanism:
    """The same law on the moments of squared weights, within their own share."""
    squared, budget = domain.with_squared_weights(), spec.stage_budget("squared weights")
    found = mechanism_named("gram", spec.mechanism_name).for_budget(Problem(squared, spec.records), budget, None)
    assert isinstance(found, GramMechanism)
    return found


def problem_of(spec: Spec) -> Problem:
    """What the spec asks a mechanism for."""
    return Problem(spec.domain, spec.records, spec.release.expected_rows)


def choose_gram(spec: Spec) -> GramMechanism:
    name, options, budget = spec.mechanism_name, spec.options, spec.release_budget
    if name in ("gaussian", "laplace"):
        found = mechanism_named("gram", name).for_budget(problem_of(spec), budget, None)
        assert isinstance(found, GramMechanism)
        return found
    epsilon, delta = budget.epsilon, budget.delta
    assert epsilon is not None
    assert delta is not None
    _one_row_only(spec)
    replaced = spec.records.change != "added"
    calibration: Any = options.calibration or "exact"
    if name == "wishart":
        return WishartGram.for_budget(
            spec.domain, replaced, epsilon, delta, calibration, options.degrees_of_freedom, options.scale
        )
    law: Law = "johnson_lindenstrauss" if name == "johnson_lindenstrauss" else "inverse_wishart"
    degrees = options.rows if law == "johnson_lindenstrauss" else options.degrees_of_freedom
    share = options.adaptive or 0.0
    rest = ProjectedGram.for_budget(
        spec.domain,
        law,
        replaced,
        (1 - share) * epsilon,
        (1 - share) * delta,
        calibration,
        degrees,
        spec.release.expected_rows,
    )
    return AdaptiveProjection(rest, share, share * epsilon, share * delta) if share else rest
