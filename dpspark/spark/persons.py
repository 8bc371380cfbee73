"""At most so many rows of one person: rows of one person meet in one task, sorted, and those with the least keyed hash stay.

Stability: which of a person's rows are kept depends on that person's rows and on the secret alone. So, whatever the secret, a
person who is added adds at most `most` rows, and one who is replaced changes at most `most` for at most `most`; the secret is
drawn before a row is read and is the same for both tables, so that a guarantee for every secret is one for the release.

A row's hash is of its person, its values and its rank among the person's rows with the same values: a retry, another
partitioning or another order of the files keeps the same rows. Rows that could not be used (nulls that drop a row, weight 0, a
group that is not listed) are left out first, row by row, so that they take nobody's place.

Memory: Spark sorts, and spills to disk; a task holds a batch, and `most` rows of the last person that it has seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.core.domain import Categorical, Domain
from dpspark.exact.bounds import grid_weights, plain_values
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.buckets import sip_hash
from dpspark.spark.failures import UNREADABLE
from dpspark.spark.frames import FrameSource
from dpspark.spark.groups import TASKS_PER_CORE, GroupList
from dpspark.spark.parallelism import default_parallelism


@dataclass(frozen=True)
class Usable:
    """A test of each row by itself: could the release use it at all?"""

    domain: Domain
    groups: GroupList | None = None
    by_value: bool = False  # a null costs its row one value, not the row (quantiles)

    def mask(self, rows: Any) -> np.ndarray:
        """Mark the usable rows. `rows` has the domain's read_columns, in order."""
        domain, keep = self.domain, np.ones(rows.num_rows, dtype=bool)
        if domain.nulls == "drop_row" and not self.by_value:
            for i, column in enumerate(domain.columns):
                values = plain_values(column, rows.column(i))
                keep &= values >= 0 if isinstance(column, Categorical) else ~np.isnan(values)
        first = len(domain.columns)
        if self.groups is not None:
            keep &= self.groups.codes([rows.column(first + i) for i in range(len(domain.keys))]) >= 0
        if domain.weight is not None:
            weights = plain_values(domain.weight, rows.column(first + len(domain.keys)))
            keep &= grid_weights(domain.weight, weights) > 0
        return keep


def cap_rows(
    spark: Any, source: FrameSource, usable: Usable, most: int, keep_nulls: bool, random: KeyedRandom
) -> FrameSource:
    """Keep at most `most` rows of each person, and drop the last column, the person's id. One shuffle.

    `keep_nulls`: a row without an id is a person of its own; otherwise it is left out.
    """
    width = len(usable.domain.read_columns)
    names, person = [f"c{i}" for i in range(width)], f"c{width}"
    kinds = dict(source.frame.dtypes)
    frame = source.frame if keep_nulls else source.frame.where(f"{person} is not null")
    # Where a row meets its person's others does not matter to what is kept; those without an id need not meet.
    meeting = f"if({person} is null, xxhash64({', '.join(names)}), xxhash64({person})) as meeting"
    met = frame.selectExpr("*", meeting).repartition(TASKS_PER_CORE * default_parallelism(spark), "meeting")
    ordered = met.sortWithinPartitions(person, *names)
    schema = ", ".join(f"{name} {kinds[name]}" for name in names)
    return replace(source, frame=ordered.mapInArrow(row_keeper(usable, most, random), schema))


def row_keeper(usable: Usable, most: int, random: KeyedRandom) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Make a task's function: it takes batches with the person's id in the last column, sorted by it, then by the others."""

    def keep(batches: Iterator[Any]) -> Iterator[Any]:
        cap = ContributionCap(most, random)
        width = len(usable.domain.read_columns)
        for batch in batches:
            try:
                rows = batch.select(list(range(width)))
                mask = pa.array(usable.mask(rows))
                kept = cap.add(batch.column(width).filter(mask), rows.filter(mask))
            except Exception as error:
                raise RuntimeError(f"{UNREADABLE}<a batch of rows|{type(error).__name__}>") from None
            yield from kept
        yield from cap.finish()

    return keep


class ContributionCap:
    """A cap on each person's rows: takes rows sorted by person and values, in batches; returns at most `most` of each."""

    def __init__(self, most: int, random: KeyedRandom):
        self.most = most
        self._key = random.stream("contribution").bytes(16)
        self._person: bytes | None = None  # the last one seen, who may have more rows to come
        self._held: Any = None  # that person's best rows so far, a batch
        self._order = np.zeros(0, dtype=np.uint64)  # their hashes
        self._last: list[int] = []  # the words of that person's last row
        self._rank = 0  # and its rank among equal ones

    def add(self, people: Any, rows: Any) -> list[Any]:
        """Take more rows; return those that are kept whatever follows. A row without a person is one of its own."""
        known = pc.is_valid(people)
        alone = [rows.filter(pc.invert(known))] if people.null_count else []
        people, rows = people.filter(known), rows.filter(known)
        return [*alone, *(self._add_known(people, rows) if len(people) else [])]

    def finish(self) -> list[Any]:
        held, self._held, self._person = self._held, None, None
        return [] if held is None else [held]

    def _add_known(self, people: Any, rows: Any) -> list[Any]:
        run, names = self._runs(people)
        continues = names[0] == self._person
        finished = [] if continues else self.finish()
        order = self._hashes(rows, run, names, continues)
        if continues:
            rows = pa.Table.from_batches([self._held, rows]).combine_chunks().to_batches()[0]
            run = np.concatenate([np.zeros(len(self._order), dtype=np.int64), run])
            order = np.concatenate([self._order, order])
        kept = _least(run, order, self.most)
        last = run[kept] == run[-1]
        self._held, self._order, self._person = rows.take(pa.array(kept[last])), order[kept[last]], names[-1]
        return [*finished, rows.take(pa.array(kept[~last]))]

    def _runs(self, people: Any) -> tuple[np.ndarray, list[bytes]]:
        """Number each row's person within the batch, and list the persons. Fail closed where rows are not sorted."""
        encoded = people.cast(pa.binary()).dictionary_encode()
        run = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        names: list[bytes] = encoded.dictionary.to_pylist()
        # Numbers are given in order of appearance: a person who came back would lower them, or come before the last one seen.
        together = not (np.diff(run) < 0).any() and names == sorted(names)
        if not together or (self._person is not None and names[0] < self._person):
            raise ValueError("rows of one person are not together")
        return run, names

    def _hashes(self, rows: Any, run: np.ndarray, names: list[bytes], continues: bool) -> np.ndarray:
        """Hash each row with the key; 0 for persons who have few enough rows, of whom all are kept."""
        order = np.zeros(len(run), dtype=np.uint64)
        asked = np.bincount(run) > self.most
        asked[[0, -1]] = True  # the first and the last person may have more rows in other batches
        at = np.flatnonzero(asked[run])
        words = content_words(rows.take(pa.array(at)), self._key)
        ids = np.array([_text_word(names[i], self._key) if asked[i] else 0 for i in range(len(names))], dtype=np.uint64)
        same = np.ones(len(at), dtype=bool)
        for word in (run[at], *words):
            same[1:] &= word[1:] == word[:-1]
        same[0] = continues and [int(word[0]) for word in words] == self._last
        ranks = _ranks(same, self._rank + 1)
        order[at] = sip_hash(self._key, [ids[run[at]], *words, ranks.astype(np.uint64)])
        self._last, self._rank = [int(word[-1]) for word in words], int(ranks[-1])
        return order


def _ranks(same: np.ndarray, before: int) -> np.ndarray:
    """Count the rows like it that come before each. The first ones may go on from `before` rows of an earlier batch."""
    at = np.arange(len(same))
    ranks = at - np.maximum.accumulate(np.where(same, 0, at))
    return np.where(np.logical_and.accumulate(same), ranks + before, ranks)


def _least(run: np.ndarray, order: np.ndarray, most: int) -> np.ndarray:
    """Find the `most` rows with the least hashes in each run; of equal ones the first."""
    ranked = np.lexsort((order, run))
    starts = np.searchsorted(run[ranked], run[ranked])
    return ranked[np.arange(len(ranked)) - starts < most]


def content_words(rows: Any, key: bytes) -> list[np.ndarray]:
    """Write a row's values as 64-bit words, one array a column, and which are null.

    −0.0 and 0.0 are one value, and so are NaNs.
    """
    words, nulls = [], [np.zeros(rows.num_rows, dtype=np.uint64) for _ in range(-(-rows.num_columns // 64))]
    for i, values in enumerate(rows.columns):
        missing = pc.is_null(values).to_numpy(zero_copy_only=False)
        nulls[i // 64] |= missing.astype(np.uint64) << np.uint64(i % 64)
        words.append(np.where(missing, np.uint64(0), _words(values, key)))
    return [*words, *nulls]


def _words(values: Any, key: bytes) -> np.ndarray:
    """Write a column's values as 64-bit words; any word for a null."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.dictionary_decode(), kind.value_type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        whole = pc.fill_null(values.cast(pa.int64(), safe=False), 0)
        return whole.to_numpy(zero_copy_only=False).view(np.uint64)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = pc.fill_null(values.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    encoded = pc.fill_null(values.cast(pa.binary()), b"").dictionary_encode()
    texts = np.array([_text_word(text, key) for text in encoded.dictionary.to_pylist()], dtype=np.uint64)
    return texts[encoded.indices.to_numpy(zero_copy_only=False)]


def _text_word(text: bytes, key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key).digest(), "little")
