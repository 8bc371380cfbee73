"""From the spec to the mechanism of a regression: the right budget, the right change, for every one of them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dpspark.core.domain import Clip, Domain, Numeric
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.regression.gradient_descent import DescentOptions, GradientDescent
from dpspark.mechanisms.regression.objective import ObjectivePerturbation
from dpspark.mechanisms.regression.statistics import GaussianStatistics, Shares
from dpspark.privacy.budget import Budget, gaussian_delta
from dpspark.privacy.calibration import TV_PER_ENTRY
from dpspark.privacy.sensitivity import clipped_gradient, regression_statistics
from dpspark.spec.choose import choose, choose_regression
from dpspark.spec.spec import load_spec
from tests.registered import MECHANISMS
from tests.spec.test_stage_budgets import REST, staged

QUERY = {"sql": "select * from t join u using (i)", "rows_per_record": 1}


def one(conf: dict[str, Any], name: str) -> dict[str, Any]:
    release = {**conf["release"], "kind": "regression", "response": "income"}
    return {**conf, "release": release, "mechanism": {"name": name}}


@pytest.mark.parametrize("name", MECHANISMS["regression"])
def test_a_regression_has_what_the_stages_leave(conf: dict[str, Any], name: str) -> None:
    """Kills: a regression calibrated to the whole budget beside paid stages."""
    made = one(conf, name)
    if name == "gradient_descent":  # it counts nothing, so that it has no diagnostics beside it
        columns = {**made["columns"], "income": {"bounds": "private", "search": [0, 1e6]}}
        spec = load_spec(
            {**made, "columns": columns, "bounds": {"epsilon_share": 0.5}, "privacy": {"epsilon": 2, "delta": 1e-6}}
        )
    else:
        spec = staged(made, {"epsilon": 2.0, "delta": 1e-6})
    alone = load_spec({**made, "privacy": {"epsilon": 2.0 * REST, "delta": 1e-6 * REST}})
    assert choose_regression(spec).facts() == choose_regression(alone).facts()


def test_objective_and_its_intervals_share_the_budget(conf: dict[str, Any]) -> None:
    """Kills: the whole budget for the objective, and a fifth more for the statistics."""
    mechanism = choose_regression(load_spec({**one(conf, "objective"), "privacy": {"epsilon": 1.0, "delta": 1e-6}}))
    assert isinstance(mechanism, ObjectivePerturbation)
    assert 0.99 * 0.8e-6 <= mechanism.tilt.delta(0.8) <= 0.8e-6
    assert 0.99 * 0.2e-6 <= mechanism.statistics.delta(0.2) <= 0.2e-6


@pytest.mark.parametrize("kind", ["gram", "regression"])
def test_what_is_either_is_never_taken_for_added(conf: dict[str, Any], kind: str) -> None:
    """Kills: `replaced` tested where `added` should be: a filter under replace_one may add, remove or replace a row."""
    for name in MECHANISMS[kind]:
        made = {**conf, "mechanism": {"name": name}} if kind == "gram" else one(conf, name)
        privacy = {"epsilon": 1.0} if name == "laplace" else {"epsilon": 1.0, "delta": 1e-6}
        added = choose(load_spec({**made, "privacy": privacy}))
        replaced = choose(load_spec({**made, "privacy": {**privacy, "neighbours": "replace_one"}}))
        filtered = {**made, "where": "age > 20", "privacy": {**privacy, "neighbours": "replace_one"}}
        either = choose(load_spec(filtered))
        joined = choose(load_spec({**made, "source": QUERY, "privacy": privacy}))
        size = {key: _noise_of(value) for key, value in (("a", added), ("r", replaced), ("e", either), ("j", joined))}
        assert size["r"] > 1.2 * size["a"], name
        assert size["e"] >= size["r"] * (1 - 1e-9), name
        assert size["j"] == pytest.approx(size["e"]), name


def _noise_of(mechanism: Any) -> float:
    facts = mechanism.facts()
    for key in ("sigma", "ridge_removed", "mean_removed"):
        if isinstance(facts.get(key), float):
            return facts[key]
    if "scale" in facts:
        return facts["scale"]
    found = facts["sensitivity"]
    return next(found[key] for key in ("cross", "value", "residual_cross") if key in found) / facts["mu"]


@pytest.mark.parametrize("shape", ["ball", "box"])
def test_gradients_of_several_rows(shape: Any) -> None:
    """Kills: one row's gradient for a record of five, and `either` taken for added."""
    clip = Clip(shape, 0.3)
    one_row = clipped_gradient(clip, 4, "added")
    assert one_row == pytest.approx(0.3 if shape == "ball" else 1.2)
    assert clipped_gradient(clip, 4, "added", 5) == pytest.approx(5 * one_row)
    for change in ("replaced", "either"):
        assert clipped_gradient(clip, 4, change) == pytest.approx(2 * one_row)  # type: ignore[arg-type]


def test_the_sampler_s_distance_counts_every_draw() -> None:
    """Kills: cross products, or steps, left out of the total variation."""
    domain = Domain((Numeric("a", -1, 1), Numeric("b", -1, 1), Numeric("y", -1, 1)), response="y")
    sensitivity = regression_statistics(domain, "added")
    shares = Shares(0.3, 0.3, 0.3, 0.1)
    statistics = GaussianStatistics.at(domain, sensitivity, 1.0, "analytic", shares)
    steps, noise = 4.0**statistics.domain.bits, statistics.noise
    assert noise.response_std is not None
    assert noise.least_eigenvalue_std is not None
    entries = [(noise.diagonal_std, 3), (noise.off_diagonal_std, 3), (noise.cross_std, 3), (noise.response_std, 1)]
    expected = sum(count * TV_PER_ENTRY / (std * steps) ** 2 for std, count in entries)
    expected += TV_PER_ENTRY / (noise.least_eigenvalue_std * 2.0**20) ** 2
    assert statistics.distance == pytest.approx(expected)
    problem = Problem(domain, Records("added"))
    descent = GradientDescent.for_budget(problem, Budget(1.0, 1e-6), DescentOptions(steps=7)).gradients
    assert descent.distance == pytest.approx(7 * 3 * TV_PER_ENTRY / (descent.scale * 2.0**20) ** 2)
    assert gaussian_delta(descent.mu, 1.0) + (1 + math.e) * descent.distance <= 1e-6


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("epsilon", [1e-4, 0.003, 0.1, 10.0])
def test_what_is_calibrated_can_be_drawn(rows: int, epsilon: float) -> None:
    """Kills: a grid chosen for one row where a record has a thousand: the sampler would refuse after the data was read."""
    domain = Domain((Numeric("a", -1, 1), Numeric("y", -1, 1)), response="y")
    sensitivity = regression_statistics(domain, "added", rows)
    statistics = GaussianStatistics.for_budget(domain, sensitivity, Budget(epsilon, 1e-6), Shares(0.48, 0.48, 0.04))
    noise, steps = statistics.noise, 4.0**statistics.domain.bits
    assert noise.response_std is not None
    assert max(noise.diagonal_std, noise.cross_std, noise.response_std) * steps <= 2.0**57


def test_every_mechanism_takes_other_bounds(conf: dict[str, Any]) -> None:
    """Kills: a mechanism that cannot be given the bounds that were found, after the budget was reserved."""
    confs = [{**conf, "mechanism": {"name": name}} for name in MECHANISMS["gram"]]
    confs += [one(conf, name) for name in MECHANISMS["regression"]]
    confs += [
        {**conf, "mechanism": {"name": name, "adaptive": 0.1}} for name in ("johnson_lindenstrauss", "inverse_wishart")
    ]
    for made in confs:
        pure = {"privacy": {"epsilon": 1.0}} if made["mechanism"]["name"] == "laplace" else {}
        mechanism = choose(load_spec({**made, **pure}))
        columns = tuple(
            replace(c, lower=-7.0, upper=9.0) if isinstance(c, Numeric) else c for c in mechanism.domain.columns
        )
        changed = mechanism.for_domain(replace(mechanism.domain, columns=columns))
        assert changed.domain.columns == columns
        assert changed.facts() == mechanism.facts()


def test_a_dataframe_does_not_lose_rows_per_record(conf: dict[str, Any]) -> None:
    """Kills: a joined DataFrame protected as if a record had one row."""
    import dpspark

    class Frame:
        mapInArrow = sparkSession = None

    with pytest.raises(ConfError, match="dataframe: true, rows_per_record"):
        dpspark.release({**conf, "source": {**QUERY, "rows_per_record": 50}}, Frame())
    stated = load_spec({**conf, "source": {"dataframe": True, "rows_per_record": 50}})
    assert (stated.records.rows, stated.records.change) == (50, "either")
    assert Fraction(stated.records.rows) == 50
