"""Lines are looked for near the best alone: the same bits as from all lines, evaluated plainly one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from dpspark.core.records import Records
from dpspark.mechanisms.lines import search
from dpspark.mechanisms.lines.depth import DepthLine, DepthLosses, line_depths
from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.huber import UNIT, HuberLine
from dpspark.mechanisms.lines.plane import Plane, Rows
from dpspark.mechanisms.lines.search import Losses, near_lines
from dpspark.privacy import exponential_draw
from dpspark.privacy.budget import Budget
from dpspark.privacy.exponential_draw import FAINTEST, Near, draw, draw_near, levels
from dpspark.privacy.keyed import Stream
from tests.lines import calibrate
from tests.robust_laws import RANDOM, Data

PLANES = (
    Plane((0.0, 1.0), (0.0, 1.0)),
    Plane((0.0, 1.0), (0.0, 1.0), candidates=(0.4, 0.6)),  # most points are beyond
    Plane((0.0, 1.0), (0.0, 1.0), cuts=(0.8, 1.0), candidates=(-0.5, 1.5)),  # a line's values far from most points
)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def groups(seed: int, n: int, count: int) -> Iterator[Data]:
    """Groups of many shapes: spread x, ties, one x, outliers, one point, lattices on which lines go through points."""
    rng = np.random.default_rng([seed, n])
    for kind in range(count):
        x = rng.random(n) if kind % 2 else np.clip(rng.normal(0.5, 0.15, n), 0, 1)
        y = np.clip(
            rng.normal(0.3, 0.1) + rng.normal(0.3, 0.2) * x + rng.normal(0, rng.choice([0.0, 0.05, 0.2]), n), 0, 1
        )
        match kind % 8:
            case 2:
                x = np.rint(5 * x) / 5
            case 3:
                x = np.full(n, float(rng.choice([0.0, 0.25, rng.random()])))
            case 4:
                y = np.where(rng.random(n) < 0.3, rng.choice([0.0, 1.0]), y)
            case 5:
                x, y = np.full(n, rng.random()), np.full(n, rng.random())
            case 6:
                x, y = np.rint(4 * x) / 4, np.rint(10 * y) / 10
        yield x, y


def plain_losses(of: DepthLine | HuberLine, rows: Rows) -> np.ndarray:
    """The loss of every line from its definition, record by record."""
    at = np.arange(of.grid.points)
    residuals = (y - a * at[:, None] - b * at for y, a, b in zip(*of.grid.steps(rows), strict=True))
    shape = of.grid.points, of.grid.points
    if isinstance(of, HuberLine):
        weights = of.instruments(rows).astype(np.int64)
        sums = np.zeros((len(weights), *shape), dtype=np.int64)
        for k, residual in enumerate(residuals):
            sums += np.clip(residual, -of.clip_steps, of.clip_steps) * weights[:, k, None, None]
        return abs(sums).max(axis=0).ravel()
    ups, downs, least, most = (np.zeros(shape, dtype=np.int64) for _ in range(4))
    for k, residual in enumerate(residuals):
        ups += residual >= 0
        downs += residual <= 0
        if k + 1 == len(rows) or rows.x[k] != rows.x[k + 1]:
            np.minimum(least, ups - downs, out=least)
            np.maximum(most, ups - downs, out=most)
    return -np.minimum(downs + least, ups - most).ravel()


def plain_draw(losses: np.ndarray, exponent: float, stream: Stream) -> int:
    """Levels of all losses, a ticket, a member of its level, a coin; again until it is kept."""
    width, gamma, envelopes = levels(exponent)
    last, above = len(envelopes) - 1, losses - losses.min()
    level = np.minimum(above // width, last)
    sums = list(accumulate(int((level == k).sum()) * weight for k, weight in enumerate(envelopes)))
    while True:
        ticket = stream.below(sums[-1])
        drawn = bisect_right(sums, ticket)
        rank = (ticket - (sums[drawn - 1] if drawn else 0)) // envelopes[drawn]
        member = int(np.flatnonzero(level == drawn)[rank])
        begin = exponential_draw.FAINTEST if drawn == last else gamma * width * drawn
        if stream.bernoulli_exp(gamma * int(above[member]) - begin):
            return member


def exponent_of(of: DepthLine | HuberLine) -> float:
    return of.exponent if isinstance(of, DepthLine) else of.exponent / (of.clip_steps * UNIT) * (1 - 2.0**-50)


def kernel(name: str, epsilon: float, plane: Plane, cells: int) -> DepthLine | HuberLine:
    made = calibrate(name, plane, Budget(epsilon, 0.0), Records("added"), cells=cells).kernel
    assert isinstance(made, DepthLine | HuberLine)
    return made


def losses_of(of: DepthLine | HuberLine, rows: Rows) -> Losses:
    return DepthLosses(of.grid, rows) if isinstance(of, DepthLine) else of.losses(rows)


def check(name: str, n: int, count: int, cells: int, draws: int) -> int:
    """Compare fits with plain ones, bit by bit; count them."""
    seen = 0
    for number, data in enumerate(groups(cells, n, count)):
        plane = PLANES[number % 11 % 3]
        for epsilon in EPSILONS[number % 2 :: 2]:
            of = kernel(name, epsilon, plane, cells)
            rows = plane.rows(*data)
            losses = plain_losses(of, rows)
            for label in range(draws):
                line = plain_draw(losses, exponent_of(of), RANDOM.stream("draws", name, n, number, label))
                found = of.fit(*data, RANDOM, name, n, number, label)
                assert found.estimate == of.grid.fit(line).estimate, (n, number, epsilon)
                seen += 1
    return seen


@pytest.mark.parametrize("name", ["depth", "huber"])
def test_fits_are_those_of_all_lines(name: str) -> None:
    """Kills: a line left out that can be drawn, a loss off by one, a member out of order, a ticket taken too early."""
    sizes = ((0, 11), (1, 22), (2, 33), (3, 33), (5, 33), (20, 33), (110, 22), (300, 11), (1000, 4))
    assert sum(check(name, n, count, 50, 3) for n, count in sizes) > 2000
    check(name, 110, 6, 200, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["depth", "huber"])
@pytest.mark.parametrize(("n", "count"), [(2, 300), (5, 300), (20, 300), (110, 150), (300, 40), (1000, 12)])
def test_many_fits_are_those_of_all_lines(name: str, n: int, count: int) -> None:
    check(name, n, count, 211, 5)
    check(name, n, count, 53, 5)


@pytest.mark.parametrize("name", ["depth", "huber"])
def test_fits_that_need_to_look_farther(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With reaches that hardly ever suffice; and with a last level that begins early, so that it is drawn from.

    Kills: bits of the first try that are lost for the second, a sum of envelopes that is bounded on one side alone.
    """
    monkeypatch.setattr("dpspark.privacy.exponential_draw.REACHES", (0.1, 1))
    for faintest in (FAINTEST, Fraction(3, 2)):
        levels.cache_clear()
        monkeypatch.setattr("dpspark.privacy.exponential_draw.FAINTEST", faintest)
        try:
            for n in (20, 110):
                check(name, n, 8, 50, 8)
        finally:
            levels.cache_clear()


@pytest.mark.parametrize("name", ["depth", "huber"])
@pytest.mark.parametrize("n", [1, 4, 20, 110, 300])
def test_near_lines(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a bound above a loss in its square, a line that is counted twice or never, squares beyond the grid's edge."""
    monkeypatch.setattr(search, "_all_lines", lambda _: pytest.fail("nothing was searched"))
    searched = 0
    for number, data in enumerate(groups(7, n, 24)):
        plane, cells = PLANES[number % 3], (40, 53, 134)[number % 3]
        of = kernel(name, 4.0, plane, cells)
        rows = plane.rows(*data)
        plain = plain_losses(of, rows)
        losses = losses_of(of, rows)
        monkeypatch.setattr(losses, "span", lambda: 1 << 62)
        monkeypatch.setattr(losses, "many", lambda: 1 << 62)
        for exponents in (0.5, 3, 12):
            far = max(1, round(exponents / exponent_of(of)))
            near = near_lines(losses, of.grid.points, far)
            assert (near.losses == plain[near.candidates]).all()
            assert near.losses.min() == plain.min()
            assert len(set(near.candidates.tolist())) == len(near.candidates)
            others = np.delete(plain, near.candidates)
            assert near.counts.sum() == len(others)
            # However bounds and lines belong together, so many of the lines are at least as high.
            assert (np.sort(np.repeat(near.bounds, near.counts)) <= np.sort(others)).all()
            assert not len(others) or (near.bounds - plain.min() >= far).all()
            searched += len(others)
    assert searched > 0 or n == 1


@pytest.mark.parametrize("name", ["depth", "huber"])
def test_bounds_of_squares(name: str) -> None:
    """No line of a square is below its bound; a square of one line has its loss, all lines at once too."""
    for number, data in enumerate(groups(8, 30, 16)):
        plane = PLANES[number % 3]
        of = kernel(name, 1.0, plane, 44)
        losses = losses_of(of, plane.rows(*data))
        plain = plain_losses(of, plane.rows(*data)).reshape(45, 45)
        assert (losses.all_lines() == plain.ravel()).all()
        i, j = (part.ravel() for part in np.indices((45, 45)))
        assert (losses.bounds(i, j, 0) == plain.ravel()).all()
        tight = 0
        for half in (1, 4):
            bounds = losses.bounds(i, j, half).reshape(45, 45)
            for a, b in np.ndindex(45, 45):
                least = plain[max(0, a - half) : a + half + 1, max(0, b - half) : b + half + 1].min()
                assert bounds[a, b] <= least
                tight += int(bounds[a, b] == least)
        assert tight > 0


def test_numbers_beyond_float32() -> None:
    """Lines that miss a record by a few of the finest steps do not go through it. Kills: residuals rounded to float32."""
    plane = Plane((0.0, 1.0), (0.0, 1.0), cuts=(0.8, 1.0))
    grid, at = Grid(plane, 2000), np.arange(2001)
    rng = np.random.default_rng(0)
    misses = 0
    for x, y in rng.random((100, 2)) * [0.5, 1.0]:
        rows = plane.rows(np.array([x]), np.array([y]))
        height, first, second = (int(part[0]) for part in grid.steps(rows))
        j = np.clip(np.rint((height - first * at) / second).astype(int), 0, 2000)
        residuals = height - first * at - second * j
        near = np.flatnonzero(abs(residuals) < 16)
        depths = -DepthLosses(grid, rows).bounds(near, j[near], 0)
        assert depths.tolist() == (residuals[near] == 0).astype(int).tolist()
        misses += int((residuals[near] != 0).sum())
    assert misses > 50


def test_draws_with_bounds_are_those_of_all_losses() -> None:
    """Any knowledge that is true gives the same draw: bounds that are loose or sharp, far or near, in any order."""
    rng = np.random.default_rng(5)
    for number in range(400):
        losses = rng.integers(0, rng.choice([5, 60, 2000]), int(rng.integers(1, 300)))
        exponent = float(rng.choice([0.003, 0.05, 0.4, 3.0, 50.0]))
        asked: list[int | None] = []

        def find(far: int | None, losses: np.ndarray = losses, asked: list[int | None] = asked) -> Near:
            asked.append(far)
            above = losses - losses.min()
            known = np.full(len(losses), True) if far is None else (above < far) | (rng.random(len(losses)) < 0.1)
            order = rng.permutation(np.flatnonzero(known))
            least = losses.min() + (far or 0)
            bounds = np.array([rng.integers(least, loss + 1) for loss in losses[~known]], dtype=np.int64)
            return Near(order, losses[order], bounds, np.ones_like(bounds))

        line = draw_near(find, exponent, lambda number=number: RANDOM.stream("near", number))
        assert line == draw(losses, exponent, RANDOM.stream("near", number))[0]
        assert line == plain_draw(losses, exponent, RANDOM.stream("near", number))
        assert asked[0] is not None


def test_grids_of_all_sizes() -> None:
    """Kills: a grid without room for a search, an empty group, a side of squares that leaves some lines out."""
    rng = np.random.default_rng(2)
    x = rng.random(60)
    data = x, np.clip(0.3 + 0.3 * x + rng.normal(0, 0.1, 60), 0, 1)
    for cells in (1, 2, 3, 4, 13, 14, 15, 43, 44, 45, 133, 134, 135):
        of = DepthLine(Grid(PLANES[0], cells), 8.0)
        losses = -line_depths(of.grid, PLANES[0].rows(*data)).astype(np.int64).ravel()
        for label in range(5):
            line = plain_draw(losses, of.exponent, RANDOM.stream("draws", label))
            assert of.fit(*data, RANDOM, label).estimate == of.grid.fit(line).estimate
