"""Randomness expanded from one secret by a keyed hash, for draws that happen on executors.

The driver draws a 256-bit secret once; everything a group needs follows from the secret and the group's labels. So a task that
is retried, or run twice at once, repeats its draw instead of adding a second one. To whoever lacks the secret the words are as
good as uniform (SHAKE256 with the secret in front is a pseudo-random function: a sponge has no length extension).

All draws below are exact given uniform words: by rejection, never by rounding.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from fractions import Fraction
from typing import NoReturn

import numpy as np

from dpspark.privacy.weights import BITS, exp_minus

SECRET_BYTES = 32
FIRST_CHUNK, LARGEST_CHUNK = (
    512,
    1 << 16,
)  # bytes; a fixed schedule, so that words do not depend on how they are asked for
SHORT = 1000  # rows that 32-bit words put in order: two of them tie once in 10^4 permutations
CLEAR = 2.0**-40  # a float's comparison is believed only this far from a tie


class KeyedRandom:
    """A secret and the streams that come from it. Shows nothing of itself; travels only inside a pickled function."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes):
        if not isinstance(secret, bytes) or len(secret) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes")
        self._secret = secret

    @classmethod
    def fresh(cls) -> KeyedRandom:
        """Take a new secret from the operating system."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    def stream(self, *labels: str | bytes | int) -> Stream:
        """Open the stream of these labels. Other labels, or the same in another order, give unrelated words."""
        return Stream(self._secret + b"".join(map(_encode, labels)))

    def __repr__(self) -> str:
        return "KeyedRandom(not shown)"

    def __format__(self, _: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyedRandom) and secrets.compare_digest(self._secret, other._secret)

    def __hash__(self) -> NoReturn:
        raise TypeError("KeyedRandom is secret and has no hash")


def _encode(label: str | bytes | int) -> bytes:
    """Write a label as its kind, its length and itself: no two lists of labels have the same bytes."""
    kind, text = (
        (b"i", str(int(label)).encode())
        if isinstance(label, int)
        else (b"s", label.encode("utf-8", "surrogatepass"))
        if isinstance(label, str)
        else (b"b", bytes(label))
    )
    return kind + len(text).to_bytes(8, "big") + text


class Stream:
    """A sequence of uniform bits, read once from front to back."""

    __slots__ = ("_at", "_buffer", "_chunks", "_hash")

    def __init__(self, key: bytes):
        self._hash = hashlib.shake_256(key)
        self._chunks, self._buffer, self._at = 0, b"", 0

    def bytes(self, count: int) -> bytes:
        parts, have = [], len(self._buffer) - self._at
        while have < count:
            block = self._hash.copy()
            block.update(b"#" + self._chunks.to_bytes(8, "big"))
            parts.append(block.digest(min(FIRST_CHUNK << min(self._chunks, 20), LARGEST_CHUNK)))
            have += len(parts[-1])
            self._chunks += 1
        if parts:  # joined once: the buffer may be long
            self._buffer, self._at = b"".join([self._buffer[self._at :], *parts]), 0
        self._at += count
        return self._buffer[self._at - count : self._at]

    def words(self, count: int) -> np.ndarray:
        """Read uniform 64-bit words."""
        return np.frombuffer(self.bytes(8 * count), dtype="<u8")

    def bits(self, count: int) -> int:
        """Read a uniform whole number of that many bits."""
        return int.from_bytes(self.bytes((count + 7) // 8), "big") >> (-count % 8)

    def below(self, limit: int) -> int:
        """Draw a whole number from 0 to limit − 1, each exactly as likely as the others, however long they are."""
        drawn = self.below_between(limit, limit)
        assert drawn is not None  # the limit is known
        return drawn

    def below_between(self, least: int, most: int) -> int | None:
        """Draw what `below` draws with a limit from `least` to `most`; None if that depends on the limit."""
        if least < 1:
            raise ValueError(f"limit={least}; expected at least 1")
        length = (least - 1).bit_length()
        if (most - 1).bit_length() != length:
            return None
        while (drawn := self.bits(length) if length else 0) >= least:
            if drawn < most:
                return None
        return drawn

    def bernoulli(self, chance: Fraction) -> bool:
        return self.below(chance.denominator) < chance.numerator

    def bernoulli_exp(self, x: Fraction | int) -> bool:
        """Draw true with probability e^(−x), x >= 0: does a uniform number of (at first) 64 bits lie below it?

        A float decides unless it is near; then BITS more bits of the same number, and as many of e^(−x), do. The cut at
        2^−(BITS + 64) is relative to a probability that is not small: large x are a product of such factors.
        """
        whole = math.floor(x)
        for _ in range(whole):
            if not self._below_exp(Fraction(1)):
                return False
        rest = Fraction(x) - whole
        return not rest or self._below_exp(rest)

    def _below_exp(self, x: Fraction) -> bool:
        first = self.bits(64)
        gap = first * 2.0**-64 - math.exp(-float(x))
        if abs(gap) > CLEAR:
            return gap < 0
        return first << BITS | self.bits(BITS) < exp_minus(x, BITS + 64)

    def permutations(self, count: int, size: int) -> np.ndarray:
        """Draw independent uniform permutations, one a row: the order of distinct random words."""
        if size < 2:
            return np.zeros((count, size), dtype=np.int64)
        width = 4 if size <= SHORT else 8
        while True:
            keys = np.frombuffer(self.bytes(width * count * size), dtype=f"<u{width}").reshape(count, size)
            ranked = np.sort(keys, axis=1)
            if (ranked[:, 1:] != ranked[:, :-1]).all():  # ties, which are rare, would favour the first
                return np.argsort(keys, axis=1)

    def discrete_laplace(self, scale: Fraction) -> int:
        """Draw k with P(k) proportional to e^(−|k|/scale). Canonne, Kamath & Steinke (2020), Algorithm 2."""
        t, s = scale.numerator, scale.denominator
        while True:
            u = self.below(t)
            if not self.bernoulli_exp(Fraction(u, t)):
                continue
            v = 0
            while self._below_exp(Fraction(1)):
                v += 1
            size, negative = (u + t * v) // s, self.bits(1)
            if size or not negative:
                return -size if negative else size

    def discrete_gaussian(self, sigma: Fraction) -> int:
        """Draw k with P(k) proportional to e^(−k²/2σ²). Canonne, Kamath & Steinke (2020), Algorithm 3."""
        variance = sigma * sigma
        t = math.floor(sigma) + 1
        while True:
            drawn = self.discrete_laplace(Fraction(t))
            if self.bernoulli_exp((abs(drawn) - variance / t) ** 2 / (2 * variance)):
                return drawn

    def __repr__(self) -> str:
        return "Stream(not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Stream is secret: take it from a KeyedRandom where it is used")
