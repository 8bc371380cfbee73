"""The attack on ssp."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpspark.audit.attacks import Case
from dpspark.audit.regression.statistics import chosen, noise_free, statistics_case
from dpspark.audit.target import Attack, Target, measured
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell statistics of two neighbours apart; `quieter` is how many times too small the noise is."""
    mechanism = chosen(spec)
    return statistics_case(spec, mechanism, mechanism.quieter(quieter))


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ √3": measured(lambda: case(spec, math.sqrt(3)))}


TARGET = Target("regression", "ssp", case, noise_free, broken)
