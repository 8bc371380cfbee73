"""All subsets at once: the same fits as one at a time, and a criterion that noise does not fool."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import numpy as np
import pytest

from dpspark.analysis.ols import Moments, directions, fit_scaled, identification
from dpspark.analysis.subsets import rank_subsets
from dpspark.core.formula import Formula
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoiseModel, SamplingNoise
from dpspark.mechanisms.gram.simulated import draw_noise
from tests.conftest import release_of


def wide(columns: int, n: int, noise: NoiseModel, seed: int, slopes: dict[int, float], spread: float = 0.3) -> Moments:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, columns))
    y = sum(slope * x[:, i] for i, slope in slopes.items()) + rng.uniform(-spread, spread, n)
    z = np.column_stack([np.ones(n), x, y])
    scaled = z.T @ z
    terms = ("(intercept)", *(f"x{i}" for i in range(columns)), "y")
    scaled = scaled + draw_noise(noise, scaled, True, rng, 1)[0]
    return Moments(terms, scaled, np.eye(len(terms))[0], 1 - np.eye(len(terms))[0], noise)


def blocks(columns: int) -> dict[str, tuple[str, ...]]:
    return {f"x{i}": (f"x{i}",) for i in range(columns)}


@pytest.mark.parametrize(
    "noise", [AdditiveNoise(28.0, 20.0), AdditiveNoise(20.0, 20.0, True), SamplingNoise(9000, 400.0)]
)
def test_each_fit_is_that_of_regress(noise: NoiseModel) -> None:
    """Residual variance, kappa and the criterion, recomputed one by one. Kills: a wrong trace in the vectorised Ω."""
    moments = wide(4, 2000, noise, 1, {0: 0.3, 2: -0.2})
    ranking = rank_subsets(moments, "y", {"x0": ("x0",), "both": ("x1", "x2"), "x3": ("x3",)}, None, 100)
    assert ranking.tried == ranking.identified == len(ranking.subsets) == 8
    for subset in ranking.subsets:
        terms = [t for name in subset.columns for t in (("x1", "x2") if name == "both" else (name,))]
        x, y, _, _ = directions(moments, Formula("y", tuple(terms), True))
        _, inverse, omega, residual = fit_scaled(moments, x, y)
        bias, n = float(np.trace(inverse @ omega)), moments.rows
        expected = n * np.log(residual / n) + np.log(n) * x.shape[1] + (np.log(n) - 1) * bias / (residual / n)
        assert subset.criterion == pytest.approx(expected, rel=1e-9)
        strength = identification(moments, x)
        assert (subset.kappa, subset.kappa_w) == pytest.approx((strength.kappa, strength.kappa_w))
        assert subset.coefficients == x.shape[1]
    assert ranking.subsets[0].difference == 0
    assert [s.criterion for s in ranking.subsets] == sorted(s.criterion for s in ranking.subsets)


def test_the_criterion_is_not_fooled_by_noise() -> None:
    """300 releases whose noise is several times the sampling error: the true subset comes first in most, and irrelevant
    columns get in about as rarely as BIC lets them without noise. Kills: BIC with its usual penalty, computed here too.
    """
    noise = AdditiveNoise(35.0 * 2**0.5, 35.0)
    first, extra, naive_extra, quiet_extra = 0, 0, 0, 0
    for seed in range(300):
        moments = wide(5, 4000, noise, seed, {0: 0.3, 1: 0.2}, spread=0.4)
        best = rank_subsets(moments, "y", blocks(5), None, 1).subsets[0]
        first += best.columns == ("x0", "x1")
        extra += len(set(best.columns) - {"x0", "x1"})
        naive_extra += len(set(_naive_best(moments)) - {"x0", "x1"})
        quiet = wide(5, 4000, AdditiveNoise(1e-9, 1e-9), seed, {0: 0.3, 1: 0.2}, spread=0.4)
        quiet_extra += len(set(rank_subsets(quiet, "y", blocks(5), None, 1).subsets[0].columns) - {"x0", "x1"})
    assert first >= 285
    assert extra <= quiet_extra + 15
    assert naive_extra > 300  # one a release


def _naive_best(moments: Moments) -> tuple[str, ...]:
    from itertools import chain, combinations

    names = [f"x{i}" for i in range(5)]
    fits = {}
    for chosen in chain.from_iterable(combinations(names, size) for size in range(6)):
        at = [0, *(moments.terms.index(name) for name in chosen)]
        y = moments.terms.index("y")
        rss = moments.scaled[y, y] - moments.scaled[y, at] @ np.linalg.solve(
            moments.scaled[np.ix_(at, at)], moments.scaled[at, y]
        )
        if rss > 0:
            fits[chosen] = moments.rows * np.log(rss) + np.log(moments.rows) * len(at)
    return min(fits, key=fits.__getitem__)


def test_thirty_two_thousand_subsets_take_seconds() -> None:
    moments = wide(15, 50_000, AdditiveNoise(28.0, 20.0), 3, {1: 0.2, 7: 0.1, 11: -0.2})
    start = time.perf_counter()
    ranking = rank_subsets(moments, "y", blocks(15), None, 5)
    assert time.perf_counter() - start < 20
    assert ranking.tried == 2**15
    assert ranking.subsets[0].columns == ("x1", "x7", "x11")


def test_too_many_are_refused_with_the_number() -> None:
    moments = wide(21, 3000, AdditiveNoise(2.0, 2.0), 3, {1: 0.5})
    with pytest.raises(ConfError, match=r"2,097,152 subsets.*\n.*--max-terms"):
        rank_subsets(moments, "y", blocks(21), None, 5)
    assert rank_subsets(moments, "y", blocks(21), 2, 5).tried == 1 + 21 + 21 * 20 // 2


def test_drowned_subsets_are_left_out() -> None:
    moments = wide(3, 100, AdditiveNoise(200.0, 150.0), 3, {1: 0.5})
    ranking = rank_subsets(moments, "y", blocks(3), None, 5)
    assert ranking.identified < ranking.tried
    empty = rank_subsets(wide(3, 5, AdditiveNoise(900.0, 900.0), 4, {1: 0.5}), "y", blocks(3), None, 5)
    assert "NOT IDENTIFIED" in empty.summary()
    assert json.loads(json.dumps(empty.to_dict(), allow_nan=False))["subsets"] == []


def test_from_a_release(conf: dict[str, Any]) -> None:
    """Categorical columns go in whole; a ranked subset is a formula for `regress`."""
    rng = np.random.default_rng(5)
    n = 30_000
    conf = copy.deepcopy(conf)
    conf["columns"]["job"] = {"categories": ["a", "b", "c"]}
    age, job = rng.uniform(18, 99, n), rng.choice(["a", "b", "c"], n)
    columns = {
        "age": age,
        "educ": rng.uniform(1, 16, n),
        "sex": rng.choice(["F", "M"], n),
        "job": job,
        "income": 900 * age + 20_000 * (job == "b") + rng.uniform(0, 6e4, n),
    }
    rel = release_of(conf, columns)
    ranking = rel.all_subsets("income", top=3)
    assert ranking.subsets[0].columns == ("age", "job")
    assert ranking.subsets[0].coefficients == 4
    assert ranking.tried == 16
    fit = rel.regress(ranking.formula())
    assert fit.terms == ("(intercept)", "age", "job[b]", "job[c]")
    assert (fit.kappa, fit.kappa_w) == pytest.approx((ranking.subsets[0].kappa, ranking.subsets[0].kappa_w))
    assert fit.rsquared == pytest.approx(ranking.subsets[0].r_squared, abs=1e-3)
    assert len(ranking.to_frame()) == 3
    assert rel.all_subsets("income", columns=["age", "educ"]).tried == 4
    assert rel.all_subsets("sex[M]", max_terms=1).tried == 5  # the rest of its own block is no regressor
    for arguments in (("wealth",), ("sex",), ("income", ["wealth"]), ("income", None, -1), ("income", None, 1, 0)):
        with pytest.raises(ConfError):
            rel.all_subsets(*arguments)
