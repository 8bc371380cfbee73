"""The meats of regressions: two passes after the release's own, over the residuals of coefficients that it holds with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.ols import Moments, NotIdentified, solve
from dpspark.analysis.sandwich import bread_of, quiet_clip, residual_coefficients
from dpspark.bundle.meats import meat_tables
from dpspark.exact.residuals import Residual, octave_axis, octave_size, octaves
from dpspark.mechanisms.errors.asked import AskedRegression
from dpspark.mechanisms.errors.meat import Meats
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoiseModel
from dpspark.mechanisms.regression.base import Rows
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.rows import Report
from dpspark.spec.extras import residual_bounds
from dpspark.spec.spec import Spec

ERROR_PASSES = 2
LARGEST_RESIDUAL = 2.0  # half-ranges: of predictions that are within the bounds


@dataclass(frozen=True)
class Fitted:
    """What a release says, with noise, of one regression: its coefficients, and the matrix of its terms."""

    coefficients: np.ndarray
    squares: np.ndarray  # scaled
    quiet: float  # the clip up to which the meat's noise is small, in half-ranges of the response


def fitted_of(meats: Meats, moments: Moments) -> list[Fitted]:
    """Fit each regression to a noisy matrix, with what is known of it put in."""
    found, known = [], moments.given(meats.domain.known)
    for at, one in enumerate(meats.asked.regressions):
        places = list(one.places(meats.domain))
        coefficients = residual_coefficients(known, one.formula, one.terms(meats.domain))
        quiet = _quiet(known, one, meats.law_of(at), places)
        found.append(Fitted(coefficients, moments.scaled[np.ix_(places, places)], quiet))
    return found


def _quiet(moments: Moments, one: AskedRegression, meat: NoiseModel, places: list[int]) -> float:
    try:
        plain = solve(moments, one.formula)
    except NotIdentified:
        return 0.0
    bread = bread_of(moments, one.formula, plain)
    return quiet_clip(bread, bread.regressors[places], meat, moments)


def widened(drawn: float, quiet: float) -> float:
    """Choose the clip: what was drawn, or more where noise allows it, up to the largest residual that a fit should have.

    An edge of a cell. Post-processing: both are of released numbers.
    """
    axis = octave_axis("")
    if not quiet > drawn:
        return drawn
    at = float(octaves(np.array([min(quiet, LARGEST_RESIDUAL)]))[0])
    cell = math.floor((at - axis.lowest) / (axis.highest - axis.lowest) * axis.cells)
    return max(drawn, octave_size(axis.edge(max(1, cell))))


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
    drawn = residual_bounds(spec).release(rows.residual_histograms(domain, residuals), noise)
    clips = tuple(widened(clip, found.quiet) for clip, found in zip(drawn, fitted, strict=True))
    report("reading residuals")
    exact = rows.residual_grams(domain, tuple(residuals.values()), clips)
    report("adding noise")
    noisy = meats.release(exact, clips, noise)
    tables = meat_tables(domain, regressions, noisy, [found.squares for found in fitted], squares_noise)
    return tables, {"residual_clips": list(clips)}
