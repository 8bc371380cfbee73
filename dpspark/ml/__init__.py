"""Estimators for pyspark.ml pipelines. Each fit is a release: charged to the ledger, drawn once, published."""

from __future__ import annotations

try:
    import pyspark.ml.param  # noqa: F401 - its own words would not say what to install
except ImportError:
    raise ImportError(
        "dpspark.ml needs pyspark, and this Python has none. Run: pip install 'dpspark[spark]'", name="pyspark"
    ) from None

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
