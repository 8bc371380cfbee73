"""The callers of a fit: a Pipeline's earlier stages, and tuning, show on the stack and nowhere in a DataFrame."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pyspark.ml import Estimator, Pipeline
from pyspark.ml.tuning import CrossValidator, TrainValidationSplit

from dpspark.errors import ConfError


def _fitting() -> Iterator[Any]:
    """Find the estimators whose fit is under way around this call, the innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_fit" and "self" in frame.f_locals:
            yield frame.f_locals["self"]
        frame = frame.f_back  # type: ignore[assignment]


def refuse_tuning() -> None:
    """Refuse tuning: each fold would be a release of its own, and the metrics that choose between models are exact."""
    for around in _fitting():
        if isinstance(around, CrossValidator | TrainValidationSplit):
            raise ConfError(
                f"{type(around).__name__} around a private estimator: every fold would be charged, and its metrics, "
                "from the rows themselves, are not private.\nFit once. To choose regressors, compare models of a "
                "DPCovariance, which serves every regression."
            )


def refuse_learned_stages(stage: Any) -> None:
    """Refuse earlier stages that learn from the rows without privacy: what they learn is in every row that they make."""
    for around in _fitting():
        if not isinstance(around, Pipeline):
            continue
        for before in _before(stage, around):
            raise ConfError(
                f"{type(before).__name__} learns from all rows before {type(stage).__name__} in this Pipeline, and not "
                "privately: no guarantee would hold.\nLeave it out (bounds do the scaling), or fit it on public data "
                "and put its model in its place."
            )


def _before(stage: Any, pipeline: Any) -> Iterator[Any]:
    """Find the stages that learn without privacy, up to this one."""
    from dpspark.ml.estimator import DPEstimator

    for each in pipeline.getStages():
        if each is stage or (isinstance(each, Pipeline) and _holds(each, stage)):
            return
        if isinstance(each, Pipeline):
            yield from _before(stage, each)
        elif isinstance(each, Estimator) and not isinstance(each, DPEstimator):
            yield each


def _holds(pipeline: Any, stage: Any) -> bool:
    return any(each is stage or (isinstance(each, Pipeline) and _holds(each, stage)) for each in pipeline.getStages())
