"""Bounds before data: where private ones would be found, and what bounds cost in clipping and noise, against real draws."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.core.domain import Numeric, Side
from dpspark.errors import ConfError
from dpspark.exact.histogram import ExactHistogram
from dpspark.planning.bound_choices import found_column
from dpspark.planning.tails import Tail
from dpspark.spec.extras import bounds_finder
from dpspark.spec.spec import load_spec
from tests.noises import NoNoise

ROWS = 300_000
MEAN, SD = 40_000.0, 45_000.0
ONE_SIDE = {"lower": 0, "upper": "private", "search": [0, 10_000_000]}
GUESS = {"rows": ROWS, "means": {"income": MEAN}, "sds": {"income": SD}, "correlations": {"educ,income": 0.3}}


def conf_with(income: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "columns": {"educ": {"lower": 0, "upper": 20}, "income": income},
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": {"name": "income", "version": "1"},
        "ledger": {"url": "sqlite://", "dataset": "people"},
        **more,
    }


def log_normal(random: np.random.Generator, normal: np.ndarray) -> np.ndarray:
    variance = math.log1p((SD / MEAN) ** 2)
    return np.exp(math.log(MEAN) - variance / 2 + math.sqrt(variance) * normal)


@pytest.mark.parametrize("index", [None, 2.5])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_tails(side: Side, index: float | None) -> None:
    """Kills: a share that is not that of the value found for it, an excess of another law, the sides exchanged."""
    tail = Tail.of(Numeric("income", 0.0, 1e6), side, 1e6 - MEAN if side == "lower" else MEAN, SD, index)
    for share in (0.3, 0.01, 1e-3, 1e-5):
        assert tail.share_beyond(tail.value_at(share)) == pytest.approx(share, rel=1e-6)
    far, farther = tail.value_at(1e-3), tail.value_at(1e-4)
    assert (far < farther) == (side == "upper")
    distance = abs(far - tail.base)
    if index is not None:
        assert tail.excess(far) == pytest.approx(distance / (index - 1), rel=0.02)
        return
    values = log_normal(np.random.default_rng(4), np.random.default_rng(4).normal(size=2_000_000))
    assert tail.excess(far) == pytest.approx(float(np.mean(values[values > distance] - distance)), rel=0.1)


@pytest.mark.parametrize("bounds", [{}, {"method": "percentile"}, {"headroom": 3}])
@pytest.mark.parametrize("income", [ONE_SIDE, {"bounds": "private", "search": [-1_000_000, 10_000_000]}])
def test_bounds_are_planned_where_they_are_found(income: dict[str, Any], bounds: dict[str, Any]) -> None:
    """Kills: a plan with the bounds of another method, without head-room, or with the wrong k.

    The values are those of the guess; of two private sides the plan's law is another, so that the upper one is compared alone.
    """
    spec = load_spec(conf_with(income, bounds=bounds))
    random = np.random.default_rng(8)
    values = log_normal(random, random.normal(size=ROWS))
    (axis,) = spec.axes
    table = ExactHistogram([axis], [np.bincount(axis.cell_of(values), minlength=axis.cells)])
    _, upper = bounds_finder(spec).release(table, NoNoise())["income"]
    planned = found_column(bounds_finder(spec), spec.domain.numeric[1], (MEAN, SD), ROWS, None)
    assert 0.6 < planned.upper / upper < 1.7


def test_clipping_is_planned_as_it_happens() -> None:
    """Within a factor of 2 of what clipping log-normal values really does to the slope. Kills: a root of n that is missing."""
    random = np.random.default_rng(9)
    normal = random.normal(size=ROWS)
    educ = np.clip(10 + 3 * (0.35 * normal + math.sqrt(1 - 0.35**2) * random.normal(size=ROWS)), 0, 20)
    values = log_normal(random, normal)
    slope, _ = np.polyfit(educ, values, 1)
    cap = float(np.quantile(values, 0.99))
    cut, rest = np.polyfit(educ, np.minimum(values, cap), 1)
    sampling = np.std(np.minimum(values, cap) - cut * educ - rest) / math.sqrt(ROWS) / np.std(educ)
    found = dpspark.plan(conf_with({"lower": 0, "upper": cap}), "income ~ educ", {**GUESS, "sds": {"income": 40_000}})
    (own,) = (choice for choice in found.choices if choice.of_conf)
    really = (slope - cut) / sampling
    assert really > 10
    assert really / 2 < own.clipping < 2 * really
    assert own.rows_beyond == pytest.approx(0.01 * ROWS, rel=0.5)


def test_a_cap_that_is_too_low_is_seen_and_a_better_one_recommended() -> None:
    low = dpspark.plan(conf_with({"lower": 0, "upper": 150_000}), "income ~ educ", GUESS)
    assert "Recommended: income's upper bound at about" in low.summary()
    best = next(choice for choice in low.choices if choice.best)
    assert best.bound > 300_000
    assert not best.of_conf
    private = dpspark.plan(conf_with(ONE_SIDE), "income ~ educ", GUESS)
    own = next(choice for choice in private.choices if choice.of_conf)
    assert own.total < 1.5 * min(choice.total for choice in private.choices)
    assert "one side by rank, each with epsilon=0.1: about 241 values beyond" in private.summary()
    shown = json.loads(json.dumps(private.to_dict(), allow_nan=False))["bounds_compared"]
    assert {each["of_conf"] for each in shown} == {True, False}
    wide = dpspark.plan(conf_with({"lower": 0, "upper": 50_000_000}), "income ~ educ", GUESS)
    assert next(choice for choice in wide.choices if choice.best).bound < 5_000_000
    assert not dpspark.plan(conf_with(ONE_SIDE), "income ~ educ").choices  # nobody guessed


def test_a_heavier_tail_wants_a_wider_bound() -> None:
    def best(**tails: float) -> float:
        found = dpspark.plan(conf_with(ONE_SIDE), "income ~ educ", {**GUESS, "tails": tails})
        return next(choice for choice in found.choices if choice.best).bound

    assert best(income=2.0) > best(income=6.0)
    with pytest.raises(ConfError, match=r"tails\.wealth; expected educ, income"):
        best(wealth=2.0)
    with pytest.raises(ConfError, match=r"tails\.income"):
        best(income=1.0)


def test_one_regression_has_its_choices_too() -> None:
    release = {"name": "income", "version": "1", "kind": "regression", "response": "income"}
    found = dpspark.plan(conf_with(ONE_SIDE, release=release), (), GUESS)
    assert {choice.formula for choice in found.choices} == {"income ~ educ"}


def test_a_rare_category_does_not_choose_the_bound_of_all_others() -> None:
    """Kills: a bound that clips educ by errors, for less noise on a slope that no bound would save."""
    plain, found = conf_with({"lower": 0, "upper": 1_000_000}), []
    for shares in ({"a": 0.6, "b": 0.4}, {"a": 0.6, "b": 0.3999, "rare": 0.0001}):
        conf = {**plain, "columns": {**plain["columns"], "job": {"categories": list(shares)}}}
        choices = dpspark.plan(conf, "income ~ educ + job", guess={**GUESS, "shares": {"job": shares}}).choices
        found.append(next(one for one in choices if one.best))
    alone, beside = found
    assert alone.bound == beside.bound
    assert alone.privacy < 2
    assert beside.privacy == pytest.approx(alone.privacy, rel=0.2)


def test_a_plan_names_the_category_that_no_answer_is_for() -> None:
    """Kills: NOT IDENTIFIED for one category of ten, which nobody names."""
    plain = conf_with({"lower": 0, "upper": 1_000_000})
    rare = {**plain, "columns": {**plain["columns"], "job": {"categories": ["a", "b", "rare"]}}}
    guess = {**GUESS, "rows": 20_000, "shares": {"job": {"a": 0.6, "b": 0.3998, "rare": 0.0002}}}
    (fit,) = dpspark.plan(rare, "income ~ educ + job", guess=guess).fits
    assert fit.prediction.status == "NOT_IDENTIFIED"
    assert "This is for job[rare]: without, kappa_w would be" in fit.prediction.reason
    assert "job[rare]" in dpspark.plan(rare, "income ~ educ + job", guess=guess).summary()
