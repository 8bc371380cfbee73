"""Errors against the budget, for the very domain of a release: from its public spec, no data and no cost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.core.formula import Formula
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.noise_model import noise_to_manifest
from dpspark.mechanisms.lines.auto import AutoLines
from dpspark.mechanisms.registry import line_of_kernel
from dpspark.planning.budget import budget_value, with_budget
from dpspark.planning.budget_left import BudgetLeft
from dpspark.planning.fits import number
from dpspark.planning.guess import Guess, find_guess, guess_of
from dpspark.planning.lines import plan_lines
from dpspark.planning.noise import noise_stds
from dpspark.planning.quantiles import rank_error
from dpspark.planning.regression import described
from dpspark.planning.setting import Setting
from dpspark.spec.choose import choose, choose_gram, choose_regression
from dpspark.spec.spec import Spec, load_spec

POINTS, SIMULATED_POINTS = 17, 5
REACH = 30.0  # times the release's budget, either way
MOST_REGRESSIONS, MOST_LINES = 3, 6
BETA = 0.05
LEFT_OUT = "Left out: the manifest alone does not tell all that a plan of this release needs."

Errors = Callable[[Spec], list[float]]


@dataclass
class Panel:
    """A picture of errors against the budget; `floors` are what would be left without noise, NaN where that is not known."""

    title: str
    unit: str
    labels: list[str]
    errors: Errors
    floors: list[float] = field(default_factory=list)
    points: int = POINTS

    def to_dict(self, spec: Spec) -> dict[str, Any]:
        middle = budget_value(spec)
        budgets = np.geomspace(middle / REACH, middle * REACH, self.points).tolist()
        found = [self._tried(with_budget(spec, value)) for value in budgets]
        floors = self.floors or [math.nan] * len(self.labels)
        return {
            "title": self.title,
            "unit": self.unit,
            "key": "epsilon" if spec.privacy.rho is None else "rho",
            "delta": spec.privacy.delta,
            "now": middle,
            "budgets": budgets,
            "curves": [
                {"label": label, "values": [_short(errors[i]) for errors in found], "floor": _short(floors[i])}
                for i, label in enumerate(self.labels)
            ],
        }

    def _tried(self, spec: Spec) -> list[float]:
        """Compute the errors; NaN where a mechanism cannot have the budget."""
        try:
            return self.errors(spec)
        except ConfError:
            return [math.nan] * len(self.labels)


def _short(value: float) -> float | None:
    return number(float(f"{value:.6g}"))


def error_panels(release: Content, formulas: Sequence[Formula], keys: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Make the panels of a release; `keys` are its groups, if it has any."""
    try:
        spec = spec_of(release.manifest, keys)
        if spec is None or not _is_of(spec, release.manifest):
            return {"panels": [], "note": LEFT_OUT}
        panels, note = _PANELS[release.kind](spec, release, formulas)
    except ConfError:
        return {"panels": [], "note": LEFT_OUT}
    return {"panels": [panel.to_dict(spec) for panel in panels], "note": note}


def spec_of(manifest: dict[str, Any], keys: Sequence[tuple[str, ...]]) -> Spec | None:
    """Read the spec that a manifest was made from, but for where its rows and its results are."""
    content = json.loads(json.dumps(manifest["spec"]))
    source = content.get("source")
    rows = source.get("rows_per_record") if isinstance(source, dict) else None
    content.pop("products", None)  # they follow from the regressions
    content["source"] = {"dataframe": True, **({} if rows is None else {"rows_per_record": rows})}
    if content["release"].get("group_by"):
        content["release"]["groups"] = [list(key) for key in keys]
    mechanism = manifest["mechanism"]
    if content["mechanism"].get("name") == AutoLines.name and "target" in mechanism:
        content["release"]["target"] = mechanism["target"]
    elif content["mechanism"].get("name") == AutoLines.name:  # of version 0.2, whose auto chose by other rules
        chosen = line_of_kernel(mechanism["kernel"])
        content["mechanism"]["name"] = mechanism["kernel"] if chosen is None else chosen.name
    content["ledger"] = {"dataset": manifest["ledger"]["dataset"]}
    try:
        return load_spec(content)
    except (ConfError, TypeError, AttributeError):
        return None


def _is_of(spec: Spec, manifest: dict[str, Any]) -> bool:
    """Tell whether a release of this spec would have the noise that the manifest has."""
    facts = choose(spec).facts()
    if spec.release.kind == "gram":
        facts = {**facts, "noise": noise_to_manifest(choose_gram(spec).noise)}
    mechanism = manifest["mechanism"]
    if "target" not in mechanism:  # of version 0.2
        facts.pop("target", None)
    return all(mechanism.get(key) == value for key, value in json.loads(json.dumps(facts)).items())


def _of_gram(spec: Spec, release: Content, formulas: Sequence[Formula]) -> tuple[list[Panel], str]:
    guess = guess_of(spec, release, release.domain) if isinstance(release, GramContent) else find_guess(spec)
    return [_entry_panel(spec, guess), *_fit_panels(spec, release, guess, formulas)], (
        "The dashed lines are what would be left without noise. Standard errors are predicted from this release, its noise "
        "included; gaps are where a regression would not be identified."
        if formulas and isinstance(release, GramContent)
        else ""
    )


def _entry_panel(spec: Spec, guess: Guess) -> Panel:
    def errors(there: Spec) -> list[float]:
        return [noise_stds(choose_gram(there).noise, spec.domain, guess.matrix)[0]]

    title = "Noise in an entry of the scaled matrix"
    unit = "rows" if spec.weight is None else "weights"
    return Panel(title, f"standard deviation, in {unit}", ["off the diagonal"], errors)


def _fit_panels(spec: Spec, release: Content, guess: Guess, formulas: Sequence[Formula]) -> list[Panel]:
    if not isinstance(release, GramContent) or not release.moments.has_intervals:
        return []
    panels = []
    domain = replace(release.domain, weight=spec.domain.weight)
    guess = replace(guess, has_squares=domain.weight is not None)
    for formula in formulas[:MOST_REGRESSIONS]:
        setting = Setting(spec, domain, guess, (formula,), BETA, 0.95)
        (now,) = setting.predictions()
        shown = [k for k, term in enumerate(now.terms) if k or not formula.intercept][:MOST_LINES]
        if not shown:
            continue

        def errors(there: Spec, setting: Setting = setting, shown: list[int] = shown) -> list[float]:
            (found,) = setting.predictions(there)
            return [float(found.std_errors[k]) for k in shown]

        unit = f"standard error, {formula.response} per unit of the term"
        labels, floors = [now.terms[k] for k in shown], [float(now.sampling[k]) for k in shown]
        panels.append(Panel(str(formula), unit, labels, errors, floors))
    return panels


def _of_regression(spec: Spec, release: Content, formulas: Sequence[Formula]) -> tuple[list[Panel], str]:
    def stds(there: Spec) -> dict[str, float]:
        found = described(there.mechanism_name, choose_regression(there))
        pairs = (("between regressors", found.squares_std), ("with the response", found.cross_std))
        return {name: value for name, value in pairs if value is not None}

    labels = list(stds(spec))

    def errors(there: Spec) -> list[float]:
        return list(stds(there).values())

    return [Panel("Noise in the sums of products", "standard deviation, in rows", labels, errors)], ""


def _of_lines(spec: Spec, release: Content, formulas: Sequence[Formula]) -> tuple[list[Panel], str]:
    plan = plan_lines(spec, None, None, BETA, BudgetLeft(spec.ledger.dataset))
    found = plan.wrong[:MOST_LINES]

    def errors(there: Spec) -> list[float]:
        return [wrong.total for wrong in plan.at(there)[: len(found)]]

    labels, floors = [wrong.what for wrong in found], [wrong.silent for wrong in found]
    panel = Panel("Released values", "typical error, in units of each", labels, errors, floors, points=SIMULATED_POINTS)
    told = spec.release.expected_rows is not None
    source = plan.guess.source if told else "their number is assumed: the release says nothing about it"
    return [panel], (
        f"Simulated with the mechanism itself on made-up groups of {plan.guess.rows:,.0f} rows; {source}. "
        "The dashed lines are what would be left without noise."
    )


def _of_quantiles(spec: Spec, release: Content, formulas: Sequence[Formula]) -> tuple[list[Panel], str]:
    guess = find_guess(spec)

    def errors(there: Spec) -> list[float]:
        return [min(1.0, rank_error(there, guess, BETA))]

    title = f"Rank of a released quantile, with {guess.rows:,.0f} rows"
    return [Panel(title, f"off by this share of the rows at most, with probability {1 - BETA:g}", ["worst"], errors)], (
        f"A bound that holds for any data of {guess.rows:,.0f} rows"
        + ("." if spec.release.expected_rows else ", which is assumed: the release says nothing about their number.")
    )


_PANELS: dict[str, Callable[[Spec, Content, Sequence[Formula]], tuple[list[Panel], str]]] = {
    "gram": _of_gram,
    "regression": _of_regression,
    "theil_sen": _of_lines,
    "quantiles": _of_quantiles,
}
