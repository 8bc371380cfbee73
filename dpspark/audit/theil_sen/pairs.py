"""What attacks on medians of pairs' values share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog

from dpspark.audit.attacks import Finding
from dpspark.audit.theil_sen.shared import TABLES, Draw, fresh_stream, spread_finding, spread_of
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen, Runs, draw_edge, runs
from dpspark.mechanisms.lines.pairs import matchings
from dpspark.mechanisms.lines.widened import widened_runs
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import pair_rank_spread

MATCHINGS_DRAWN, UNCOUPLED = 3000, 0.15  # a share that 3000 draws of 15 matchings miss by chance: less than 1e-9
Pairing = Callable[[int, int, Stream], tuple[np.ndarray, np.ndarray]]


def loss_at(runs: Runs, edge: int) -> int:
    """Look up the loss of an edge."""
    first, losses = (part[runs[1] > 0] for part in (runs[0], runs[2]))
    return int(losses[np.searchsorted(first, edge, "right") - 1])


def tight_values(cells: int, copies: int, moved: bool) -> np.ndarray:
    """The values of pairs' lines: many at both ends, two at a third; a record moves those of its pairs from end to end."""
    left, right = (29, 31) if moved else (30, 30)
    return np.repeat([0, cells // 3, cells], [left * copies, 2 * copies, right * copies])


def pair_values(claimed: ExponentialTheilSen, made: ExponentialTheilSen) -> Draw:
    """The attacker knows who was paired with whom, and the values of all pairs but the record's: the proof allows it."""
    copies = claimed.matchings or 1
    tables = [tight_values(claimed.cells, copies, moved) for moved in (False, True)]
    known, drawn = ([kernel.runs(values) for values in tables] for kernel in (claimed, made))

    def draw(side: int, _: NoiseSource) -> float:
        stream = fresh_stream()
        edges = [draw_edge(drawn[side], made.exponent, stream) for _ in claimed.plane.anchors]
        return claimed.exponent * sum(loss_at(known[0], edge) - loss_at(known[1], edge) for edge in edges)

    return draw


def rank_finding(target: str, relation: str, width: int = 0) -> Finding:
    """Find how far |below − above| at two edges is driven apart when k pairs' values move; `width` is of widened losses."""
    cells, k, worst = 20, 3, 0.0
    rng = np.random.default_rng(3)
    for _ in range(TABLES):
        values = rng.choice([0, cells // 3, cells], int(rng.integers(k, 40)))
        moved = values.copy()
        moved[:k] = cells - moved[:k]
        worst = max(worst, spread_of(edge_losses(moved, cells, width) - edge_losses(values, cells, width)))
    return spread_finding(target, relation, pair_rank_spread(k), worst, TABLES, f"{k} matchings")


def edge_losses(values: np.ndarray, cells: int, width: int = 0) -> np.ndarray:
    """Compute the loss of every edge."""
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
