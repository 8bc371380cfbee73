"""Attacks on private bounds at two quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.quantiles.exponential import quantile_case, quantile_finding
from dpspark.audit.target import Attack, Target, seen
from dpspark.core.domain import Domain
from dpspark.mechanisms.quantiles.exponential import Quantiles
from dpspark.mechanisms.quantiles.percentile import PercentileBounds
from dpspark.spec.extras import bounds_finder
from dpspark.spec.spec import Spec

NAME = "percentile bounds"
PRIVATE = {"bounds": "private", "search": [0, 1000000]}


def bound_quantiles(spec: Spec) -> Quantiles:
    return cast(PercentileBounds, bounds_finder(spec)).quantiles


def case(spec: Spec) -> Case:
    return quantile_case(spec, bound_quantiles(spec), spec.extra_budget("bounds"), f"extra {NAME}")


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [quantile_finding(target, neighbours)]


def with_all_of_epsilon(spec: Spec) -> Case:
    """Both ends of a column's bounds with all of the release's epsilon, where the extra has half of it for both."""
    replaced = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"neighbours": "replace_one"})})
    of = bound_quantiles(replaced)
    assert spec.privacy.epsilon is not None
    drawn = replace(of, epsilon_each=spec.privacy.epsilon)
    return quantile_case(replaced, of, replaced.extra_budget("bounds"), f"extra {NAME}", drawn)


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"every quantile with ε = 1": seen(lambda: with_all_of_epsilon(spec), 2)}


TARGET = Target(
    "extra",
    NAME,
    case,
    noise_free,
    broken,
    beside=("gram", "laplace"),
    asks={"columns": {"income": PRIVATE}, "bounds": {"epsilon_share": 0.5, "method": "percentile"}},
)
