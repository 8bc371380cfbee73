"""From an accuracy to the budget that reaches it."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpspark.errors import ConfError
from dpspark.privacy.budget import Budget
from dpspark.privacy.profiles import LARGEST_EPSILON
from dpspark.spec.spec import Spec

SMALLEST, LARGEST = 1e-9, 1e6  # epsilon or rho looked at
BELOW_ONE = 1 - 1e-9  # where theorems end


def with_budget(spec: Spec, value: float) -> Spec:
    """The spec with another epsilon, or rho if it has one."""
    key = "epsilon" if spec.privacy.rho is None else "rho"
    return spec.model_copy(update={"privacy": spec.privacy.model_copy(update={key: value})})


def budget_value(spec: Spec) -> float:
    found = spec.privacy.epsilon if spec.privacy.rho is None else spec.privacy.rho
    assert found is not None
    return found


def least_budget(spec: Spec, reached: Callable[[Spec], bool], tolerance: float) -> Budget | None:
    """The least epsilon (or rho) at which `reached` holds, which more budget never undoes; None: there is none.

    Delta stays the conf's. `tolerance` is of the budget's logarithm.
    """

    def holds(value: float) -> bool:
        try:
            return reached(with_budget(spec, value))
        except ConfError:  # a budget too small for its noise to be drawn, or beyond a mechanism's range
            return False

    # Mechanisms in floating point end at LARGEST_EPSILON, theorems at 1.
    largest = next((value for value in (LARGEST, LARGEST_EPSILON, BELOW_ONE) if holds(value)), None)
    if largest is None:
        return None
    low, high = math.log(SMALLEST), math.log(largest)
    while high - low > tolerance:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
    return with_budget(spec, math.exp(high)).privacy.budget
