"""Many groups at once, as a task of an executor has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np

from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.plane import SimpleFit
from dpspark.privacy.keyed import KeyedRandom

Labels = tuple[str | bytes | int, ...]


class Kernel(Protocol):
    """The part that executors run on each group: it is pickled, with all that it needs."""

    @property
    def grid(self) -> Grid | None:
        """The grid of lines that it draws from, if it does."""
        ...

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        """A group's line. The same secret, labels and rows give the same line."""
        ...

    def quieter(self, times: float) -> Self:
        """The same with so many times less noise: for simulations, and for copies that are broken on purpose."""
        ...


def fit_groups(
    kernel: Kernel, x: np.ndarray, y: np.ndarray, offsets: np.ndarray, labels: Sequence[Labels], random: KeyedRandom
) -> list[SimpleFit]:
    """A line for every group: rows offsets[g] to offsets[g + 1] − 1 are those of group g. Groups without rows have one too.

    Labels name a group in its release: no two groups, and no two releases with one secret, may have the same.
    """
    if len(offsets) != len(labels) + 1 or len(set(labels)) != len(labels):
        raise ValueError("expected one more offset than groups, and different labels for each group")
    return [
        kernel.fit(x[start:end], y[start:end], random, *label)
        for start, end, label in zip(offsets[:-1].tolist(), offsets[1:].tolist(), labels, strict=True)
    ]
