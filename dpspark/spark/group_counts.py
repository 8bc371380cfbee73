"""Exact counts of rows by group, and by cell around the groups' released lines: one more pass, once the lines are drawn.

The lines travel inside the function that Spark sends: they are private until they are published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpspark.core.domain import Domain
from dpspark.exact.histogram import Axis, ExactHistogram, encode_counts, merge_histograms, most_bytes
from dpspark.exact.line_cells import LineCells
from dpspark.mechanisms.lines.plane import Plane, SimpleFit
from dpspark.spark.failures import UNREADABLE, explain_failure
from dpspark.spark.groups import GroupList, row_reader
from dpspark.spark.row_source import RowSource, TaskFunction
from dpspark.spark.tree import fan_in_for, payload_batch, tree_reduce


def count_groups(
    spark: Any,
    source: RowSource,
    domain: Domain,
    groups: GroupList,
    lines: np.ndarray,
    plane: Plane,
    cells: LineCells,
    axes: Sequence[Axis],
) -> ExactHistogram:
    """Count the rows that lines were fitted to, by group and by cell. `lines` are scaled: see `scaled_lines`."""
    rows = source.map_in_arrow(spark, row_reader(domain, groups), "code bigint, x double, y double")
    partials = rows.mapInArrow(_counter(lines, plane, cells, axes), "payload binary")
    merge = partial(merge_histograms, axes=axes)
    try:
        payloads = tree_reduce(partials, source.tasks(spark), merge, fan_in_for(most_bytes(axes)))
    except Exception as error:
        failed = explain_failure(error)
    else:
        return ExactHistogram.from_partials(axes, payloads)
    raise failed


def scaled_lines(plane: Plane, fits: Sequence[SimpleFit]) -> np.ndarray:
    """Write each line as its level and its slope, in units of the bounds; without a line, a level one in the middle."""
    (x_low, x_high), (y_low, y_high) = plane.x_bounds, plane.y_bounds
    level = np.array([fit.intercept + fit.slope * x_low for fit in fits])
    found = np.stack(
        [(level - y_low) / (y_high - y_low), [f.slope * (x_high - x_low) / (y_high - y_low) for f in fits]]
    )
    flat = np.array([(np.mean(fit.estimate) - y_low) / (y_high - y_low) for fit in fits])  # one cut has no slope
    found = np.where(np.isfinite(found), found, np.stack([flat, np.zeros(len(fits))]))
    return np.where(np.isfinite(found), found, 0.5)


def row_cells(
    plane: Plane, cells: LineCells, lines: np.ndarray, code: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Find the cell of each row, around the line of its group. Elementwise."""
    (x_low, x_high), (y_low, y_high) = plane.x_bounds, plane.y_bounds
    at, height = (x - x_low) / (x_high - x_low), (y - y_low) / (y_high - y_low)
    return cells.cell_of(at, height - lines[0, code] - lines[1, code] * at)


def _counter(lines: np.ndarray, plane: Plane, cells: LineCells, axes: Sequence[Axis]) -> TaskFunction:
    def count(batches: Iterator[Any]) -> Iterator[Any]:
        totals = [np.zeros(axis.cells, dtype=np.int64) for axis in axes]
        for batch in batches:
            code, x, y = (batch.column(i).to_numpy(zero_copy_only=False) for i in range(3))
            try:
                totals[0] += np.bincount(code, minlength=axes[0].cells)
                totals[1] += np.bincount(row_cells(plane, cells, lines, code, x, y), minlength=axes[1].cells)
            except Exception as error:
                raise RuntimeError(f"{UNREADABLE}<a batch of rows|{type(error).__name__}>") from None
        yield payload_batch(b"".join(map(encode_counts, totals)))

    return count
