"""Robust lines, one for each public group, as a stage of a pyspark.ml Pipeline."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCol, HasLabelCol, HasPredictionCol

from dpspark.core.domain import GroupKey, Numeric
from dpspark.ml.columns import add_column, column_conf, functions, scale_rows
from dpspark.ml.estimator import DPEstimator, DPModel
from dpspark.ml.params import to_plain
from dpspark.published.release import Release
from dpspark.source.group_keys import key_label
from dpspark.spark.frames import check_names

KEY = "_dpspark_group_{}"
LINE = ("_dpspark_slope", "_dpspark_intercept")


class LineParams(HasInputCol, HasLabelCol, HasPredictionCol):
    """The Params of lines."""

    groupCols: Any = Param(
        Params._dummy(),
        "groupCols",
        "columns that say which group a row is in",
        typeConverter=TypeConverters.toListString,
    )
    groups: Any = Param(
        Params._dummy(),
        "groups",
        "the public list of groups, not found in the data: [key, ...], [[key, key], ...], or the path of a CSV or Parquet",
        typeConverter=to_plain,
    )

    def getGroupCols(self) -> list[str]:
        return self.getOrDefault(self.groupCols)

    def getGroups(self) -> Any:
        return self.getOrDefault(self.groups)


class DPTheilSen(DPEstimator, LineParams):
    """Private robust line of `labelCol` on `inputCol`; with `groupCols` one for each of the public `groups`.

    A release of kind theil_sen. `mechanism`: auto (the default), depth, huber, exponential and others.

        DPTheilSen(
            inputCol="parent_rank", labelCol="kid_rank", groupCols=["tract"], groups="tracts.csv",
            bounds={"parent_rank": (0, 1), "kid_rank": (0, 1)},
            epsilon=4.0, releaseName="mobility", releaseVersion="2026", ledgerDataset="people-2026",
            conf={"release": {"expected_rows": 75}},
        ).fit(frame)
    """

    _required = (*DPEstimator._required, "inputCol")

    def setInputCol(self, value: str) -> DPTheilSen:
        return self._set(inputCol=value)

    def setLabelCol(self, value: str) -> DPTheilSen:
        return self._set(labelCol=value)

    def setPredictionCol(self, value: str) -> DPTheilSen:
        return self._set(predictionCol=value)

    def setGroupCols(self, value: list[str]) -> DPTheilSen:
        return self._set(groupCols=value)

    def setGroups(self, value: Any) -> DPTheilSen:
        return self._set(groups=value)

    def _columns(self) -> dict[str, Any]:
        return {name: column_conf(self, name) for name in (self.getInputCol(), self.getLabelCol())}

    def _kind(self) -> dict[str, Any]:
        given = self._given("groupCols", "groups")
        named = {"groupCols": "group_by", "groups": "groups"}
        return {
            "kind": "theil_sen",
            "x": self.getInputCol(),
            "y": self.getLabelCol(),
            **{named[name]: value for name, value in given.items()},
        }

    def _model(self, made: Release) -> DPTheilSenModel:
        return DPTheilSenModel(made)


class DPTheilSenModel(DPModel, LineParams):
    """Published lines. `transform` predicts by the line of the row's group: null in a group that is not on the list."""

    def setPredictionCol(self, value: str) -> DPTheilSenModel:
        return self._set(predictionCol=value)

    @property
    def lines(self) -> Any:
        """A row for each group, as a table: keys, slope, intercept, status."""
        keys = list(self._release.group_by)
        table = self._release.predictions()[[*keys, "slope", "intercept", "status"]]
        return table.drop_duplicates(keys or None, ignore_index=True)

    @property
    def predictions(self) -> Any:
        """A row for each group and cut, with intervals where they were paid for, as a table."""
        return self._release.predictions()

    @property
    def summary(self) -> str:
        return str(self._release.summary())

    def _transform(self, dataset: Any) -> Any:
        manifest = self._release.manifest
        column = next(c for c in manifest["columns"] if c["name"] == manifest["release"]["x"])
        x = Numeric(column["name"], float(column["lower"]), float(column["upper"]))
        sql, keys = functions(dataset), self._release.group_by
        lines = self.lines
        (z,) = scale_rows(dataset, [x])
        value = sql.lit(x.middle) + sql.lit(x.half) * z
        if not keys:
            slope, intercept = (sql.lit(float(lines[name][0])) for name in ("slope", "intercept"))
            return add_column(dataset, self.getPredictionCol(), _null_if_missing(sql, intercept + slope * value))
        names = check_names(dataset, [GroupKey(key) for key in keys])
        renamed = dict(zip([*keys, "slope", "intercept"], [*map(KEY.format, range(len(keys))), *LINE], strict=True))
        texts = {key: lines[key].map(key_label) for key in keys}  # as check_names has them
        table = lines[list(renamed)].assign(**texts).rename(columns=renamed)
        fitted = sql.broadcast(dataset.sparkSession.createDataFrame(table))
        same = [sql.expr(name) == sql.col(KEY.format(i)) for i, name in enumerate(names)]
        joined = dataset.join(fitted, same, "left")
        predicted = _null_if_missing(sql, sql.col(LINE[1]) + sql.col(LINE[0]) * value)
        return add_column(joined, self.getPredictionCol(), predicted).drop(*renamed.values())


def _null_if_missing(sql: Any, value: Any) -> Any:
    """Turn NaN into null where there is no line."""
    return sql.when(~sql.isnan(value), value)
