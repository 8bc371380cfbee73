"""The meats of regressions: two passes after the release's own, over the residuals of coefficients that it holds with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.ols import Moments
from dpspark.analysis.sandwich import residual_coefficients
from dpspark.bundle.meats import meat_tables
from dpspark.exact.residuals import Residual
from dpspark.exact.scores import Scores
from dpspark.mechanisms.errors.cluster_meat import ClusterMeats
from dpspark.mechanisms.errors.meat import Meats, NoisyMeat
from dpspark.mechanisms.errors.score_bounds import ScoreBounds
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.mechanisms.regression.base import Rows
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.rows import Report
from dpspark.spec.extras import residual_bounds, score_bounds
from dpspark.spec.spec import Spec

ERROR_PASSES = 2


@dataclass(frozen=True)
class Fitted:
    """What a release says, with noise, of one regression: its coefficients, and the matrix of its terms."""

    coefficients: np.ndarray
    squares: np.ndarray  # scaled


def fitted_of(meats: Meats, moments: Moments) -> list[Fitted]:
    """Fit each regression to a noisy matrix."""
    found = []
    for one in meats.asked.regressions:
        places = list(one.places(meats.domain))
        coefficients = residual_coefficients(moments, one.formula, one.terms(meats.domain))
        found.append(Fitted(coefficients, moments.scaled[np.ix_(places, places)]))
    return found


def make_meats(
    spec: Spec,
    meats: Meats,
    fitted: Sequence[Fitted],
    squares_noise: AdditiveNoise,
    rows: Rows,
    noise: NoiseSource,
    report: Report,
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """Find the clips, add up the meats, draw their noise once; lay out the tables, and what the manifest says of the draw.

    Coefficients and clips are private until the release is published: they travel inside functions.
    """
    domain, regressions = meats.domain, meats.asked.regressions
    residuals = {
        one.text: Residual.of(domain, found.coefficients, domain.terms.index(one.formula.response), one.places(domain))
        for one, found in zip(regressions, fitted, strict=True)
    }
    report("finding the size of residuals")
    clips = residual_bounds(spec).release(rows.residual_histograms(domain, residuals), noise)
    squares = [found.squares for found in fitted]
    if isinstance(meats, ClusterMeats):
        scores = Scores(domain, tuple(residuals.values()), clips)
        noisy, told = _make_clusters(score_bounds(spec), meats, scores, rows, noise, report)
        return meat_tables(domain, regressions, noisy, squares, squares_noise), {"residual_clips": list(clips), **told}
    report("reading residuals")
    exact = rows.residual_grams(domain, tuple(residuals.values()), clips)
    report("adding noise")
    noisy = meats.release(exact, clips, noise)
    return meat_tables(domain, regressions, noisy, squares, squares_noise), {"residual_clips": list(clips)}


def _make_clusters(
    finder: ScoreBounds, meats: ClusterMeats, scores: Scores, rows: Rows, noise: NoiseSource, report: Report
) -> tuple[tuple[NoisyMeat, ...], dict[str, Any]]:
    """Add up the scores of clusters, find the bounds on them, and draw the noise of the meats and of what is beside them."""
    report("adding up the residuals of clusters")
    with rows.clusters(scores) as clusters:
        norms = clusters.norms()
        radii = finder.release(norms, noise)
        grams = clusters.grams(radii)
    report("adding noise")
    noisy, beside = meats.release_clusters(norms, grams, scores.clips, noise)
    units = [meats.unit(at, clip, radius) for at, (clip, radius) in enumerate(zip(scores.clips, radii, strict=True))]
    told = {
        "score_radii": list(radii),
        "score_units": units,
        "clusters": beside.to_manifest([finder.scores] * len(radii)),
    }
    return noisy, told
