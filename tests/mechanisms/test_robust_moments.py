"""Sufficient statistics, moments and descent of a group: what one record moves, what is drawn, what intervals cover."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpspark.core.domain import Clip
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.gradient_descent import UNIT, DescentLine, clipped_gradient_sum
from dpspark.mechanisms.lines.gram import UNIT_SQUARE, MomentsLine
from dpspark.mechanisms.lines.plane import FINE, Plane
from dpspark.mechanisms.lines.sufficient_statistics import SufficientStatistics, centred_sums, exact_sum
from dpspark.privacy.budget import Budget
from dpspark.privacy.keyed import Stream
from dpspark.privacy.sensitivity import centred_products, clipped_gradient, moved_moment, second_moment, sums_l1
from tests.lines import calibrate
from tests.robust_laws import RANDOM, added, lower_bound, replaced, small_data

PLANE = Plane((0.0, 1.0), (0.0, 1.0))
CORNERS = [(a, b) for a in (0.0, 1.0) for b in (0.0, 1.0)]


def sums_of(x: object, y: object) -> tuple[Fraction, Fraction]:
    return centred_sums(PLANE.rows(np.asarray(x, dtype=float), np.asarray(y, dtype=float)))


def test_centred_sums_are_exact() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(500), rng.random(500)
    products, squares = sums_of(x, y)
    assert float(products) == pytest.approx(((x - x.mean()) * (y - y.mean())).sum(), abs=1e-5)
    assert float(squares) == pytest.approx(500 * x.var(), abs=1e-5)
    assert sums_of([], []) == (0, 0)
    big = np.full(5000, FINE * FINE)
    assert exact_sum(big) == 5000 * FINE * FINE
    assert exact_sum(-big) == -5000 * FINE * FINE


def test_sensitivity_of_centred_sums() -> None:
    """Kills: 1/n or 1/2 for 1. All small tables of corners; attained up to n/(n + 1) and 1 − 1/n."""
    found = {"added": Fraction(0), "replaced": Fraction(0)}
    for size in range(1, 5):
        for table in itertools.combinations_with_replacement(CORNERS, size):
            for new in CORNERS:
                before = sums_of(*zip(*table, strict=True))
                for change, after in (("added", (*table, new)), ("replaced", (*table[1:], new))):
                    moved = sums_of(*zip(*after, strict=True))
                    found[change] = max(found[change], *(abs(a - b) for a, b in zip(before, moved, strict=True)))
    assert found == {"added": Fraction(4, 5), "replaced": Fraction(3, 4)}
    assert max(found.values()) <= centred_products()
    assert (centred_products(3), sums_l1(), sums_l1(2)) == (3, 2, 4)


@pytest.mark.parametrize(
    ("records", "scales"), [(Records("replaced"), 3), (Records("added"), 3), (Records("added", 2), 6)]
)
def test_noise_of_sufficient_statistics(records: Records, scales: int) -> None:
    """Kills: epsilon for each of three parts; 2/epsilon for 3/epsilon. White box: the scale of the drawn noise."""
    kernel = calibrate("sufficient_statistics", PLANE, Budget(1.0, 0.0), records).kernel
    assert isinstance(kernel, SufficientStatistics)
    stream = RANDOM.stream("noise", scales, records.change)
    unit = 1 << 40
    drawn = np.array([kernel._noisy(Fraction(0), stream) / unit for _ in range(3000)])
    assert stats.kstest(drawn, stats.laplace(scale=scales).cdf).pvalue > 1e-6
    for wrong in (0.7, 1.4):
        assert stats.kstest(drawn, stats.laplace(scale=wrong * scales).cdf).pvalue < 1e-6
    assert kernel.public_rows == (records.change == "replaced")


class Recorded(Stream):
    """No noise, but how much there would have been."""

    def __init__(self) -> None:
        super().__init__(b"")
        self.scales: list[float] = []

    def discrete_laplace(self, scale: Fraction) -> int:
        self.scales.append(float(scale) / (1 << 40))
        return 0


@pytest.mark.parametrize(
    ("records", "scales"),
    [
        (Records("replaced"), [3, 3, 3 * 1.5]),  # 1 + |slope|, of a sum over a public number of rows
        (Records("replaced", 2), [6, 6, 6 * 1.5]),
        (Records("added"), [3, 3, 6, 6, 6]),  # the count and two sums: 2 together
        (Records("replaced", moves=True), [6, 6, 12, 12, 12]),
    ],
)
def test_every_part_of_sufficient_statistics_has_its_noise(records: Records, scales: list[float]) -> None:
    """Kills: a level without noise, or without its |slope|."""
    kernel = calibrate("sufficient_statistics", PLANE, Budget(1.0, 0.0), records).kernel
    assert isinstance(kernel, SufficientStatistics)
    rows, stream = PLANE.rows(np.linspace(0, 1, 9), 0.2 + 0.5 * np.linspace(0, 1, 9)), Recorded()
    slope = kernel.slope(rows, stream)
    assert slope == pytest.approx(0.5, abs=1e-6)
    assert kernel.level(rows, slope, stream) == pytest.approx(0.45, abs=1e-6)
    assert stream.scales == pytest.approx(scales, rel=1e-6)


def test_sufficient_statistics_of_moving_records() -> None:
    """Kills: all of epsilon in each of two groups; rows called public that are not."""
    kernel = calibrate("sufficient_statistics", PLANE, Budget(1.0, 0.0), Records("replaced", moves=True)).kernel
    assert isinstance(kernel, SufficientStatistics)
    assert kernel.epsilon_each == pytest.approx(1 / 6)
    assert not kernel.public_rows
    in_rho = calibrate("sufficient_statistics", PLANE, Budget(rho=0.24), Records("added")).kernel
    assert isinstance(in_rho, SufficientStatistics)
    assert 3 * in_rho.epsilon_each**2 / 2 == pytest.approx(0.24)


@pytest.mark.parametrize("records", [Records("replaced"), Records("added")])
def test_audit_of_sufficient_statistics(records: Records) -> None:
    """Zeros and (0, 0) against (1, 1). Kills: the level released without noise. The event was fixed beforehand."""
    zeros = np.zeros(6)
    rest = zeros if records.change == "added" else zeros[1:]
    pair = (zeros, zeros), (np.append(rest, 1.0), np.append(rest, 1.0))
    n = 3000

    def shown(epsilon: float) -> float:
        kernel = calibrate("sufficient_statistics", PLANE, Budget(epsilon, 0.0), records).kernel
        hits = []
        for side, data in enumerate(pair):
            fits = [kernel.fit(*data, RANDOM, side, i) for i in range(n)]
            hits.append(sum(fit.status == "ok" and sum(fit.estimate) > 0.9 for fit in fits))
        return lower_bound((hits[0], hits[1]), n)

    assert shown(1.0) <= 1.0
    assert shown(24.0) > 1.0


def test_moments_are_exact_and_the_noise_is_right() -> None:
    """Kills: sigma for the off-diagonal's sigma/√2; noise on a public count. KS, false alarm 1e-6."""
    x, y = np.array([0.0, 0.5, 1.0, 0.25]), np.array([1.0, 0.5, 0.25, 0.0])
    z = np.stack([np.ones(4), 2 * x - 1, 2 * y - 1])
    exact = z @ z.T
    for name, records in (
        ("gaussian", Records("added")),
        ("gaussian", Records("replaced")),
        ("laplace", Records("added")),
    ):
        budget = Budget(1.0, 1e-6 if name == "gaussian" else 0.0)
        kernel = calibrate(name, PLANE, budget, records).kernel  # type: ignore[arg-type]
        assert isinstance(kernel, MomentsLine)
        stream = RANDOM.stream("moments", name, records.change)
        drawn = np.array([kernel.noisy(PLANE.rows(x, y), stream) - exact for _ in range(600)])
        if records.public_rows:
            assert (drawn[:, 0, 0] == 0).all()
        for (i, j), scale in {
            (1, 1): kernel.diagonal,
            (0, 1): kernel.off_diagonal,
            (1, 2): kernel.off_diagonal,
        }.items():
            law = stats.norm(scale=scale) if name == "gaussian" else stats.laplace(scale=scale)
            wrong = stats.norm(scale=1.3 * scale) if name == "gaussian" else stats.laplace(scale=1.4 * scale)
            assert stats.kstest(drawn[:, i, j], law.cdf).pvalue > 1e-6
            assert stats.kstest(drawn[:, i, j], wrong.cdf).pvalue < 0.01


def test_moment_calibration() -> None:
    """mu = sensitivity / sigma within the budget; a record that moves changes two groups."""
    sigma = {}
    for records in (Records("added"), Records("replaced"), Records("replaced", moves=True)):
        kernel = calibrate("gaussian", PLANE, Budget(rho=0.5), records).kernel
        assert isinstance(kernel, MomentsLine)
        sigma[records] = kernel.diagonal
    one, two, moved = sigma.values()
    assert one == pytest.approx(second_moment(UNIT_SQUARE, "added").value)
    assert two == pytest.approx(second_moment(UNIT_SQUARE, "replaced").value)
    # Leaving one group and entering another: the two changes are in different matrices.
    corner = np.array([1.0, 1.0, 1.0])
    upper = np.outer(corner, corner)[np.triu_indices(3)]
    assert moved >= math.sqrt(2) * np.linalg.norm(upper)
    assert moved == pytest.approx(moved_moment(UNIT_SQUARE).value)
    assert not moved_moment(UNIT_SQUARE).count_is_public
    with pytest.raises(ConfError, match="laplace"):
        calibrate("gaussian", PLANE, Budget(1.0, 0.0), Records("added"))


@pytest.mark.parametrize(("name", "epsilon"), [("laplace", 1.0), ("gaussian", 2.0)])
def test_intervals_cover(name: str, epsilon: float) -> None:
    """Kills: intervals without the privacy noise, or without the sampling error. 95% of 400: between 362 and 395 (±4 sd)."""
    rng = np.random.default_rng(8)
    plane = Plane((10.0, 30.0), (-1.0, 3.0), cuts=(15.0, 22.0, 25.0))
    kernel = calibrate(name, plane, Budget(epsilon, 1e-6 if name == "gaussian" else 0.0), Records("added")).kernel  # type: ignore[arg-type]
    hits, shown = np.zeros(3), 0
    for trial in range(400):
        x = rng.uniform(10, 30, 700)
        fit = kernel.fit(x, 0.2 + 0.04 * x + rng.normal(0, 0.3, 700), RANDOM, name, trial)
        if fit.status == "ok":
            shown += 1
            hits += [
                low <= 0.2 + 0.04 * at <= high for low, high, at in zip(fit.ci_low, fit.ci_high, fit.x, strict=True)
            ]
    assert shown > 390
    assert (hits >= 0.905 * shown).all()
    assert (hits <= 0.988 * shown).all()


@pytest.mark.parametrize("shape", ["ball", "box"])
def test_sensitivity_of_a_gradient(shape: str) -> None:
    """Kills: a sum that is clipped and not its terms; rounding that goes beyond the clip. At several points, corners too."""
    clip = Clip(shape, 0.2)  # type: ignore[arg-type]
    kernel = DescentLine(PLANE, "gaussian", 1.0, clip)
    order = 2 if shape == "ball" else 1
    found = {"added": 0.0, "replaced": 0.0}
    for data, new, at in small_data(3, 200):
        for values in (np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.array([0.2, 0.9])):
            before = np.array(clipped_gradient_sum(kernel, PLANE.rows(*data), values))
            for change, after in (("added", added(data, new)), ("replaced", replaced(data, at, new))):
                moved = np.array(clipped_gradient_sum(kernel, PLANE.rows(*after), values)) - before
                found[change] = max(found[change], float(np.linalg.norm(moved, order)) / UNIT)
    for change, most in found.items():
        assert 0.6 * clipped_gradient(clip, 2, change) < most <= clipped_gradient(clip, 2, change)  # type: ignore[arg-type]


def test_descent_calibration() -> None:
    """Kills: one step's budget for all of them."""
    pure = calibrate("gradient_descent", PLANE, Budget(2.0, 0.0), Records("added"), steps=5, clip=0.1).kernel
    assert isinstance(pure, DescentLine)
    assert (pure.law, pure.clip) == ("laplace", Clip("box", 0.1))
    assert pure.scale == pytest.approx(5 * 0.2 / 2.0)
    zcdp = calibrate("gradient_descent", PLANE, Budget(rho=0.5), Records("replaced"), steps=4, clip=0.1).kernel
    assert isinstance(zcdp, DescentLine)
    assert zcdp.scale == pytest.approx(2 * 0.2)
    moving = calibrate(
        "gradient_descent", PLANE, Budget(rho=0.5), Records("replaced", moves=True), steps=4, clip=0.1
    ).kernel
    assert isinstance(moving, DescentLine)
    assert moving.scale == zcdp.scale
    stream = RANDOM.stream("gradient")
    nobody = PLANE.rows(np.array([]), np.array([]))
    drawn = np.array([zcdp.noisy_gradient(nobody, np.array([0.5, 0.5]), stream) for _ in range(1000)]).ravel()
    assert stats.kstest(drawn, stats.norm(scale=0.4).cdf).pvalue > 1e-6
    assert stats.kstest(drawn, stats.norm(scale=0.3).cdf).pvalue < 1e-6


@pytest.mark.parametrize("records", [Records("added"), Records("replaced"), Records("added", 3)], ids=str)
def test_the_scale_of_laplace_moments_meets_epsilon(records: Records) -> None:
    """Kills: a scale half of what the joint l1 sensitivity of the six moments asks for. Corner rows, in the scaled square."""
    kernel = calibrate("laplace", Plane((0.0, 1.0), (0.0, 1.0)), Budget(0.8, 0.0), records).kernel
    assert isinstance(kernel, MomentsLine)
    upper = np.triu_indices(3)
    corners = [np.outer(z, z)[upper] for z in ((1.0, a, b) for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0))]
    before = [np.zeros(6)] if records.change == "added" else corners
    moved = max(float(abs(after - first).sum()) for first in before for after in corners)
    scale = min(kernel.diagonal, kernel.off_diagonal)
    assert records.rows * moved / scale <= 0.8
    if records.change == "added":
        assert records.rows * moved / scale >= 0.799
