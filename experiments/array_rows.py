"""Releases of rows in memory, without Spark: by the sums that executors make, and by all that follows them in a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.core.domain import Clip, Domain
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.exact.gradient import ExactGradient
from dpspark.exact.histogram import ExactHistogram, HistogramAccumulator
from dpspark.exact.residuals import (
    ExactSums,
    Residual,
    ResidualGrams,
    ResidualHistograms,
    octave_axis,
    triangle,
)
from dpspark.exact.scores import Scores, SummedClusters, sum_scores
from dpspark.privacy.noise import NoiseSource, OpenDPNoise
from dpspark.releasing.extras import with_bounds
from dpspark.releasing.make import make
from dpspark.releasing.manifest import build_manifest
from dpspark.releasing.rows import SparkRows
from dpspark.spec.choose import Mechanism
from dpspark.spec.extras import bounds_finder
from dpspark.spec.spec import Spec


class ColumnRows(SparkRows):
    """Columns in memory: numbers, or the codes of categories."""

    def __init__(self, columns: Mapping[str, np.ndarray], codes: np.ndarray | None = None):
        super().__init__(None, None, lambda: False)  # type: ignore[arg-type]
        self.columns, self.codes = columns, codes  # codes are of the rows' clusters

    def kept(self, passes: int) -> AbstractContextManager[None]:
        return nullcontext()

    def gram(self, domain: Domain) -> ExactGram:
        return ExactGram.from_partials(domain, [self._added(GramAccumulator(domain), domain)])

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        raise NotImplementedError("no experiment needs gradients of arrays")

    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram:
        found = self._added(ResidualHistograms(domain, tuple(residuals.values())), domain)
        return ExactHistogram.from_partials([octave_axis(name) for name in residuals], [found])

    def residual_grams(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]) -> ExactSums:
        found = self._added(ResidualGrams(domain, residuals, clips), domain)
        return ExactSums.from_partials([found], sum(map(triangle, residuals)))

    def clusters(self, scores: Scores) -> AbstractContextManager[SummedClusters]:
        assert self.codes is not None
        columns = [self.columns[column.name] for column in scores.domain.columns]
        return nullcontext(SummedClusters(scores, sum_scores(scores, columns, self.codes)))

    def _added(self, accumulator: Any, domain: Domain) -> bytes:
        columns = [self.columns[column.name] for column in domain.columns]
        accumulator.add(columns, len(columns[0]))
        found: bytes = accumulator.finish()
        return found


def found_bounds(spec: Spec, mechanism: Mechanism, columns: Mapping[str, np.ndarray], noise: NoiseSource) -> Mechanism:
    """Find private bounds, as a release does first; the mechanism itself where there are none to find."""
    if not spec.axes:
        return mechanism
    counts = HistogramAccumulator(spec.axes)
    values = [columns[axis.name] for axis in spec.axes]
    counts.add(values, len(values[0]))
    found = bounds_finder(spec).release(ExactHistogram.from_partials(spec.axes, [counts.finish()]), noise)
    return with_bounds(mechanism, found)


def release_arrays(
    spec: Spec,
    mechanism: Mechanism,
    columns: Mapping[str, np.ndarray],
    noise: NoiseSource | None = None,
    clusters: np.ndarray | None = None,
) -> GramContent | RegressionContent:
    """Make a release of these rows, as an analyst would read it. `clusters` has the number of each row's cluster."""
    made = make(spec, mechanism, ColumnRows(columns, clusters), noise or OpenDPNoise(), lambda step: None)
    manifest = build_manifest(spec, mechanism, made.found, "experiment", "none")
    kinds: dict[str, Any] = {"gram": GramContent, "regression": RegressionContent}
    found: GramContent | RegressionContent = kinds[spec.release.kind](Path("."), manifest, made.tables)
    return found
