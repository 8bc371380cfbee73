"""Which mechanism a spec asks for, calibrated to its budget. From public things alone."""

from __future__ import annotations

from typing import Any, Protocol

from dpspark.data.domain import Domain
from dpspark.data.fixed_point import ExactGram
from dpspark.errors import ConfError
from dpspark.mechanisms.adaptive import AdaptiveProjection
from dpspark.mechanisms.gaussian import GaussianGram
from dpspark.mechanisms.laplace import LaplaceGram
from dpspark.mechanisms.noisy import NoiseModel, NoisyGram
from dpspark.mechanisms.projection import Law, ProjectedGram
from dpspark.mechanisms.wishart import WishartGram
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import second_moment
from dpspark.spec import Spec


class GramMechanism(Protocol):
    """What turns an exact matrix into a noisy one."""

    @property
    def domain(self) -> Domain: ...
    @property
    def noise(self) -> NoiseModel: ...
    @property
    def count_is_public(self) -> bool: ...

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram: ...

    def facts(self) -> dict[str, Any]:
        """For the manifest: every number needed to recompute the guarantee."""
        ...


def choose_gram(spec: Spec) -> GramMechanism:
    name, options, budget = spec.mechanism_name, spec.mechanism, spec.privacy.budget
    if name == "gaussian":
        sensitivity = second_moment(spec.domain, spec.changed_rows, spec.rows_per_record)
        return GaussianGram.for_budget(spec.domain, sensitivity, budget)
    epsilon, delta = budget.epsilon, budget.delta
    assert epsilon is not None
    if name == "laplace":
        return LaplaceGram.for_budget(spec.domain, spec.changed_rows, spec.rows_per_record, epsilon)
    assert delta is not None
    if spec.rows_per_record > 1:
        raise ConfError(
            f"mechanism {name} is proved for one row a record; source.rows_per_record={spec.rows_per_record}.\n"
            "Use mechanism gaussian or laplace."
        )
    replaced = spec.changed_rows != "added"
    calibration = options.calibration or "exact"
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
