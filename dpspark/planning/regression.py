"""The noise of one regression by every mechanism that its budget allows, before a row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.errors import ConfError
from dpspark.mechanisms.registry import mechanism_named, mechanisms_of
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.mechanisms.regression.gram_ridge import GramRidge
from dpspark.mechanisms.regression.refined import Refined
from dpspark.spec.choose import choose_regression
from dpspark.spec.mechanism import MechanismPart
from dpspark.spec.spec import Spec

if TYPE_CHECKING:
    from dpspark.planning.predict import Prediction

ONE_STEP, TWO_STEPS = GramRidge.name, Refined.name
CLEARLY = 1.25  # times less noise: below, the plan's own guesses matter more


@dataclass(frozen=True)
class RegressionOption:
    """Standard deviations in units of one row at its bounds; None where a mechanism has no such statistic."""

    name: str
    squares_std: float | None = None  # of an off-diagonal entry of Σ x xᵀ
    cross_std: float | None = None  # of an entry of Σ x y, or of the tilt, or of one gradient
    note: str = ""
    spec: Spec | None = None  # with this mechanism, if it can be had

    def to_dict(self, terms: tuple[str, ...]) -> dict[str, Any]:
        """Return all of it for --json."""
        return {
            "name": self.name,
            "possible": self.spec is not None,
            "note": self.note,
            "squares_std": self.squares_std,
            "cross_std": self.cross_std,
        }


def regression_options(spec: Spec) -> tuple[RegressionOption, ...]:
    """List every mechanism of kind regression; refuse if the conf's own cannot be had."""
    options = tuple(_option(spec, mechanism.name) for mechanism in mechanisms_of("regression"))
    chosen = next(option for option in options if option.name == spec.mechanism_name)
    if chosen.spec is None:
        raise ConfError(chosen.note)
    return options


def _option(spec: Spec, name: str) -> RegressionOption:
    privacy = spec.privacy
    given = "rho" if privacy.rho is not None else "both" if privacy.delta is not None else "epsilon"
    if given not in mechanism_named("regression", name).currencies:
        return RegressionOption(
            name,
            note="needs epsilon and delta"
            + (" or rho" if "rho" in mechanism_named("regression", name).currencies else ""),
        )
    variant = spec if name == spec.mechanism_name else spec.model_copy(update={"mechanism": MechanismPart(name=name)})
    try:
        return replace(described(name, choose_regression(variant)), spec=variant)
    except ConfError as error:
        return RegressionOption(name, note=" ".join(str(error).split("\n")))


def compare_steps(chosen: str, predicted: Mapping[str, Sequence[Prediction]]) -> str:
    """Say whether a second step is likely to have less noise than one, from predictions alone; nothing if neither wins."""
    found = [predicted.get(name) for name in (ONE_STEP, TWO_STEPS)]
    if chosen not in (ONE_STEP, TWO_STEPS) or not all(each and each[0].ok for each in found):
        return ""
    one, two = (np.exp(np.mean(np.log(np.maximum(each[0].privacy, 1e-300)))) for each in found if each)
    times = float(one / two)
    if chosen == ONE_STEP and times >= CLEARLY:
        return f"{TWO_STEPS} is likely to have {times:.1f} times less privacy noise, unless residuals are skewed"
    if chosen == TWO_STEPS and times <= 1:
        return f"{ONE_STEP} is likely to have no more noise than {TWO_STEPS}, and reads the data once"
    return ""


def described(name: str, mechanism: RegressionMechanism) -> RegressionOption:
    """Say what it would draw."""
    found = mechanism.planned_noise()
    return RegressionOption(name, found.squares_std, found.cross_std, found.note)
