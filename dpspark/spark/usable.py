"""What a release sees of a row, and whether it could use it at all: of each row by itself. Runs on executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.core.domain import Categorical, Domain
from dpspark.exact.bounds import grid_weights, plain_values
from dpspark.spark.groups import GroupList
from dpspark.spark.row_order import BLOCK, hash_texts

LARGEST_WORD = 1 << 63
KEYS = np.arange(1, 65, dtype=np.uint64) * np.uint64(0xD1B54A32D192ED03)  # of the hash of a cluster's key: public


@dataclass(frozen=True)
class Usable:
    """A test of each row by itself: could the release use it at all?"""

    domain: Domain
    groups: GroupList | None = None
    by_value: bool = False  # a null costs its row one value, not the row (quantiles)
    clustered: bool = False  # the key of a row's cluster comes after the domain's columns

    @property
    def width(self) -> int:
        """The columns of a row, without whom it is about."""
        return len(self.domain.read_columns) + self.clustered

    @property
    def keeps_nulls(self) -> bool:
        """Whether a row with a null or an unknown category can be used."""
        return self.domain.nulls != "drop_row" or self.by_value

    def values(self, rows: Any) -> list[np.ndarray]:
        """Find what the release sees of rows: numbers, codes of categories, the group's code, the weight, the cluster's hash.

        `rows` has the domain's read_columns, in order, and the cluster's key.
        """
        domain = self.domain
        found = [plain_values(column, rows.column(i)) for i, column in enumerate(domain.columns)]
        first = len(domain.columns)
        if self.groups is not None:
            found.append(self.groups.codes([rows.column(first + i) for i in range(len(domain.keys))]))
        if domain.weight is not None:
            found.append(plain_values(domain.weight, rows.column(first + len(domain.keys))))
        if self.clustered:
            found.append(_hash_keys(rows.column(len(domain.read_columns))))
        return found

    def mask(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Mark the usable rows by what the release sees of them."""
        domain, keep = self.domain, np.ones(len(values[0]), dtype=bool)
        if not self.keeps_nulls:
            pairs = list(zip(domain.columns, values, strict=False))
            for _, codes in (pair for pair in pairs if isinstance(pair[0], Categorical)):
                keep &= codes >= 0
            keep &= _no_nans([numbers for column, numbers in pairs if not isinstance(column, Categorical)], len(keep))
        if self.groups is not None:
            keep &= values[len(domain.columns)] >= 0
        if domain.weight is not None:
            keep &= grid_weights(domain.weight, values[len(domain.columns) + (self.groups is not None)]) > 0
        return keep

    def words(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Write what the release sees with few words: codes are joined. Usable rows with equal ones are one to it."""
        found = []
        for together in self.layout:
            (first, size), *others = together
            number = self.keeps_nulls and values[first].dtype == np.float64
            word = values[first] + 1 if size else _one_nan(values[first]) if number else values[first]
            for at, size in others:
                word = word * size + (values[at] + 1)
            found.append(word)
        return found

    @property
    def layout(self) -> list[list[tuple[int, int]]]:
        """The values in each word: where they are among all, and for codes the number of them that there can be."""
        sizes = [len(c.categories) + 1 if isinstance(c, Categorical) else 0 for c in self.domain.columns]
        sizes += [] if self.groups is None else [len(self.groups.order) + 1]
        found = [[(at, 0)] for at, size in enumerate(sizes) if not size]
        last = len(sizes) + (self.domain.weight is not None)
        found += [[(at, 0)] for at in range(len(sizes), last + self.clustered)]
        room = 0
        for at, size in enumerate(sizes):
            if size and size > room:
                found.append([])
                room = LARGEST_WORD
            if size:
                found[-1].append((at, size))
                room //= size
        return found


def _no_nans(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Mark rows without a NaN: the largest of some numbers is one if any is."""
    found = np.ones(rows, dtype=bool)
    for start in range(0, rows if columns else 0, BLOCK):
        largest = columns[0][start : start + BLOCK].copy()
        for column in columns[1:]:
            np.maximum(largest, column[start : start + BLOCK], out=largest)
        np.equal(largest, largest, out=found[start : start + BLOCK])
    return found


def _hash_keys(keys: Any) -> np.ndarray:
    """Hash clusters' keys, in files as in frames. Where two collide, rows of one person are taken for alike, no others."""
    plain = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
    encoded = plain.dictionary_encode()
    texts = encoded.dictionary.cast(pa.string())
    hashes = np.append(hash_texts(KEYS, texts), np.uint64(0))  # the last is of no key
    return hashes[pc.fill_null(encoded.indices, len(texts)).to_numpy(zero_copy_only=False)]


def _one_nan(numbers: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(numbers), np.nan, numbers)
