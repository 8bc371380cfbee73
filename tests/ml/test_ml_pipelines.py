"""dpspark.ml inside pyspark.ml: Pipelines, tuning, and DataFrames whose rows are not what they seem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import MinMaxScaler, SQLTransformer, StandardScaler, VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import functions

from dpspark.errors import ConfError, DpsparkError, LedgerError, SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.ml import DPCovariance, DPLinearRegression


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(7)
    age, educ = rng.integers(18, 99, 4000), rng.integers(1, 17, 4000)
    income = 1000 * age + rng.normal(0, 10000, 4000)
    path = tmp_path_factory.mktemp("ml") / "people.parquet"
    pq.write_table(pa.table({"age": age, "educ": educ, "income": income, "sex": rng.choice(["F", "M"], 4000)}), path)
    return path


@pytest.fixture
def frame(spark: Any, table: Path) -> Any:
    return spark.read.parquet(str(table))


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger(url).grant("people", epsilon=100.0, delta=1e-3)
    where = {"ledgerUrl": url, "ledgerDataset": "people", "outputPath": str(tmp_path / "releases")}
    return {**where, "epsilon": 1.0, "delta": 1e-9}


def assembled(**changes: Any) -> list[Any]:
    """Feature stages that learn nothing."""
    statement = "SELECT *, age * age AS age2 FROM __THIS__ WHERE educ >= 2"
    return [
        SQLTransformer(statement=statement),
        VectorAssembler(inputCols=["age", "age2"], outputCol="features", handleInvalid="keep", **changes),
    ]


def regression(place: dict[str, Any], **changes: Any) -> DPLinearRegression:
    bounds = {"features": {"age": (18, 99), "age squared": (324, 9801)}, "income": (0, 200000)}
    params = {"labelCol": "income", "bounds": bounds, "releaseName": "income", "releaseVersion": "1"}
    return DPLinearRegression(**{**params, **place, **changes})


def charges(place: dict[str, Any]) -> list[str]:
    return [act.why for act in Ledger(place["ledgerUrl"]).history("people") if act.what == "reserve"]


@pytest.mark.spark35
def test_a_pipeline(frame: Any, place: dict[str, Any], tmp_path: Path) -> None:
    """Kills: a second charge for the same rows (Spark numbers them anew), and a stage that a Pipeline cannot save."""
    pipeline = Pipeline(stages=[*assembled(), regression(place)])
    model = pipeline.fit(frame)
    pipeline.save(str(tmp_path / "pipeline"))
    again = Pipeline.load(str(tmp_path / "pipeline")).fit(frame)
    assert charges(place) == ["release income 1"]
    assert again.stages[-1].coefficients == model.stages[-1].coefficients
    assert model.stages[-1].terms == ("age", "age squared")
    model.write().overwrite().save(str(tmp_path / "model"))
    loaded = PipelineModel.load(str(tmp_path / "model"))
    found = [each.transform(frame.coalesce(1)).select("prediction").toPandas() for each in (model, loaded)]
    assert found[0].equals(found[1])
    assert found[0]["prediction"].between(0, 200000).all()


@pytest.mark.parametrize("nested", [False, True])
def test_stages_that_learn_from_the_rows_are_refused(frame: Any, place: dict[str, Any], nested: bool) -> None:
    """Kills: a guarantee for rows that were scaled by what all of them are."""
    scaler = StandardScaler(inputCol="features", outputCol="scaled")
    last = regression(place, featuresCol="scaled", bounds={"scaled": [(-2, 2), (-2, 2)], "income": (0, 200000)})
    first = [*assembled(), Pipeline(stages=[scaler])] if nested else [*assembled(), scaler]
    with pytest.raises(ConfError, match="StandardScaler learns from all rows"):
        Pipeline(stages=[*first, Pipeline(stages=[last]) if nested else last]).fit(frame)
    assert not charges(place)
    # After it, and fitted on something public, they may be there.
    public = scaler.fit(Pipeline(stages=assembled()).fit(frame).transform(frame))
    after = MinMaxScaler(inputCol="features", outputCol="other")
    with pytest.raises(SourceError, match="a model that was fitted to data"):
        Pipeline(stages=[*assembled(), public, last, after]).fit(frame)
    assert not charges(place)
    Pipeline(stages=[*assembled(), public, last.copy({last.rowsPerRecord: 1}), after]).fit(frame)
    assert charges(place) == ["release income 1"]


def test_a_private_stage_may_come_first(frame: Any, place: dict[str, Any]) -> None:
    """Components of a private matrix, then a regression on them: two releases, two charges."""
    first = DPCovariance(
        inputCols=["age", "educ"], bounds={"age": (18, 99), "educ": (1, 16)}, k=1, outputCol="pc", releaseName="pc"
    ).setParams(releaseVersion="1", **place)
    second = regression(place, featuresCol="pc", bounds={"pc": [(-2, 2)], "income": (0, 200000)})
    model = Pipeline(stages=[first, second]).fit(frame)
    assert charges(place) == ["release pc 1", "release income 1"]
    assert "prediction" in model.transform(frame).columns


@pytest.mark.spark35
@pytest.mark.parametrize("fold", [None, "fold"])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_cross_validation_is_refused(frame: Any, place: dict[str, Any], in_pipeline: bool, fold: str | None) -> None:
    """Kills: a charge for every fold, and scores from the rows themselves. Before anything is charged."""
    rows = Pipeline(stages=assembled()).fit(frame).transform(frame).withColumn("fold", functions.col("age") % 2)
    private = regression(place)
    grid = ParamGridBuilder().addGrid(private.releaseVersion, ["1", "2"]).build()
    inside = Pipeline(stages=[private]) if in_pipeline else private
    settings = {"estimator": inside, "estimatorParamMaps": grid, "evaluator": RegressionEvaluator(labelCol="income")}
    folds = CrossValidator(**settings, numFolds=2, **({} if fold is None else {"foldCol": fold}))
    tuning = [folds] if fold else [folds, TrainValidationSplit(**settings)]
    for each in tuning:
        with pytest.raises(ConfError, match="around a private estimator"):
            each.fit(rows)
    assert not charges(place)


def test_several_param_maps(frame: Any, place: dict[str, Any]) -> None:
    """Each map is a release: of the same version it is refused, else each is charged."""
    rows = Pipeline(stages=assembled()).fit(frame).transform(frame)
    private = regression(place)
    with pytest.raises(ConfError, match="its own releaseVersion"):
        private.fit(rows, [{private.epsilon: 0.5}, {private.epsilon: 0.7}])
    assert not charges(place)
    first, second = private.fit(rows, [{private.releaseVersion: "a"}, {private.releaseVersion: "b"}])
    assert charges(place) == ["release income a", "release income b"]
    assert first.coefficients != second.coefficients
    assert (first.getReleaseVersion(), second.getReleaseVersion()) == ("a", "b")


UNSTABLE = {
    "sample": lambda frame: frame.sample(0.5, seed=1),
    "randomSplit": lambda frame: frame.randomSplit([0.5, 0.5], seed=1)[0],
    "rand": lambda frame: frame.where(functions.rand(3) < 0.5),
    "uuid in the last of many columns": lambda frame: frame.select(
        "*", *(functions.lit(i).alias(f"c{i}") for i in range(60)), functions.expr("uuid()").alias("u")
    ),
    "today": lambda frame: frame.where("year(current_date()) > age"),
}
ACROSS = {
    "limit": lambda frame: frame.limit(100),
    "join": lambda frame: frame.join(frame.selectExpr("sex as s"), functions.expr("sex = s")),
    "aggregate": lambda frame: frame.groupBy("age").agg(functions.max("income").alias("income")),
    "window": lambda frame: frame.selectExpr("*", "avg(age) over (partition by sex) as mean"),
    "subquery": lambda frame: (
        frame.createOrReplaceTempView("ml_people")
        or frame.sparkSession.sql("SELECT * FROM ml_people WHERE age > (SELECT avg(age) FROM ml_people)")
    ),
    "distinct": lambda frame: frame.distinct(),
    "union": lambda frame: frame.union(frame),
    "explode": lambda frame: frame.selectExpr("*", "explode(array(1, 2)) as twice"),
    "mapInPandas": lambda frame: frame.mapInPandas(lambda parts: parts, frame.schema),
}
PLAIN = {"inputCols": ["age"], "bounds": {"age": (18, 99), "income": (0, 200000)}}


@pytest.mark.spark35
@pytest.mark.parametrize("case", UNSTABLE)
def test_rows_that_change_are_refused(frame: Any, place: dict[str, Any], case: str) -> None:
    """Kills: a sample by position, where one record moves all others in or out."""
    for more in ({}, {"rowsPerRecord": 2}):
        with pytest.raises(SourceError, match="in its plan: its rows would change"):
            regression(place, **PLAIN, **more).fit(UNSTABLE[case](frame))
    assert not charges(place)


@pytest.mark.spark35
@pytest.mark.parametrize("case", ACROSS)
def test_steps_across_rows_must_say_what_a_record_changes(frame: Any, place: dict[str, Any], case: str) -> None:
    """Kills: noise for one row where one record changes many."""
    with pytest.raises(SourceError, match="rowsPerRecord"):
        regression(place, **PLAIN).fit(ACROSS[case](frame))
    assert not charges(place)


def test_noise_grows_with_the_rows_of_a_record(frame: Any, place: dict[str, Any]) -> None:
    rows = frame.join(frame.groupBy("sex").count(), "sex")
    one = DPCovariance(inputCols=["age"], bounds={"age": (18, 99)}, releaseName="m", releaseVersion="1", **place)
    noise = [
        made.release.noise_std().to_numpy()
        for made in (one.fit(frame), one.copy({one.releaseVersion: "2", one.rowsPerRecord: 3}).fit(rows))
    ]
    assert (noise[1] >= 3 * noise[0]).all()


@pytest.mark.spark35
def test_row_local_steps_are_not_refused(spark: Any, frame: Any, place: dict[str, Any]) -> None:
    """Views, sorts, caches, filters and functions of a row. Kills: a check that nobody can live with."""
    frame.cache().createOrReplaceTempView("ml_rows")
    rows = (
        spark.table("ml_rows").withColumn("twice", 2.0 * functions.col("age")).orderBy("age").repartition(3).na.drop()
    )
    params = {"inputCols": ["twice"], "bounds": {"twice": (36, 198), "income": (0, 200000)}}
    assert regression(place, **params).fit(rows).numFeatures == 1
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == "25"
    frame.unpersist()


def test_a_stage_that_fails_on_a_row_quotes_nothing(spark: Any, place: dict[str, Any]) -> None:
    """Kills: Spark's own words, which quote the row that VectorAssembler failed on."""
    rows = spark.createDataFrame([(1.0, 4321.0987)] * 20 + [(None, 4321.0987)], "x double, y double")
    stages = [VectorAssembler(inputCols=["x", "y"], outputCol="features")]
    private = regression(place, labelCol="y", bounds={"features": [(0, 1), (0, 1)], "y": (0, 1)})
    with pytest.raises(DpsparkError) as failed:
        Pipeline(stages=[*stages, private]).fit(rows)
    assert "4321" not in str(failed.value)
    assert not isinstance(failed.value, LedgerError)
    # Row by row instead: the same release goes on, and is charged once.
    stages[0].setHandleInvalid("keep")
    Pipeline(stages=[*stages, private]).fit(rows)
    assert charges(place) == ["release income 1"]
