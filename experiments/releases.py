"""dpspark's own releases of arrays in memory: real bounding, exact sums, mechanism and manifest, without Spark or disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.gram import GramContent
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.privacy.noise import NoiseSource
from dpspark.published.gram import GramRelease
from dpspark.releasing.manifest import build_manifest, gram_facts
from dpspark.releasing.tables import scaled_table, second_moment_table
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import load_spec

COMMON = {
    "release": {"name": "evaluation", "version": "1"},
    "ledger": {"url": "sqlite://", "dataset": "none"},
    "output": {"path": "nowhere"},
}


class Releases:
    """As many releases of the same rows as wanted: the exact sums are made once."""

    def __init__(self, rows: Mapping[str, np.ndarray] | np.ndarray | ExactGram, conf: Mapping[str, Any]):
        """`rows` by column; or their exact matrix; or, where they are too many, that matrix in scaled coordinates, as numbers.

        `conf` has columns, privacy and what else a conf can say; the rest does not matter here.
        """
        self.spec = load_spec({**COMMON, **conf})
        self.mechanism = choose_gram(self.spec)
        self.domain = self.mechanism.domain
        self.exact = self._rounded(rows) if isinstance(rows, np.ndarray) else self._summed(rows)
        self._manifest: dict[str, Any] | None = None

    def _summed(self, rows: Mapping[str, np.ndarray] | ExactGram) -> ExactGram:
        if isinstance(rows, ExactGram):
            return rows
        accumulator = GramAccumulator(self.domain)
        arrays = [pa.array(rows[column.name]) for column in self.domain.columns]
        accumulator.add(arrays, len(arrays[0]))
        return ExactGram.from_partials(self.domain, [accumulator.finish()])

    def _rounded(self, matrix: np.ndarray) -> ExactGram:
        upper = matrix[np.triu_indices(self.domain.width)] * self.domain.steps_per_row
        return ExactGram(self.domain, [round(entry) for entry in upper.tolist()])

    def draw(self, noise: NoiseSource) -> GramRelease:
        noisy = self.mechanism.release(self.exact, noise)
        if self._manifest is None:
            self._manifest = build_manifest(self.spec, self.mechanism, gram_facts(self.spec, noisy), "none", "none")
        tables = {"second_moment": second_moment_table(noisy), "scaled": scaled_table(noisy)}
        return GramRelease(GramContent(Path("nowhere"), self._manifest, tables))
