"""Helpers for the certificates of regressions, from the scales of their matrices."""

from __future__ import annotations

import math

from dpspark.core.facts import Garbled
from dpspark.core.records import Records
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import Cost
from dpspark.privacy.profiles import for_one_row
from dpspark.privacy.sensitivity import Sensitivity

FLOATING = "the sampler is floating point: its law is checked, not the last bits of its draws"


def squares_mu(bound: Sensitivity, diagonal: float, off_diagonal: float) -> float:
    """Σ (change / sigma)² over the upper triangle is largest where the norm that bounds the change has most weight."""
    if bound.shape == "spherical":
        return bound.value / min(diagonal, off_diagonal)
    # A tie by the definition of the symmetric shape: off the diagonal sigma is rounded up.
    return bound.value / min(diagonal, off_diagonal * math.sqrt(2))


def check_count(exact: bool, public: bool) -> None:
    if exact and not public:
        raise Garbled("the number of rows is published without noise, and a record can change it")


def one_row(claimed: Budget, records: Records) -> tuple[float, float]:
    """What one added row must meet; a replaced one is two of them."""
    if claimed.epsilon is None or not claimed.delta:
        raise Garbled("this mechanism has epsilon and delta, and its budget has not")
    return for_one_row(claimed.epsilon, claimed.delta, records.replaced)


def profile_cost(delta_at_one_row: object, records: Records) -> Cost:
    """From the profile of one added row; for a replaced one by group privacy: (2ε, (1 + e^ε)·δ)."""
    profile = delta_at_one_row
    assert callable(profile)
    if not records.replaced:
        return Cost(profile)
    return Cost(lambda epsilon: min(1.0, (1 + math.exp(min(epsilon / 2, 700))) * profile(epsilon / 2)))
