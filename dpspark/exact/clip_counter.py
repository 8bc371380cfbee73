"""The number of values that the bounds cut off, counted in the pass that adds up the matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpspark.core.domain import Domain, Numeric


class ClipCounter:
    """A counter of values strictly below and strictly above each numeric column's bounds; ±inf counts, a null does not.

    Stability: a row adds (its weight, in grid steps) to at most one of a column's two counts. Rows that the null policy
    drops add to none, so that the counts are shares of the rows in the matrix. Where the matrix does not say how many rows
    there are, the last count does: a row adds 1.
    """

    def __init__(self, domain: Domain):
        self.domain = domain
        self.counts = np.zeros(domain.clip_counts, dtype=np.int64)

    def add(self, ready: Sequence[np.ndarray], weights: np.ndarray | None) -> None:
        """Count the values of `ready` (as for `bounds.grid_rows`) before scaling, which could round one over its bound."""
        kept = self._kept(ready)
        at = 0
        for column, values in zip(self.domain.columns, ready, strict=True):
            if isinstance(column, Numeric):
                for outside in (values < column.lower, values > column.upper):
                    if kept is not None:
                        outside &= kept
                    self.counts[at] += np.count_nonzero(outside) if weights is None else int(weights[outside].sum())
                    at += 1
        if not self.domain.first_entry_counts:
            self.counts[at] += len(ready[0]) if kept is None else np.count_nonzero(kept)

    def _kept(self, ready: Sequence[np.ndarray]) -> np.ndarray | None:
        if self.domain.nulls != "drop_row":
            return None
        kept = np.ones(len(ready[0]), dtype=bool)
        for column, values in zip(self.domain.columns, ready, strict=True):
            kept &= ~np.isnan(values) if isinstance(column, Numeric) else values >= 0
        return kept
