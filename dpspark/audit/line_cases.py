"""Distinguishing attacks on lines: exact likelihood ratios of exponential mechanisms and of keyed noise."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dpspark.audit.attacks import Case
from dpspark.audit.cases import additive_case, case_of
from dpspark.audit.likelihood import additive_ratio
from dpspark.audit.recorded import RecordedStream
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.depth import DepthLine, line_depths
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen, Runs, draw_edge
from dpspark.mechanisms.lines.gradient_descent import UNIT as GRADIENT_UNIT
from dpspark.mechanisms.lines.gradient_descent import DescentLine, clipped_gradient_sum
from dpspark.mechanisms.lines.gram import MomentsLine
from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.huber import UNIT as HUBER_UNIT
from dpspark.mechanisms.lines.huber import HuberLine
from dpspark.mechanisms.lines.interval import LineWithInterval
from dpspark.mechanisms.lines.pairs import all_pairs, values_at
from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, line_fit
from dpspark.mechanisms.lines.smooth_sensitivity import SmoothTheilSen, smooth_sensitivity
from dpspark.mechanisms.lines.spread import UNIT as SPREAD_UNIT
from dpspark.mechanisms.lines.spread import SpreadSums
from dpspark.mechanisms.lines.sufficient_statistics import UNIT as SUMS_UNIT
from dpspark.mechanisms.lines.sufficient_statistics import SufficientStatistics, centred_sums
from dpspark.privacy.keyed import SECRET_BYTES, KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import SQUARE_WEIGHT, X_WEIGHT
from dpspark.spec.spec import Spec

Data = tuple[np.ndarray, np.ndarray]  # x and y, in units of their bounds
Draw = Callable[[int, NoiseSource], float]

# Found by climbing on the exact laws of a 4-cell grid at epsilon = 1: the last record is added, or takes the first one's place.
_DEPTH_ADDED = [(0.55, 0.65), (0, 0), (0.45, 1), (0.13, 0.99), (0.5, 0.06), (0.55, 0.27), (0.4, 0), (0.4, 1)]
_DEPTH_REPLACED = [(0.5, 1), (0.55, 0.5), (0, 0), (0.5, 0), (0.5, 0), (1, 0.75), (0.45, 0)]
_HUBER_ADDED = [(0.1, 1), (0.79, 0.75), (0, 0.1), (0.66, 0), (0.6, 0), (0.9, 0.01), (0.6, 0), (0.25, 0.61)]
_HUBER_REPLACED = [
    (0.5, 1), (0.5, 0.75), (0.75, 0), (0.45, 0.75), (1, 0.5), (0.45, 1), (0.1, 0.5), (0.25, 0), (0.45, 0)
]  # fmt: skip
_ALL_PAIRS = [
    (0.82, 0.1), (0.88, 0.2), (1, 0.2), (0.92, 0.2), (0.96, 0.2), (0.98, 0.2), (0.86, 0.5), (0.86, 0.2), (0.9, 0.5), (0.8, 1)
]  # fmt: skip
_SMOOTH = (0.13, 0.03, 0.15, 0.25, 0.23, 0.8, 0.3, 0, 0.92, 0.72, 0.24, 0.61, 0.59, 0.81, 0.86), 0.63


def line_case(spec: Spec, mechanism: LineMechanism, kernel: Any = None, quieter: float = 1.0) -> Case:
    """`kernel` makes the releases if it is not the mechanism's own; `quieter` divides the scale of keyed noise."""
    claimed = mechanism.kernel
    if isinstance(claimed, LineWithInterval):
        claimed = claimed.kernel  # the sums are a stage of their own
    made: Any = claimed if kernel is None else kernel
    added = spec.records.change == "added"
    if isinstance(claimed, DescentLine):
        return _gradients(spec, claimed, made, quieter)
    if isinstance(claimed, MomentsLine):
        return _moments(spec, claimed, made, quieter)
    draw: Draw
    if isinstance(claimed, ExponentialTheilSen):
        draw = _fitted(claimed, made, _ALL_PAIRS) if claimed.matchings is None else _pair_values(claimed, made)
    elif isinstance(claimed, DepthLine):
        draw = _fitted(claimed, made, _DEPTH_ADDED if added else _DEPTH_REPLACED, added)
    elif isinstance(claimed, HuberLine):
        draw = _fitted(claimed, made, _HUBER_ADDED if added else _HUBER_REPLACED, added)
    elif isinstance(claimed, SmoothTheilSen):
        draw = _smooth(claimed, made)
    else:
        assert isinstance(claimed, SufficientStatistics)
        draw = _sums(claimed, made, added, quieter)
    return case_of(spec, spec.release_budget, draw)


def interval_case(spec: Spec, mechanism: LineMechanism, drawn: SpreadSums | None = None) -> Case:
    """The sums behind an interval, around a level line: a record far from it at the end of x, or one that was on it."""
    whole = mechanism.kernel
    assert isinstance(whole, LineWithInterval)
    sums, plane = whole.sums, whole.plane
    line = line_fit(plane, plane.joint_anchors, (0.0, 0.0))
    elsewhere = (1 - X_WEIGHT / (2 * SQUARE_WEIGHT)) / 2 if sums.law == "laplace" else 0.0
    ones, zeros = np.ones(spec.records.rows), np.zeros(spec.records.rows)
    before = (ones[:0], ones[:0]) if spec.records.change == "added" else (ones * elsewhere, zeros)
    tables = [plane.rows(*_raw(plane, data)) for data in (before, (ones, ones))]
    exact = [sums.features(rows, line).sum(axis=1) / SPREAD_UNIT for rows in tables]
    std = np.array([0.0 if sums.public_rows else sums.std, *[sums.std] * 3])

    def see(side: int, _: NoiseSource) -> np.ndarray:
        return np.array((drawn or sums).noisy(tables[side], line, fresh_stream()))

    return additive_case(spec, spec.stage_budget("interval"), sums.law, std, exact, see, "stage interval")


def fresh_stream(quieter: float = 1.0) -> RecordedStream:
    """As an executor has it, from a secret of the operating system: every trial is a release of its own."""
    return RecordedStream(secrets.token_bytes(SECRET_BYTES), quieter)


def _pair(records: list[tuple[float, float]], added: bool) -> tuple[Data, Data]:
    x, y = (np.array(part, dtype=float) for part in zip(*records, strict=True))
    return ((x[:-1], y[:-1]), (x, y)) if added else ((x[:-1], y[:-1]), (x[1:], y[1:]))


def _raw(plane: Plane, data: Data) -> Data:
    (low, high), (bottom, top) = plane.x_bounds, plane.y_bounds
    return low + (high - low) * data[0], bottom + (top - bottom) * data[1]


def _fitted(claimed: Any, made: Any, records: list[tuple[float, float]], added: bool = False) -> Draw:
    """The published line, by the log ratio of its weights in the two tables."""
    plane = claimed.plane if isinstance(claimed, ExponentialTheilSen) else claimed.grid.plane
    tables = [_raw(plane, data) for data in _pair(records, added)]
    weights = [_log_weight(claimed, plane, data) for data in tables]

    def draw(side: int, _: NoiseSource) -> float:
        fit = made.fit(*tables[side], KeyedRandom.fresh(), "audit")
        return weights[1](fit) - weights[0](fit)

    return draw


def _log_weight(kernel: Any, plane: Plane, data: Data) -> Callable[[SimpleFit], float]:
    """The log weight of a published line, up to a constant of the table."""
    rows = plane.rows(*data)
    if isinstance(kernel, ExponentialTheilSen):
        values = values_at(rows, all_pairs(len(rows)), plane.anchors, plane.candidate_range, kernel.cells)
        gamma, of = kernel.exponent / max(1, len(rows) - 1), [kernel.runs(part) for part in values]
        return lambda fit: (
            -gamma
            * sum(
                loss_at(runs, edge)
                for runs, edge in zip(of, _steps_of(fit, plane, plane.anchors, kernel.cells), strict=True)
            )
        )
    grid: Grid = kernel.grid
    scores = (
        kernel.exponent * line_depths(grid, rows).astype(float)
        if isinstance(kernel, DepthLine)
        else -kernel.exponent / (kernel.clip_steps * HUBER_UNIT) * kernel.scores(rows)
    )

    def weight(fit: SimpleFit) -> float:
        first, second = _steps_of(fit, plane, plane.joint_anchors, grid.cells)
        return float(scores[first, second])

    return weight


def _steps_of(fit: SimpleFit, plane: Plane, anchors: tuple[float, ...], cells: int) -> list[int]:
    """The grid steps of a published line at the anchors."""
    (left, right), (bottom, top), (low, high) = plane.x_bounds, plane.y_bounds, plane.candidate_range
    heights = [fit.intercept + fit.slope * (left + (right - left) * anchor) for anchor in anchors]
    if math.isnan(fit.slope):  # a single cut
        heights = [fit.estimate[0]]
    return [round(((value - bottom) / (top - bottom) - low) / (high - low) * cells) for value in heights]


def loss_at(runs: Runs, edge: int) -> int:
    first, losses = (part[runs[1] > 0] for part in (runs[0], runs[2]))
    return int(losses[np.searchsorted(first, edge, "right") - 1])


def tight_values(cells: int, copies: int, moved: bool) -> np.ndarray:
    """The values of pairs' lines: many at both ends, two at a third; a record moves those of its pairs from end to end."""
    left, right = (29, 31) if moved else (30, 30)
    return np.repeat([0, cells // 3, cells], [left * copies, 2 * copies, right * copies])


def _pair_values(claimed: ExponentialTheilSen, made: ExponentialTheilSen) -> Draw:
    """The attacker knows who was paired with whom, and the values of all pairs but the record's: the proof allows it."""
    copies = claimed.matchings or 1
    tables = [tight_values(claimed.cells, copies, moved) for moved in (False, True)]
    known, drawn = ([kernel.runs(values) for values in tables] for kernel in (claimed, made))

    def draw(side: int, _: NoiseSource) -> float:
        stream = fresh_stream()
        edges = [draw_edge(drawn[side], made.exponent, stream) for _ in claimed.plane.anchors]
        return claimed.exponent * sum(loss_at(known[0], edge) - loss_at(known[1], edge) for edge in edges)

    return draw


def _smooth(claimed: SmoothTheilSen, made: SmoothTheilSen) -> Draw:
    """Student noise around the median of known pairs' values, scaled to their smooth sensitivity."""
    shares, instead = _SMOOTH
    values = [
        np.sort(np.rint(np.array(part) * claimed.cells).astype(np.int64)) for part in (shares, (instead, *shares[1:]))
    ]
    values = [np.repeat(part, claimed.per_record) for part in values]
    centres = [int(part[(len(part) - 1) // 2]) for part in values]
    scales = [
        float(smooth_sensitivity(part, claimed.per_record, claimed.decay, claimed.cells)) / claimed.noise
        for part in values
    ]

    def log_density(edge: int, which: int) -> float:
        centre, scale = centres[which], scales[which]
        ends = [
            -math.inf if edge == 0 else edge - 0.5 - centre,
            math.inf if edge == claimed.cells else edge + 0.5 - centre,
        ]
        low, high = (_student_share(end / scale) for end in ends)
        return math.log(high - low)

    def draw(side: int, _: NoiseSource) -> float:
        stream = fresh_stream()
        edges = [made.released(values[side], stream) for _ in claimed.plane.anchors]
        return sum(log_density(edge, 1) - log_density(edge, 0) for edge in edges)

    return draw


def _student_share(t: float) -> float:
    """P(T <= t) with 2 degrees of freedom."""
    return 0.5 + 0.5 * math.copysign(1.0, t) if math.isinf(t) else 0.5 + t / (2 * math.sqrt(2 + t * t))


def _sums(claimed: SufficientStatistics, made: SufficientStatistics, added: bool, quieter: float) -> Draw:
    """All noisy sums: zeros, and a record at (1, 1)."""
    zeros = np.zeros(20)
    after = np.append(zeros if added else zeros[1:], 1.0)
    tables = [claimed.plane.rows(*_raw(claimed.plane, (part, part))) for part in (zeros, after)]

    def exact(which: int, slope: float | None) -> list[Fraction]:
        rows = tables[which]
        half = Fraction(len(rows), 2)
        right, up = (Fraction(int(part.sum()), FINE) - half for part in (rows.x, rows.y))
        level = [up - Fraction(slope or 0.0) * right] if claimed.public_rows else [Fraction(len(rows)), right, up]
        return [*centred_sums(rows), *level]

    def draw(side: int, _: NoiseSource) -> float:
        stream = fresh_stream(quieter)
        slope = made.slope(tables[side], stream)
        made.level(tables[side], slope, stream)
        zero, one = (np.array([float(part * SUMS_UNIT) for part in exact(which, slope)]) for which in (0, 1))
        seen = (one if side else zero) + np.array(stream.draws, dtype=float)
        std = math.sqrt(2) * np.array([float(scale) for scale in stream.scales])
        return additive_ratio("laplace", std, (zero, one))(seen)

    return draw


def _gradients(spec: Spec, claimed: DescentLine, made: DescentLine, quieter: float) -> Case:
    """The noisy gradients of every step, at the values where the descent starts: a record far from them, on either side."""
    low, high = claimed.plane.candidate_range
    start = np.full(2, (low + high) / 2)
    tables = _corner_tables(spec, claimed.plane, np.ones(1))
    exact = [np.tile(clipped_gradient_sum(claimed, rows, start), claimed.steps) / GRADIENT_UNIT for rows in tables]

    def see(side: int, _: NoiseSource) -> np.ndarray:
        stream = fresh_stream(quieter)
        return np.concatenate([made.noisy_gradient(tables[side], start, stream) for _ in range(claimed.steps)])

    std = _std(claimed.law, np.full(2 * claimed.steps, claimed.scale))
    return additive_case(spec, spec.release_budget, claimed.law, std, exact, see)


def _moments(spec: Spec, claimed: MomentsLine, made: MomentsLine, quieter: float) -> Case:
    """The noisy moments: a record in a corner, or one that goes from one corner to the next."""
    tables, at = _corner_tables(spec, claimed.plane, np.ones(1)), np.triu_indices(3)
    scale = np.where(at[0] == at[1], claimed.diagonal, claimed.off_diagonal)
    if claimed.public_rows:
        scale[0] = 0.0
    exact = []
    for rows in tables:
        z = np.stack([np.ones(len(rows)), 2 * rows.x / FINE - 1, 2 * rows.y / FINE - 1])
        exact.append((z @ z.T)[at])

    def see(side: int, _: NoiseSource) -> np.ndarray:
        return made.noisy(tables[side], fresh_stream(quieter))[at]

    return additive_case(spec, spec.release_budget, claimed.law, _std(claimed.law, scale), exact, see)


def _corner_tables(spec: Spec, plane: Plane, one: np.ndarray) -> list[Rows]:
    """No record, or one at (1, 0), against one at (1, 1)."""
    before = (one[:0], one[:0]) if spec.records.change == "added" else (one, one - 1)
    return [plane.rows(*_raw(plane, data)) for data in (before, (one, one))]


def _std(law: str, scale: np.ndarray) -> np.ndarray:
    return scale * math.sqrt(2) if law == "laplace" else scale
