"""Private bounds by rank: sensitivity by brute force, the law against exact weights, head-room, the price of its events."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpspark.audit.confs import specs_of
from dpspark.audit.targets import TARGETS
from dpspark.core.domain import SIDES, Domain, Numeric, Side
from dpspark.core.facts import Facts
from dpspark.core.records import Change, Records
from dpspark.errors import ConfError
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.mechanisms.base import options_of
from dpspark.mechanisms.quantiles.bounds import BoundsProblem
from dpspark.mechanisms.quantiles.rank import RankBounds, RankOptions
from dpspark.mechanisms.quantiles.rank_draws import RankDraws, one_private_edge
from dpspark.mechanisms.quantiles.steps import Steps
from dpspark.mechanisms.registry import BOUNDS
from dpspark.privacy.budget import Budget, zcdp_rho
from dpspark.privacy.sensitivity import values_beyond
from dpspark.spec.rows import DEFAULT_METHOD, BoundsExtra
from tests.mechanisms.test_quantile import Seeded, counted

AXIS = Axis("x", 0.0, 4.0, cells=4)
VALUES = (None, 0.5, 1.5, 2.5, 3.5)  # one in each cell, and a null
Table = tuple[float | None, ...]


def problem(change: Change = "added", rows: int = 1, axes: tuple[Axis, ...] = (AXIS,), headroom: float = 1.5) -> Any:
    domain = Domain(tuple(Numeric(axis.name, axis.lowest, axis.highest, private=True) for axis in axes), "drop_row")
    return BoundsProblem(domain, Records(change, rows), axes=axes, options=RankOptions(headroom))


def finder(rank: int, exponent: float, rows: int = 1, axis: Axis = AXIS, headroom: float = 1.5) -> RankBounds:
    """With a rank of one's own: tiny tables have no k = 12/γ values."""
    draws = RankDraws(rows, 2, 2 * exponent * rows, "pure", exponent, rank)
    return RankBounds(problem("either", rows, (axis,), headroom), draws)


def distances(table: Table, rank: int, side: Side) -> list[int]:
    """s(c) of every cell, from the definition: on A, the values above an edge, or its mirror image."""
    kept = [value for value in table if value is not None]
    if side == "upper":
        above = [sum(value > edge for value in kept) for edge in range(AXIS.cells + 1)]
        return [max(0, above[c + 1] - rank, rank - above[c]) for c in range(AXIS.cells)]
    below = [sum(value < edge for value in kept) for edge in range(AXIS.cells + 1)]
    return [max(0, below[c] - rank, rank - below[c + 1]) for c in range(AXIS.cells)]


def tables(most: int) -> list[Table]:
    return [t for size in range(most + 1) for t in itertools.combinations_with_replacement(VALUES, size)]


def neighbours(change: Change, rows: int) -> list[tuple[Table, Table]]:
    """All pairs of small tables of which a record changes up to so many rows."""
    pairs = []
    for rest in tables(4 if rows == 1 else 2):
        own = list(itertools.combinations_with_replacement(VALUES, rows))
        if change == "added":
            pairs += [(rest, rest + new) for new in own]
        else:
            pairs += [(rest + old, rest + new) for old in own for new in own]
    return pairs


def probabilities(found: RankBounds, table: ExactHistogram, axis: Axis, side: Side) -> list[Fraction]:
    """The exact probability of every cell, by the real weights; of few cells each is a candidate."""
    law = found.draws.law(table, axis, side)
    runs = zip(law.first, [*law.first[1:], axis.cells], law.weights, strict=True)
    return [Fraction(weight, law.sums[-1]) for first, end, weight in runs for _ in range(first, end)]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("change", ["added", "replaced"])
def test_sensitivity_and_spread(change: Change, rows: int, side: Side) -> None:
    """Kills: half of it for an added value; a factor of 1 where some cells move up and others down."""
    moves, spreads = [], []
    for (before, after), rank in itertools.product(neighbours(change, rows), (1, 2, 5)):
        moved = np.subtract(distances(after, rank, side), distances(before, rank, side))
        moves.append(abs(moved).max())
        spreads.append(moved.max() - moved.min())
    assert max(moves) == values_beyond(rows) == rows
    assert max(spreads) == 2 * rows


@pytest.mark.parametrize("side", SIDES)
def test_the_law_is_that_of_the_definition(side: Side) -> None:
    """Through the real counting. Kills: a target of n − k + 1, an edge of the wrong side, the sides exchanged."""
    for table, rank in itertools.product(tables(5), (1, 2, 3, 7)):
        found = probabilities(finder(rank, 0.7), counted(table), AXIS, side)
        with mpmath.workdps(60):
            weights = [mpmath.exp(-mpmath.mpf(0.7) * distance) for distance in distances(table, rank, side)]
            for one, weight in zip(found, weights, strict=True):
                exact = weight / mpmath.fsum(weights)
                assert abs(mpmath.mpf(one.numerator) / one.denominator / exact - 1) < mpmath.mpf(10) ** -50


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("change", "rows"), [("added", 1), ("replaced", 1), ("added", 2), ("replaced", 2)])
def test_every_small_pair_keeps_epsilon(change: Change, rows: int, side: Side) -> None:
    """By the exact law. Kills: a γ for one row where a record has two; any use of the number of values but as n − k."""
    made = RankBounds.for_budget(problem(change, rows), Budget(0.8, 0.0))  # 0.4 for each side
    worst = 0.0
    pairs = {tuple(tuple(sorted(table, key=str)) for table in pair) for pair in neighbours(change, rows)}
    for rank in (1, 2, 3):
        own = replace(made, draws=replace(made.draws, rank=rank))
        logs = {
            table: np.array(
                [
                    math.log(p.numerator) - math.log(p.denominator)
                    for p in probabilities(own, counted(table), AXIS, side)
                ]
            )
            for table in {table for pair in pairs for table in pair}
        }  # right to 1e-13, and γ leaves room for more
        worst = max(worst, *(float(abs(logs[after] - logs[before]).max()) for before, after in pairs))
    assert 0.2 < worst <= 0.4


@pytest.mark.parametrize("change", ["added", "replaced"])
def test_the_law_is_tight(change: Change) -> None:
    """Kills: a γ that is 2% too large, such as one without the factor of 2.

    Nearly all cells lie left of the rank, and come nearer by 1; the others right of it go away by 1. Between them is no cell.
    """
    axis = Axis("x", 0.0, 4000.0, cells=4000)
    made = RankBounds.for_budget(problem(change, axes=(axis,)), Budget(0.8, 0.0))
    low, far, high = 0.5, 3990.5, 3999.5  # of the upper bound: A falls from k + 2 to k − 2 at `far`
    k = made.rank
    rest = (far,) * 3 + (high,) * (k - 2)
    before, after = (*rest, high), rest if change == "added" else (*rest, low)
    laws = [probabilities(made, counted(table, axis), axis, "upper") for table in (before, after)]
    losses = [abs(math.log(a / b)) for a, b in zip(*laws, strict=True)]
    assert 0.4 / 1.02 < max(losses) <= 0.4
    wide = replace(made, draws=replace(made.draws, exponent=1.02 * made.draws.exponent))
    laws = [probabilities(wide, counted(table, axis), axis, "upper") for table in (before, after)]
    assert max(abs(math.log(a / b)) for a, b in zip(*laws, strict=True)) > 0.4


def test_draws_follow_the_law() -> None:
    """χ² of real draws against brute force; false alarm 1e-6 for each side. Kills: sides exchanged on the way to the bounds."""
    axis = Axis("x", 0.0, 40.0, cells=40)
    values = np.concatenate([np.random.default_rng(3).integers(8, 20, 25), [3, 3, 3, 35]]) + 0.5
    made, noise, n = finder(4, 0.5, axis=axis, headroom=1.0), Seeded(5), 20_000
    table = counted(tuple(values), axis)
    for side in SIDES:
        law = made.draws.law(table, axis, side)
        drawn = np.bincount([law.draw(noise) for _ in range(n)], minlength=40)
        edges = np.arange(41)
        if side == "upper":
            beyond = (values[:, None] > edges).sum(axis=0)
            distance = np.maximum(0, np.maximum(beyond[1:] - 4, 4 - beyond[:-1]))
        else:
            beyond = (values[:, None] < edges).sum(axis=0)
            distance = np.maximum(0, np.maximum(beyond[:-1] - 4, 4 - beyond[1:]))
        weights = np.exp(-0.5 * distance)
        expected = n * weights / weights.sum()
        large = expected >= 5
        observed, predicted = drawn[large], expected[large] / expected[large].sum() * drawn[large].sum()
        assert stats.chisquare(observed, predicted).pvalue > 1e-6
        wrong = np.exp(-distance)[large]
        assert stats.chisquare(observed, wrong / wrong.sum() * observed.sum()).pvalue < 1e-6


def test_the_kth_value_is_found_at_any_size() -> None:
    """A skewed column: errors are a number of ranks, whatever the number of rows. Seeded: one outcome.

    Kills: k as a share of the rows. From rank 2k inwards a step has e^-12 or less; the k-th value's own is 6% wide or so.
    """
    axis = Axis("x", 0.0, 1e7)
    for rows in (10_000, 100_000):
        values = np.sort(np.random.default_rng(7).lognormal(10, 1, rows))
        made = RankBounds.for_budget(problem(axes=(axis,), headroom=1.0), Budget(0.4, 0.0))
        assert made.rank == 120 * values_beyond() + 1  # γ = 0.2/2, a little less
        table = counted(tuple(values), axis)
        for seed in range(3):
            lower, upper = made.release(table, Seeded(seed))["x"]
            assert 0.9 * values[0] - 20 < lower <= values[240]
            assert values[-240] <= upper < 2 * values[-1]


def test_fewer_values_than_the_rank() -> None:
    """No cell is at distance 0, and nothing breaks: edges stay in order, inside the range, whatever is drawn."""
    axis = Axis("x", 0.0, 10.0, cells=2048)
    for table in ((), (None,), (5.0,), (5.0,) * 30, (0.0, 10.0), (-math.inf, math.inf)):
        made = finder(200, 0.1, axis=axis)
        for seed in range(5):
            lower, upper = made.release(counted(table, axis), Seeded(seed))["x"]
            assert 0.0 <= lower < upper <= 10.0
    none = [finder(200, 0.1).law(counted(()), AXIS, "upper").draw(Seeded(seed)) for seed in range(100)]
    assert set(none) == {0, 1, 2, 3}  # uniform: an empty column tells nothing


def test_ties_are_one_cell() -> None:
    """A value that all rows share is the bound on both sides. Kills: distances from edges, all far from the target."""
    axis = Axis("x", 0.0, 1024.0, cells=1024)
    made = finder(50, 0.5, axis=axis)
    table = counted((77.5,) * 1000, axis)
    assert {made.draws.law(table, axis, side).draw(Seeded(seed)) for side in SIDES for seed in range(50)} == {77}
    (step,) = {made.law(table, axis, side).draw(Seeded(seed)) for side in SIDES for seed in range(50)}
    first, last = (made.steps(axis).outer_cell(step, side) for side in SIDES)
    assert 74 <= first <= 77 <= last <= 80


@pytest.mark.parametrize("point", [-3.0, 0.0, 250.0, 777.7, 1000.0, 2000.0])
def test_steps_cover_the_axis_and_widen(point: float) -> None:
    """Kills: a cell in no step or in two; steps from the wrong end; a step that is wide near the point."""
    axis = Axis("x", 0.0, 1000.0, cells=100_000)
    steps = Steps.around(axis, point)
    edges = np.array(steps.edges)
    assert (edges[0], edges[-1]) == (0, axis.cells)
    assert (np.diff(edges) > 0).all()
    middle = min(max(point, 0.0), 1000.0) * 100
    far = np.maximum(abs(edges[1:] - middle), abs(edges[:-1] - middle))
    assert (np.diff(edges) <= np.maximum(1, far / 18) + 1).all()
    assert steps.count < 600
    cells = np.arange(axis.cells)
    found, counts = steps.gather(cells, np.ones(axis.cells, dtype=np.int64))
    assert np.array_equal(found, np.arange(steps.count))
    assert np.array_equal(counts, np.diff(edges))
    assert [steps.outer_cell(3, side) for side in SIDES] == [edges[3], edges[4] - 1]


def test_there_are_few_steps() -> None:
    """What beyond all values has the weight e^-12 of each: k = 12/γ leaves them 0.3% together. Kills: finer steps."""
    one, two = Steps.around(Axis("x", 0.0, 1e7), 0.0).count, Steps.around(Axis("x", -1e7, 1e7), 0.0).count
    assert one * math.exp(-12) < 0.002
    assert two * math.exp(-12) < 0.004


@pytest.mark.parametrize("side", SIDES)
def test_the_law_of_steps_is_that_of_the_definition(side: Side) -> None:
    """Kills: counts that are put together on the wrong side of an edge, a law of cells for steps."""
    axis, values = Axis("x", -500.0, 1500.0, cells=2000), np.random.default_rng(4).normal(300, 250, 400)
    made = finder(30, 0.3, axis=axis)
    edges = np.array([axis.edge(edge) for edge in made.steps(axis).edges])
    held = np.clip(values, -500, 1500 - 1e-9)
    beyond = (held[:, None] >= edges).sum(axis=0) if side == "upper" else (held[:, None] < edges).sum(axis=0)
    inner, outer = (beyond[:-1], beyond[1:]) if side == "upper" else (beyond[1:], beyond[:-1])
    weights = np.exp(-0.3 * np.maximum(0, np.maximum(outer - 30, 30 - inner)))
    law = made.law(counted(tuple(values), axis), axis, side)
    sizes = np.diff([*law.first, made.steps(axis).count])
    found = np.repeat([float(Fraction(weight, law.sums[-1])) for weight in law.weights], sizes)
    assert found == pytest.approx(weights / weights.sum(), rel=1e-9)


def test_steps_widen_from_the_public_side() -> None:
    """Kills: steps from 0 where the public side is elsewhere, which are wide next to it."""
    axis = Axis("x", 100.0, 1100.0, cells=100_000)
    for side, public in (("upper", "lower"), ("lower", "upper")):
        column = Numeric("x", 100.0, 1100.0, private=True, public_side=public)  # type: ignore[arg-type]
        asked = BoundsProblem(Domain((column,)), Records("added", 1), axes=(axis,), options=RankOptions())
        made = RankBounds.for_budget(asked, Budget(0.5, 0.0))
        assert made.point(axis) == {"lower": 100.0, "upper": 1100.0}[public]
        values = tuple(abs(made.point(axis) - np.random.default_rng(2).uniform(1, 5, 5000)))
        values = tuple(value if side == "lower" else 200 - value for value in values)
        lower, upper = made.release(counted(values, axis), Seeded(1))["x"]
        assert 4.8 < (upper - 100 if side == "upper" else 1100 - lower) / 1.35 < 5.4


@pytest.mark.parametrize(
    ("headroom", "cells", "expected"),
    [
        (1.0, (1000, 1999), (1000, 2000)),
        (1.5, (1000, 1999), (500, 2500)),
        (1.5, (1000, 2000), (499, 2502)),  # half of 1001 cells is rounded outwards
        (2.0, (1000, 1999), (0, 3000)),
        (9.0, (1000, 1999), (0, 4096)),  # no further than the search range
        (1.5, (1999, 1000), (500, 2500)),  # crossed
        (1.5, (2000, 2000), (1996, 2004)),  # too narrow: a 1024th of the grid, then head-room
    ],
)
def test_headroom(headroom: float, cells: tuple[int, int], expected: tuple[int, int]) -> None:
    assert finder(9, 1.0, headroom=headroom).widen(*cells, 4096) == expected


@pytest.mark.parametrize(
    ("public", "expected"),
    [("lower", (1, 0.5)), ("upper", (1, 0.5)), (None, (2, 0.25))],
    ids=["upper", "lower", "both"],
)
def test_a_public_side_costs_nothing(public: Side | None, expected: tuple[int, float]) -> None:
    """Kills: a draw of a public side, which is charged and thrown away; a public side that moves."""
    axis = Axis("x", 0.0, 10.0)
    column = Numeric("x", 0.0, 10.0, private=True, public_side=public)
    asked = BoundsProblem(Domain((column,)), Records("added", 1), axes=(axis,), options=RankOptions())
    made = RankBounds.for_budget(asked, Budget(0.5, 0.0))
    (event,) = made.events()
    assert (event.count, event.epsilon) == (expected[0], pytest.approx(expected[1]))  # type: ignore[union-attr]
    assert made.rank == math.ceil(12 / Fraction(made.draws.exponent))
    table = counted(tuple(np.random.default_rng(2).uniform(4, 6, 5000)), axis)
    found = made.release(table, Seeded(1))["x"]
    assert (found[0] == 0.0, found[1] == 10.0) == (public == "lower", public == "upper")
    if public == "lower":
        assert 1.35 * 5.8 < found[1] < 1.35 * 6.4
    if public == "upper":
        assert 10 - 1.35 * 6.4 < found[0] < 10 - 1.35 * 5.8


@pytest.mark.parametrize(
    ("cell", "side", "public", "headroom", "expected"),
    [
        (511, "upper", 0.0, 1.0, 512.0),  # the upper edge of an upper cell
        (511, "lower", 1024.0, 1.0, 511.0),  # the lower edge of a lower one
        (511, "upper", 0.0, 1.5, 768.0),
        (511, "lower", 1024.0, 1.5, 254.0),  # 1024 − 1.5·513 = 254.5, rounded outwards
        (511, "upper", -512.0, 1.5, 1024.0),  # a public side beyond the search range counts in the width
        (700, "upper", 0.0, 1.5, 1024.0),  # no further than the search range
        (300, "lower", 1024.0, 1.5, 0.0),
        (0, "upper", 0.25, 1.5, 2.0),  # too near: a 1024th of the range, then head-room, rounded outwards
        (1023, "lower", 1023.75, 1.0, 1022.0),
        (0, "upper", 1023.5, 1.0, 1024.0),
    ],
)
def test_one_private_edge(cell: int, side: Side, public: float, headroom: float, expected: float) -> None:
    """Kills: head-room on the wrong side of a column, the inner edge, a bound on the wrong side of the public one."""
    axis = Axis("x", 0.0, 1024.0, cells=1024)
    assert one_private_edge(axis, cell, side, public, headroom) == expected


def test_one_side_of_anything() -> None:
    """What the head of rank_draws shows: one draw with all of a budget. Kills: half of it; the inner edge."""
    axis, budget = Axis("residual", 0.0, 100.0), Budget(0.05, 0.0)
    draws = RankDraws.for_budget(3, 1, budget)
    assert draws.events()[0].epsilon == pytest.approx(0.05)  # type: ignore[union-attr]
    assert 2 * 3 * draws.exponent == pytest.approx(0.05)
    assert 3 * 800 < draws.rank <= 3 * 800 + 1
    table = counted((50.0,) * 9000, axis)
    cell = int(axis.cell_of(np.array([50.0]))[0])
    assert draws.outer_edge(table, axis, "upper", Seeded(1)) == axis.edge(cell + 1) > 50.0
    assert draws.outer_edge(table, axis, "lower", Seeded(1)) == axis.edge(cell) <= 50.0
    facts = Facts(draws.facts(), "")
    assert RankDraws.from_facts(3, 1, facts) == draws
    assert draws.differences(facts) == ()


@pytest.mark.parametrize(
    "budget", [Budget(1.0, 0.0), Budget(1.0, 1e-6), Budget(rho=0.02)], ids=["pure", "approximate", "zcdp"]
)
@pytest.mark.parametrize("rows", [1, 3])
def test_the_events_cost_the_budget(budget: Budget, rows: int) -> None:
    """By arithmetic of its own: draws that differ by e^(2γm) each, added up or as ε²/8. Kills: one side that is not charged."""
    axes = tuple(Axis(f"x{at}", 0.0, 1.0) for at in range(20))
    made = RankBounds.for_budget(problem(rows=rows, axes=axes), budget)
    (event,) = made.events()
    assert (event.count, event.epsilon) == (40, made.draws.epsilon_each)  # type: ignore[union-attr]
    each = 2 * Fraction(made.draws.exponent) * rows
    assert each <= Fraction(made.draws.epsilon_each)
    assert made.rank == math.ceil(12 / Fraction(made.draws.exponent))
    pure, rho = float(40 * each), float(40 * each**2 / 8)
    most = budget.rho if budget.rho is not None else zcdp_rho(1.0, budget.delta) if budget.delta else None
    if most is None:
        assert 1 - 1e-9 < pure <= 1.0
    else:
        assert most * (1 - 1e-9) < rho <= most
    assert made.cost().within(budget)


def test_too_little() -> None:
    with pytest.raises(ConfError, match="too little"):
        RankBounds.for_budget(problem(), Budget(1e-13, 0.0))


def test_facts_are_read_back_and_never_cost_less() -> None:
    """Kills: an epsilon_each that a manifest states lower than its exponent costs; a rank, range or headroom of another."""
    made = RankBounds.for_budget(problem(rows=2), Budget(1.0, 0.0))
    stated = made.facts()

    def read(**changed: Any) -> tuple[RankBounds, tuple[str, ...]]:
        facts = Facts({**stated, **changed}, "")
        found = RankBounds.from_facts(made.problem, facts, Budget(1.0, 0.0))
        return found, found.differences(facts)

    found, differs = read()
    assert (found, differs) == (made, ())
    cheaper, differs = read(epsilon_each=made.draws.epsilon_each / 2)
    assert cheaper.draws.epsilon_each == pytest.approx(made.draws.epsilon_each)
    assert differs == ("epsilon_each",)
    dearer, differs = read(exponent=made.draws.exponent * 2)
    assert dearer.draws.epsilon_each == pytest.approx(2 * made.draws.epsilon_each)
    assert set(differs) == {"rank", "epsilon_each"}
    assert read(rank=made.rank + 1)[1] == ("rank",)
    assert read(headroom=3.0)[1] == read(method="percentile")[1] != ()
    assert read(axes=[{**stated["axes"][0], "search": [0, 9]}])[1] == ("axes: others than those asked for",)
    assert read(sensitivity={**stated["sensitivity"], "value": 1})[1] == ("sensitivity",)
    assert read(axes=[{**stated["axes"][0], "sides": ["upper"]}])[1] == ("sides: others than those asked for",)
    assert read(axes=[{**stated["axes"][0], "widen_from": 1}])[1] == ("axes: other candidates than those asked for",)
    assert read(axes=[{k: value for k, value in stated["axes"][0].items() if k != "sides"}])[1] == ()


@pytest.mark.parametrize("name", BOUNDS)
def test_every_method_is_a_key_of_the_conf_and_says_what_it_is(name: str) -> None:
    method = BOUNDS[name]
    assert method.words.endswith(".")
    assert method.limitation.endswith(".")
    assert set(options_of(method)) <= set(BoundsExtra.model_fields)
    assert BoundsExtra(method=name).options == method.Options()
    assert "Tested by" in (method.__doc__ or "")
    attacked = "bounds" if name == DEFAULT_METHOD else f"{name} bounds"
    assert TARGETS["extra", attacked].mutants(specs_of("extra", attacked)[0])
