"""One fit for each public group: rows are shuffled to their group, and a kernel runs on each, on the executors.

A task sees whole groups. Its randomness comes from a secret that travels inside the function, so that a retry repeats it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.core.domain import Domain, Numeric, category_label
from dpspark.errors import ConfError
from dpspark.exact.bounds import plain_values
from dpspark.mechanisms.lines.kernel import Kernel, fit_groups
from dpspark.mechanisms.lines.plane import SimpleFit
from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.group_keys import ReleasedGroups
from dpspark.spark.failures import UNREADABLE, explain_failure
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.row_source import RowSource, TaskFunction
from dpspark.spark.tree import payload_batch, send_to_parts

ROWS = pa.schema([("code", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])
PACKS = pa.schema([("part", pa.int32()), ("payload", pa.binary())])
NUMBERS = ("estimate", "ci_low", "ci_high")
MOST_COMBINATIONS = 1 << 20  # of keys, in a table by their number
CODED_ROWS = 200_000  # looked up at once: the table of keys is built anew for each look-up
FITS = pa.schema(
    [
        ("code", pa.int64()),
        *((name, pa.list_(pa.float64())) for name in NUMBERS),
        ("slope", pa.float64()),
        ("intercept", pa.float64()),
        ("status", pa.string()),
    ]
)
PACK_ROWS = 2500  # 60 kB: an Arrow batch has up to 10,000 packs, and can have 2 GB
TASKS_PER_CORE = 4  # smaller tasks: less memory, and less lost with one
LABEL = "group"


class GroupList:
    """The public groups: for each column its values, and which combinations of them are listed."""

    def __init__(self, keys: Sequence[tuple[str, ...]], released: ReleasedGroups | None = None):
        columns = list(zip(*keys, strict=True))
        self.values = [sorted(set(column)) for column in columns]
        if math.prod(map(len, self.values)) >= 2**62:
            raise ConfError("release.groups: too many combinations of keys. Put them into one column.")
        places = [{value: i for i, value in enumerate(values)} for values in self.values]
        mixed = np.zeros(len(keys), dtype=np.int64)
        for column, place, values in zip(columns, places, self.values, strict=True):
            mixed = mixed * len(values) + np.array([place[value] for value in column], dtype=np.int64)
        self.order = np.argsort(mixed)
        self.mixed = mixed[self.order]
        self.table = None
        if math.prod(map(len, self.values)) <= MOST_COMBINATIONS:
            self.table = np.full(math.prod(map(len, self.values)), -1, dtype=np.int64)
            self.table[mixed] = np.arange(len(keys))
        # The same values in the source's own types: rows that tasks read themselves are compared as they are.
        self.typed = [pa.array(values, pa.string()) for values in self.values]
        for i, kind in enumerate(() if released is None else released.types):
            known = {category_label(key[i]): key[i] for key in released.values} if released is not None else {}
            self.typed[i] = pa.array([known[value] for value in self.values[i]], kind)

    @classmethod
    def of(cls, released: ReleasedGroups) -> GroupList:
        """List the groups of a release, which may be compared as text or in their own types."""
        return cls(released.texts, released)

    def codes(self, arrays: Sequence[Any]) -> np.ndarray:
        """Find the number of each row's group in the list; −1 if it is not listed or a key is null."""
        mixed = np.zeros(len(arrays[0]), dtype=np.int64)
        missing = np.zeros(len(arrays[0]), dtype=bool)
        for values, typed, column in zip(self.values, self.typed, arrays, strict=True):
            found = _find_keys(column, typed if column.type == typed.type else pa.array(values, pa.string()))
            at = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
            missing |= at < 0
            mixed = mixed * len(values) + at
        if self.table is not None:
            return np.where(missing, -1, self.table[np.where(missing, 0, mixed)])
        place = np.minimum(np.searchsorted(self.mixed, mixed), len(self.mixed) - 1)
        return np.where(missing | (self.mixed[place] != mixed), -1, self.order[place])


def _find_keys(column: Any, values: Any) -> Any:
    """Find each key among the values. −0.0 and 0.0 are one key."""
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    return pc.index_in(column, value_set=values)


def fit_all_groups(
    spark: Any,
    source: RowSource,
    domain: Domain,
    groups: GroupList | None,
    cuts: tuple[float, ...],
    kernel: Kernel,
    random: KeyedRandom,
) -> dict[int, SimpleFit]:
    """Fit every group that has rows, by its number. Without a list there is one group, number 0."""
    tasks = TASKS_PER_CORE * default_parallelism(spark) if groups is not None else 1
    # Rows travel to their task in packs, and its fits come back as one: Spark moves a pack as fast as a row.
    packs = source.map_in_arrow(spark, _packer(domain, groups, tasks), "part int, payload binary")
    fits = send_to_parts(packs, tasks).mapInArrow(_fit_groups(kernel, random), "payload binary")
    try:
        collected = fits.collect()
    except Exception as error:
        failed = explain_failure(error)
    else:
        return {row["code"]: _fit_of(cuts, row) for task in collected for row in _unpack(task["payload"])}
    raise failed


def row_reader(domain: Domain, groups: GroupList | None) -> TaskFunction:
    """Make a function that yields each row's group and two values, nulls settled; rows of no listed group are left out."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in enlarge_batches(batches):
            try:
                yield _key_batch(domain, groups, batch)
            except Exception as error:
                raise RuntimeError(f"{UNREADABLE}<a batch of rows|{type(error).__name__}>") from None

    return read


def _packer(domain: Domain, groups: GroupList | None, tasks: int) -> TaskFunction:
    """Make a function that packs these rows for the task of their group: codes, x and y one after the other."""

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in row_reader(domain, groups)(batches):
            code, x, y = (batch.column(i).to_numpy(zero_copy_only=False) for i in range(3))
            part = code % tasks
            order = np.argsort(part, kind="stable")
            ends = np.searchsorted(part[order], np.arange(tasks + 1))
            for task in np.flatnonzero(np.diff(ends)).tolist():
                for start in range(ends[task], ends[task + 1], PACK_ROWS):
                    mine = order[start : min(start + PACK_ROWS, ends[task + 1])]
                    payload = b"".join(values[mine].tobytes() for values in (code, x, y))
                    yield pa.record_batch([pa.array([task], pa.int32()), pa.array([payload])], schema=PACKS)

    return pack


def _unpack_rows(batch: Any) -> Iterator[tuple[np.ndarray, ...]]:
    for pack in batch.column("payload"):
        buffer = pack.as_buffer()
        count = buffer.size // 24
        yield (
            np.frombuffer(buffer, np.int64, count),
            np.frombuffer(buffer, np.float64, count, 8 * count),
            np.frombuffer(buffer, np.float64, count, 16 * count),
        )


def enlarge_batches(batches: Iterator[Any], rows: int = CODED_ROWS) -> Iterator[Any]:
    """Yield the same rows in batches of at least so many, but for the last."""
    parts: list[Any] = []
    for batch in batches:
        parts.append(batch)
        if sum(part.num_rows for part in parts) >= rows:
            yield _join(parts)
            parts = []
    if parts:
        yield _join(parts)


def _join(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    columns = [pa.concat_arrays([part.column(i) for part in parts]) for i in range(parts[0].num_columns)]
    return pa.record_batch(columns, schema=parts[0].schema)


def _key_batch(domain: Domain, groups: GroupList | None, batch: Any) -> Any:
    values = []
    keep = np.ones(batch.num_rows, dtype=bool)
    for i, column in enumerate(domain.columns):
        assert isinstance(column, Numeric)
        numbers = plain_values(column, batch.column(i))
        null = np.isnan(numbers)
        if domain.nulls == "drop_row":
            keep &= ~null
        values.append(np.where(null, column.middle, np.clip(numbers, column.lower, column.upper)))
    keys = [batch.column(i) for i in range(len(domain.columns), len(domain.columns) + len(domain.keys))]
    codes = np.zeros(batch.num_rows, dtype=np.int64) if groups is None else groups.codes(keys)
    keep &= codes >= 0
    return pa.record_batch([pa.array(codes[keep]), *(pa.array(v[keep]) for v in values)], schema=ROWS)


def _fit_groups(kernel: Kernel, random: KeyedRandom) -> TaskFunction:
    def fit(batches: Iterator[Any]) -> Iterator[Any]:
        parts = [part for batch in batches for part in _unpack_rows(batch)]
        if not parts:
            return
        code, x, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(code, kind="stable")
        code, x, y = code[order], x[order], y[order]
        starts = np.flatnonzero(np.diff(code, prepend=-1))
        labels = [(LABEL, group) for group in code[starts].tolist()]
        try:
            lines = fit_groups(kernel, x, y, np.append(starts, len(code)), labels, random)
        except Exception as error:
            raise RuntimeError(f"{UNREADABLE}<a group's rows|{type(error).__name__}>") from None
        found = [_row_of(group, line) for (_, group), line in zip(labels, lines, strict=True)]
        yield payload_batch(_pack(pa.RecordBatch.from_pylist(found, schema=FITS)))

    return fit


def _pack(batch: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _unpack(payload: bytes) -> list[dict[str, Any]]:
    return pa.ipc.open_stream(bytes(payload)).read_all().to_pylist()


def _row_of(group: int, line: SimpleFit) -> dict[str, Any]:
    numbers = {name: list(getattr(line, name)) for name in NUMBERS}
    return {"code": group, **numbers, "slope": line.slope, "intercept": line.intercept, "status": line.status}


def _fit_of(cuts: tuple[float, ...], row: Any) -> SimpleFit:
    estimate, low, high = (tuple(row[name]) for name in NUMBERS)
    return SimpleFit(cuts, estimate, low, high, row["slope"], row["intercept"], row["status"])
