"""The keyed order of a person's rows, of which the first ones are kept. Runs on executors.

A row is what the release sees of it: numbers as doubles, codes of categories and of groups, the weight. Its fingerprint is a
keyed 64-bit hash of these words, and its place a keyed hash of its person, its fingerprint and its rank among the person's rows
with that fingerprint. Nothing rests on the strength of the hash but that each row is as likely as the others: the cap is
stable whatever the hash is, as rows with one fingerprint are put in order by their words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.privacy.keyed import KeyedRandom

BLOCK = 16_384  # rows that are hashed at once: they stay in the processor's cache
KEYS = 64  # more words than that take them in turns
HALF, THIRD = np.uint64(32), np.uint64(29)
MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)  # of the first bytes of a word


class RowOrder:
    """What a secret makes of rows and people."""

    def __init__(self, random: KeyedRandom):
        labels = ("rows", "people", "order", "meeting")
        rows, people, order, meeting = (random.stream("contribution", label).words(KEYS) for label in labels)
        self._rows, self._people, self._order, self._meeting = rows, people, order, meeting

    def fingerprints(self, words: Sequence[np.ndarray]) -> np.ndarray:
        """Hash rows, given as an array for each of their words. Rows of one word each never collide."""
        return mix_words(self._rows, words)

    def people(self, ids: Any) -> np.ndarray:
        """Hash ids: text, or whole numbers, which have the hash of their text."""
        texts = ids.cast(pa.string()) if pa.types.is_integer(ids.type) else ids
        return hash_texts(self._people, texts)

    def places(self, people: np.ndarray, fingerprints: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Find the place of each row among its person's: the least are kept. `people` are hashes."""
        return mix_words(self._order, [people, fingerprints, ranks])

    def meeting(self, ids: Any, parts: int) -> np.ndarray:
        """Choose the task where each id's rows meet: of 64-bit numbers or bytes. It does not matter to what is kept."""
        if pa.types.is_integer(ids.type):
            hashed = ids.to_numpy(zero_copy_only=False).view(np.uint64) * (self._meeting[0] | np.uint64(1))
        else:
            hashed = hash_texts(self._meeting, ids)
        return ((hashed >> HALF) * np.uint64(parts) >> HALF).astype(np.int32 if parts > 1 << 16 else np.uint16)


def canonical(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Write values as 64-bit words. −0.0 and 0.0 are one value."""
    if values.dtype != np.float64:
        return values.astype(np.int64, copy=False).view(np.uint64)
    return np.add(values, 0.0, out=None if out is None else out.view(np.float64)).view(np.uint64)


def mix_words(keys: np.ndarray, words: Sequence[np.ndarray]) -> np.ndarray:
    """Hash rows with keys: each word is added to the hash so far, which is then mixed by keyed multiplications."""
    rows = len(words[0])
    hashed = np.full(rows, keys[0])
    room = np.empty(min(rows, BLOCK), dtype=np.uint64)
    for start in range(0, rows, BLOCK):
        part = hashed[start : start + BLOCK]
        spare = room[: len(part)]
        for i, word in enumerate(words):
            part ^= (
                word[start : start + BLOCK]
                if word.dtype == np.uint64
                else canonical(word[start : start + BLOCK], spare)
            )
            _mix(part, keys[i % len(keys)] | np.uint64(1), spare)
    return hashed


def _mix(hashed: np.ndarray, key: np.uint64, spare: np.ndarray) -> None:
    """Mix words in place, one to one: halves of them, multiplied twice by an odd key."""
    for shift, last in ((HALF, False), (THIRD, False), (HALF, True)):
        np.right_shift(hashed, shift, out=spare)
        hashed ^= spare
        if not last:
            hashed *= key


def hash_texts(keys: np.ndarray, texts: Any) -> np.ndarray:
    """Hash texts (or bytes) with keys, eight bytes at a time; nulls have any hash."""
    texts = texts.cast(pa.large_binary())
    buffers = texts.buffers()
    ends = np.frombuffer(buffers[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    starts, lengths = ends[:-1], np.diff(ends)
    data = np.zeros(
        int(ends[-1] - ends[0]) + 8 if len(texts) else 8, dtype=np.uint8
    )  # a word may begin at the last byte
    if len(texts) and buffers[2] is not None:
        data[:-8] = np.frombuffer(buffers[2], np.uint8)[ends[0] : ends[-1]]
        starts = starts - ends[0]
    every = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))  # the word that begins at each byte
    hashed = mix_words(keys, [lengths])
    for at in range(0, int(lengths.max(initial=0)), 8):
        longer = np.flatnonzero(lengths > at) if at else slice(None)
        word = every[np.minimum(starts[longer] + at, len(every) - 1)] & MASKS[np.minimum(lengths[longer] - at, 8)]
        part = hashed[longer] ^ word
        _mix(part, keys[(at // 8 + 1) % len(keys)] | np.uint64(1), word)
        hashed[longer] = part
    return hashed


def ranks_among(same: np.ndarray, before: int = 0) -> np.ndarray:
    """Count the rows like it that come before each: `same` marks rows that are like the one before them.

    The first ones may go on from `before` rows of an earlier batch.
    """
    at = np.arange(len(same))
    ranks = at - np.maximum.accumulate(np.where(same, 0, at))
    return np.where(np.logical_and.accumulate(same), ranks + before, ranks)
