"""At most so many rows of one person: rows of one person meet in one task, sorted, and those with the least keyed hash stay.

Stability: which of a person's rows are kept depends on that person's rows and on the secret alone. So, whatever the secret, a
person who is added adds at most `most` rows, and one who is replaced changes at most `most` for at most `most`; the secret is
drawn before a row is read and is the same for both tables, so that a guarantee for every secret is one for the release.

A row's hash is of its person, its values and its rank among the person's rows with the same values: a retry, another
partitioning or another order of the files keeps the same rows. Rows that could not be used (nulls that drop a row, weight 0, a
group that is not listed) are left out first, row by row, so that they take nobody's place.

This is the way of frames; dpspark.spark.direct_persons keeps the same rows of files that tasks read themselves.

Memory: Spark sorts, and spills to disk; a task holds a batch, and `most` rows of the last person that it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.core.domain import Categorical, Category, category_label
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.failures import UNREADABLE
from dpspark.spark.frames import FrameSource
from dpspark.spark.groups import TASKS_PER_CORE
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.row_order import RowOrder, canonical, ranks_among
from dpspark.spark.usable import Usable


def cap_rows(
    spark: Any, source: FrameSource, usable: Usable, most: int, keep_nulls: bool, random: KeyedRandom
) -> FrameSource:
    """Keep at most `most` rows of each person, and drop the last column, the person's id. One shuffle.

    `keep_nulls`: a row without an id is a person of its own; otherwise it is left out.
    """
    width = usable.width
    names, person = [f"c{i}" for i in range(width)], f"c{width}"
    kinds = dict(source.frame.dtypes)
    frame = source.frame if keep_nulls else source.frame.where(f"{person} is not null")
    frame = frame.selectExpr(*(_seen(usable, i, kinds[f"c{i}"]) for i in range(width)), person)
    # Where a row meets its person's others does not matter to what is kept; those without an id need not meet.
    meeting = f"if({person} is null, xxhash64({', '.join(names)}), xxhash64({person})) as meeting"
    met = frame.selectExpr("*", meeting).repartition(TASKS_PER_CORE * default_parallelism(spark), "meeting")
    # Whole numbers that are one double are one value.
    long = ("bigint", "decimal")
    by = [met[name].cast("double") if kinds[name].split("(")[0] in long else met[name] for name in names]
    ordered = met.sortWithinPartitions(person, *by)
    schema = ", ".join(f"{name} {kinds[name]}" for name in names)
    return replace(source, frame=ordered.mapInArrow(row_keeper(usable, most, random), schema))


def _seen(usable: Usable, at: int, kind: str) -> str:
    """Write SQL for a column in which values that are the same to the release are one, so that they are sorted together."""
    name = f"c{at}"
    if at >= len(usable.domain.columns) or not usable.keeps_nulls:
        return name  # the others are in no usable row
    column = usable.domain.columns[at]
    if isinstance(column, Categorical):
        return f"if({name} in ({', '.join(map(_literal, column.categories))}), {name}, null) as {name}"
    return f"if(isnan({name}), null, {name}) as {name}" if kind in ("float", "double") else name


def _literal(category: Category) -> str:
    text = category_label(category)
    # In hexadecimal no character of a text means anything to SQL.
    return f"cast(unhex('{text.encode().hex()}') as string)" if isinstance(category, str) else text


def row_keeper(usable: Usable, most: int, random: KeyedRandom) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Make a task's function: it takes batches with the person's id in the last column, sorted by it, then by the others."""

    def keep(batches: Iterator[Any]) -> Iterator[Any]:
        cap = ContributionCap(most, random)
        width = usable.width
        for batch in batches:
            try:
                rows = batch.select(list(range(width)))
                values = usable.values(rows)
                mask = usable.mask(values)
                words = usable.words([seen[mask] for seen in values])
                kept = cap.add(batch.column(width).filter(pa.array(mask)), rows.filter(pa.array(mask)), words)
            except Exception as error:
                raise RuntimeError(f"{UNREADABLE}<a batch of rows|{type(error).__name__}>") from None
            yield from kept
        yield from cap.finish()

    return keep


class ContributionCap:
    """A cap on each person's rows: takes rows sorted by person and values, in batches; returns at most `most` of each."""

    def __init__(self, most: int, random: KeyedRandom):
        self.most = most
        self._by = RowOrder(random)
        self._person: bytes | None = None  # the last one seen, who may have more rows to come
        self._held: Any = None  # that person's best rows so far, a batch
        self._order = np.zeros(0, dtype=np.uint64)  # their hashes
        self._last: list[int] = []  # the words of that person's last row
        self._rank = 0  # and its rank among equal ones

    def add(self, people: Any, rows: Any, words: Sequence[np.ndarray]) -> list[Any]:
        """Take more rows, and what the release sees of them; return those that are kept whatever follows.

        A row without a person is one of its own.
        """
        known = pc.is_valid(people)
        if people.null_count:
            alone, mask = [rows.filter(pc.invert(known))], known.to_numpy(zero_copy_only=False)
            people, rows, words = people.filter(known), rows.filter(known), [word[mask] for word in words]
        else:
            alone = []
        return [*alone, *(self._add_known(people, rows, words) if len(people) else [])]

    def finish(self) -> list[Any]:
        held, self._held, self._person = self._held, None, None
        return [] if held is None else [held]

    def _add_known(self, people: Any, rows: Any, words: Sequence[np.ndarray]) -> list[Any]:
        run, names = self._runs(people)
        continues = names[0].as_py() == self._person
        finished = [] if continues else self.finish()
        order = self._hashes(words, run, names, continues)
        if continues:
            rows = pa.Table.from_batches([self._held, rows]).combine_chunks().to_batches()[0]
            run = np.concatenate([np.zeros(len(self._order), dtype=np.int64), run])
            order = np.concatenate([self._order, order])
        kept = _least(run, order, self.most)
        last = run[kept] == run[-1]
        self._held, self._order = rows.take(pa.array(kept[last])), order[kept[last]]
        self._person = names[-1].as_py()
        return [*finished, rows.take(pa.array(kept[~last]))]

    def _runs(self, people: Any) -> tuple[np.ndarray, Any]:
        """Number each row's person within the batch, and list the persons. Fail closed where rows are not sorted."""
        encoded = people.cast(pa.binary()).dictionary_encode()
        run = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        names = encoded.dictionary
        # Numbers are given in order of appearance: a person who came back would lower them, or come before the last one seen.
        together = not (np.diff(run) < 0).any() and pc.all(pc.less(names[:-1], names[1:])).as_py() is not False
        if not together or (self._person is not None and names[0].as_py() < self._person):
            raise ValueError("rows of one person are not together")
        return run, names

    def _hashes(self, words: Sequence[np.ndarray], run: np.ndarray, names: Any, continues: bool) -> np.ndarray:
        """Hash each row with the key; 0 for persons who have few enough rows, of whom all are kept."""
        order = np.zeros(len(run), dtype=np.uint64)
        asked = np.bincount(run) > self.most
        asked[[0, -1]] = True  # the first and the last person may have more rows in other batches
        at = np.flatnonzero(asked[run])
        seen = [canonical(word[at]) for word in words]
        ids = np.zeros(len(names), dtype=np.uint64)
        ids[asked] = self._by.people(names.filter(pa.array(asked)))
        same = np.ones(len(at), dtype=bool)
        for word in (run[at], *seen):
            same[1:] &= word[1:] == word[:-1]
        same[0] = continues and [int(word[0]) for word in seen] == self._last
        ranks = ranks_among(same, self._rank + 1)
        order[at] = self._by.places(ids[run[at]], self._by.fingerprints(seen), ranks)
        self._last, self._rank = [int(word[-1]) for word in seen], int(ranks[-1])
        return order


def _least(run: np.ndarray, order: np.ndarray, most: int) -> np.ndarray:
    """Find the `most` rows with the least hashes in each run; of equal ones the first."""
    ranked = np.lexsort((order, run))
    starts = np.searchsorted(run[ranked], run[ranked])
    return ranked[np.arange(len(ranked)) - starts < most]
