"""Lines drawn in one piece, by depth and by Huber's scores: sensitivities, exact laws, audits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspark.core.records import Change, Records
from dpspark.mechanisms.lines.depth import DepthLine, line_depths
from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.huber import UNIT, HuberLine
from dpspark.mechanisms.lines.plane import Plane, Rows, SimpleFit
from dpspark.privacy.budget import Budget
from dpspark.privacy.sensitivity import depth_spread, score_spread
from tests.lines import calibrate
from tests.robust_laws import RANDOM, added, chi_squared, line_law, lower_bound, replaced, small_data

PLANE = Plane((0.0, 1.0), (0.0, 1.0))
SMALL = Grid(PLANE, 10)
NAMES: list[str] = ["depth", "huber"]


def kernel(name: str, epsilon: float, records: Records, cells: int = 10, **options: object) -> DepthLine | HuberLine:
    if name == "depth":
        options.pop("clip", None)
    made = calibrate(name, PLANE, Budget(epsilon, 0.0), records, cells=cells, **options).kernel
    assert isinstance(made, DepthLine | HuberLine)
    return made


def slow_depths(grid: Grid, rows: Rows) -> np.ndarray:
    """From the definition, one line and one split at a time."""
    y, first, second = grid.steps(rows)
    depths = np.zeros((grid.points, grid.points), dtype=int)
    splits = [*(np.unique(rows.x) - 0.5), math.inf]
    for i, j in np.ndindex(*depths.shape):
        r = y - first * i - second * j
        left = [rows.x < v for v in splits]
        depths[i, j] = min(
            min((r[a] >= 0).sum() + (r[~a] <= 0).sum(), (r[a] <= 0).sum() + (r[~a] >= 0).sum()) for a in left
        )
    return depths


def slow_scores(of: HuberLine, rows: Rows) -> np.ndarray:
    y, first, second = of.grid.steps(rows)
    at = np.arange(of.grid.points)
    clipped = np.clip(
        y[:, None, None] - first[:, None, None] * at[:, None] - second[:, None, None] * at,
        -of.clip_steps,
        of.clip_steps,
    )
    return np.max([abs((clipped * phi[:, None, None]).sum(axis=0)) for phi in of.instruments(rows)], axis=0)


def test_fast_depths_are_the_depths() -> None:
    """Kills: splits inside ties of x, zero residuals that count on one side, a threshold off by one."""
    for data, _, _ in small_data(1, 25, 14):
        rows = PLANE.rows(*data)
        assert (line_depths(SMALL, rows) == slow_depths(SMALL, rows)).all()
    nothing = PLANE.rows(np.array([]), np.array([]))
    assert (line_depths(SMALL, nothing) == 0).all()
    wide = Plane((0.0, 1.0), (0.0, 1.0), cuts=(0.9, 1.0), candidates=(-0.5, 1.5))  # slopes of both signs
    for data, _, _ in small_data(2, 10):
        assert (line_depths(Grid(wide, 8), wide.rows(*data)) == slow_depths(Grid(wide, 8), wide.rows(*data))).all()
    many = np.random.default_rng(0).random((2, 300))  # counts beyond eight bits
    assert (line_depths(Grid(PLANE, 4), PLANE.rows(*many)) == slow_depths(Grid(PLANE, 4), PLANE.rows(*many))).all()


@pytest.mark.parametrize("clip", [1e-9, 0.03, 0.1, 2.0])
def test_fast_scores_are_the_scores(clip: float) -> None:
    """Kills: a break counted at the wrong line, a flat or rising record, a block boundary."""
    of = HuberLine(SMALL, 1.0, clip)
    for data, _, _ in small_data(3, 20, 14):
        assert (slow_scores(of, PLANE.rows(*data)) == of.scores(PLANE.rows(*data))).all()
    many = np.random.default_rng(0).random((2, 1500))
    assert (slow_scores(of, PLANE.rows(*many)) == of.scores(PLANE.rows(*many))).all()


@pytest.mark.parametrize("candidates", [(0.5, 0.5 + 1.1e-5), (1000.0, 1000.1)])
def test_records_far_from_all_lines_are_added_exactly(candidates: tuple[float, float]) -> None:
    """Kills: sums beyond 2^53, where one record moves the rounding of all others."""
    plane = Plane((0.0, 1.0), (0.0, 1.0), candidates=candidates)
    of = HuberLine(Grid(plane, 2000), 1.0, 0.01)
    x, y = np.random.default_rng(0).random((2, 2000))
    data = plane.rows(x, np.where(x > 0.45, 1 - y / 8, y / 8))  # a ramp's sum is the largest: its weights are odd
    at = [(i, j) for i in (0, 1000, 2000) for j in range(0, 2001, 40)]
    some, every = of.losses(data).bounds(*np.array(at).T, 0), of.losses(data).all_lines()
    y, first, second = of.grid.steps(data)
    for (i, j), score in zip(at, some.tolist(), strict=True):
        clipped = np.clip(y - first * i - second * j, -of.clip_steps, of.clip_steps)
        sums = (clipped * of.instruments(data).astype(np.int64)).sum(axis=1)
        assert score == every[i * 2001 + j] == abs(sums).max()


def test_depth_sensitivity() -> None:
    """Kills: two-sided change under add/remove; spread 1 for a replaced record. Attained."""
    rises, moves, spreads = set(), set(), set()
    for data, new, at in small_data(5, 300):
        before = line_depths(SMALL, PLANE.rows(*data)).astype(int)
        rises |= set(np.unique(line_depths(SMALL, PLANE.rows(*added(data, new))) - before).tolist())
        change = line_depths(SMALL, PLANE.rows(*replaced(data, at, new))) - before
        moves |= set(np.unique(change).tolist())
        spreads.add(int(change.max() - change.min()))
    assert rises == {0, 1}
    assert moves == {-1, 0, 1}
    assert max(spreads) == 2 == depth_spread("replaced")
    assert (
        depth_spread("added"),
        depth_spread("added", 3),
        depth_spread("either"),
        depth_spread("added", 1, True),
    ) == (
        1,
        3,
        2,
        2,
    )


@pytest.mark.parametrize("clip", [0.01, 0.3])
def test_score_sensitivity(clip: float) -> None:
    """Kills: an unclipped ramp, a residual clipped after the sum, half the spread. Nearly attained."""
    of = HuberLine(SMALL, 1.0, clip)
    one = of.clip_steps * UNIT
    found: dict[str, float] = {"added": 0.0, "replaced": 0.0}
    for data, new, at in small_data(6, 400):
        before = of.scores(PLANE.rows(*data))
        for change, after in (("added", added(data, new)), ("replaced", replaced(data, at, new))):
            moved = of.scores(PLANE.rows(*after)) - before
            assert abs(moved).max() <= one * (1 if change == "added" else 2)
            found[change] = max(found[change], (moved.max() - moved.min()) / one)
    assert 1.8 < found["added"] <= score_spread("added")
    assert 3.0 < found["replaced"] <= score_spread("replaced")
    assert (
        score_spread("added", 2) == score_spread("replaced") == score_spread("either") == score_spread("added", 1, True)
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["added", "replaced"])
def test_the_law_keeps_epsilon(name: str, change: Change) -> None:
    """Exact laws of 300 neighbours, ties and corners among them. With twice the exponent some of them show more."""
    of = kernel(name, 1.0, Records(change))
    worst, doubled = 0.0, 0.0
    for data, new, at in small_data(7, 300, 25):
        pair = data, added(data, new) if change == "added" else replaced(data, at, new)
        worst = max(worst, float(abs(np.subtract(*(line_law(of, part) for part in pair))).max()))
        doubled = max(doubled, float(abs(np.subtract(*(line_law(of, part, 2 * of.exponent) for part in pair))).max()))
    assert 0.5 < worst <= 1.0
    assert doubled > 1.0


def tight_depth(change: Change) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """All records on one line, and one more: where it goes through, depths rise; almost everywhere else they do not."""
    x = np.array([0.0, 0.5, 1.0] * 3)
    base = x, np.full(9, 0.5)
    return (base, added(base, (0.5, 0.5))) if change == "added" else (base, replaced(base, 4, (0.5, 0.0)))


def test_the_depth_law_is_tight() -> None:
    """Kills: epsilon·depth under replace_one (reaches nearly 2)."""
    of = kernel("depth", 1.0, Records("added"), 60)
    one, other = (line_law(of, part) for part in tight_depth("added"))
    assert 0.7 < float(abs(one - other).max()) <= 1.0
    worst = max(
        float(abs(line_law(of, data) - line_law(of, replaced(data, at, new))).max())
        for data, new, at in small_data(8, 200, 20)
    )
    assert worst > 1.3


@pytest.mark.parametrize("name", NAMES)
def test_a_record_that_moves_costs_epsilon_in_both_groups_together(name: str) -> None:
    """It leaves one group and enters another. Kills: epsilon for each."""
    of = kernel(name, 1.0, Records("replaced", moves=True))
    twice = kernel(name, 1.0, Records("added"))
    worst, wrong = 0.0, 0.0
    for data, new, _ in small_data(9, 150, 20):
        here = data[0][1:], data[1][1:]  # its first record leaves
        there, entered = here, added(here, new)
        for law, keep in ((of, True), (twice, False)):
            left = line_law(law, data) - line_law(law, here)
            came = line_law(law, entered) - line_law(law, there)
            both = max(left.max() - came.min(), came.max() - left.min())
            worst, wrong = (max(worst, both), wrong) if keep else (worst, max(wrong, both))
    assert worst <= 1.0
    assert wrong > 1.0


def test_depths_of_two_groups_cost_epsilon_together() -> None:
    """A moved record lowers depths in one group and raises them in another, by 0 or 1 each: e^(ε·depth/2) in both is enough.

    Kills: e^(ε·depth) in both, as where a record is only added; and a factor for two groups on top, which nothing needs.
    """
    of = kernel("depth", 1.0, Records("replaced", moves=True), 60)
    assert of.exponent == pytest.approx(0.5)
    x = np.tile([0.0, 0.5, 1.0], 10)
    base = x, np.full(30, 0.5)  # nearly all of the law is on one line
    on_it, off_it = added(base, (0.5, 0.5)), added(base, (0.5, 0.0))

    def shown(exponent: float) -> float:
        """It leaves the line of one group, and enters another off its line: draws are independent, log ratios add up."""
        left = line_law(of, base, exponent) - line_law(of, on_it, exponent)
        came = line_law(of, off_it, exponent) - line_law(of, base, exponent)
        return float(max(left.max() + came.max(), -left.min() - came.min()))

    assert 0.95 < shown(of.exponent) <= 1.0 < shown(2 * of.exponent)


@pytest.mark.parametrize("name", NAMES)
def test_three_rows_of_one_record(name: str) -> None:
    """Kills: a record of three rows protected as one."""
    of, one = (kernel(name, 1.0, Records("added", rows)) for rows in (3, 1))
    losses = []
    for law in (of, one):
        worst = 0.0
        for data, new, _ in small_data(10, 60, 30):
            more = added(added(added(data, new), new), new)
            worst = max(worst, float(abs(line_law(law, data) - line_law(law, more)).max()))
        losses.append(worst)
    assert losses[0] <= 1.0 < losses[1]


def line_of(fit: SimpleFit, cells: int) -> int:
    first, second = (round(value * cells) for value in fit.estimate)
    return first * (cells + 1) + second


@pytest.mark.parametrize("name", NAMES)
def test_fits_follow_the_law(name: str) -> None:
    """χ² of whole fits against brute force; kills: anchors that change places. False alarm 1e-6."""
    rng = np.random.default_rng(1)
    x = rng.random(25)
    data = x, np.clip(0.1 + 0.7 * x + rng.normal(0, 0.1, 25), 0, 1)
    of = kernel(name, 0.5, Records("added"), 8, clip=0.1)
    rows = PLANE.rows(*data)
    if isinstance(of, DepthLine):
        logs = of.exponent * slow_depths(of.grid, rows)
    else:
        logs = -of.exponent * slow_scores(of, rows) / (of.clip_steps * UNIT)
    drawn = [line_of(of.fit(*data, RANDOM, name, i), 8) for i in range(4000)]
    for factor, alike in ((1, True), (2, False)):
        weights = np.exp(factor * (logs - logs.max())).ravel()
        p = chi_squared(np.bincount(drawn, minlength=81), weights / weights.sum())
        assert (p > 1e-6) == alike


@pytest.mark.parametrize("name", NAMES)
def test_audit_of_real_fits(name: str) -> None:
    """Kills: a doubled exponent between calibration and the released line. Seeded, so no false alarm.

    The pair and the event (one line) are those that show most by the exact law, of 400, before anything is drawn.
    """
    once, twice = (kernel(name, epsilon, Records("added"), 3, clip=0.4) for epsilon in (1.0, 2.0))
    hardest: tuple[float, int, object] = (0.0, 0, None)
    for data, new, _ in small_data(11, 400, 26):
        logs = [line_law(twice, part).ravel() for part in (data, added(data, new))]
        gaps = np.where(np.minimum(*logs) > math.log(0.03), abs(logs[0] - logs[1]), 0.0)
        if gaps.max() > hardest[0]:
            hardest = float(gaps.max()), int(gaps.argmax()), (data, added(data, new))
    _, line, pair = hardest

    def shown(of: DepthLine | HuberLine, n: int = 3000) -> float:
        hits = [
            sum(line_of(of.fit(*data, RANDOM, name, side, i), 3) == line for i in range(n))
            for side, data in enumerate(pair)  # type: ignore[call-overload]
        ]
        return lower_bound((hits[0], hits[1]), n)

    assert 0.2 < shown(once) <= 1.0
    assert shown(twice) > 1.0


def test_zcdp_budgets() -> None:
    """Kills: epsilon²/2 for the exponential mechanism's epsilon²/8."""
    of = calibrate("depth", PLANE, Budget(rho=0.125), Records("added")).kernel
    assert isinstance(of, DepthLine)
    assert of.exponent == pytest.approx(1.0)
    assert of.exponent < 1.0
    facts = calibrate("huber", PLANE, Budget(4.0, 1e-2), Records("replaced")).facts()
    assert facts["calibration"] == "pure"
    assert facts["epsilon_each"] == pytest.approx(4.0)
