"""The adaptive ridge: the exact delta of both draws together at the worst neighbours, and mutants that must exceed it."""

from __future__ import annotations

import copy
import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpspark.core.domain import Domain, Numeric
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.adaptive import LARGEST_TRACE, LeastEigenvalue
from dpspark.mechanisms.gram.johnson_lindenstrauss import JohnsonLindenstraussGram
from dpspark.mechanisms.gram.projection import ProjectedGram
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.privacy.budget import Budget
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import load_spec
from tests.conftest import release_of
from tests.noises import RecordedNoise, SeededNoise

DOMAIN = Domain((Numeric("a", 0, 1), Numeric("b", 0, 1)), "midpoint")
WIDTH, NORM = 3, 3.0
EPSILON, DELTA = 1.0, 1e-4


class WithoutQuantile(LeastEigenvalue):
    """Mutant: the noisy least eigenvalue itself is credited."""

    def bound(self, released: int) -> float:
        return max(0.0, self.step * (released - self.sensitivity) - self.slack)


class WithoutSensitivity(LeastEigenvalue):
    """Mutant: the bound holds for the table that was read, but not for the smaller neighbour."""

    def bound(self, released: int) -> float:
        return max(0.0, self.step * (released - self.quantile) - self.slack)


class DoublyCredited(JohnsonLindenstraussGram):
    """Mutant: the bound is right, and the ridge is lowered by twice of it."""

    def lowered(self, bound: float) -> DoublyCredited:
        return super().lowered(2 * bound)


def adaptive(
    bound: type[LeastEigenvalue] = LeastEigenvalue,
    share: float = 0.3,
    degrees: int = 2000,
    draw: type[JohnsonLindenstraussGram] = JohnsonLindenstraussGram,
) -> tuple[JohnsonLindenstraussGram, LeastEigenvalue]:
    """The mechanism, and its bound."""
    options = draw.Options(rows=degrees, adaptive=share)
    found = draw.for_budget(Problem(DOMAIN, Records("added")), Budget(EPSILON, DELTA), options)
    assert found.adaptive is not None
    changed = bound(**{key.name: getattr(found.adaptive, key.name) for key in fields(found.adaptive)})
    return replace(found, adaptive=changed), changed


def pair_delta(epsilon: np.ndarray, degrees: float, s: np.ndarray, grows: bool) -> np.ndarray:
    """E[(1 − e^(epsilon − L))₊] between N(0, 1)^r and N(0, 1 − s)^r, in one direction; elementwise, any real epsilon."""
    log_ratio = degrees * np.log1p(-s)
    edge = (2 * epsilon - log_ratio) / s if grows else (-log_ratio - 2 * epsilon) / s
    first = stats.chi2.sf((1 - s) * edge, degrees) if grows else stats.chi2.cdf(edge, degrees)
    second = stats.chi2.logsf(edge, degrees) if grows else stats.chi2.logcdf((1 - s) * edge, degrees)
    return np.maximum(first - np.exp(np.minimum(epsilon + second, 700)), 0.0)


def joint_delta(
    drawn: JohnsonLindenstraussGram, mechanism: LeastEigenvalue, least: float, epsilon: float = EPSILON
) -> float:
    """The delta of (released value, draw) between A, with least eigenvalue `least`, and A + zzᵀ with B² more.

    Given the released value k, the draw's loss is that of the Gaussian pair at s = B²/(least + ridge(k) + B²). Exact but for
    a sum over every n-th k, n a 50th of the Laplace scale, over which nothing changes by more than 2%.
    """
    at_a = math.floor(least / mechanism.step)
    at_s = at_a + mechanism.sensitivity - 1  # the most that the grid and B² allow
    decay = 1 / mechanism.scale
    stride = max(1, int(mechanism.scale / 50))
    reach = int(25 * mechanism.scale)
    k = np.arange(at_a - reach, at_s + reach + 1, stride)
    centre = math.log(stride * math.tanh(decay / 2))
    log_a, log_s = centre - decay * abs(k - at_a), centre - decay * abs(k - at_s)
    ridges = np.array([drawn.lowered(mechanism.bound(int(value))).ridge for value in k])
    s = np.minimum(NORM / (least + ridges + NORM), 1 - 1e-9)
    degrees = drawn.degrees
    # The larger table has the wider Gaussian for Johnson-Lindenstrauss: in units of it, the smaller is N(0, 1 − s).
    from_s = np.exp(log_s) * pair_delta(epsilon - (log_s - log_a), degrees, s, grows=True)
    from_a = np.exp(log_a) * pair_delta(epsilon - (log_a - log_s), degrees, s, grows=False)
    return float(max(from_s.sum(), from_a.sum()))


def worst(drawn: JohnsonLindenstraussGram, mechanism: LeastEigenvalue) -> float:
    """Over tables whose least eigenvalue is anything from nothing to far past where the ridge is gone."""
    credited, ridge = mechanism.step * (mechanism.quantile + mechanism.sensitivity), drawn.ridge
    points = [ridge * f for f in (0, 0.1, 0.2, 0.4, 0.7, 1)] + [credited + ridge * f for f in (-0.5, 0, 0.3, 0.5, 1, 2)]
    return max(joint_delta(drawn, mechanism, max(0.0, point)) for point in points)


def test_the_pair_profile_here_is_the_package_s() -> None:
    from dpspark.privacy.profiles import gaussian_pair_delta

    for s in (0.001, 0.02):
        both = [float(pair_delta(np.array(0.7), 2000, np.array(s), grows)) for grows in (True, False)]
        assert max(both) == pytest.approx(gaussian_pair_delta(0.7, 2000, s), rel=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("degrees", [100, 2000])
def test_exact_delta_at_the_worst_neighbours(share: float, degrees: int) -> None:
    """Both releases together, at their joint epsilon."""
    assert 0.1 * DELTA < worst(*adaptive(share=share, degrees=degrees)) <= DELTA


def test_mutants_exceed_it() -> None:
    """Kills: the quantile left out (delta is 500 times too large); a bound credited twice (18 times)."""
    assert worst(*adaptive(WithoutQuantile, 0.1, 100)) > 100 * DELTA
    assert worst(*adaptive(share=0.7, draw=DoublyCredited)) > 10 * DELTA


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_the_bound_holds_for_the_smaller_neighbour(share: float) -> None:
    """P(bound > least eigenvalue of A), read on A + zzᵀ, is at most what was counted into delta, by the exact tail.

    Kills: the bound taken for the table that was read alone.
    """
    for kind, holds in ((LeastEigenvalue, True), (WithoutSensitivity, False)):
        _, mechanism = adaptive(kind, share)
        least = 50 * mechanism.step * mechanism.quantile
        at_s = math.floor((least + NORM) / mechanism.step)
        k = at_s
        while mechanism.bound(k) <= least:  # the smallest released value that is too large
            k += 1
        excess = k - at_s
        tail = math.exp(-excess / mechanism.scale) / (1 + math.exp(-1 / mechanism.scale))
        assert (tail <= mechanism.failure) is holds


def test_the_statistic_s_sensitivity() -> None:
    """Least eigenvalues of neighbouring tables on the grid, through the real code. Kills: B² alone, without the grid's step."""
    _, mechanism = adaptive()
    rng = np.random.default_rng(5)
    largest = 0
    for _ in range(400):
        rows = rng.choice([-1.0, 1.0], (int(rng.integers(3, 30)), WIDTH))
        rows[:, 0] = 1.0
        values = []
        row = rng.choice([-1.0, 1.0], WIDTH)
        least = np.linalg.eigh(rows.T @ rows)[1][:, 0]
        row = np.where(least >= 0, 1.0, -1.0) * (1 if least[0] >= 0 else -1)  # along the least direction
        for table in (rows, np.vstack([rows, row])):
            upper = (table.T @ table)[np.triu_indices(WIDTH)]
            values.append(mechanism.least_eigenvalue(ExactGram(DOMAIN, [round(v * DOMAIN.one**2) for v in upper])))
        largest = max(largest, abs(values[1] - values[0]))
    assert 0.5 * NORM / mechanism.step < largest <= mechanism.sensitivity


def test_nothing_is_credited_past_the_largest_trace() -> None:
    huge = round(LARGEST_TRACE) * DOMAIN.one**2
    assert adaptive()[1].least_eigenvalue(ExactGram(DOMAIN, [huge, 0, 0, huge, 0, huge])) == 0


def test_the_noise_drawn_is_the_noise_stated() -> None:
    """Kills: another scale than the proof's, a second draw, a ridge that depends on anything but the released value."""

    drawn, mechanism = adaptive()
    assert mechanism.sensitivity * mechanism.step >= NORM + 2 * mechanism.slack + mechanism.step
    noise = RecordedNoise()
    table = ExactGram(DOMAIN, [v * DOMAIN.one**2 for v in (90000, 0, 0, 30000, 0, 30000)])
    noisy = drawn.release(table, noise)
    assert noise.asked == [("laplace", mechanism.scale, 1)]
    assert mechanism.sensitivity / noise.asked[0].scale <= mechanism.epsilon
    found = noisy.facts["adaptive"]
    assert mechanism.bound(round(found["released"] / mechanism.step)) == found["lower_bound"]
    assert noisy.noise == drawn.lowered(found["lower_bound"]).noise
    assert 0 < found["lower_bound"] < 30000
    assert found["ridge"] == pytest.approx(max(0.0, drawn.ridge - found["lower_bound"]))
    assert drawn.noise.ridge == found["ridge_before"] > found["ridge"]


def test_draws_have_the_stated_noise() -> None:
    """Unbiased, with the lowered ridge's noise: 1500 draws, mean within 5 standard errors, deviations within 10%."""
    mechanism, _ = adaptive()
    exact = np.diag([9000.0, 3000.0, 3000.0])
    upper = [round(v * DOMAIN.one**2) for v in exact[np.triu_indices(WIDTH)]]
    noise = SeededNoise(np.random.default_rng(3))
    drawn = [mechanism.release(ExactGram(DOMAIN, upper), noise) for _ in range(1500)]
    found = np.array([scaled_matrix(ExactGram(DOMAIN, list(noisy.upper)))[1] for noisy in drawn])
    stated = np.mean([np.diag(noisy.noise.along(np.array([0.0, 1.0, 0.0]), exact)) for noisy in drawn], axis=0)
    assert np.mean([noisy.noise.ridge for noisy in drawn]) < 0.5 * mechanism.ridge
    assert (abs(found.mean(axis=0) - exact[1]) < 5 * found.std(axis=0) / math.sqrt(len(found))).all()
    assert found.std(axis=0) == pytest.approx(np.sqrt(stated), rel=0.1)


@pytest.mark.parametrize("name", ["johnson_lindenstrauss", "inverse_wishart"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_from_the_conf(conf: dict[str, Any], name: str, neighbours: str) -> None:
    conf = copy.deepcopy(conf)
    conf["columns"] = {"age": {"lower": 18, "upper": 99}, "educ": {"lower": 1, "upper": 16}}
    key = "rows" if name == "johnson_lindenstrauss" else "degrees_of_freedom"
    conf["privacy"]["neighbours"] = neighbours
    conf["mechanism"] = {"name": name, "adaptive": 0.2, key: 20_000}
    mechanism = choose_gram(load_spec(conf))
    assert isinstance(mechanism, ProjectedGram)
    assert mechanism.adaptive is not None
    one, replaced = (0.8, 0.8e-9), (0.4, 0.8e-9 / (1 + math.exp(0.4)))
    at, most = one if neighbours == "add_remove" else replaced
    assert mechanism.delta(at) <= most
    assert (mechanism.adaptive.epsilon, mechanism.adaptive.failure) == pytest.approx((0.2, 0.2e-9))
    rng = np.random.default_rng(0)
    rel = release_of(conf, {"age": rng.uniform(18, 99, 40_000), "educ": rng.uniform(1, 16, 40_000)})
    shown = rel.manifest["mechanism"]
    assert shown["adaptive"]["ridge"] < shown["adaptive"]["ridge_before"] == pytest.approx(mechanism.ridge)
    assert shown["noise"]["ridge"] == shown["adaptive"]["ridge"] == shown["ridge_removed"]


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ({"name": "gaussian", "adaptive": 0.1}, "adaptive is not an option of gaussian"),
        ({"name": "wishart", "adaptive": 0.1}, "adaptive is not an option of wishart"),
        ({"name": "inverse_wishart", "adaptive": 1}, "a share of the budget between 0 and 1"),
        ({"name": "inverse_wishart", "adaptive": 0}, "expected a number > 0"),
    ],
)
def test_refused(conf: dict[str, Any], mechanism: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfError) as caught:
        load_spec({**conf, "mechanism": mechanism})
    assert message in str(caught.value)
