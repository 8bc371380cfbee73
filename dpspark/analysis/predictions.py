"""Predictions with intervals, the privacy noise in them. Post-processing: no cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpspark.errors import ConfError

if TYPE_CHECKING:
    import pandas as pd

    from dpspark.analysis.regression import Regression

INTERVALS = ("confidence", "prediction")


def check_interval(interval: str) -> str:
    if interval not in INTERVALS:
        raise ConfError(f"predict: interval={interval!r}; expected one of {', '.join(INTERVALS)}.")
    return interval


def predictions(fit: Regression, design: np.ndarray, fitted: np.ndarray, interval: str, level: float) -> pd.DataFrame:
    """Make a row for each row of the design: estimate, std_error, ci_low, ci_high; NaN where the fit has no intervals.

    confidence: of the mean response at such values; prediction: of one more response, its residual of variance sigma².
    The privacy noise of sigma² itself makes the degrees of freedom of a prediction fewer.
    """
    import pandas as pd

    _, covariance = fit._inference()
    variance = np.einsum("ij,jk,ik->i", design, covariance, design)
    dfs = np.array([fit._df_of(row) for row in design]) if len(design) else np.zeros(0)
    if check_interval(interval) == "prediction":
        variance = variance + fit.sigma2
        dfs = fewer_df(dfs, variance, fit._sigma2_noise())
    error = np.sqrt(np.maximum(variance, 0.0))  # NaN stays
    reach = special.stdtrit(dfs, (1 + level) / 2) * error
    return pd.DataFrame({"estimate": fitted, "std_error": error, "ci_low": fitted - reach, "ci_high": fitted + reach})


def fewer_df(dfs: np.ndarray, variance: np.ndarray, noise: float) -> np.ndarray:
    """Degrees of freedom of a t whose variance has normal noise of this standard deviation, besides its own chi-squared error.

    By Satterthwaite (1946) noise τ alone would leave 2·v²/τ². Here v² is v² + τ²: never fewer than 2, as an estimate v that
    is small by chance would have far too few.
    """
    if not noise > 0:
        return dfs
    return 1 / (1 / dfs + noise**2 / (2 * (variance**2 + noise**2)))
