"""The setters of the estimators."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Any, TypeVar

from pyspark.ml.param import Param

from dpspark.ml.params import DPParams, FeatureParams

D = TypeVar("D", bound="DPSetters")
F = TypeVar("F", bound="FeatureSetters")


class DPSetters(DPParams):
    """The setters of all estimators."""

    def __init_subclass__(cls) -> None:
        """Put the names of all Params into the signatures, for help() and completion."""
        names = [name for name in dir(cls) if isinstance(getattr(cls, name, None), Param)]
        cls.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in names])

    def setParams(self: D, **params: Any) -> D:
        """Set several Params at once."""
        for name in params:
            if not self.hasParam(name):
                raise TypeError(f"{type(self).__name__} has no Param {name!r}; explainParams() lists them.")
        return self._set(**{name: value for name, value in params.items() if value is not None})

    def setBounds(self: D, value: dict[str, Any]) -> D:
        return self._set(bounds=value)

    def setEpsilon(self: D, value: float) -> D:
        return self._set(epsilon=value)

    def setDelta(self: D, value: float) -> D:
        return self._set(delta=value)

    def setRho(self: D, value: float) -> D:
        return self._set(rho=value)

    def setNeighbours(self: D, value: str) -> D:
        return self._set(neighbours=value)

    def setMechanism(self: D, value: str) -> D:
        return self._set(mechanism=value)

    def setReleaseName(self: D, value: str) -> D:
        return self._set(releaseName=value)

    def setReleaseVersion(self: D, value: str) -> D:
        return self._set(releaseVersion=value)

    def setLedgerUrl(self: D, value: str) -> D:
        return self._set(ledgerUrl=value)

    def setLedgerDataset(self: D, value: str) -> D:
        return self._set(ledgerDataset=value)

    def setOutputPath(self: D, value: str) -> D:
        return self._set(outputPath=value)

    def setRowsPerRecord(self: D, value: int) -> D:
        return self._set(rowsPerRecord=value)

    def setConf(self: D, value: dict[str, Any]) -> D:
        return self._set(conf=value)


class FeatureSetters(DPSetters, FeatureParams):
    """The setters of estimators with features."""

    def setInputCols(self: F, value: Sequence[str]) -> F:
        return self._set(inputCols=list(value))

    def setFeaturesCol(self: F, value: str) -> F:
        return self._set(featuresCol=value)

    def setCategories(self: F, value: dict[str, Any]) -> F:
        return self._set(categories=value)
