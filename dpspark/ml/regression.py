"""Linear regression as a stage of a pyspark.ml Pipeline."""

from __future__ import annotations

from typing import Any

from pyspark.ml.linalg import DenseVector, Vectors
from pyspark.ml.param.shared import HasLabelCol, HasPredictionCol

from dpspark.analysis.fit import RegressionFit, to_scaled
from dpspark.core.domain import Domain
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.coordinates import centre_and_scale
from dpspark.ml.columns import add_column, add_slots, column_conf, functions, list_slots, scale_rows, vector_of
from dpspark.ml.estimator import DPEstimator, DPModel
from dpspark.ml.params import FeatureParams
from dpspark.ml.setters import FeatureSetters
from dpspark.published.regression import RegressionRelease
from dpspark.published.release import Release


class FeatureEstimator(DPEstimator, FeatureSetters):
    """An estimator with features from plain columns or from a vector."""

    def _features(self) -> dict[str, Any]:
        if vector_of(self) is not None:
            return list_slots(self)
        return {name: column_conf(self, name) for name in self.getInputCols()}

    def _vectors(self) -> tuple[str, ...]:
        vector = vector_of(self)
        return () if vector is None else (vector,)

    def _slots(self) -> tuple[str, ...]:
        return tuple(self._features()) if self._vectors() else ()

    def _frame(self, dataset: Any) -> Any:
        vector = vector_of(self)
        return dataset if vector is None else add_slots(dataset, vector, list(self._features()))


class DPLinearRegression(FeatureEstimator, HasLabelCol, HasPredictionCol):
    """Private linear regression of `labelCol` on `inputCols` or on the vector `featuresCol`.

    A release of kind regression. `mechanism`: gram_ridge (the default), refined, adassp, ssp, objective or gradient_descent.

        DPLinearRegression(
            inputCols=["age", "educ"], labelCol="income",
            bounds={"age": (18, 99), "educ": (1, 16), "income": (0, 200000)},
            epsilon=1.0, delta=1e-9,
            releaseName="income", releaseVersion="2026-11", ledgerDataset="people-2026",
        ).fit(frame)
    """

    def setLabelCol(self, value: str) -> DPLinearRegression:
        return self._set(labelCol=value)

    def setPredictionCol(self, value: str) -> DPLinearRegression:
        return self._set(predictionCol=value)

    def _columns(self) -> dict[str, Any]:
        label, features = self.getLabelCol(), self._features()
        if label in features:
            raise ConfError(f"labelCol={label!r} is among the features.")
        return {**features, label: column_conf(self, label)}

    def _kind(self) -> dict[str, Any]:
        return {"kind": "regression", "response": self.getLabelCol(), "regressors": list(self._features())}

    def _model(self, made: Release) -> DPLinearRegressionModel:
        return DPLinearRegressionModel(made)


class DPLinearRegressionModel(DPModel, FeatureParams, HasLabelCol, HasPredictionCol):
    """A published regression. `transform` predicts, with each feature clipped as the release did."""

    def __init__(self, made: Release, files: dict[str, bytes] | None = None):
        super().__init__(made, files)
        assert isinstance(made, RegressionRelease)
        self._summary = made.fit()

    def setPredictionCol(self, value: str) -> DPLinearRegressionModel:
        return self._set(predictionCol=value)

    @property
    def summary(self) -> RegressionFit:
        """The table of coefficients when printed; `std_errors`, `conf_int()`, `pvalues` and the like."""
        return self._summary

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms of the coefficients; a categorical column has one for each category but the first."""
        return self.summary.terms[1:]

    @property
    def coefficients(self) -> DenseVector:
        return Vectors.dense([self.summary.params[term] for term in self.terms])

    @property
    def intercept(self) -> float:
        return next(iter(self.summary.params.values()))

    @property
    def stdErrors(self) -> dict[str, float]:
        """The standard errors by term, sampling and privacy noise together; NaN where no interval is valid."""
        return self.summary.std_errors

    @property
    def numFeatures(self) -> int:
        return len(self.terms)

    def _transform(self, dataset: Any) -> Any:
        fit = self.summary
        domain = fit.domain
        z = scale_rows(dataset, domain.regressors.columns, vector_of(self))
        theta = to_scaled(domain, DenseVector([self.intercept, *self.coefficients]).toArray())
        middle, half = (part[-1] for part in centre_and_scale(domain))
        sql = functions(dataset)
        sloped = sum((sql.lit(float(weight)) * term for weight, term in zip(theta[1:], z, strict=True)), sql.lit(0.0))
        value = sql.lit(float(middle)) + sql.lit(float(half)) * (
            sql.lit(float(theta[0])) + sloped * _shrinkage(sql, domain, z)
        )
        return add_column(dataset, self.getPredictionCol(), value)


def _shrinkage(sql: Any, domain: Domain, z: list[Any]) -> Any:
    """Compute the factor by which the row norm shrinks a row. A weight, of include_response, cancels out."""
    norm = domain.row_norm
    if norm is None or norm.include_response:
        return sql.lit(1.0)
    length = sql.sqrt(sum((term * term for term in z), sql.lit(0.0)))
    factor = sql.lit(norm.radius) / length
    if norm.mode == "cap":
        return sql.when(length > sql.lit(norm.radius), factor).otherwise(1.0)
    return sql.when(length > sql.lit(0.0), factor).otherwise(0.0)
