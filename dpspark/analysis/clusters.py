"""The clusters of a release's standard errors, as far as they were released."""

from __future__ import annotations

import math
from dataclasses import dataclass

FEW_CLUSTERS = 50  # below, errors by clusters are known to be too small


@dataclass(frozen=True)
class ReleasedClusters:
    """The clusters of one regression's meat, with noise."""

    by: str  # the column
    people: bool  # a cluster is a person
    count: float
    count_std: float
    squares: float  # Σ clip(r)², in scaled coordinates
    kept: float  # norms of scores over what their bound, with head-room, can be expected to take away
    reach: float  # that bound, in the mean size of scores on an axis
    headroom: float  # that bound over the one that was drawn

    def beyond(self, tail: float, axes: int) -> float:
        """Estimate what Σ‖t‖² misses beyond the bound C, in C², where the logarithm of the excess falls with this power."""
        fall = math.log(self.kept) / self.headroom * self.headroom**tail
        return 2 * math.exp(-fall) * math.sqrt(axes) * self.count * (1 + 1 / (tail * fall)) / self.reach

    def in_words(self) -> str:
        few = f" Fewer than {FEW_CLUSTERS} are too few to rely on." if self.count < FEW_CLUSTERS else ""
        return f"clustered by {self.by}, about {max(round(self.count), 0):,} clusters.{few}"
