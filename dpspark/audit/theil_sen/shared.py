"""What attacks on lines share: neighbours, streams as executors have them, and how far scores are driven apart."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpspark.audit.attacks import Finding
from dpspark.audit.recorded import RecordedStream
from dpspark.audit.sensitivity_attack import ROOM
from dpspark.core.records import Change
from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.plane import Plane, Rows, SimpleFit
from dpspark.privacy.keyed import SECRET_BYTES, KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.spec import Spec

Data = tuple[np.ndarray, np.ndarray]  # x and y, in units of their bounds
Draw = Callable[[int, NoiseSource], float]
Records = list[tuple[float, float]]
LogWeight = Callable[[Rows], Callable[[SimpleFit], float]]  # of a table: of a published line, up to a constant

PLANE = Plane((0.0, 1.0), (0.0, 1.0))
GRID = Grid(PLANE, 8)
TABLES = 301


def fresh_stream(quieter: float = 1.0) -> RecordedStream:
    """Make a stream as an executor has it, from a secret of the operating system: every trial is a release of its own."""
    return RecordedStream(secrets.token_bytes(SECRET_BYTES), quieter)


def neighbours(records: Records, added: bool) -> tuple[Data, Data]:
    """Two tables: the last record is added, or takes the first one's place."""
    x, y = (np.array(part, dtype=float) for part in zip(*records, strict=True))
    return ((x[:-1], y[:-1]), (x, y)) if added else ((x[:-1], y[:-1]), (x[1:], y[1:]))


def in_units(plane: Plane, data: Data) -> Data:
    """The same data in the units of the columns."""
    (low, high), (bottom, top) = plane.x_bounds, plane.y_bounds
    return low + (high - low) * data[0], bottom + (top - bottom) * data[1]


def fitted(plane: Plane, made: Any, weight_of: LogWeight, records: Records, added: bool = False) -> Draw:
    """Tell tables apart by the published line: the log ratio of its weights in both. `made` is the kernel that draws."""
    tables = [in_units(plane, data) for data in neighbours(records, added)]
    weights = [weight_of(plane.rows(*data)) for data in tables]

    def draw(side: int, _: NoiseSource) -> float:
        fit = made.fit(*tables[side], KeyedRandom.fresh(), "audit")
        return weights[1](fit) - weights[0](fit)

    return draw


def grid_weight(grid: Grid, scores: np.ndarray) -> Callable[[SimpleFit], float]:
    """The log weight of a published line of a grid, from those of all its lines."""

    def weight(fit: SimpleFit) -> float:
        first, second = steps_of(fit, grid.plane, grid.plane.joint_anchors, grid.cells)
        return float(scores[first, second])

    return weight


def steps_of(fit: SimpleFit, plane: Plane, anchors: tuple[float, ...], cells: int) -> list[int]:
    """Find the grid steps of a published line at the anchors."""
    (left, right), (bottom, top), (low, high) = plane.x_bounds, plane.y_bounds, plane.candidate_range
    heights = [fit.intercept + fit.slope * (left + (right - left) * anchor) for anchor in anchors]
    if math.isnan(fit.slope):  # a single cut
        heights = [fit.estimate[0]]
    return [round(((value - bottom) / (top - bottom) - low) / (high - low) * cells) for value in heights]


def corner_tables(spec: Spec, plane: Plane) -> list[Rows]:
    """Make a table without records, or with one at (1, 0), and its neighbour with one at (1, 1)."""
    one = np.ones(1)
    before = (one[:0], one[:0]) if spec.records.change == "added" else (one, one - 1)
    return [plane.rows(*in_units(plane, data)) for data in (before, (one, one))]


def small_tables(change: Change) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Small tables with ties and corners, x beside y, and a neighbour of each."""
    rng = np.random.default_rng(2)  # which are tried: nothing secret
    corner, rest = np.ones((1, 2)), np.zeros((50, 2))
    yield rest, np.vstack([rest if change == "added" else rest[1:], corner])
    for _ in range(TABLES - 1):
        rows = rng.choice([0, 0.25, 0.5, 0.75, 1.0, *rng.random(3)], (int(rng.integers(2, 10)), 2))
        yield rows[:-1], (rows if change == "added" else rows[1:])


def spread_of(change: np.ndarray) -> float:
    """Measure how far the largest and the least change are apart."""
    return float(change.max() - change.min())


def scores_finding(
    target: str, relation: str, most: float, change: Change, scores: Callable[[np.ndarray], np.ndarray]
) -> Finding:
    """Find how far one record drives the scores of two lines apart, over small tables."""
    moved = max(spread_of(scores(after) - scores(before)) for before, after in small_tables(change))
    return spread_finding(target, relation, most, moved, TABLES, f"scores of {GRID.points**2} lines")


def spread_finding(
    target: str, relation: str, most: float, moved: float, tried: int, note: str, room: float = ROOM
) -> Finding:
    return Finding("sensitivity", target, relation, "spread", most, moved, tried, moved > most * room, note=note)
