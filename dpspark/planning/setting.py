"""What is planned: a conf, a guess of its data, the regressions that somebody will run on the release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dpspark.analysis.options import check_level
from dpspark.core.domain import Domain, Numeric
from dpspark.core.formula import Formula, formula_text, parse_formula
from dpspark.errors import ConfError
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.planning.accuracy import check_beta
from dpspark.planning.bound_choices import BoundChoice, compare_bounds, found_column
from dpspark.planning.guess import Guess, find_guess
from dpspark.planning.predict import Prediction, predict_gram, predict_regression
from dpspark.spec.choose import GramMechanism, choose_gram, choose_regression
from dpspark.spec.extras import bounds_finder
from dpspark.spec.spec import Spec


@dataclass(frozen=True)
class Setting:
    """The setting of kind gram or regression; `domain` has private bounds where the guess would have them found."""

    spec: Spec
    domain: Domain
    guess: Guess
    formulas: tuple[Formula, ...]
    beta: float
    level: float

    def predictions(
        self, spec: Spec | None = None, guess: Guess | None = None, domain: Domain | None = None
    ) -> list[Prediction]:
        """Predict every regression, with another budget or mechanism, other data or other bounds."""
        guess, domain = guess or self.guess, domain or self.domain
        if self.spec.release.kind == "regression":
            one = self.regression if spec is None else choose_regression(spec)
            return [predict_regression((spec or self.spec).mechanism_name, one, domain, guess)]
        gram = (self.gram if spec is None else choose_gram(spec)) if self.formulas else None
        return [predict_gram(gram, domain, guess, formula) for formula in self.formulas if gram is not None]

    def bound_choices(self) -> list[BoundChoice]:
        """Compare bounds of the responses, for a guess; none where nobody guessed."""
        if self.guess.assumed:
            return []

        def predict(domain: Domain, guess: Guess) -> list[Prediction]:
            return self.predictions(guess=guess, domain=domain)

        formulas = self.formulas or self._own_formula
        return [
            choice
            for column in self.domain.numeric
            for compared in compare_bounds(column, self.spec.domain, self.domain, self.guess, predict, formulas)
            for choice in compared
        ]

    @property
    def _own_formula(self) -> tuple[Formula, ...]:
        """The regression that a conf of kind regression releases."""
        if self.spec.release.kind != "regression":
            return ()
        terms = self.domain.terms
        return (Formula(terms[-1], terms[1:-1], True),)

    @cached_property
    def gram(self) -> GramMechanism:
        return choose_gram(self.spec)

    @cached_property
    def regression(self) -> RegressionMechanism:
        return choose_regression(self.spec)

    @property
    def additive(self) -> bool:
        """Whether the noise is the same whatever the data."""
        if self.spec.release.kind == "regression":
            return self.regression.statistics_noise is not None
        return not self.gram.noise.grows_with_data


def settle(
    spec: Spec,
    regress: str | Sequence[str],
    guess: str | Path | Mapping[str, Any] | None,
    rows: int | None,
    beta: float,
    level: float,
) -> Setting:
    check_beta(beta)
    texts = [regress] if isinstance(regress, str) else list(regress)
    found = find_guess(spec, guess, rows)
    domain = found_bounds(spec, found)
    blocks = {block.name: block.terms for block in domain.blocks}
    if spec.release.kind == "regression":
        blocks = {name: ("", *of) for name, of in blocks.items()}
    formulas = tuple(parse_formula(text, domain.terms, blocks, spec.computed) for text in texts)
    if spec.release.kind == "regression":
        _check_own(spec, formulas)
    return Setting(spec, domain, found.in_domain(spec.domain, domain), formulas, beta, check_level(level))


def _check_own(spec: Spec, formulas: tuple[Formula, ...]) -> None:
    terms = spec.domain.terms
    for formula in formulas:
        if (formula.response, set(formula.regressors), formula.intercept) != (terms[-1], set(terms[1:-1]), True):
            own = formula_text(terms[-1], terms[1:-1])
            raise ConfError(
                f"--regress {str(formula)!r}: this conf releases one regression, {own}. Use kind gram for any."
            )


def found_bounds(spec: Spec, guess: Guess) -> Domain:
    """Private bounds where the conf's method would find them, for a guess. Without one, at the ends of their search."""
    domain = spec.domain
    if guess.assumed or not spec.axes:
        return domain
    finder, columns = bounds_finder(spec), []
    for column in domain.columns:
        if isinstance(column, Numeric) and column.private:
            of = guess.column(domain, column.name)
            column = found_column(finder, column, of, guess.rows, guess.tails.get(column.name))
        columns.append(column)
    return replace(domain, columns=tuple(columns))
