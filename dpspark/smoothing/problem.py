"""What is smoothed: noisy values of groups, how they turn into the numbers of a table, and what a reader must know of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.smoothing.model import Areas
from dpspark.smoothing.simulation import NoiseLaw


@dataclass(frozen=True)
class RowsOfGroups:
    """What is known of the groups' numbers of rows, and of what their lines have in common because of them."""

    noisy: np.ndarray  # n: as published, or public
    noisy_std: float
    likely: np.ndarray  # n × nodes: numbers that are equally likely
    law: NoiseLaw


@dataclass(frozen=True)
class Problem:
    """Groups with k noisy values each, of which a table shows m numbers: shift + shown @ values, in the release's units."""

    groups: pa.Table  # their columns, a row each
    areas: Areas
    raw: np.ndarray  # n × m: as published
    shown: np.ndarray  # m × k
    shift: float
    label: str  # the column that names the m numbers: x or term
    labels: list[Any]
    target: str  # which line or coefficients these are
    covariates: tuple[str, ...]
    notes: dict[str, Any] = field(default_factory=dict)  # for model.json: where the noise comes from
    rows: RowsOfGroups | None = None  # of lines
    beside: dict[str, np.ndarray] = field(default_factory=dict)  # further columns of the table, a number for each group
    parts: np.ndarray | None = None  # n: of how many groups each is made, in effect; each by itself if there are none
    shared: np.ndarray | None = None  # n × k × k: the covariance of an error that groups share, which none can tell
