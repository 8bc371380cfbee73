"""Estimators for pyspark.ml pipelines. Each fit is a release: charged to the ledger, drawn once, published."""

from __future__ import annotations

from dpspark.ml.covariance import DPCovariance, DPCovarianceModel
from dpspark.ml.regression import DPLinearRegression, DPLinearRegressionModel
from dpspark.ml.theil_sen import DPTheilSen, DPTheilSenModel

__all__ = [
    "DPCovariance",
    "DPCovarianceModel",
    "DPLinearRegression",
    "DPLinearRegressionModel",
    "DPTheilSen",
    "DPTheilSenModel",
]
