"""Attacks on the numbers of rows of groups, and on the cells of rows around their lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case
from dpspark.audit.sensitivity_attack import CHANGES
from dpspark.audit.target import Attack, Target, measured
from dpspark.audit.theil_sen.shared import PLANE
from dpspark.core.domain import Domain
from dpspark.core.records import Records
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.exact.line_cells import LineCells
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import group_counts, line_cells
from dpspark.spark.group_counts import row_cells
from dpspark.spec.extras import counted_groups
from dpspark.spec.spec import Spec

Rows = Sequence[tuple[int, float, float]]  # group, x and y of each, scaled


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell a record in the first group from none, or from one far from the line of another group.

    `quieter` is how many times too small the noise is.
    """
    counted, records = counted_groups(spec), spec.records
    one: Rows = [(0, 0.9, 0.9)] * records.rows
    other: Rows = [(1 if records.moves else 0, 0.1, 0.1)] * records.rows
    axes = counted.axes(2)
    tables = [exact_counts(rows, axes, counted.cells) for rows in ([] if records.change == "added" else other, one)]
    exact = [np.concatenate(table).astype(float) for table in tables]
    std = np.array([counted.noise_std] * 2 + [counted.cells_std] * counted.cells.count)
    drawn = replace(counted, scale=counted.scale / quieter, cells_scale=counted.cells_scale / quieter)

    def see(side: int, noise: NoiseSource) -> np.ndarray:
        noisy = drawn.release(ExactHistogram(axes, tables[side]), noise)
        return np.array([*noisy.rows, *noisy.cells], dtype=float)

    return additive_case(
        spec, spec.extra_budget("group_counts"), counted.law.name, std, exact, see, "extra group_counts"
    )


def exact_counts(rows: Rows, axes: Sequence[Axis], cells: LineCells) -> list[np.ndarray]:
    """Count rows as executors do, around level lines in the middle."""
    lines = np.stack([np.full(axes[0].cells, 0.5), np.zeros(axes[0].cells)])
    code, x, y = (np.array([row[i] for row in rows]) for i in range(3))
    code = code.astype(np.int64)
    (x_low, x_high), (y_low, y_high) = PLANE.x_bounds, PLANE.y_bounds
    x, y = x_low + (x_high - x_low) * x, y_low + (y_high - y_low) * y
    at = row_cells(PLANE, cells, lines, code, x, y)
    return [np.bincount(code, minlength=axes[0].cells), np.bincount(at, minlength=axes[1].cells)]


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find how far a record moves the numbers of all groups and of all cells, in the l1 norm."""
    change = CHANGES[neighbours]
    records, cells = Records(change, 1, moves=change != "added", grouped=True), LineCells(4, 0.2)
    axes = [Axis("groups", 0.0, 1.0, 2), Axis("cells", 0.0, 1.0, cells.count)]
    places = [[(group, x, y)] for group in (0, 1) for x in (0.0, 0.5, 1.0) for y in (0.0, 0.4, 0.6, 1.0)]
    counts = [exact_counts(rows, axes, cells) for rows in places]
    others = [exact_counts([], axes, cells)] if change == "added" else counts
    findings = []
    for part, (name, most) in enumerate(
        (("groups", group_counts("l1", records)), ("cells", line_cells("l1", records)))
    ):
        worst = max(float(abs(a[part] - b[part]).sum()) for a in counts for b in others)
        tried = len(counts) * len(others)
        findings.append(Finding("sensitivity", target, neighbours, name, most, worst, tried, worst > most))
    return findings


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ 2": measured(lambda: case(spec, 2))}


TARGET = Target(
    "extra",
    "group_counts",
    case,
    noise_free,
    broken,
    beside=("theil_sen", "depth"),
    asks={"release": {"group_counts": {"epsilon_share": 0.5}, "group_by": ["tract"], "groups": ["1", "2"]}},
)
