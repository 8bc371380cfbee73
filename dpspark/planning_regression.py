"""The noise of one regression by every mechanism that its budget allows, before a row is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dpspark.errors import ConfError
from dpspark.mechanisms.choose import choose_regression
from dpspark.mechanisms.regression import DescentRegression, ObjectiveRegression, RegressionMechanism
from dpspark.regression.summary import aligned
from dpspark.spec import Spec
from dpspark.spec_mechanism import CURRENCIES, MECHANISMS, Mechanism


@dataclass(frozen=True)
class RegressionOption:
    """Standard deviations in units of one row at its bounds; None where a mechanism has no such statistic."""

    name: str
    squares_std: float | None = None  # of an off-diagonal entry of Σ x xᵀ
    cross_std: float | None = None  # of an entry of Σ x y, or of the tilt, or of one gradient
    note: str = ""


@dataclass(frozen=True)
class RegressionPlan:
    budget: str
    chosen: str
    formula: str
    options: tuple[RegressionOption, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def summary(self) -> str:
        cells = [["", "sd of Σ x xᵀ", "sd of Σ x y", ""]]
        for option in self.options:
            mark = " (this conf)" if option.name == self.chosen else ""
            stds = ["-" if std is None else f"{std:.4g}" for std in (option.squares_std, option.cross_std)]
            cells.append([option.name + mark, *stds, option.note])
        head = f"Noise at {self.budget}, for {self.formula}; in rows at their bounds; no data was read"
        return "\n".join([head, "", *aligned(cells, {0, 3})])

    def __str__(self) -> str:
        return self.summary()


def plan_regression(spec: Spec) -> RegressionPlan:
    terms = spec.domain.terms
    return RegressionPlan(
        f"{spec.privacy.budget}, {spec.privacy.neighbours}",
        spec.mechanism_name,
        f"{terms[-1]} ~ {' + '.join(terms[1:-1])}",
        tuple(_option(spec, name) for name in MECHANISMS["regression"]),
    )


def _option(spec: Spec, name: str) -> RegressionOption:
    privacy = spec.privacy
    given = "rho" if privacy.rho is not None else "both" if privacy.delta is not None else "epsilon"
    if given not in CURRENCIES[name]:
        return RegressionOption(name, note="needs epsilon and delta" + (" or rho" if "rho" in CURRENCIES[name] else ""))
    variant = spec if name == spec.mechanism_name else spec.model_copy(update={"mechanism": Mechanism(name=name)})
    try:
        return _described(name, choose_regression(variant))
    except ConfError as error:
        return RegressionOption(name, note=" ".join(str(error).split("\n")))


def _described(name: str, mechanism: RegressionMechanism) -> RegressionOption:
    if isinstance(mechanism, DescentRegression):
        descent = mechanism.descent
        note = f"in each of {descent.steps} sums of gradients, where one row's is {descent.clip.size:.3g} at most"
        return RegressionOption(name, None, descent.scale, note)
    if isinstance(mechanism, ObjectiveRegression):
        note = f"of the tilt, and a ridge of {mechanism.objective.ridge:.4g}; intervals have a part of the budget"
        return RegressionOption(name, None, mechanism.objective.sigma, note)
    noise = mechanism.statistics.noise
    ridges = {
        "none": "no ridge: unstable",
        "weak": f"a ridge of {mechanism.rule.amount:.4g} if the signal is weak",
        "missing": f"a ridge of at most {mechanism.rule.amount:.4g}",
    }
    return RegressionOption(name, noise.off_diagonal_std, noise.cross_std, ridges[mechanism.rule.kind])
