"""What a task makes of the rows of a file: it leaves out those that a filter drops, and computes columns. Runs on executors.

Stability: each row that comes out is made of one row of a file, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import Categorical, ClusterKey, GroupKey, PersonKey
from dpspark.source.column_types import Column
from dpspark.source.compute.program import Program, keep_mask
from dpspark.source.compute.statistics import can_skip, statistics_of
from dpspark.source.group_keys import directory_key
from dpspark.source.parquet import NULL_PARTITION, ParquetPart, Skip, decode
from dpspark.source.spark_types import arrow_type, convert


@dataclass(frozen=True)
class Reading:
    """The columns that a release reads, in order, and how they are made of those in files.

    `types` has Spark's types of columns that must have one type in all files: those of expressions and keys. A column that
    is not there is handed on as its file has it.
    """

    columns: tuple[Column, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of these names, in the files
    where: Program | None = None
    computed: Mapping[str, Program] = field(default_factory=dict)

    def take(self, positions: Sequence[int]) -> Reading:
        """Read some of the columns alone."""
        return replace(self, columns=tuple(self.columns[i] for i in positions))

    def batches(self, part: ParquetPart, row_groups: list[int]) -> Iterator[Any]:
        programs = [self.computed[column.name] for column in self.columns if column.name in self.computed]
        made_of = {name for program in programs for name in program.columns}
        kept = made_of.union(column.name for column in self.columns if column.name not in self.computed)
        asked = kept.union(() if self.where is None else self.where.columns)
        given = dict(part.directories)
        names = [name for column in sorted(asked) for name in self._spelt(column) if name not in given]
        for batch in decode(part, row_groups, names, None if self.where is None else self._skips(part)):
            if self.where is not None:
                mask = keep_mask(self.where, self._values(batch, part, self.where.columns), batch.num_rows)
                if mask is not None:
                    staying = {name for column in kept for name in self._spelt(column)}
                    batch = batch.select([name for name in batch.schema.names if name in staying])
                    batch = _filter(batch, mask)
            values = self._values(batch, part, sorted(made_of))
            arrays = [self._make(column, batch, part, values) for column in self.columns]
            yield pa.record_batch(arrays, names=[f"c{i}" for i in range(len(arrays))])

    def _skips(self, part: ParquetPart) -> Skip:
        """Make a function that tells from the statistics of a row group that the filter keeps no row of it."""
        where, given = self.where, {key for key, _ in part.directories}
        assert where is not None
        # A column's type in all files may be another than in this one, and so may its spelling.
        plain = [name for name in where.columns if name not in given and self._spelt(name) == (name,)]
        return lambda row_group: can_skip(where, statistics_of(row_group, plain))

    def _spelt(self, name: str) -> tuple[str, ...]:
        return self.spellings.get(name, (name,))

    def _values(self, batch: Any, part: ParquetPart, names: Sequence[str]) -> dict[str, Any]:
        return {name: self._read(name, batch, part) for name in names}

    def _read(self, name: str, batch: Any, part: ParquetPart) -> Any:
        """Read a column in its one type. The text of a directory's name is text; what a file lacks is null, as Spark has it."""
        given = dict(part.directories)
        if name in given:
            text = None if given[name] == NULL_PARTITION else given[name]
            return pa.repeat(pa.scalar(text, pa.string()), batch.num_rows)
        here = next((one for one in self._spelt(name) if one in batch.schema.names), None)
        kind = None if name not in self.types else arrow_type(self.types[name])
        if here is None:
            return pa.nulls(batch.num_rows, kind)
        values = batch.column(here)
        return values if kind is None or values.type == kind else convert(values, kind)

    def _make(self, column: Column, batch: Any, part: ParquetPart, values: Mapping[str, Any]) -> Any:
        if column.name in self.computed:
            return self.computed[column.name].run(values, batch.num_rows)
        given = dict(part.directories)
        if column.name not in given:
            return self._read(column.name, batch, part)
        return _repeat(column, part, given[column.name], self.types.get(column.name), batch.num_rows)


def read_rows(reading: Reading, part: ParquetPart, row_groups: list[int]) -> Iterator[Any]:
    """Yield the rows of some row groups that stay, as record batches of the columns c0, c1, ..."""
    yield from reading.batches(part, row_groups)


def _repeat(column: Column, part: ParquetPart, text: str, kind: str | None, rows: int) -> Any:
    """Write the value of a directory's name for each row."""
    if isinstance(column, GroupKey):
        return pa.repeat(pa.scalar(directory_key(text, kind or "string"), pa.string()), rows)
    if isinstance(column, PersonKey | ClusterKey):
        return pa.repeat(pa.scalar(None if text == NULL_PARTITION else text, pa.string()), rows)
    ready = dict(part.directory_values)[column.name]
    if not isinstance(column, Categorical):
        return pa.array(np.full(rows, float(ready)))
    kinds = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
    value = None if ready < 0 else column.categories[int(ready)]
    return pa.repeat(pa.scalar(value, kinds[type(column.categories[0])]), rows)


def _filter(batch: Any, mask: np.ndarray) -> Any:
    if batch.num_columns:
        return batch.filter(pa.array(mask))
    # Without columns a batch is only so many rows.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * int(mask.sum()), pa.struct([])))
