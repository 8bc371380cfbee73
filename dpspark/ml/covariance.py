"""Covariances as a stage of a pyspark.ml Pipeline: the matrix, and rows in its principal components."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasOutputCol

from dpspark.analysis.least_squares import RegressionResult
from dpspark.analysis.pca import Components
from dpspark.errors import ConfError
from dpspark.ml.columns import add_column, functions, scale_rows, vector_functions, vector_of
from dpspark.ml.estimator import DPModel
from dpspark.ml.params import FeatureParams
from dpspark.ml.regression import FeatureEstimator
from dpspark.published.gram import GramRelease
from dpspark.published.release import Release


class ComponentParams(HasOutputCol):
    """The Params of principal components."""

    k: Any = Param(
        Params._dummy(), "k", "principal components that transform gives, > 0", typeConverter=TypeConverters.toInt
    )
    scale: Any = Param(
        Params._dummy(),
        "scale",
        "components of the correlations; else of covariances in half-ranges of the bounds",
        typeConverter=TypeConverters.toBoolean,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(scale=False)

    def getK(self) -> int:
        return self.getOrDefault(self.k)

    def getScale(self) -> bool:
        return self.getOrDefault(self.scale)


class DPCovariance(FeatureEstimator, ComponentParams):
    """Private second moments of `inputCols` or of the vector `featuresCol`: covariances, correlations, any regression.

    A release of kind gram. `mechanism`: gaussian (the default), laplace, wishart, johnson_lindenstrauss, inverse_wishart.
    With `k`, the model's transform adds the first k principal components as a vector, `outputCol`.
    """

    def setK(self, value: int) -> DPCovariance:
        return self._set(k=value)

    def setScale(self, value: bool) -> DPCovariance:
        return self._set(scale=value)

    def setOutputCol(self, value: str) -> DPCovariance:
        return self._set(outputCol=value)

    def _columns(self) -> dict[str, Any]:
        return self._features()

    def _kind(self) -> dict[str, Any]:
        return {"kind": "gram"}

    def _model(self, made: Release) -> DPCovarianceModel:
        return DPCovarianceModel(made)


class DPCovarianceModel(DPModel, FeatureParams, ComponentParams):
    """A published matrix. `transform` gives rows in its principal components, around the released means."""

    def setK(self, value: int) -> DPCovarianceModel:
        return self._set(k=value)

    def setScale(self, value: bool) -> DPCovarianceModel:
        return self._set(scale=value)

    def setOutputCol(self, value: str) -> DPCovarianceModel:
        return self._set(outputCol=value)

    @property
    def terms(self) -> tuple[str, ...]:
        return self._gram.terms[1:]

    @property
    def mean(self) -> Any:
        """The released means of the columns, as bounded, by name."""
        first = self._gram.second_moment().iloc[0]
        return first.iloc[1:] / first.iloc[0]

    @property
    def covariance(self) -> Any:
        """The covariances, with noise, as a labelled table."""
        return self._gram.covariance()

    @property
    def covarianceStd(self) -> Any:
        """The standard deviation of the noise in each entry."""
        return self._gram.covariance_std()

    @property
    def correlation(self) -> Any:
        """The correlations, with noise, as a labelled table; NaN where the noise leaves no positive variance."""
        return self._gram.correlation()

    @property
    def correlationStd(self) -> Any:
        return self._gram.correlation_std()

    @property
    def pca(self) -> Components:
        """The first k components (all, if k is not set), with bands for the noise."""
        return self._gram.pca(self._given("k").get("k"), self.getScale())

    def regress(
        self,
        formula: str,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
        errors: str | None = None,
    ) -> RegressionResult:
        """Fit any regression between the columns, from this one release."""
        return self._gram.regress(formula, level, repair=repair, interval=interval, errors=errors)

    @property
    def _gram(self) -> GramRelease:
        assert isinstance(self._release, GramRelease)
        return self._release

    def _transform(self, dataset: Any) -> Any:
        if not self._given("k"):
            raise ConfError(
                "transform: k is not set. Set it to the number of principal components wanted, e.g. setK(2)."
            )
        gram, found = self._gram, self.pca
        moments = gram.content.moments
        at = [moments.terms.index(term) for term in found.terms]
        mean = moments.scaled[0, at] / moments.rows
        spread = np.sqrt(np.diag(moments.scaled)[at] / moments.rows - mean**2) if found.scale else np.ones(len(at))
        z = scale_rows(dataset, gram.content.domain.columns, vector_of(self))
        sql = functions(dataset)
        centred = [(z[i - 1] - sql.lit(float(m))) / sql.lit(float(s)) for i, m, s in zip(at, mean, spread, strict=True)]
        parts = [
            sum((sql.lit(float(w)) * term for w, term in zip(vector, centred, strict=True)), sql.lit(0.0))
            for vector in found.vectors.T
        ]
        vector = vector_functions(dataset).array_to_vector(sql.array(*parts))
        return add_column(dataset, self.getOutputCol(), sql.when(parts[0].isNotNull(), vector))
