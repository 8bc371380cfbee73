"""The inverse of a plan: the least budget at which something is known well enough."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpspark.errors import ConfError
from dpspark.planning.accuracy import accuracy_of, spectral_of
from dpspark.planning.budget import least_budget
from dpspark.planning.noise import noise_stds
from dpspark.planning.predict import Prediction
from dpspark.planning.setting import Setting
from dpspark.privacy.budget import Budget
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec

TOLERANCE = 1e-4  # of the budget's logarithm
EXAMPLES = "se:educ=50, entry=50, entry:age,income=1e6 or spectral=200"
_TARGET = re.compile(r"(?:(?P<kind>\w+)(?::(?P<of>.+))?=)?(?P<value>[^=]+)")


@dataclass(frozen=True)
class Target:
    """`kind` of error, `of` what, and its size."""

    kind: str
    of: str | None
    value: float

    @classmethod
    def parse(cls, text: str) -> Target:
        match = _TARGET.fullmatch(text.strip())
        if match is None:
            raise ConfError(f"--target {text!r}; expected e.g. {EXAMPLES}.")
        try:
            value = float(match["value"])
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise ConfError(f"--target {text!r}: {match['value']!r}; expected a number > 0.")
        return cls(match["kind"] or "entry", match["of"], value)


@dataclass(frozen=True)
class Reached:
    target: Target
    what: str
    budget: Budget
    error: float  # at that budget
    beta: float

    def to_dict(self) -> dict[str, Any]:
        cost = {key: value for key, value in self.budget.__dict__.items() if value is not None}
        return {
            "target": self.target.value,
            "of": self.what,
            "reached": self.error,
            "beta": self.beta if self.target.kind in PROBABLE else None,
            **cost,
        }

    def __str__(self) -> str:
        likely = f" with probability {1 - self.beta:g}" if self.target.kind in PROBABLE else ""
        return f"{self.budget}: {self.what} within {self.target.value:g}{likely}"


Measure = Callable[[Spec], float]
PROBABLE = ("entry", "spectral", "rank")


def reach(setting: Setting, target: Target) -> Reached:
    """The least budget for a target, of kind gram or regression."""
    what, measure = measure_of(setting, target)
    measure(setting.spec)  # says what is wrong with the rest, once

    def reached(spec: Spec) -> bool:
        return measure(spec) <= target.value

    found = least_budget(setting.spec, reached, TOLERANCE)
    if found is None:
        raise ConfError(_unreached(setting, target, what))
    there = measure(_with(setting.spec, found))
    return Reached(target, what, found, there, setting.beta)


def _with(spec: Spec, budget: Budget) -> Spec:
    given = {"rho": budget.rho} if budget.rho is not None else {"epsilon": budget.epsilon}
    return spec.model_copy(update={"privacy": spec.privacy.model_copy(update=given)})


def measure_of(setting: Setting, target: Target) -> tuple[str, Measure]:
    """Say what is measured, in words, and return how."""
    if target.kind == "se":
        index, term, formula = _coefficient(setting, target.of)
        return f"the standard error of {term} in {formula}", lambda spec: _std_error(setting, spec, index, term)
    if setting.spec.release.kind != "gram":
        raise ConfError(f"--target {target.kind}: a conf of kind {setting.spec.release.kind} takes se:TERM=VALUE.")
    if target.kind == "entry":
        pair = None if target.of is None else _pair(target.of, setting.domain.terms)
        what = "an off-diagonal entry of the scaled matrix" if pair is None else f"the entry {pair[0]},{pair[1]}"
        return what, lambda spec: _entry(setting, spec, pair)
    if target.kind == "spectral" and target.of is None:
        return (
            "the scaled matrix, in spectral norm,",
            lambda spec: (
                spectral_of(
                    choose_gram(spec).noise.given(setting.domain.known), setting.guess.matrix, setting.beta
                ).best
            ),
        )
    raise ConfError(f"--target {target.kind!r}; expected e.g. {EXAMPLES}.")


def _coefficient(setting: Setting, term: str | None) -> tuple[int, str, str]:
    """Find which regression is meant, and which of its terms."""
    now = setting.predictions()
    if not now:
        raise ConfError("--target se needs the regression: add --regress 'income ~ age + educ'.")
    if term is None and len(now) == 1 and len(now[0].terms) == 2:
        term = now[0].terms[1]
    holding = [i for i, found in enumerate(now) if term in found.terms]
    if term is None or not holding:
        known = ", ".join(dict.fromkeys(t for found in now for t in found.terms))
        raise ConfError(f"--target se:{term or ''}; expected se:TERM=VALUE with one of {known}.")
    if len(holding) > 1:
        raise ConfError(f"--target se:{term}: {len(holding)} of the regressions have it. Give one --regress.")
    return holding[0], term, now[holding[0]].formula


def _std_error(setting: Setting, spec: Spec, index: int, term: str) -> float:
    found: Prediction = setting.predictions(spec)[index]
    value = float(found.std_errors[found.terms.index(term)])
    return value if math.isfinite(value) else math.inf


def _entry(setting: Setting, spec: Spec, pair: tuple[str, str] | None) -> float:
    domain = setting.domain
    noise = choose_gram(spec).noise.given(domain.known)
    stds = noise_stds(noise, domain, setting.guess.matrix)
    return accuracy_of(domain.terms, noise, *stds, setting.beta).of(pair, jointly=False)


def _pair(text: str, terms: tuple[str, ...]) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    pair = first.strip(), second.strip()
    if not comma or any(term not in terms for term in pair):
        raise ConfError(f"--target entry:{text}; expected two of {', '.join(terms)}, with a comma, e.g. age,income.")
    return pair


def _unreached(setting: Setting, target: Target, what: str) -> str:
    if target.kind != "se":
        return f"--target {target.value:g}: {what} is not reached with any budget."
    index, term, _ = _coefficient(setting, target.of)
    now = setting.predictions()[index]
    floor = float(now.sampling[now.terms.index(term)])
    if floor < target.value:
        return f"--target {target.value:g}: {what} is not reached with any budget. Use more rows, or fewer regressors."
    rows = setting.guess.rows * (floor / target.value) ** 2
    return (
        f"--target {target.value:g}: {what} is {floor:.4g} without any noise, so that no budget reaches it.\n"
        f"It would take more than {rows:,.0f} rows."
    )
