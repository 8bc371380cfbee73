"""What a release will be like, before a row is read. Nothing here reads data or costs anything. Never imports pyspark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.analysis.remarks import USUAL_LEVEL
from dpspark.core.domain import Domain
from dpspark.core.formula import Formula
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.planning.accuracy import Accuracy, Spectral, accuracy_of, labelled, spectral_of
from dpspark.planning.bound_choices import BoundChoice
from dpspark.planning.bounds import Tighter, advise
from dpspark.planning.budget_left import BudgetLeft, find_budget_left
from dpspark.planning.fits import FitPlan, number, plan_fit
from dpspark.planning.guess import Guess
from dpspark.planning.levels import LevelPlan, gram_levels
from dpspark.planning.noise import Option, gram_options, times_less
from dpspark.planning.options import USUAL_BETA, check_plan_options
from dpspark.planning.predict import Prediction, predict_gram
from dpspark.planning.regression import RegressionOption, regression_options
from dpspark.planning.robust import RobustPlan, plan_robust
from dpspark.planning.setting import Setting, settle
from dpspark.spec.choose import GramMechanism, choose_gram, choose_regression
from dpspark.spec.spec import Spec, load_spec

AnySpec = Spec | str | Path | dict[str, Any]
AnyGuess = str | Path | Mapping[str, Any] | None


@dataclass(frozen=True)
class Plan:
    """The plan of kind gram or regression. `ratio`: how many times the noise the first paper has on an off-diagonal entry."""

    setting: Setting
    options: tuple[Option | RegressionOption, ...]
    fits: tuple[FitPlan, ...]
    by_mechanism: Mapping[str, list[Prediction]]  # the same regressions, by every other mechanism
    bounds: tuple[Tighter, ...]
    fewer_columns: Mapping[str, float]  # times less noise on all other entries, by what is left out
    budget_left: BudgetLeft
    accuracy: Accuracy | None = None
    spectral: Spectral | None = None
    papers: tuple[str, ...] = ()
    ratio: float = math.nan
    choices: tuple[BoundChoice, ...] = ()  # of bounds of the responses, clipping and noise together
    levels: tuple[LevelPlan, ...] = ()  # of a hierarchy
    robust: RobustPlan | None = None  # standard errors that hold where variances differ

    @property
    def spec(self) -> Spec:
        return self.setting.spec

    @property
    def terms(self) -> tuple[str, ...]:
        return self.setting.domain.terms

    @property
    def chosen(self) -> str:
        return self.spec.mechanism_name

    @property
    def budget(self) -> str:
        return f"{self.spec.privacy.budget}, {self.spec.privacy.neighbours}"

    def option(self, name: str) -> Any:
        return next(option for option in self.options if option.name == name)

    def entries(self, name: str | None = None) -> Any:
        """The standard deviations of a mechanism's noise in original units, as a labelled table; the conf's by default."""
        return labelled(self.option(name or self.chosen).entry_std, self.terms)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for --json."""
        guess = self.setting.guess
        return {
            "kind": self.spec.release.kind,
            "budget": self.budget,
            "mechanism": self.chosen,
            "beta": self.setting.beta,
            "level": self.setting.level,
            "expected_rows": self.spec.release.expected_rows,
            "guess": {"rows": guess.rows, "from": guess.source, "assumed": guess.assumed},
            "terms": list(self.terms),
            "ledger": self.budget_left.to_dict(),
            "entries": None if self.accuracy is None else self._entry_errors(self.accuracy),
            "spectral": None if self.spectral is None else self.spectral.__dict__,
            "regressions": [fit.to_dict() for fit in self.fits],
            "papers": list(self.papers),
            "bounds": [found.to_dict() for found in self.bounds],
            "bounds_compared": [choice.to_dict() for choice in self.choices],
            "times_less_noise_without": dict(self.fewer_columns),
            "times_less_noise_than_the_paper": number(self.ratio),
            "mechanisms": [self._option_dict(option) for option in self.options],
            **({"levels": [level.to_dict() for level in self.levels]} if self.levels else {}),
            **({"robust_errors": self.robust.to_dict()} if self.robust else {}),
        }

    def _entry_errors(self, accuracy: Accuracy) -> dict[str, Any]:
        return {
            "scaled": accuracy.scaled,
            "scaled_all_at_once": accuracy.scaled_jointly,
            "original_units": [
                {
                    "row": self.terms[i],
                    "col": self.terms[j],
                    "within": float(accuracy.half_widths[i, j]),
                    "all_at_once": float(accuracy.half_widths_jointly[i, j]),
                }
                for i, j in zip(*np.triu_indices(len(self.terms)), strict=True)
            ],
        }

    def _option_dict(self, option: Option | RegressionOption) -> dict[str, Any]:
        predicted = [
            {
                "formula": p.formula,
                "status": p.status,
                "std_errors": dict(zip(p.terms, map(number, p.std_errors), strict=True)),
            }
            for p in self.by_mechanism.get(option.name, ())
        ]
        return {**option.to_dict(self.terms), "regressions": predicted}

    def summary(self) -> str:
        from dpspark.planning.text import plan_text

        return plan_text(self)

    def plot(self, path: str | Path | None = None, ax: Any = None) -> list[Any]:
        """Error against the budget, as matplotlib Axes: one for the matrix, one for each regression. Also written to a `path`.

        `ax` is as many Axes, or a single one: for the first regression, or the matrix if there is none.
        """
        from dpspark.planning.plot import plot_plan

        return plot_plan(self, path, ax)

    def _repr_html_(self) -> str:
        from dpspark.planning.text import plan_parts
        from dpspark.show.html import as_html

        return as_html(plan_parts(self))

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"Plan({self.spec.release.name} {self.spec.release.version}, {self.chosen}, {self.budget})"


def plan(
    spec: AnySpec,
    regress: str | Sequence[str] = (),
    guess: AnyGuess = None,
    rows: int | None = None,
    beta: float | None = None,
    level: float | None = None,
    url: str | None = None,
) -> Any:
    """Predict what a release will be like: its noise, the standard errors of regressions, what is left in the ledger.

    `regress` are formulas for kind gram, by default those that the conf has robust errors for; `guess` is a mapping, a YAML
    file, or the directory of a previous release. Errors are exceeded with probability `beta`, by default 0.05; `level` is that
    of regressions' intervals, by default 0.95.
    """
    spec = spec if isinstance(spec, Spec) else load_spec(spec)
    if spec.release.kind == "gram" and not regress and spec.asked_errors is not None:
        regress = spec.asked_errors.texts
    check_plan_options(spec, regress, beta, level)
    beta, level = USUAL_BETA if beta is None else beta, USUAL_LEVEL if level is None else level
    if spec.release.kind in ("theil_sen", "quantiles"):
        from dpspark.planning.lines import plan_lines

        if regress:
            raise ConfError(f"--regress is for kind gram; this conf is of kind {spec.release.kind}.")
        return plan_lines(spec, guess, rows, beta, find_budget_left(spec, url))
    setting = settle(spec, regress, guess, rows, beta, level)
    budget_left = find_budget_left(spec, url)
    return (
        _plan_regression(setting, budget_left)
        if spec.release.kind == "regression"
        else _plan_gram(setting, budget_left)
    )


def _plan_gram(setting: Setting, budget_left: BudgetLeft) -> Plan:
    spec, domain, guess = setting.spec, setting.domain, setting.guess
    options = gram_options(spec, domain, guess)
    chosen = next(option for option in options if option.name == spec.mechanism_name)
    mechanism, paper = chosen.mechanism, options[-1]
    assert mechanism is not None
    assert chosen.entry_std is not None
    left = mechanism.noise.given(domain.known)
    return Plan(
        setting,
        options,
        _fits(setting),
        {
            option.name: [predict_gram(option.mechanism, domain, guess, formula) for formula in setting.formulas]
            for option in options
            if option.mechanism is not None
        },
        tuple(_advice(setting, left)),
        _fewer(spec, mechanism),
        budget_left,
        accuracy_of(domain.terms, left, chosen.off_diagonal_std, chosen.entry_std, setting.beta),
        spectral_of(left, guess.matrix, setting.beta),
        tuple(
            line
            for formula in setting.formulas
            for line in _paper_lines(mechanism, guess.matrix, domain.terms, formula, setting.beta)
        ),
        times_less(domain, paper, chosen),
        tuple(setting.bound_choices()),
        gram_levels(setting),
        plan_robust(setting),
    )


def _paper_lines(
    mechanism: GramMechanism, scaled: np.ndarray, terms: tuple[str, ...], formula: Formula, nu: float
) -> list[str]:
    """Say what the papers' theorems bound of a regression; they are shown beside the prediction, not in its place."""
    if not formula.intercept:
        return []
    at = [0, *(terms.index(term) for term in (*formula.regressors, formula.response))]
    return mechanism.paper_bounds(scaled[np.ix_(at, at)], nu)


def _plan_regression(setting: Setting, budget_left: BudgetLeft) -> Plan:
    spec = setting.spec
    options = regression_options(spec)
    noise = choose_regression(spec).statistics_noise
    predicted = {}
    for option in options:
        if option.spec is not None:
            predicted[option.name] = setting.predictions(option.spec)
    return Plan(
        setting,
        options,
        _fits(setting),
        predicted,
        () if noise is None else tuple(_advice(setting, noise.squares)),
        {},
        budget_left,
        choices=tuple(setting.bound_choices()),
        robust=plan_robust(setting),
    )


def _fits(setting: Setting) -> tuple[FitPlan, ...]:
    found = []
    count = len(setting.formulas) if setting.spec.release.kind == "gram" else 1
    for i in range(count):

        def at(rows: float, i: int = i) -> Prediction:
            return setting.predictions(guess=setting.guess.with_rows(rows))[i]

        found.append(plan_fit(at, setting.guess.rows, setting.level, setting.additive))
    return tuple(found)


def _advice(setting: Setting, noise: NoiseModel) -> list[Tighter]:
    def predict(domain: Domain, guess: Guess) -> list[Prediction]:
        return setting.predictions(guess=guess, domain=domain)

    return advise(noise, setting.domain, setting.guess, predict)


def _fewer(spec: Spec, mechanism: GramMechanism) -> dict[str, float]:
    """Compute how much less noise others have without one column: the same for every number, and every one of categories."""
    if mechanism.noise.grows_with_data:
        return {}
    found, plain = {}, spec.without_errors  # regressions may need the column; their meats have the same part of mu²
    noise = mechanism.noise if plain.release == spec.release else choose_gram(plain).noise
    for what, columns in (("one number", spec.domain.numeric), ("one column of categories", spec.domain.blocks)):
        rest = {name: bounds for name, bounds in spec.columns.items() if name != columns[0].name} if columns else {}
        if set(rest) - set(spec.computed_keys):
            try:
                fewer = choose_gram(plain.model_copy(update={"columns": rest})).noise
            except ConfError:
                continue
            found[what] = noise.off_diagonal() / fewer.off_diagonal()
    return found
