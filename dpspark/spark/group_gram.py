"""One exact Gram matrix for each public group, in one pass: partial sums by group in each task, then merged by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import Domain
from dpspark.exact.bounds import grid_rows, plain_values, settle_nulls
from dpspark.exact.fixed_point import ExactGram, Wide, partial_bytes
from dpspark.spark.failures import UNREADABLE, explain_failure
from dpspark.spark.groups import TASKS_PER_CORE, GroupList, enlarge_batches
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.row_source import RowSource, TaskFunction
from dpspark.spark.tree import NODE_BYTES, limit_batches

PARTIALS = pa.schema([("code", pa.int64()), ("payload", pa.binary())])
PARTIALS_DDL = "code bigint, payload binary"
WINDOW = 1 << 17


class GroupedGramAccumulator:
    """An accumulator that adds bounded rows to their group's Gram matrix. Only groups with rows take memory."""

    def __init__(self, domain: Domain, groups: GroupList):
        self.domain, self.groups = domain, groups
        self._sums: dict[int, Wide] = {}
        self._upper = np.triu_indices(domain.width)
        self._block = np.empty((domain.width, domain.block_rows))
        self._sorted: dict[int, np.ndarray] = {}

    def add(self, columns: Sequence[Any], rows: int) -> None:
        """Add rows, given as one arrow array for each of `domain.read_columns`."""
        plain = len(self.domain.columns)
        ready = [plain_values(c, values) for c, values in zip(self.domain.columns, columns[:plain], strict=True)]
        codes = self.groups.codes(columns[plain:])
        if len(self.groups.mixed) <= np.iinfo(np.int16).max:
            codes = codes.astype(np.int16)  # sorted by its digits, in one go
        for start in range(0, rows, WINDOW):
            part = slice(start, start + WINDOW)
            self._add_window([values[part] for values in ready], codes[part])

    def _add_window(self, ready: list[np.ndarray], codes: np.ndarray) -> None:
        """Add rows, sorted by their group. A window of a column stays in the processor's cache while it is sorted."""
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        listed = int(np.searchsorted(codes, 0))  # rows of no listed group come first: −1
        ready = [self._sort(at, values, order) for at, values in enumerate(ready)]
        starts = listed + np.flatnonzero(np.diff(codes[listed:], prepend=-1))
        for first in range(listed, len(order), self.domain.block_rows):
            last = min(len(order), first + self.domain.block_rows)
            block = self._block[:, : last - first]
            grid_rows(self.domain, [values[first:last] for values in ready], block)
            inside = starts[np.searchsorted(starts, first, side="right") : np.searchsorted(starts, last)].tolist()
            for start, stop in pairwise((first, *inside, last)):
                self._add_rows(int(codes[start]), block[:, start - first : stop - first])

    def _sort(self, at: int, values: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Sort a column's window into memory that is there already: new memory would take longer than the sorting."""
        known = self._sorted.get(at)
        if known is None or known.dtype != values.dtype:
            known = self._sorted[at] = np.empty(WINDOW, values.dtype)
        return np.take(values, order, out=known[: len(order)], mode="clip")

    def _add_rows(self, code: int, rows: np.ndarray) -> None:
        """Add at most block_rows rows of one group: their products are exact in float64."""
        product = rows @ rows.T
        if np.isnan(product.diagonal()).any():  # a NaN row shows on the diagonal: no need to scan every value
            settle_nulls(self.domain, rows)
            product = rows @ rows.T
        self._sums.setdefault(code, Wide.zero(self.domain.width)).add(product[self._upper].astype(np.int64))

    def finish(self) -> Iterator[Any]:
        return _batches(self._sums, self.domain.width)


def exact_grams(spark: Any, source: RowSource, domain: Domain, groups: GroupList) -> dict[int, ExactGram]:
    """Add up the matrix of every group that has rows, by its number."""
    partials = source.map_in_arrow(spark, _reader(domain, groups), PARTIALS_DDL)
    each = partial_bytes(domain.width)
    if source.tasks(spark) * len(groups.mixed) * each > NODE_BYTES:  # else the driver adds up what there is
        tasks = TASKS_PER_CORE * default_parallelism(spark)
        partials = partials.repartition(tasks, "code").mapInArrow(_merger(domain.width), PARTIALS_DDL)
    try:
        with limit_batches(spark, NODE_BYTES // each):
            collected = partials.collect()
    except Exception as error:
        failed = explain_failure(error)
    else:
        found: dict[int, list[bytes]] = {}
        for row in collected:
            found.setdefault(row["code"], []).append(bytes(row["payload"]))
        return {code: ExactGram.from_partials(domain, payloads) for code, payloads in found.items()}
    raise failed


def _reader(domain: Domain, groups: GroupList) -> TaskFunction:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        total = GroupedGramAccumulator(domain, groups)
        for batch in enlarge_batches(batches):
            try:
                total.add([batch.column(i) for i in range(len(domain.read_columns))], batch.num_rows)
            except Exception as error:
                raise RuntimeError(f"{UNREADABLE}<a batch of rows|{type(error).__name__}>") from None
        yield from total.finish()

    return read


def _merger(width: int) -> TaskFunction:
    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        sums: dict[int, Wide] = {}
        for batch in batches:
            for code, payload in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                sums.setdefault(code, Wide.zero(width)).merge(Wide.from_bytes(payload.as_py()))
        yield from _batches(sums, width)

    return merge


def _batches(sums: dict[int, Wide], width: int) -> Iterator[Any]:
    """Yield all sums, in batches that a node can hold."""
    codes, most = sorted(sums), max(1, NODE_BYTES // partial_bytes(width))
    for start in range(0, len(codes), most):
        some = codes[start : start + most]
        payloads = pa.array([sums[code].to_bytes() for code in some], pa.binary())
        yield pa.record_batch([pa.array(some, pa.int64()), payloads], schema=PARTIALS)
