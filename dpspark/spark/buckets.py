"""One Theil–Sen line for a table too large for one task: secret buckets, pairs inside each, one histogram of their values.

A row's bucket is a keyed hash of its two values and of its rank among rows with the same two, so that it needs no row number
and a retry deals it out the same way: which of several equal rows has which rank makes no difference. An added row adds one
(value, rank) and changes one bucket by one row; a replaced one may leave a bucket for another (LineProblem counts both).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import Domain
from dpspark.exact.histogram import Axis, ExactHistogram, encode_counts, merge_histograms, most_bytes
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen, draw_edge
from dpspark.mechanisms.lines.pairs import matchings, values_at
from dpspark.mechanisms.lines.plane import SimpleFit, line_fit
from dpspark.mechanisms.lines.spread import SpreadSums
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.failures import UNREADABLE, explain_failure
from dpspark.spark.groups import row_reader
from dpspark.spark.row_source import RowSource, TaskFunction
from dpspark.spark.tree import fan_in_for, payload_batch, tree_reduce

ROWS = pa.schema([("bucket", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])
LABEL = "bucket"
SUMS = pa.schema([(name, pa.int64()) for name in ("rows", "x", "x_squared", "residuals")])


def fit_in_buckets(
    spark: Any, source: RowSource, domain: Domain, buckets: int, kernel: ExponentialTheilSen, random: KeyedRandom
) -> SimpleFit:
    """Fit the line of the whole table. The histogram of all pairs' values is exact; the driver draws."""
    axes = [Axis(str(i), 0.0, 1.0, kernel.cells + 1) for i in range(len(kernel.plane.anchors))]
    rows = source.map_in_arrow(spark, row_reader(domain, None), "code bigint, x double, y double")
    dealt = rows.mapInArrow(_dealer(buckets, random), "bucket bigint, x double, y double")
    # Equal rows meet in one task and get their ranks; then each goes to its bucket.
    ranked = dealt.repartition(buckets, "bucket").mapInArrow(
        _ranker(buckets, random), "bucket bigint, x double, y double"
    )
    partials = ranked.repartition(buckets, "bucket").mapInArrow(_pairer(kernel, random, axes), "payload binary")
    merge = partial(merge_histograms, axes=axes)
    try:
        payloads = tree_reduce(partials, buckets, merge, fan_in_for(most_bytes(axes)))
    except Exception as error:
        failed = explain_failure(error)
    else:
        return _draw_line(kernel, ExactHistogram.from_partials(axes, payloads), axes, random)
    raise failed


def draw_spread_sums(
    spark: Any, source: RowSource, domain: Domain, sums: SpreadSums, line: SimpleFit, random: KeyedRandom
) -> tuple[float, ...]:
    """Draw the noisy sums of the whole table around its line, in one more pass. They need no buckets."""

    def add(batches: Iterator[Any]) -> Iterator[Any]:
        total = np.zeros(len(SUMS), dtype=np.int64)
        for batch in batches:
            x, y = (batch.column(i).to_numpy(zero_copy_only=False) for i in (1, 2))
            try:
                total += sums.features(sums.plane.rows(x, y), line).sum(axis=1)
            except Exception as error:
                raise RuntimeError(f"{UNREADABLE}<a batch of rows|{type(error).__name__}>") from None
        yield pa.record_batch([pa.array([part]) for part in total.tolist()], schema=SUMS)

    rows = source.map_in_arrow(spark, row_reader(domain, None), "code bigint, x double, y double")
    partials = rows.mapInArrow(add, ", ".join(f"{name} bigint" for name in SUMS.names))
    try:
        collected = partials.collect()
    except Exception as error:
        failed = explain_failure(error)
    else:
        exact = [sum(row[name] for row in collected) for name in SUMS.names]
        return sums.released(exact, random.stream("spread", LABEL))
    raise failed


def _draw_line(
    kernel: ExponentialTheilSen, histogram: ExactHistogram, axes: list[Axis], random: KeyedRandom
) -> SimpleFit:
    low, high = kernel.plane.candidate_range
    stream = random.stream("draws", LABEL)
    edges = [draw_edge(kernel.runs_of(*histogram.reveal(axis.name)), kernel.exponent, stream) for axis in axes]
    values = tuple(low + (high - low) * edge / kernel.cells for edge in edges)
    return line_fit(kernel.plane, kernel.plane.anchors, values)


def _dealer(buckets: int, random: KeyedRandom) -> TaskFunction:
    def deal(batches: Iterator[Any]) -> Iterator[Any]:
        key = random.stream("meeting").bytes(16)
        for batch in batches:
            x, y = (batch.column(i).to_numpy(zero_copy_only=False) for i in (1, 2))
            bucket = bucket_of(key, x, y, buckets)
            yield pa.record_batch([pa.array(bucket), pa.array(x), pa.array(y)], schema=ROWS)

    return deal


def _ranker(buckets: int, random: KeyedRandom) -> TaskFunction:
    def rank(batches: Iterator[Any]) -> Iterator[Any]:
        key = random.stream("buckets").bytes(16)
        parts = [[batch.column(i).to_numpy(zero_copy_only=False) for i in (1, 2)] for batch in batches]
        if not parts:
            return
        x, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        x, y, ranks = rank_among_equals(x, y)
        yield pa.record_batch([pa.array(bucket_of(key, x, y, buckets, ranks)), pa.array(x), pa.array(y)], schema=ROWS)

    return rank


def rank_among_equals(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort the rows, and number each among those with the same two values."""
    order = np.lexsort((y, x))
    x, y = x[order] + 0.0, y[order] + 0.0
    new = np.ones(len(x), dtype=bool)
    new[1:] = (x[1:] != x[:-1]) | (y[1:] != y[:-1])
    starts = np.flatnonzero(new)
    return x, y, np.arange(len(x)) - np.repeat(starts, np.diff(np.append(starts, len(x))))


def bucket_of(key: bytes, x: np.ndarray, y: np.ndarray, buckets: int, ranks: np.ndarray | None = None) -> np.ndarray:
    # −0.0 and 0.0 are one value.
    """Choose the bucket of each row by a keyed hash."""
    words = [np.ascontiguousarray(values + 0.0).view(np.uint64) for values in (x, y)]
    if ranks is not None:
        words.append(ranks.astype(np.uint64))
    return ((sip_hash(key, words) >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.int64)


def _pairer(kernel: ExponentialTheilSen, random: KeyedRandom, axes: list[Axis]) -> TaskFunction:
    def pair(batches: Iterator[Any]) -> Iterator[Any]:
        parts = [[batch.column(i).to_numpy(zero_copy_only=False) for i in range(3)] for batch in batches]
        totals = [np.zeros(axis.cells, dtype=np.int64) for axis in axes]
        if parts:
            bucket, x, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            for number in np.unique(bucket).tolist():
                here = bucket == number
                try:
                    _count_pairs(kernel, random, number, x[here], y[here], totals)
                except Exception as error:
                    raise RuntimeError(f"{UNREADABLE}<a bucket of rows|{type(error).__name__}>") from None
        yield payload_batch(b"".join(map(encode_counts, totals)))

    return pair


def _count_pairs(
    kernel: ExponentialTheilSen,
    random: KeyedRandom,
    number: int,
    x: np.ndarray,
    y: np.ndarray,
    totals: list[np.ndarray],
) -> None:
    """Count the values of a bucket's pairs, one matching at a time: memory stays that of the bucket's rows."""
    rows = kernel.plane.rows(x, y)
    assert kernel.matchings is not None
    for matching in range(kernel.matchings):
        pairs = matchings(len(rows), 1, random.stream("pairs", LABEL, number, matching))
        found = values_at(rows, pairs, kernel.plane.anchors, kernel.plane.candidate_range, kernel.cells)
        for total, values in zip(totals, found, strict=True):
            np.add.at(total, values, 1)


def sip_hash(key: bytes, words: list[np.ndarray]) -> np.ndarray:
    """Hash messages of 64-bit words, one of each array: SipHash-2-4, a keyed hash for short messages (Aumasson & Bernstein)."""
    first, second = (np.uint64(int.from_bytes(key[at : at + 8], "little")) for at in (0, 8))
    shape = words[0].shape
    constants = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [np.full(shape, np.uint64(c) ^ k) for c, k in zip(constants, (first, second, first, second), strict=True)]
    last = np.full(shape, np.uint64(8 * len(words) % 256) << np.uint64(56))
    with np.errstate(over="ignore"):
        for word in (*words, last):
            v[3] ^= word
            _rounds(v, 2)
            v[0] ^= word
        v[2] ^= np.uint64(0xFF)
        _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[np.ndarray], count: int) -> None:
    for _ in range(count):
        v[0] += v[1]
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[0] = _rotate(v[0], 32)
        v[2] += v[3]
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] += v[3]
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] += v[1]
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[2] = _rotate(v[2], 32)


def _rotate(word: np.ndarray, bits: int) -> np.ndarray:
    return word << np.uint64(bits) | word >> np.uint64(64 - bits)
