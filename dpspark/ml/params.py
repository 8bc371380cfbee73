"""The Params that all three estimators share, with pyspark's getters and setters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasFeaturesCol, HasInputCols

from dpspark.errors import without_passwords


def to_bounds(value: Any) -> dict[str, Any]:
    """Check {column: (lower, upper)}; for a vector {column: [(lower, upper), ...]} or {column: {name: (lower, upper), ...}}."""
    if not isinstance(value, Mapping):
        raise TypeError(f"got a {type(value).__name__}; expected a dictionary of column: (lower, upper).")
    return {_text(name): _bounds_of(name, bounds) for name, bounds in value.items()}


def _bounds_of(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_text(slot): _pair(f"{name}, {slot}", bounds) for slot, bounds in value.items()}
    if not isinstance(value, Sequence) or isinstance(value, str) or not len(value):
        raise TypeError(f"{name}: expected (lower, upper), or a list of such pairs for a vector.")
    if all(isinstance(one, Real) for one in value):
        return _pair(name, value)
    return [_pair(f"{name}, slot {slot}", bounds) for slot, bounds in enumerate(value)]


def _pair(name: str, value: Any) -> list[float]:
    numbers = isinstance(value, Sequence) and all(isinstance(one, Real) and not isinstance(one, bool) for one in value)
    if not numbers or len(value) != 2:
        raise TypeError(f"{name}: expected two numbers, (lower, upper).")
    return [float(one) for one in value]


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"got {name!r}; expected the name of a column.")
    return name


def to_plain(value: Any) -> Any:
    """Convert to what can be saved as JSON, and is the same when it is read again."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        raise TypeError("expected dictionaries, lists, text, finite numbers, True or False.") from None


def to_dictionary(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"got a {type(value).__name__}; expected a dictionary.")
    return to_plain({_text(key): part for key, part in value.items()})


def to_conf(value: Any) -> dict[str, Any]:
    conf = to_dictionary(value)
    columns = conf.get("columns", {})
    if not isinstance(columns, dict) or not all(isinstance(column, dict) for column in columns.values()):
        raise TypeError("columns: expected a dictionary for each column.")
    return conf


def to_open_url(value: Any) -> str:
    """Refuse a URL with a password: Params are printed, logged and saved."""
    url = TypeConverters.toString(value)
    if without_passwords(url) != url:
        raise TypeError("it has a password in it. Put the URL into $DPSPARK_LEDGER, or the password into ~/.pgpass.")
    return url


class DPParams(Params):
    """The Params that a release needs beside its columns."""

    bounds: Any = Param(
        Params._dummy(),
        "bounds",
        "public bounds of every column, known without looking at the data: {column: (lower, upper)}; for a vector "
        "{column: [(lower, upper), ...]} or {column: {name: (lower, upper), ...}}, a pair for each slot",
        typeConverter=to_bounds,
    )
    epsilon: Any = Param(Params._dummy(), "epsilon", "privacy budget, > 0", typeConverter=TypeConverters.toFloat)
    delta: Any = Param(Params._dummy(), "delta", "privacy budget, with epsilon", typeConverter=TypeConverters.toFloat)
    rho: Any = Param(Params._dummy(), "rho", "privacy budget as zCDP, alone", typeConverter=TypeConverters.toFloat)
    neighbours: Any = Param(
        Params._dummy(), "neighbours", "add_remove or replace_one", typeConverter=TypeConverters.toString
    )
    mechanism: Any = Param(
        Params._dummy(), "mechanism", "name of the mechanism; unset: the default", typeConverter=TypeConverters.toString
    )
    releaseName: Any = Param(
        Params._dummy(), "releaseName", "name of the release", typeConverter=TypeConverters.toString
    )
    releaseVersion: Any = Param(
        Params._dummy(),
        "releaseVersion",
        "version of the release; it names the data: other rows need another version, and are charged",
        typeConverter=TypeConverters.toString,
    )
    ledgerUrl: Any = Param(
        Params._dummy(), "ledgerUrl", "the ledger; unset: $DPSPARK_LEDGER", typeConverter=to_open_url
    )
    ledgerDataset: Any = Param(
        Params._dummy(),
        "ledgerDataset",
        "whose budget is charged, in the ledger",
        typeConverter=TypeConverters.toString,
    )
    outputPath: Any = Param(
        Params._dummy(), "outputPath", "where releases are published", typeConverter=TypeConverters.toString
    )
    rowsPerRecord: Any = Param(
        Params._dummy(),
        "rowsPerRecord",
        "how many rows of the DataFrame one record can change; needed if it joins, aggregates or the like",
        typeConverter=TypeConverters.toInt,
    )
    conf: Any = Param(
        Params._dummy(),
        "conf",
        "further keys of a release's conf, e.g. {'nulls': 'midpoint', 'privacy': {'unit': {...}}}",
        typeConverter=to_conf,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(neighbours="add_remove", outputPath="releases")

    def getBounds(self) -> dict[str, Any]:
        return self.getOrDefault(self.bounds)

    def getEpsilon(self) -> float:
        return self.getOrDefault(self.epsilon)

    def getDelta(self) -> float:
        return self.getOrDefault(self.delta)

    def getRho(self) -> float:
        return self.getOrDefault(self.rho)

    def getNeighbours(self) -> str:
        return self.getOrDefault(self.neighbours)

    def getMechanism(self) -> str:
        return self.getOrDefault(self.mechanism)

    def getReleaseName(self) -> str:
        return self.getOrDefault(self.releaseName)

    def getReleaseVersion(self) -> str:
        return self.getOrDefault(self.releaseVersion)

    def getLedgerUrl(self) -> str:
        return self.getOrDefault(self.ledgerUrl)

    def getLedgerDataset(self) -> str:
        return self.getOrDefault(self.ledgerDataset)

    def getOutputPath(self) -> str:
        return self.getOrDefault(self.outputPath)

    def getRowsPerRecord(self) -> int:
        return self.getOrDefault(self.rowsPerRecord)

    def getConf(self) -> dict[str, Any]:
        return self.getOrDefault(self.conf)

    def _given(self, *names: str) -> dict[str, Any]:
        """Take the values of those of these Params that have one."""
        found = {name: self.getOrDefault(name) for name in names if self.hasParam(name) and self.isDefined(name)}
        return {name: value for name, value in found.items() if value is not None}


class FeatureParams(HasFeaturesCol, HasInputCols, DPParams):
    """Features as plain columns (inputCols), or as one vector (featuresCol)."""

    categories: Any = Param(
        Params._dummy(),
        "categories",
        "public categories of those inputCols that have no bounds: {column: [category, ...]}",
        typeConverter=to_dictionary,
    )

    def getCategories(self) -> dict[str, Any]:
        return self.getOrDefault(self.categories)
