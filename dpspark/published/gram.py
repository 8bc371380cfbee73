"""A published second-moment matrix in the hands of an analyst."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.least_squares import RegressionResult
from dpspark.analysis.options import Asked
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.published.release import Release

if TYPE_CHECKING:
    import pandas as pd


class GramRelease(Release[GramContent, RegressionResult]):
    """A published second-moment matrix. Matrices are returned as pandas tables with the names of the columns."""

    _has = "regress(), all_subsets(), pca(), covariance(), correlation()"

    @property
    def terms(self) -> tuple[str, ...]:
        """The rows and columns of the matrix, the intercept first."""
        return self.content.terms

    @property
    def noise(self) -> NoiseModel:
        """The law of the noise, in units of the scaled matrix."""
        return self.content.moments.noise

    def scaled_noise_std(self) -> np.ndarray:
        """The noise of each entry of the scaled matrix."""
        return self.content.scaled_noise_std()

    def second_moment(self, repair: str | None = None) -> pd.DataFrame:
        """DᵀD with noise, in original units; repaired as the release says, or as asked ("none": not).

        What is known exactly of categorical columns is put in, which takes noise off; `tables` has the matrix as released.
        """
        return self._labelled(self.content.repaired(repair))

    def repaired(self, how: str | None = None) -> pd.DataFrame:
        """The matrix made positive definite: ridge, eigen, nearest_psd, or safe for wishart. Post-processing: no cost."""
        return self.second_moment(repair=how)

    def noise_std(self) -> pd.DataFrame:
        """The standard deviation of the noise in each entry of the unrepaired `second_moment`."""
        return self._labelled(self.content.noise_std)

    def covariance(self, repair: str | None = None) -> pd.DataFrame:
        """The covariance of the columns, as bounded."""
        return self._labelled(self.content.covariance(repair))

    def covariance_std(self) -> pd.DataFrame:
        """The standard deviation of the noise in each entry of the unrepaired `covariance`, to first order."""
        return self._labelled(self.content.covariance_std())

    def correlation(self, repair: str | None = None) -> pd.DataFrame:
        """The correlation of the columns; NaN where the noise leaves no positive variance."""
        return self._labelled(self.content.correlation(repair))

    def correlation_std(self) -> pd.DataFrame:
        """The standard deviation of the noise in each entry of the unrepaired `correlation`, to first order."""
        return self._labelled(self.content.correlation_std())

    def variance_along(self, direction: Mapping[str, float]) -> float:
        """The variance of a combination of columns, e.g. {"age": 1, "educ": -2}; negative if the noise wins."""
        return self.content.variance_along(direction)

    def _regress(self, asked: Asked) -> RegressionResult:
        return self.content.regress(asked)

    def _matrix(self) -> GramContent:
        return self.content

    def _labelled(self, values: np.ndarray) -> pd.DataFrame:
        """Name the rows and columns; a covariance has none for the intercept."""
        import pandas as pd

        names = list(self.terms[-len(values) :])
        return pd.DataFrame(values, index=names, columns=names)
