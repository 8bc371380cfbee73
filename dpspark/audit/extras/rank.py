"""Attacks on private bounds by rank."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.extras.percentile import PRIVATE
from dpspark.audit.quantiles.exponential import KnownHistogram, log_cell
from dpspark.audit.sensitivity_attack import CHANGES
from dpspark.audit.target import Attack, Target, found_without_noise, seen
from dpspark.audit.theil_sen.shared import spread_finding, spread_of
from dpspark.core.domain import SIDES, Domain, Side
from dpspark.exact.histogram import Axis, ExactHistogram, HistogramAccumulator
from dpspark.mechanisms.quantiles.rank import RankBounds
from dpspark.mechanisms.quantiles.rank_draws import RankDraws
from dpspark.privacy.budget import Budget
from dpspark.privacy.sensitivity import values_beyond
from dpspark.spec.extras import bounds_finder
from dpspark.spec.spec import Spec

NAME = "bounds"  # by the default method
TABLES = 60
PRICE = 1.0
SMALL = Axis("x", 0.0, 6.0, cells=6)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the candidates


def case(spec: Spec, times: float = 1.0) -> Case:
    """Tell apart values around both ranks: a record comes at the lowest end, or goes there from the highest.

    Where it comes, the values above the upper cells stay as they are: the lower bound alone tells of it. Where it goes from
    one end to the other both do.
    """
    finder = cast(RankBounds, bounds_finder(spec))
    broken = replace(finder, draws=replace(finder.draws, exponent=times * finder.draws.exponent))
    axis = finder.problem.axes[0]  # of a conf with several columns: one of them
    edges = finder.steps(axis).edges
    places = [edges[round(share * (len(edges) - 2))] for share in SHARES]
    tables = [_table(axis, places, finder.rank, spec.records.change == "added", moved) for moved in (False, True)]
    sides = {side: [broken.law(table, axis, side) for table in tables] for side in finder.problem.sides(axis)}

    def draw(side: int, noise: object) -> float:
        """Draw both steps, each by the law of its own table."""
        ratio = 0.0
        for laws in sides.values():
            step = laws[side].draw(noise)  # type: ignore[arg-type]
            ratio += log_cell(laws[1], step) - log_cell(laws[0], step)
        return ratio

    return case_of(spec, spec.extra_budget("bounds"), draw, f"extra {NAME}")


def _table(axis: Axis, places: list[int], rank: int, added: bool, moved: bool) -> ExactHistogram:
    """Four values around each rank: to their left the rank is 2 too low, to their right 2 too high. Five cells hold all."""
    first, low, middle, high, last = places
    cells = [first] * (rank - 2) + [low] * 4 + [middle] * rank + [high] * 4 + [last] * (rank - 2)
    if moved:
        cells = [first, *cells] if added else [first, *cells[:-1]]
    return _counted(axis, [(axis.edge(cell) + axis.edge(cell + 1)) / 2 for cell in cells])


def _counted(axis: Axis, values: list[float]) -> ExactHistogram:
    found = HistogramAccumulator([axis])
    found.add([pa.array(values, pa.float64())], len(values))
    return KnownHistogram.from_partials([axis], [found.finish()])


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [weights_finding(target, neighbours), price_finding(target, neighbours)]


def weights_finding(target: str, neighbours: str, times: float = 1.0) -> Finding:
    """Find how far a record drives the weights of two cells apart, on either side: in units of γ, which is 1/4 here."""
    change, rng, gamma, worst = CHANGES[neighbours], np.random.default_rng(5), 0.25, 0.0
    for _ in range(TABLES):
        values = rng.integers(0, 6, int(rng.integers(2, 30))) + 0.5
        after = np.append(values if change == "added" else values[1:], rng.integers(0, 6) + 0.5)
        draws = RankDraws(1, 2, 2 * gamma, "pure", times * gamma, int(rng.integers(1, 9)))
        for side in SIDES:
            before, then = (_logs(draws, side, table) for table in (values, after))
            worst = max(worst, spread_of(then - before) / gamma)
    note = "values beyond a cell, either side"
    return spread_finding(target, neighbours, 2 * values_beyond(), worst, len(SIDES) * TABLES, note, 1 + 1e-9)


def price_finding(target: str, neighbours: str, charged: int = len(SIDES)) -> Finding:
    """Find by the exact laws how far a record drives both sides of a column apart, together. `charged` of them share epsilon.

    The tables are those of the distinguishing attack: where a record is replaced both sides tell of it.
    """
    draws = RankDraws.for_budget(1, charged, Budget(PRICE, 0.0))
    axis, added = Axis("x", 0.0, 4000.0, cells=4000), CHANGES[neighbours] == "added"
    places = [round(share * (axis.cells - 1)) for share in SHARES]
    tables = [_table(axis, places, draws.rank, added, moved) for moved in (False, True)]
    loss = 0.0
    for side in SIDES:
        before, after = (draws.law(table, axis, side) for table in tables)
        loss += max(abs(log_cell(after, cell) - log_cell(before, cell)) for cell in range(axis.cells))
    note = f"{len(SIDES)} sides by their exact laws"
    return Finding("price", target, neighbours, "epsilon", PRICE, loss, len(SIDES), loss > PRICE, note=note)


def _logs(draws: RankDraws, side: Side, values: np.ndarray) -> np.ndarray:
    law = draws.law(_counted(SMALL, values.tolist()), SMALL, side)
    sizes = np.diff([*law.first, SMALL.cells])
    return np.repeat([math.log(weight) for weight in law.weights], sizes)


def broken(spec: Spec) -> Mapping[str, Attack]:
    target, neighbours = f"extra {NAME}", spec.privacy.neighbours
    replaced = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"neighbours": "replace_one"})})
    return {
        "γ as if no factor of 2 were needed": found_without_noise(lambda: weights_finding(target, neighbours, times=2)),
        "γ four times as large": seen(lambda: case(replaced, times=4), 2),
        "both sides at the price of one": found_without_noise(lambda: price_finding(target, "replace_one", charged=1)),
    }


TARGET = Target(
    "extra",
    NAME,
    case,
    noise_free,
    broken,
    beside=("gram", "laplace"),
    asks={"columns": {"income": PRIVATE}, "bounds": {"epsilon_share": 0.5}},
)
