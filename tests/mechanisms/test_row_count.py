"""The noisy number of rows: sensitivity through the real counting code, noise as really drawn."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.exact.row_count import ExactCount, RowCounter, merge_counts
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Gaussian, Pure
from dpspark.privacy.noise import OpenDPNoise
from dpspark.privacy.sensitivity import row_count
from dpspark.spec.charges import charged_events
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec, load_spec
from tests.noises import RecordedNoise

COLUMNS = (Numeric("x", 0, 1), Categorical("s", ("a", "b")))
DOMAIN = Domain(COLUMNS, "drop_row")
ROWS = list(itertools.product([-math.inf, 0.5, 9.0, math.nan, None], ["a", "z", None]))


def counted(rows: list[tuple[float | None, str | None]], drop_nulls: bool) -> int:
    counter = RowCounter(COLUMNS, drop_nulls)
    for x, s in rows:  # a batch each
        counter.add([pa.array([x], pa.float64()), pa.array([s], pa.string())], 1)
    return int(np.frombuffer(merge_counts([counter.finish(), RowCounter(COLUMNS, drop_nulls).finish()]), "<i8")[0])


@pytest.mark.parametrize("change", ["added", "either"])
@pytest.mark.parametrize("rows", [1, 3])
def test_sensitivity(change: Any, rows: int) -> None:
    """Kills: 1 for a record of three rows; 0 where a replaced row may be dropped; 2 where it can only come or go."""
    before = [0] if change == "added" else [counted([row] * rows, True) for row in ROWS]
    found = max(abs(counted([row] * rows, True) - b) for row in ROWS for b in before)
    assert found == row_count(change, rows) == rows


def test_a_replaced_row_is_still_one() -> None:
    """Kills: an exact count of rows that nulls can take away."""
    assert {counted([row], False) for row in ROWS} == {1}
    assert {counted([row], True) for row in ROWS} == {0, 1}
    assert row_count("replaced", 3) == 0


@pytest.mark.parametrize("rows", [1, 4])
def test_the_noise_drawn_meets_the_budget_tightly(rows: int) -> None:
    """Kills: a scale too small by 1%; the noise of one row for a record of four; rho without its 2."""
    noise = RecordedNoise()
    RowCount.for_budget(Problem(DOMAIN, Records("added", rows)), Budget(0.03, 1e-9)).release(ExactCount(7), noise)
    RowCount.for_budget(Problem(DOMAIN, Records("either", rows)), Budget(rho=0.02)).release(ExactCount(7), noise)
    assert 0.03 * 0.99 < rows / noise.scales[0] <= 0.03
    assert 0.02 * 0.99 < (rows / noise.scales[1]) ** 2 / 2 <= 0.02


@pytest.mark.parametrize("budget", [Budget(0.001, 0.0), Budget(rho=1e-6)])
def test_draws_have_the_stated_law(budget: Budget) -> None:
    """KS against the continuous law, which is the same at this scale; false alarm 1e-6. Kills: 0.7 and 1.3 times the scale."""
    mechanism, noise = RowCount.for_budget(Problem(DOMAIN, Records("added", 1)), budget), RecordedNoise()
    assert mechanism.release(ExactCount(500), noise).rows != 500
    draw = noise.discrete_gaussian if mechanism.law.name == "gaussian" else noise.discrete_laplace
    draws = np.array(draw(noise.scales[0], 5000))
    law = stats.norm if mechanism.law.name == "gaussian" else stats.laplace
    assert stats.kstest(draws, law(scale=mechanism.scale).cdf).pvalue > 1e-6
    for factor in (0.7, 1.3):
        assert stats.kstest(draws, law(scale=factor * mechanism.scale).cdf).pvalue < 1e-6
    assert draws.std() == pytest.approx(mechanism.noise_std, rel=0.2)  # 9 standard errors


def test_coarse_noise_has_its_own_standard_deviation() -> None:
    """At a scale of half a row the law is far from continuous. The variance of 20,000 draws is known to 2%."""
    mechanism = RowCount.for_budget(Problem(DOMAIN, Records("added", 1)), Budget(2.0, 0.0))
    draws = np.array(OpenDPNoise().discrete_laplace(mechanism.scale, 20_000))
    assert (draws**2).mean() == pytest.approx(mechanism.noise_std**2, rel=0.12)  # 6 of them; 2·scale² is 38% off


def spec_of(**changes: Any) -> Spec:
    conf = {
        "source": {"parquet": "p"},
        "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": {"name": "r", "version": "1", "kind": "quantiles", "probabilities": [0.5]},
        "ledger": {"dataset": "d"},
        "count": {},
    }
    return load_spec({**conf, **changes})


LINE = {"name": "r", "version": "1", "kind": "theil_sen", "x": "x", "y": "y"}
GRAM = {"name": "r", "version": "1"}
REGRESSION = {"name": "r", "version": "1", "kind": "regression", "response": "y"}
PAIRED = {"mode": "cap", "radius": 1.0, "include_response": True}


@pytest.mark.parametrize(
    ("changes", "paid"),
    [
        ({}, True),
        ({"release": LINE}, True),
        ({"release": GRAM}, False),
        ({"release": {**GRAM, "group_by": ["g"], "groups": ["a"]}}, True),
        ({"release": GRAM, "weight": {"column": "w", "upper": 5}}, True),
        ({"release": REGRESSION}, False),
        ({"release": REGRESSION, "mechanism": {"name": "objective"}}, False),
        ({"release": REGRESSION, "row_norm": PAIRED}, True),
        ({"release": REGRESSION, "mechanism": {"name": "gradient_descent"}}, True),
        ({"privacy": {"epsilon": 1.0, "neighbours": "replace_one"}}, False),
        ({"privacy": {"epsilon": 1.0, "neighbours": "replace_one"}, "where": "x > 0"}, True),
    ],
)
def test_it_is_paid_for_where_nothing_else_tells(changes: dict[str, Any], paid: bool) -> None:
    """Kills: a count published and not charged; one paid for twice."""
    spec = spec_of(**changes)
    assert ("count" in spec.shares) is paid
    without = load_spec({**spec.model_dump(mode="json", exclude_none=True), "count": None})
    events, fewer = (charged_events(each, choose(each)) for each in (spec, without))
    if paid:
        assert len(events) == len(fewer) + 1
        assert 0.0099 < events[0].epsilon < 0.01 * (1 + 1e-10)  # type: ignore[union-attr]
        assert isinstance(events[0], Pure)
        assert spec.release_budget.epsilon == pytest.approx(0.99)
    else:
        assert events == fewer


def test_in_rho_it_is_gaussian() -> None:
    spec = spec_of(privacy={"rho": 0.5})
    events = charged_events(spec, choose(spec))
    assert isinstance(events[0], Gaussian)
    assert 0.00499 < events[0].rho < 0.005 * (1 + 1e-10)


def test_extremes_and_secrecy() -> None:
    with pytest.raises(ConfError, match="cannot be drawn"):
        RowCount.for_budget(Problem(DOMAIN, Records("added", 1)), Budget(1e-300, 0.0))
    assert RowCount.public().release(ExactCount(12), OpenDPNoise()).rows == 12
    assert "12" not in repr(ExactCount(12))
    with pytest.raises(TypeError):
        pickle.dumps(ExactCount(12))
