"""Every line mechanism: odd groups, units, repeatability, and how near it gets."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.grid import lines_for
from dpspark.mechanisms.lines.huber import clip_for, ramps_for
from dpspark.mechanisms.lines.kernel import Kernel, fit_groups
from dpspark.mechanisms.lines.plane import Plane, line_fit
from dpspark.privacy.budget import Budget
from dpspark.privacy.keyed import KeyedRandom
from tests.lines import calibrate

RANDOM = KeyedRandom(bytes(range(32)))
PLANE = Plane((0.0, 1.0), (0.0, 1.0))
NAMES: list[str] = [
    "huber",
    "depth",
    "exponential",
    "all_pairs",
    "widened",
    "smooth_sensitivity",
    "sufficient_statistics",
    "gradient_descent",
    "gaussian",
    "laplace",
]


REPLACED = Records("replaced")


def made(
    name: str, epsilon: float = 1.0, plane: Plane = PLANE, records: Records = REPLACED, **options: object
) -> Kernel:
    budget = Budget(epsilon, 1e-6 if name == "gaussian" else 0.0)
    return calibrate(name, plane, budget, records, **options).kernel


ODD_GROUPS = {
    "none": ([], []),
    "one": ([0.3], [0.7]),
    "two": ([0.3, 0.9], [0.7, 0.1]),
    "two alike": ([0.5, 0.5], [0.5, 0.5]),
    "constant x": ([0.5] * 9, list(np.linspace(0, 1, 9))),
    "constant y": (list(np.linspace(0, 1, 9)), [0.0] * 9),
    "corners": ([0, 1, 0, 1, 1], [0, 1, 1, 0, 1]),
    "out of bounds": ([-5.0, 7.0, math.inf], [9.0, -math.inf, 0.5]),
    "a hair apart": ([0.5, 0.5 + 1e-15, 0.5 - 1e-15, 0.5 + 2.0**-26], [0.0, 1.0, 0.5, 0.2]),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("group", ODD_GROUPS)
def test_odd_groups_have_valid_output(name: str, group: str) -> None:
    """An error, or a message, would be a release of its own."""
    x, y = (np.array(part, dtype=float) for part in ODD_GROUPS[group])
    for epsilon in (0.01, 50.0):
        fit = made(name, epsilon).fit(x, y, RANDOM, group)
        assert fit.status in ("ok", "not_identified", "weakly_identified")
        assert len(fit.estimate) == len(fit.ci_low) == len(fit.ci_high) == 2
        if fit.status == "not_identified":
            assert all(map(math.isnan, fit.estimate))
        else:
            assert all(-1e-9 <= value <= 1 + 1e-9 for value in fit.estimate)
            assert fit.slope == pytest.approx(2 * (fit.estimate[1] - fit.estimate[0]), abs=1e-9)
            assert fit.intercept == pytest.approx(fit.estimate[0] - 0.25 * fit.slope, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_retries_repeat_the_draw_in_any_order_of_rows(name: str) -> None:
    """Kills: pairs or noise that depend on how rows arrive; a kernel that does not travel."""
    rng = np.random.default_rng(0)
    x, y = rng.random(31), rng.random(31)
    order = rng.permutation(31)
    kernel = made(name)
    there = pickle.loads(pickle.dumps(kernel))  # noqa: S301
    first, again = kernel.fit(x, y, RANDOM, "g", 1), there.fit(x[order], y[order], RANDOM, "g", 1)
    assert repr(first) == repr(again)
    others = {repr(kernel.fit(x, y, RANDOM, "g", i).estimate) for i in range(2, 8)}
    assert len(others) > 1


@pytest.mark.parametrize("name", [name for name in NAMES if name != "smooth_sensitivity"])
def test_a_lot_of_budget_finds_the_line(name: str) -> None:
    """In units of x and y that are not 0 to 1; three cuts, of which the outer ones are drawn."""
    plane = Plane((100.0, 300.0), (-2.0, 6.0), cuts=(250.0, 150.0, 180.0))
    rng = np.random.default_rng(1)
    x = rng.uniform(100, 300, 300)
    y = 1.0 + 0.01 * x + rng.normal(0, 0.1, 300)
    options = {"x_variance": 1 / 12} if name == "huber" else {}
    fit = made(name, 400.0, plane, **options).fit(x, y, RANDOM)
    assert fit.x == (250.0, 150.0, 180.0)
    assert fit.estimate == pytest.approx((3.5, 2.5, 2.8), abs=0.12)
    assert fit.slope == pytest.approx(0.01, abs=0.002)
    assert fit.intercept == pytest.approx(1.0, abs=0.3)


def test_one_cut() -> None:
    """Pairs' medians are drawn at that cut alone, and there is no slope; lines in one piece have one."""
    plane = Plane((0.0, 1.0), (0.0, 1.0), cuts=(0.4,))
    rng = np.random.default_rng(1)
    x = rng.random(200)
    y = np.clip(0.2 + 0.5 * x, 0, 1)
    for name in NAMES:
        fit = made(name, 60.0, plane).fit(x, y, RANDOM)
        assert fit.estimate == pytest.approx((0.4,), abs=0.06)
        assert math.isnan(fit.slope) == (name in ("exponential", "all_pairs", "widened", "smooth_sensitivity"))


def test_cuts_close_together_or_far_away() -> None:
    """The line is drawn at the quarter points then, and the predictions follow from it."""
    rng = np.random.default_rng(1)
    x = rng.random(200)
    for cuts in ((0.5, 0.5 + 1e-7), (4.0, 5.0)):
        plane = Plane((0.0, 1.0), (0.0, 1.0), cuts=cuts)
        assert plane.joint_anchors == (0.25, 0.75)
        for name in ("huber", "depth", "laplace", "gradient_descent"):
            fit = made(name, 80.0, plane).fit(x, 0.2 + 0.1 * x, RANDOM)  # type: ignore[arg-type]
            assert fit.estimate == pytest.approx([0.2 + 0.1 * cut for cut in cuts], abs=0.3)


def test_candidates_limit_what_is_released() -> None:
    plane = Plane((0.0, 1.0), (0.0, 1.0), candidates=(0.4, 0.6))
    x = np.linspace(0, 1, 40)
    for name in NAMES:
        fit = made(name, 20.0, plane).fit(x, x, RANDOM)
        assert all(0.4 - 1e-9 <= value <= 0.6 + 1e-9 for value in fit.estimate)


@pytest.mark.parametrize("name", ["exponential", "depth", "huber", "sufficient_statistics"])
def test_private_rows(name: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.random(400)
    fit = made(name, 20.0, records=Records("added")).fit(x, np.clip(0.3 + 0.4 * x, 0, 1), RANDOM)
    assert fit.estimate == pytest.approx((0.4, 0.6), abs=0.05)


def test_planes_refuse_what_is_no_plane() -> None:
    for wrong in (
        {"x_bounds": (1.0, 1.0)},
        {"y_bounds": (0.0, math.inf)},
        {"candidates": (2.0, 1.0)},
        {"cuts": (0.5, 0.5)},
        {"cuts": (math.nan,)},
        {"cuts": (0.5, 1e305)},  # slope·cut of a level pair is 0·∞: off the grid
        {"candidates": (-1e300, 1e300)},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Plane(**{"x_bounds": (0.0, 1.0), "y_bounds": (0.0, 1.0), **wrong})  # type: ignore[arg-type]


def test_private_things_are_not_shown() -> None:
    rows = PLANE.rows(np.array([0.123]), np.array([0.456]))
    assert repr(rows) == "Rows(not shown)"
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(rows)


def test_defaults_from_public_guesses() -> None:
    assert lines_for(None) == lines_for(50) == 200
    assert lines_for(2500) == 1000 == lines_for(1e9)
    assert clip_for(1.0, 90) == pytest.approx(0.05, abs=0.001)
    assert clip_for(16.0, 90) == pytest.approx(0.2, abs=0.01)
    assert clip_for(1.0, 1e9) == pytest.approx(0.5, abs=0.01)
    assert clip_for(16.0, 90, 0.02) == pytest.approx(0.02, abs=0.001)
    assert clip_for(16.0, 90, smoothed=True) == pytest.approx(0.4, abs=0.01)
    assert ramps_for(1.0, 90, None) == ramps_for(1.0, 90, 0.01)
    assert ramps_for(1.0, 1e9, 1 / 12) == ((0.5,), 0.5)
    with pytest.raises(ConfError, match="too little"):
        made("huber", 1e-12)


def test_intervals_only_where_they_are_valid() -> None:
    rng = np.random.default_rng(2)
    x = rng.random(400)
    y = np.clip(0.3 + 0.4 * x + rng.normal(0, 0.1, 400), 0, 1)
    for name in NAMES:
        fit = made(name, 5.0).fit(x, y, RANDOM)
        assert math.isnan(fit.ci_low[0]) == (name not in ("gaussian", "laplace"))
    fit = line_fit(PLANE, (0.25, 0.75), (0.4, 0.6), "ok", (0.1, 0.2))
    assert fit.ci_low == pytest.approx((0.3, 0.4))
    assert fit.ci_high == pytest.approx((0.5, 0.8))


def test_groups() -> None:
    rng = np.random.default_rng(2)
    x, y, offsets = rng.random(30), rng.random(30), np.array([0, 10, 10, 30])
    kernel = made("exponential")
    fits = fit_groups(kernel, x, y, offsets, [("a", 1), ("a", 2), ("b", 1)], RANDOM)
    assert repr(fits[2]) == repr(kernel.fit(x[10:], y[10:], RANDOM, "b", 1))
    assert len(fits) == 3
    for wrong in ([("a",), ("b",)], [("a",), ("b",), ("a",)]):
        with pytest.raises(ValueError, match="labels"):
            fit_groups(kernel, x, y, offsets, wrong, RANDOM)


def test_options_out_of_range() -> None:
    for name, option in (("huber", {"clip": 0.0}), ("exponential", {"matchings": 0}), ("huber", {"x_variance": 0.3})):
        with pytest.raises(ConfError, match=f"mechanism.{next(iter(option))}="):
            made(name, 1.0, **option)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        made("huber", 1.0, nonsense=1)
