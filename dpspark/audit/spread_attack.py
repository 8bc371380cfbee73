"""Noise-free attacks on the scores of lines and quantiles: how far one record drives two candidates apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog

from dpspark.audit.attacks import Finding
from dpspark.audit.sensitivity_attack import CHANGES, ROOM
from dpspark.core.records import Change
from dpspark.mechanisms.lines.depth import line_depths
from dpspark.mechanisms.lines.exponential import runs
from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.huber import UNIT, HuberLine
from dpspark.mechanisms.lines.pairs import all_pairs, matchings, values_at
from dpspark.mechanisms.lines.plane import Plane, line_fit
from dpspark.mechanisms.lines.smooth_sensitivity import smooth_sensitivity
from dpspark.mechanisms.lines.spread import SLACK, SpreadSums
from dpspark.mechanisms.lines.spread import UNIT as SPREAD_UNIT
from dpspark.mechanisms.lines.sufficient_statistics import centred_sums
from dpspark.mechanisms.lines.widened import widened_runs
from dpspark.mechanisms.quantiles.exponential import cell_weights
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.sensitivity import (
    all_pairs_rank_spread,
    centred_products,
    depth_spread,
    pair_rank_spread,
    rank_distance,
    score_spread,
    spread_l1,
)

PLANE = Plane((0.0, 1.0), (0.0, 1.0))
GRID = Grid(PLANE, 8)
TABLES = 301
MATCHINGS_DRAWN, UNCOUPLED = 3000, 0.15  # a share that 3000 draws of 15 matchings miss by chance: less than 1e-9
Pairing = Callable[[int, int, Stream], tuple[np.ndarray, np.ndarray]]
Smooth = Callable[[np.ndarray, int, float, int], Any]


def _tables(change: Change) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Small tables with ties and corners, x beside y, and a neighbour of each."""
    rng = np.random.default_rng(2)  # which are tried: nothing secret
    corner, rest = np.ones((1, 2)), np.zeros((50, 2))
    yield rest, np.vstack([rest if change == "added" else rest[1:], corner])
    for _ in range(TABLES - 1):
        rows = rng.choice([0, 0.25, 0.5, 0.75, 1.0, *rng.random(3)], (int(rng.integers(2, 10)), 2))
        yield rows[:-1], (rows if change == "added" else rows[1:])


def score_finding(target: str, neighbours: str, name: str) -> Finding:
    """Depth, or Huber's score, of every line."""
    change = CHANGES[neighbours]
    huber = HuberLine(GRID, 1.0, 0.1)

    def scores(table: np.ndarray) -> np.ndarray:
        rows = PLANE.rows(table[:, 0], table[:, 1])
        return line_depths(GRID, rows) if name == "depth" else huber.scores(rows) / (huber.clip_steps * UNIT)

    moved = max(_spread(scores(after) - scores(before)) for before, after in _tables(change))
    most = (depth_spread if name == "depth" else score_spread)(change)
    return _finding(target, neighbours, most, moved, TABLES, f"scores of {GRID.points**2} lines")


def _spread(change: np.ndarray) -> float:
    return float(change.max() - change.min())


def rank_finding(target: str, neighbours: str, name: str) -> Finding:
    """|below − above| at every edge. All pairs: of whole tables, for each other record; else when k pairs' values move."""
    cells, k, worst = 20, 3, 0.0
    if name == "all_pairs":
        for before, after in _tables("replaced"):
            losses = []
            for table in (before, after):
                rows = PLANE.rows(table[:, 0], table[:, 1])
                (values,) = values_at(rows, all_pairs(len(rows)), (0.25,), (0.0, 1.0), cells)
                losses.append(_edge_losses(values, cells, 0))
            worst = max(worst, _spread(losses[1] - losses[0]) / max(1, len(before) - 1))
        return _finding(target, neighbours, all_pairs_rank_spread(), worst, TABLES, "for each other record")
    rng, width = np.random.default_rng(3), 2 if name == "widened" else 0
    for _ in range(TABLES):
        values = rng.choice([0, cells // 3, cells], int(rng.integers(k, 40)))
        moved = values.copy()
        moved[:k] = cells - moved[:k]
        worst = max(worst, _spread(_edge_losses(moved, cells, width) - _edge_losses(values, cells, width)))
    return _finding(target, neighbours, pair_rank_spread(k), worst, TABLES, f"{k} matchings")


def _edge_losses(values: np.ndarray, cells: int, width: int) -> np.ndarray:
    _, sizes, losses = widened_runs(runs(values, cells), width, cells)
    return np.repeat(losses, sizes)


def pairing_finding(target: str, neighbours: str, pairing: Pairing = matchings) -> Finding:
    """Matchings of 5 and of 6 rows, as drawn: the share that no coupling brings within the one pair that a record may move.

    A question of flow between the two laws. To cut an odd table before the shuffle (OpenDP #2950) leaves four fifths over.
    """
    worst = 0.0
    for rows in (4, 5):
        laws = [_law_of_matchings(pairing, n) for n in (rows, rows + 1)]
        near = [
            (i, j) for i, a in enumerate(laws[0]) for j, b in enumerate(laws[1]) if len(a ^ b) <= (1 if rows % 2 else 2)
        ]
        limits = np.zeros((len(laws[0]) + len(laws[1]), len(near)))
        for at, (i, j) in enumerate(near):
            limits[i, at] = limits[len(laws[0]) + j, at] = 1
        supply = [*laws[0].values(), *laws[1].values()]
        coupled = -linprog(-np.ones(len(near)), A_ub=limits, b_ub=supply).fun if near else 0.0
        worst = max(worst, 1 - coupled)
    note = "share beyond one pair"
    return Finding(
        "pairing", target, neighbours, "share", UNCOUPLED, worst, MATCHINGS_DRAWN, worst > UNCOUPLED, note=note
    )


def _law_of_matchings(pairing: Pairing, rows: int) -> dict[frozenset[frozenset[int]], float]:
    found: dict[frozenset[frozenset[int]], float] = {}
    for _ in range(MATCHINGS_DRAWN):
        first, second = pairing(rows, 1, KeyedRandom.fresh().stream("pairs"))
        drawn = frozenset(map(frozenset, zip(first.tolist(), second.tolist(), strict=True)))
        found[drawn] = found.get(drawn, 0.0) + 1 / MATCHINGS_DRAWN
    return found


def smooth_finding(target: str, neighbours: str, of: Smooth = smooth_sensitivity) -> Finding:
    """The smooth sensitivity of neighbours differs by e^decay at most, and covers the median's own move."""
    rng, k, decay, worst = np.random.default_rng(4), 2, 0.3, 0.0
    for _ in range(TABLES):
        values = np.sort(rng.choice([0, 100, *rng.integers(0, 101, 4)], k * int(rng.integers(1, 8))))
        other = values.copy()
        other[rng.choice(len(values), k, replace=False)] = rng.choice([0, 100, *rng.integers(0, 101, 2)], k)
        other = np.sort(other)
        sizes = [float(of(part, k, decay, 100)) for part in (values, other)]
        middle = (len(values) - 1) // 2
        moved = abs(int(values[middle]) - int(other[middle]))
        worst = max(worst, max(sizes) / max(min(sizes), 1e-9), math.exp(decay) * moved / max(min(sizes), 1e-9))
    return _finding(target, neighbours, math.exp(decay), worst, TABLES, "ratio of smooth sensitivities", 1 + 1e-9)


def sums_finding(target: str, neighbours: str) -> Finding:
    """Σ(x − x̄)(y − ȳ) and Σ(x − x̄)², exactly."""
    worst = Fraction(0)
    for before, after in _tables(CHANGES[neighbours]):
        sums = [centred_sums(PLANE.rows(table[:, 0], table[:, 1])) for table in (before, after)]
        worst = max([worst, *(abs(one - zero) for zero, one in zip(*sums, strict=True))])
    return _finding(target, neighbours, centred_products(), float(worst), TABLES, "centred sums")


def interval_finding(target: str, neighbours: str) -> Finding:
    """The sums behind an interval, in the l1 norm, around a level line: each place of a record, and for another."""
    change, line = CHANGES[neighbours], line_fit(PLANE, PLANE.joint_anchors, (0.0, 0.0))
    sums = SpreadSums(PLANE, "laplace", 1.0, change == "replaced", 0.5)
    x, y = (part.ravel() for part in np.meshgrid(np.linspace(0, 1, 41), (0.0, 0.5, 1.0)))
    features = sums.features(PLANE.rows(x, y), line)
    others = np.zeros((4, 1), dtype=np.int64) if change == "added" else features
    moved = abs(features[:, :, None] - others[:, None, :]).sum(axis=0)
    most = spread_l1(change) + SLACK / SPREAD_UNIT
    return _finding(target, neighbours, most, float(moved.max()) / SPREAD_UNIT, moved.size, "sums, l1")


def quantile_finding(target: str, neighbours: str) -> Finding:
    """The distance of every cell from the quantile, as the weights have it."""
    change, rng, gamma, found = CHANGES[neighbours], np.random.default_rng(5), 0.25, []
    for chance in (0.01, 0.3, 0.5):
        worst = 0.0
        for _ in range(40):
            values = rng.integers(0, 6, int(rng.integers(2, 60)))
            after = np.append(values if change == "added" else values[1:], rng.integers(0, 6))
            logs = []
            for table in (values, after):
                up_to = np.cumsum(np.bincount(table, minlength=6))
                weights = cell_weights(np.concatenate([[0], up_to[:-1]]), up_to, len(table), chance, gamma)
                logs.append(np.array([math.log(weight) / gamma for weight in weights]))
            worst = max(worst, _spread(logs[1] - logs[0]))
        most = 2 * rank_distance(chance, change)
        found.append((worst / most, most, worst, f"ranks, at probability {chance}"))
    _, most, worst, note = max(found)
    return _finding(target, neighbours, most, worst, 120, note, 1 + 1e-9)


def _finding(
    target: str, neighbours: str, most: float, moved: float, tried: int, note: str, room: float = ROOM
) -> Finding:
    return Finding("sensitivity", target, neighbours, "spread", most, moved, tried, moved > most * room, note=note)
