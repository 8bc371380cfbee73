"""Pairs of a group's records, and the values of their lines at the public anchors.

k independent, uniformly random (near-)perfect matchings of positions, from the group's secret stream. A record is in at most k
pairs, so a replaced one changes at most k values.

Why an added record also moves each matching by one pair at most (in distribution, so that the secret must be fresh and the
rows' keys must not come from a public hash): couple a uniform matching of n records with one of n + 1.
  n odd   the record left over marries the new one: a bijection onto perfect matchings. One pair is added.
  n even  each matching of n + 1 leaves one record i out. Drop the new record's pair (new, j) and marry j to i: each perfect
          matching of n has exactly n + 1 preimages (the new one left out; or (new, j) with i left out, for both ends of each of
          the n/2 pairs). One pair is replaced, or none.
Shuffling first is essential: to cut a table to even length *before* the shuffle (OpenDP #2950) loses this.
"""

from __future__ import annotations

import numpy as np

from dpspark.mechanisms.lines.plane import FINE, Rows
from dpspark.privacy.keyed import Stream

CELLS = 1 << 20  # of the candidates' grid
MATCHINGS = 10


def matchings(rows: int, count: int, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """The two ends of every pair of `count` matchings, as positions. 0 or 1 rows have no pairs."""
    order = stream.permutations(count, rows)
    half = rows // 2
    return order[:, :half].ravel(), order[:, half : 2 * half].ravel()


def all_pairs(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """List every pair: a record is in rows − 1 of them, so the number of rows must be public."""
    first, second = np.triu_indices(rows, 1)
    return first, second


def values_at(
    rows: Rows,
    pairs: tuple[np.ndarray, np.ndarray],
    anchors: tuple[float, ...],
    candidates: tuple[float, float],
    cells: int = CELLS,
    ties: Stream | None = None,
) -> list[np.ndarray]:
    """Find for each anchor the edge (0 to cells) nearest to the value of each pair's line, clipped to the candidates.

    Each is a function of its two records alone. A pair with one x has no line: it is left out, or, where the number of values
    must not depend on the data, goes to an end by a coin from `ties`, one for every pair.
    """
    (x0, y0), (x1, y1) = ((rows.x[end], rows.y[end]) for end in pairs)
    run = (x1 - x0).astype(float)
    level = run != 0
    slope = (y1 - y0) / np.where(level, run, 1.0)
    middle_x, middle_y = (x0 + x1) / 2, (y0 + y1) / 2
    coins = None if ties is None else ties.words(len(run)) & np.uint64(1)
    low, high = candidates
    result = []
    for anchor in anchors:
        value = (middle_y + slope * (anchor * FINE - middle_x)) / FINE
        edge = np.rint(np.clip((value - low) / (high - low), 0.0, 1.0) * cells).astype(np.int64)
        result.append(
            edge[level] if coins is None else np.where(level, edge, (coins * np.uint64(cells)).astype(np.int64))
        )
    return result
