"""What distinguishing attacks of all kinds share: built from a spec as a release is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpspark.audit.attacks import Case, NoiseView
from dpspark.audit.likelihood import additive_ratio
from dpspark.privacy.budget import Budget, zcdp_epsilon
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.spec import Spec

AT_RHO = 1e-6  # the delta at which a claim in rho is shown


def target_of(spec: Spec) -> str:
    return f"{spec.release.kind} {spec.mechanism_name}"


def claim_of(budget: Budget) -> tuple[float, float]:
    if budget.rho is not None:
        return zcdp_epsilon(budget.rho, AT_RHO), AT_RHO
    assert budget.epsilon is not None
    return budget.epsilon, budget.delta or 0.0


def case_of(
    spec: Spec, budget: Budget, draw: Callable[[int, NoiseSource], Any], target: str = "", view: NoiseView | None = None
) -> Case:
    epsilon, delta = claim_of(budget)
    return Case(target or target_of(spec), spec.privacy.neighbours, epsilon, delta, draw, view)


def additive_case(
    spec: Spec,
    budget: Budget,
    law: str,
    std: np.ndarray,
    exact: Sequence[np.ndarray],
    see: Callable[[int, NoiseSource], np.ndarray],
    target: str = "",
) -> Case:
    """Numbers that get independent noise: `see` makes a release and lists them. A standard deviation of 0: a public one."""
    ratio, used = additive_ratio(law, std, (exact[0], exact[1])), std > 0
    shift = (exact[1] - exact[0])[used] / std[used]
    view = NoiseView(law, shift, lambda noise: ((see(1, noise) - exact[1])[used]) / std[used])
    return case_of(spec, budget, lambda side, noise: ratio(see(side, noise)), target, view)
