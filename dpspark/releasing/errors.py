"""The meats of regressions: two passes after the release's own, over the residuals of coefficients that it holds with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.ols import Moments, NotIdentified, solve
from dpspark.analysis.sandwich import bread_of, quiet_clip, residual_coefficients
from dpspark.bundle.meats import meat_tables
from dpspark.exact.residuals import Residual
from dpspark.exact.scores import EDGES, Scores
from dpspark.mechanisms.errors.asked import AskedRegression
from dpspark.mechanisms.errors.clip import widened
from dpspark.mechanisms.errors.cluster_meat import ClusterMeats
from dpspark.mechanisms.errors.meat import Meats, NoisyMeat
from dpspark.mechanisms.errors.score_bounds import ScoreBounds, with_headroom
from dpspark.mechanisms.errors.score_map import ScoreMap, axes_of, weighted_score
from dpspark.mechanisms.gram.coordinates import turn_of
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoiseModel
from dpspark.mechanisms.regression.base import ClusteredRows
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
    quiet: float  # the clip up to which the meat's noise is small, in half-ranges of the response


def fitted_of(meats: Meats, scaled: np.ndarray, noise: NoiseModel) -> list[Fitted]:
    """Fit each regression to a noisy matrix, with what is known of it put in."""
    found, turn = [], turn_of(meats.domain)
    known = Moments.of(meats.domain, scaled, noise).given(meats.domain.known)
    for at, one in enumerate(meats.asked.regressions):
        places = list(one.places(meats.domain))
        coefficients = residual_coefficients(known, one.formula, one.terms(meats.domain), turn)
        quiet = _quiet(known, one, meats.law_of(at), places)
        found.append(Fitted(coefficients, scaled[np.ix_(places, places)], quiet))
    return found


def _quiet(moments: Moments, one: AskedRegression, meat: NoiseModel, places: list[int]) -> float:
    try:
        plain = solve(moments, one.formula)
    except NotIdentified:
        return 0.0
    bread = bread_of(moments, one.formula, plain)
    return quiet_clip(bread, bread.regressors[places], meat, moments)


def make_meats(
    spec: Spec,
    meats: Meats,
    fitted: Sequence[Fitted],
    squares_noise: AdditiveNoise,
    rows: ClusteredRows,
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
    bounds = residual_bounds(spec)
    drawn = bounds.release(rows.residual_histograms(domain, residuals), noise)
    squares = [found.squares for found in fitted]
    if isinstance(meats, ClusterMeats):
        axes = [axes_of(one.regressors(domain), each) for one, each in zip(regressions, squares, strict=True)]
        scores = Scores(domain, tuple(residuals.values()), drawn, tuple(axes))
        noisy, told = _make_clusters(score_bounds(spec), meats, scores, rows, noise, report)
        return meat_tables(domain, regressions, noisy, squares, squares_noise), {"residual_clips": list(drawn), **told}
    clips = tuple(widened(clip, found.quiet, bounds.draws.rank) for clip, found in zip(drawn, fitted, strict=True))
    report("reading residuals")
    exact = rows.residual_grams(domain, tuple(residuals.values()), clips)
    report("adding noise")
    noisy = meats.release(exact, clips, noise)
    return meat_tables(domain, regressions, noisy, squares, squares_noise), {"residual_clips": list(clips)}


def _make_clusters(
    finder: ScoreBounds, meats: ClusterMeats, scores: Scores, rows: ClusteredRows, noise: NoiseSource, report: Report
) -> tuple[tuple[NoisyMeat, ...], dict[str, Any]]:
    """Add up the scores of clusters; find scales and bounds for them; draw the noise of the meats."""
    report("adding up the residuals of clusters")
    with rows.clusters(scores) as clusters:
        beside = meats.release_beside(clusters.totals(), noise)
        scales = beside.scales
        sizes = [weighted_score(*pair) for pair in zip(scores.axes, scales, strict=True)]
        edges = finder.release(clusters.norms(scales), sizes, noise)
        radii = [
            with_headroom(edge, partial(meats.relative_noise, axes.width, size, beside.count))
            for edge, axes, size in zip(edges, scores.axes, sizes, strict=True)
        ]
        grams = clusters.grams(scales, radii)
    report("adding noise")
    maps = [ScoreMap(*each) for each in zip(scores.axes, scales, scores.clips, radii, strict=True)]
    noisy = meats.release_meats(grams, maps, noise)
    told = {
        "score_shifts": [list(axes.shifts) for axes in scores.axes],
        "score_scales": [list(each) for each in scales],
        "score_bounds": [int(EDGES[edge]) for edge in edges],
        "score_radii": list(radii),
        "score_units": [meats.unit(each) for each in maps],
        "clusters": {**beside.to_manifest(), "target": finder.target},
    }
    return noisy, told
