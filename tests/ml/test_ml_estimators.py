"""dpspark.ml: fits are releases, models are what was released. Real Spark, real ledger, real files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import LinearRegression

import dpspark
from dpspark.errors import BeyondBounds, ConfError, LedgerError, OutputError, SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.ml import (
    DPCovariance,
    DPCovarianceModel,
    DPLinearRegression,
    DPLinearRegressionModel,
    DPTheilSen,
    DPTheilSenModel,
)

BOUNDS = {"age": (18, 99), "educ": (1, 16), "income": (0, 200000)}
RICH = {"epsilon": 5e7, "delta": 1e-4}  # hardly any noise


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(7)
    age, educ = rng.integers(18, 99, 4000), rng.integers(1, 17, 4000)
    income = 700 * age + 3000 * educ + rng.lognormal(10, 1, 4000)
    path = tmp_path_factory.mktemp("ml") / "people.parquet"
    pq.write_table(pa.table({"age": age, "educ": educ, "income": income, "sex": rng.choice(["F", "M"], 4000)}), path)
    return path


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    """Where releases go, and who pays; with a budget for releases without much noise."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger(url).grant("people", epsilon=1e9, delta=1e-3)
    return {
        "ledgerUrl": url,
        "ledgerDataset": "people",
        "outputPath": str(tmp_path / "releases"),
        "releaseVersion": "1",
        "epsilon": 1.0,
        "delta": 1e-9,
    }


@pytest.fixture
def frame(spark: Any, table: Path) -> Any:
    return spark.read.parquet(str(table))


def regression(place: dict[str, Any], **changes: Any) -> DPLinearRegression:
    params = {"inputCols": ["age", "educ", "sex"], "labelCol": "income", "bounds": BOUNDS, "releaseName": "income"}
    return DPLinearRegression(**{**params, "categories": {"sex": ["F", "M"]}, **place, **changes})


def charges(place: dict[str, Any]) -> list[str]:
    """The releases that the ledger was charged for."""
    return [act.why for act in Ledger(place["ledgerUrl"]).history("people") if act.what == "reserve"]


@pytest.mark.spark35
def test_a_fit_is_the_release_of_its_conf(frame: Any, place: dict[str, Any]) -> None:
    """Kills: a fit of its own, beside the pipeline; a second draw, or a second charge, for the same release."""
    estimator = regression(place)
    model = estimator.fit(frame)
    again = estimator.copy().fit(frame)
    same = dpspark.release(estimator.toConf(), frame)
    assert charges(place) == ["release income 1"]
    expected = same.regress()
    for each in (model, again):
        assert each.release.path == same.path
        assert [each.intercept, *each.coefficients] == list(expected.params.values())
        assert each.stdErrors == expected.std_errors
    assert str(model.summary) == expected.summary()
    assert model.terms == ("age", "educ", "sex[M]")


def test_without_much_noise_it_is_the_regression_of_clipped_rows(spark: Any, frame: Any, place: dict[str, Any]) -> None:
    """Kills: wrong bounds for a column, features in another order, unclipped rows. Against pyspark's own."""
    narrow = {"age": (30, 60), "educ": (3, 12), "income": (0, 100000)}
    model = regression(place, inputCols=["educ", "age"], bounds=narrow, categories=None, **RICH).fit(frame)
    clipped = frame.selectExpr(
        *(f"double(greatest({a}, least({b}, {name}))) as {name}" for name, (a, b) in narrow.items())
    )
    from pyspark.ml.feature import VectorAssembler

    rows = VectorAssembler(inputCols=["educ", "age"], outputCol="features").transform(clipped)
    truth = LinearRegression(labelCol="income", regParam=0.0, solver="normal").fit(rows)
    assert [model.intercept, *model.coefficients] == pytest.approx([truth.intercept, *truth.coefficients], rel=1e-4)
    assert model.numFeatures == 2
    found, expected = (m.transform(rows).select("prediction").toPandas()["prediction"] for m in (model, truth))
    assert np.allclose(found, expected, rtol=1e-4)


AWKWARD = {
    "age": [30.0, 500.0, -7.0, None, float("nan"), float("inf"), float("-inf"), 18.0],
    "educ": [9, 9, 20, 0, None, 1, 16, 8],
    "sex": ["F", "M", "M", None, "unknown", "M", "F", "M"],
}


@pytest.mark.spark35
@pytest.mark.parametrize(
    "norm",
    [None, {"mode": "cap", "radius": 0.9}, {"mode": "project", "radius": 0.9}],
    ids=["no norm", "cap", "project"],
)
def test_transform_predicts_as_the_release_does(
    spark: Any, frame: Any, place: dict[str, Any], norm: dict[str, Any] | None
) -> None:
    """Kills: an unclipped feature, a null that spreads, a prediction of the first category for an unknown one, a row norm
    that is forgotten."""
    model = regression(place, **RICH, conf=None if norm is None else {"row_norm": norm}).fit(frame)
    table = pa.table({"age": pa.array(AWKWARD["age"]), "educ": AWKWARD["educ"], "sex": AWKWARD["sex"]})
    schema = "age double, educ bigint, sex string"
    rows = spark.createDataFrame([tuple(row.values()) for row in table.to_pylist()], schema).coalesce(1)
    predicted = model.transform(rows)
    assert predicted.columns == ["age", "educ", "sex", "prediction"]
    assert "EvalPython" not in predicted._jdf.queryExecution().executedPlan().toString()
    found = predicted.toPandas()["prediction"]
    known = [i for i, sex in enumerate(AWKWARD["sex"]) if sex in ("F", "M")]
    with pytest.warns(BeyondBounds):
        expected = model.summary.predict({name: [values[i] for i in known] for name, values in AWKWARD.items()})
    assert np.allclose(found[known], expected, rtol=1e-5)
    assert found.drop(known).isna().tolist() == [True, True]
    with pytest.raises(ConfError, match="has a column 'Prediction'"):
        model.setPredictionCol("Prediction").transform(predicted)
    with pytest.raises(SourceError, match="educ"):
        model.transform(rows.drop("educ"))
    with pytest.raises(SourceError, match="age"):
        model.transform(rows.withColumn("age", rows["sex"]))


@pytest.mark.spark35
def test_rows_of_a_vector_that_are_not_there_are_null(spark: Any, place: dict[str, Any]) -> None:
    """Kills: an error on a row (it would tell of it), a slot taken from a vector of another length, sparse ones misread."""
    rng = np.random.default_rng(2)
    good = [(Vectors.dense(x), float(2 + x[0] - 3 * x[1])) for x in rng.uniform(0, 1, (500, 2))]
    good += [(Vectors.sparse(2, {1: 0.5}), 0.5)] * 20
    bad = [(None, 9.0), (Vectors.dense(1.0), 9.0), (Vectors.dense(0.0, 0.0, 0.0), 9.0), (Vectors.dense(np.nan, 1), 9.0)]
    bad += [(Vectors.dense(0.5, 0.5), None)]
    frame = _vectors(spark, good + bad * 50)
    bounds = {"features": [(0, 1), (0, 1)], "y": (-5, 10)}
    model = DPLinearRegression(labelCol="y", bounds=bounds, releaseName="vector", **place | RICH).fit(frame)
    assert model.terms == ("features_0", "features_1")
    assert [model.intercept, *model.coefficients] == pytest.approx([2, 1, -3], abs=1e-2)
    found = model.transform(_vectors(spark, [(Vectors.dense(7.0, 0.25), None), *bad[:2]])).toPandas()["prediction"]
    middle = 2 + 0.5 - 1.5  # as `predict` has it: a null is at the middle of its bounds
    assert found.tolist() == pytest.approx([2 + 1 - 0.75, middle, middle], abs=1e-2)


@pytest.mark.spark35
def test_a_vector_of_more_slots_than_memory_is_null(spark: Any, place: dict[str, Any]) -> None:
    """Kills: one sparse vector that ends the executor, written out before its size is looked at. Its own size stays in."""
    rows = [(Vectors.sparse(2, [0], [1.0]), 1.0)] * 300 + [(Vectors.dense(0.0, 1.0), 0.0)] * 300
    frame = _vectors(spark, [*rows, (Vectors.sparse(2**31 - 1, [0], [1.0]), 1.0), (Vectors.sparse(20, [], []), 1.0)])
    bounds = {"features": [(0, 1), (0, 1)]}
    model = DPCovariance(bounds=bounds, k=1, outputCol="pc", releaseName="large", **place | RICH).fit(frame)
    assert model.release.second_moment().iloc[0, 0] == pytest.approx(600, abs=0.5)
    assert len(model.transform(frame).select("pc").collect()) == 602


def _vectors(spark: Any, rows: list[Any]) -> Any:
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import DoubleType, StructField, StructType

    return spark.createDataFrame(
        rows, StructType([StructField("features", VectorUDT()), StructField("y", DoubleType())])
    )


def test_nulls_and_weights_as_in_any_release(spark: Any, place: dict[str, Any]) -> None:
    """The keys of a conf that are no Params. Kills: a conf that is left out."""
    rows = [(1.0, 2.0, 1.0)] * 300 + [(3.0, 4.0, 2.0)] * 300 + [(None, 4.0, 1.0), (float("nan"), 4.0, 1.0)] * 50
    frame = spark.createDataFrame(rows, "x double, y double, w double")
    params = {"inputCols": ["x", "y"], "bounds": {"x": (0, 4), "y": (0, 4)}, "releaseName": "m", **place, **RICH}
    model = DPCovariance(**params).fit(frame)
    assert model.release.second_moment().iloc[0, 0] == pytest.approx(600, rel=1e-3)
    middle = DPCovariance(**{**params, "releaseVersion": "2"}, conf={"nulls": "midpoint"}).fit(frame)
    assert middle.release.second_moment().iloc[0, 0] == pytest.approx(700, rel=1e-3)
    assert middle.mean["x"] == pytest.approx((300 + 900 + 200) / 700, rel=1e-3)
    weighted = DPCovariance(**{**params, "releaseVersion": "3"}, conf={"weight": {"column": "w", "upper": 2}}).fit(
        frame
    )
    assert weighted.mean["x"] == pytest.approx((300 + 1800) / 900, rel=1e-3)
    assert weighted.release.manifest["weight"] is not None


def test_covariances_and_components(frame: Any, place: dict[str, Any], table: Path) -> None:
    """Kills: components of other columns, uncentred or unscaled rows. The projected rows have the eigenvalues as variances."""
    estimator = DPCovariance(
        inputCols=["age", "educ", "income", "sex"],
        bounds=BOUNDS,
        categories={"sex": ["F", "M"]},
        releaseName="m",
        **place,
    ).setParams(**RICH)
    model = estimator.fit(frame)
    rows = pq.read_table(table).to_pandas().assign(male=lambda t: (t["sex"] == "M") * 1.0)
    for name, (low, high) in BOUNDS.items():
        rows[name] = rows[name].clip(low, high)
    truth = rows[["age", "educ", "income", "male"]].cov(ddof=0)
    names = ["age", "educ", "income", "sex[M]"]
    assert np.allclose(
        model.covariance.loc[names, names], truth, rtol=1e-3, atol=1e-3 * np.sqrt(np.outer(*[np.diag(truth)] * 2))
    )
    assert np.allclose(model.correlation.loc[names, names], rows[["age", "educ", "income", "male"]].corr(), atol=1e-3)
    assert (model.covarianceStd.to_numpy() >= 0).all()
    assert model.correlationStd.shape == (5, 5)
    assert model.mean["age"] == pytest.approx(rows["age"].mean(), rel=1e-3)
    assert model.regress("income ~ age").params == model.release.regress("income ~ age").params
    with pytest.raises(ConfError, match="k is not set"):
        model.transform(frame)
    for scale in (False, True):
        components = model.setK(2).setScale(scale).setOutputCol("pcs")
        found = np.array(
            components.transform(frame).select("pcs").toPandas()["pcs"].map(lambda v: v.toArray()).tolist()
        )
        assert found.mean(axis=0) == pytest.approx([0, 0], abs=1e-3)
        assert np.cov(found.T, ddof=0) == pytest.approx(np.diag(model.pca.eigenvalues), abs=1e-3)
    unknown = frame.limit(3).selectExpr("age", "educ", "income", "if(age > 0, 'X', sex) as sex")
    assert [row["pcs"] for row in components.transform(unknown).collect()] == [None] * 3


@pytest.fixture
def tracts(spark: Any) -> Any:
    rng = np.random.default_rng(4)
    code = np.repeat([1, 2, 3, 9], 400)
    x = rng.uniform(0, 1, len(code))
    y = 0.1 * code + 0.3 * x + rng.normal(0, 0.02, len(code))
    table = pd.DataFrame({"tract": code, "kind": np.where(code < 9, "a", "b"), "x": x, "y": y})
    return spark.createDataFrame(table)


@pytest.mark.spark35
def test_lines_by_group(spark: Any, tracts: Any, place: dict[str, Any]) -> None:
    """Kills: a line of another group, a row lost or doubled by the join, an unclipped x."""
    place = {**place, "epsilon": 1000.0, "delta": None}
    estimator = DPTheilSen(
        inputCol="x",
        labelCol="y",
        groupCols=["tract", "kind"],
        groups=[[1, "a"], [2, "a"], [4, "a"]],
        releaseName="lines",
    ).setParams(bounds={"x": (0, 1), "y": (0, 1)}, conf={"release": {"expected_rows": 400}}, **place)
    model = estimator.fit(tracts)
    lines = model.lines.set_index("tract")
    assert lines.index.tolist() == [1, 2, 4]
    assert lines["slope"][[1, 2]].tolist() == pytest.approx([0.3, 0.3], abs=0.05)
    assert dpspark.release(estimator.toConf(), tracts).predictions().equals(model.predictions)
    assert model.summary == model.release.summary()
    rows = [(1, "a", 0.5), (1, "b", 0.5), (2, "a", 7.0), (9, "a", 0.5), (None, "a", 0.5), (2, "a", None)]
    fresh = spark.createDataFrame(rows, "tract int, kind string, x double").coalesce(1)
    found = model.transform(fresh)
    assert found.columns == ["tract", "kind", "x", "prediction"]
    values = {(r["tract"], r["kind"], r["x"]): r["prediction"] for r in found.collect()}
    at = {key: lines["intercept"][key[0]] + lines["slope"][key[0]] * x for key, x in
          {(1, "a", 0.5): 0.5, (2, "a", 7.0): 1.0, (2, "a", None): 0.5}.items()}  # fmt: skip
    assert values == pytest.approx({**dict.fromkeys(((1, "b", 0.5), (9, "a", 0.5), (None, "a", 0.5))), **at})


def test_one_line(tracts: Any, place: dict[str, Any]) -> None:
    bounds = {"x": (0, 1), "y": (0, 1)}
    place = {**place, "epsilon": 1000.0, "delta": None}
    model = DPTheilSen(inputCol="x", labelCol="y", bounds=bounds, releaseName="line", **place).fit(
        tracts.where("tract = 2")
    )
    line = model.lines.iloc[0]
    assert line["slope"] == pytest.approx(0.3, abs=0.05)
    found = model.transform(tracts.select("x").limit(5)).toPandas()
    assert np.allclose(found["prediction"], line["intercept"] + line["slope"] * found["x"])


def test_saved_and_loaded(spark: Any, frame: Any, tracts: Any, place: dict[str, Any], tmp_path: Path) -> None:
    """Kills: a model that needs the published release, lost digits or Params, files that were changed."""
    small = {"releaseName": "s", **place}
    made = {
        DPLinearRegressionModel: regression(place),
        DPCovarianceModel: DPCovariance(inputCols=["age"], bounds={"age": (18, 99)}, k=1, outputCol="pc", **small),
        DPTheilSenModel: DPTheilSen(
            inputCol="x", labelCol="y", bounds={"x": (0, 1), "y": (0, 1)}, releaseName="l", **place
        ),
    }
    for kind, estimator in made.items():
        estimator.save(str(tmp_path / "estimator" / kind.__name__))
        loaded = type(estimator).load(str(tmp_path / "estimator" / kind.__name__))
        assert (loaded.uid, loaded.toConf()) == (estimator.uid, estimator.toConf())
        rows = tracts if kind is DPTheilSenModel else frame
        model = loaded.fit(rows)
        model.save(str(tmp_path / "model" / kind.__name__))
        published = model.release.path
        published.rename(published.with_name("elsewhere"))
        again = kind.load(str(tmp_path / "model" / kind.__name__))
        if kind is DPLinearRegressionModel:
            again.write().overwrite().save(str(tmp_path / "model" / kind.__name__))
            again = kind.load(str(tmp_path / "model" / kind.__name__))
        assert again.uid == model.uid
        assert again.extractParamMap() == model.extractParamMap()
        assert again.release.manifest == model.release.manifest
        assert again.release.path == published
        ordered = [m.transform(rows.coalesce(1)).toPandas() for m in (model, again)]
        assert ordered[0].equals(ordered[1])
        assert repr(again) == repr(model)
    with pytest.raises(OutputError, match="expected"):
        DPTheilSenModel.load(str(tmp_path / "model" / "DPCovarianceModel"))


def test_a_changed_model_is_refused(spark: Any, frame: Any, place: dict[str, Any], tmp_path: Path) -> None:
    """Kills: coefficients that someone wrote into a saved model, under a certificate that is not theirs."""
    model = regression(place).fit(frame)
    other = regression(place, releaseVersion="2").fit(frame)
    model._kept = {**model._kept, "coefficients.parquet": other._kept["coefficients.parquet"]}
    model.save(str(tmp_path / "model"))
    with pytest.raises(OutputError, match="damaged"):
        DPLinearRegressionModel.load(str(tmp_path / "model"))
    # All files of another release, whose digests fit each other.
    model._kept = other._kept
    model.write().overwrite().save(str(tmp_path / "model"))
    with pytest.raises(OutputError, match="not of the release at"):
        DPLinearRegressionModel.load(str(tmp_path / "model"))


@pytest.mark.parametrize("name", ["..", ".", "", "../up.parquet", None, "a\0b"])
def test_a_model_with_other_files_is_refused(
    spark: Any, frame: Any, place: dict[str, Any], tmp_path: Path, name: str | None
) -> None:
    """Kills: files that were put beside those that were saved, and names that lead elsewhere."""
    model = DPCovariance(inputCols=["age"], bounds={"age": (18, 99)}, releaseName="s", **place).fit(frame)
    path = str(tmp_path / "model")
    model.save(path)
    more = [(name, bytearray(b"x"))]
    spark.createDataFrame(more, "name string, content binary").write.mode("append").parquet(f"{path}/release")
    with pytest.raises(OutputError, match="the names of its files"):
        DPCovarianceModel.load(path)


def test_a_model_whose_files_were_exchanged_is_refused(
    spark: Any, frame: Any, place: dict[str, Any], tmp_path: Path
) -> None:
    """Kills: the files of one model under the metadata of another, where the published release is gone."""
    for version in ("1", "2"):
        model = regression({**place, "releaseVersion": version}).fit(frame)
        model.save(str(tmp_path / version))
        model.release.path.rename(tmp_path / f"gone-{version}")
    (tmp_path / "1" / "release").rename(tmp_path / "old")
    (tmp_path / "2" / "release").rename(tmp_path / "1" / "release")
    with pytest.raises(OutputError, match="not those that were saved"):
        DPLinearRegressionModel.load(str(tmp_path / "1"))


def test_over_budget(frame: Any, place: dict[str, Any]) -> None:
    """Kills: a fit that is not charged, or charged before it is refused."""
    Ledger(place["ledgerUrl"]).grant("poor", epsilon=1.2, delta=1e-9)
    poor = {**place, "ledgerDataset": "poor"}
    regression(poor).fit(frame)
    with pytest.raises(LedgerError, match="poor"):
        regression(poor, releaseVersion="2").fit(frame)
    with pytest.raises(LedgerError, match="another spec"):
        regression(poor, epsilon=0.5).fit(frame)
    assert not (Path(place["outputPath"]) / "income" / "2").exists()
    assert [e.why for e in Ledger(place["ledgerUrl"]).history("poor") if e.what == "reserve"] == ["release income 1"]


def test_other_rows_under_a_used_version(frame: Any, place: dict[str, Any]) -> None:
    """Kills: a model of other rows that nobody is told of. In this process it is refused; else it is said."""
    estimator = regression(place)
    estimator.fit(frame)
    with pytest.raises(LedgerError, match="another DataFrame"):
        estimator.fit(frame.where("age > 30"))
    with pytest.raises(SourceError, match="educ: no such column"):  # published or not
        estimator.fit(frame.drop("educ"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.fit(frame)
    by_conf = regression(place, releaseVersion="2")
    made = dpspark.release(by_conf.toConf(), frame.where("age > 30"))
    with pytest.warns(UserWarning, match="this DataFrame was not read"):
        found = by_conf.fit(frame)
    assert found.release.path == made.path
    assert charges(place) == ["release income 1", "release income 2"]


def test_other_files_under_a_used_version(spark: Any, frame: Any, place: dict[str, Any], tmp_path: Path) -> None:
    """Kills: a look at the plan alone, which is the same for two files with the same columns."""
    frame.where("age > 30").write.parquet(str(tmp_path / "other"))
    estimator = regression(place)
    estimator.fit(frame)
    with pytest.raises(LedgerError, match="another DataFrame"):
        estimator.fit(spark.read.parquet(str(tmp_path / "other")))
    assert charges(place) == ["release income 1"]


@pytest.mark.parametrize("kind", ["rows", "pandas", "cached"])
def test_rows_that_look_alike(spark: Any, place: dict[str, Any], tmp_path: Path, kind: str) -> None:
    """Kills: the model of other rows without a word, where Spark shows no difference; a warning for the same ones."""
    made = []
    for top in (1.0, 3.0):
        table = pd.DataFrame({"x": np.linspace(0, top, 300)})
        rows = spark.createDataFrame(table if kind == "pandas" else [(x,) for x in table["x"].tolist()], "x double")
        if kind == "cached":
            rows.write.parquet(str(tmp_path / f"to-{top}"))
            rows = spark.read.parquet(str(tmp_path / f"to-{top}")).cache()
        made.append(rows)
    estimator = DPCovariance(inputCols=["x"], bounds={"x": (0, 3)}, releaseName="m", **place)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = estimator.fit(made[0])
        estimator.fit(made[0])
        estimator.copy({estimator.releaseVersion: "2"}).fit(made[0].where("x > 0"))
        estimator.copy({estimator.releaseVersion: "2"}).fit(made[0].where("x > 0"))
    with pytest.warns(UserWarning, match="may have other rows"):
        assert estimator.fit(made[1]).covariance.equals(first.covariance)
    for rows in made:
        rows.unpersist()


def test_a_fit_that_goes_on_says_that_it_did_not_read(
    frame: Any, place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: a draw of other rows, left by a run that was killed before it could publish, as the model of these."""

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    estimator = regression(place)
    with monkeypatch.context() as patch:
        patch.setattr("dpspark.releasing.run._publish", killed)
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(frame)
    with pytest.warns(UserWarning, match="this DataFrame was not read"):
        estimator.fit(frame.where("age > 30"))
    assert charges(place) == ["release income 1"]


def test_nothing_exact_is_shown(spark: Any, place: dict[str, Any]) -> None:
    """Kills: data in a repr, a Param, a saved file or an error. All rows are one odd number."""
    odd = 4321.0987
    frame = spark.createDataFrame([(odd, odd)] * 200, "x double, y double")
    model = DPCovariance(inputCols=["x", "y"], bounds={"x": (0, 9999), "y": (0, 9999)}, releaseName="odd", **place).fit(
        frame
    )
    shown = [repr(model), str(model), model.explainParams(), str(model.covariance), str(model.pca), str(model._kept)]
    assert not any("4321.09" in text for text in shown)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no bounds": ({"bounds": {"age": (18, 99), "income": (0, 1)}}, "bounds: none for 'educ'"),
    "none at all": ({"bounds": None}, "bounds: none for"),
    "no bounds of the label": ({"bounds": {"age": (18, 99), "educ": (1, 16)}}, "bounds: none for 'income'"),
    "upside down": ({"bounds": {**BOUNDS, "age": (99, 18)}}, "expected lower < upper"),
    "infinite": ({"bounds": {**BOUNDS, "age": (18, float("inf"))}}, "finite"),
    "slots for a plain column": ({"bounds": {**BOUNDS, "age": [(18, 99)]}}, "expected one pair"),
    "names for a plain column": ({"bounds": {**BOUNDS, "age": {"a": (18, 99)}}}, "expected one pair"),
    "of no column": ({"bounds": {**BOUNDS, "agee": (0, 1)}}, "'agee' is none of the columns"),
    "both": ({"categories": {"sex": ["F"], "age": [1]}}, "bounds and categories"),
    "label among features": ({"labelCol": "age"}, "among the features"),
    "no such column": (
        {"inputCols": ["wealth"], "bounds": {"wealth": (0, 1), "income": (0, 1)}, "categories": None},
        "wealth",
    ),
    "vector and columns": ({"featuresCol": "features"}, "both set"),
    "no name": ({"releaseName": None}, "releaseName: missing"),
    "no dataset": ({"ledgerDataset": None}, "ledgerDataset: missing"),
    "no budget": ({"epsilon": None, "delta": None}, "epsilon and delta, or rho"),
    "negative": ({"epsilon": -1.0}, "> 0"),
    "mechanism": ({"mechanism": "magic"}, "expected one of gram_ridge"),
    "neighbours": ({"neighbours": "friends"}, "add_remove"),
    "said twice": ({"conf": {"privacy": {"epsilon": 2.0}}}, "conf.privacy.epsilon is set by Params"),
    "elsewhere": ({"conf": {"output": {"path": "x"}}}, "output is set by Params"),
    "unknown key": ({"conf": {"nuls": "midpoint"}}, "nuls: unknown key"),
    "computed": ({"conf": {"columns": {"sex": {"expr": "1"}}}, "categories": None}, "SQLTransformer"),
    "groups": ({"conf": {"release": {"group_by": ["sex"], "groups": ["F"]}}}, "one matrix"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_params(frame: Any, place: dict[str, Any], case: str) -> None:
    """Kills: bounds from the data, a silent default, a Param that is not looked at. Nothing is charged."""
    changes, message = BAD[case]
    with pytest.raises((ConfError, SourceError), match=message):
        regression(place, **changes).fit(frame)
    assert not charges(place)


def test_bad_vectors(spark: Any, frame: Any, place: dict[str, Any]) -> None:
    """Kills: slots that are cut off, or made up."""
    from pyspark.ml.feature import VectorAssembler

    rows = VectorAssembler(inputCols=["age", "educ"], outputCol="features").transform(frame)
    for slots, message in (([(0, 1)], "has 2 slots"), ([(0, 1)] * 3, "has 2 slots"), ((0, 1), "is a vector")):
        with pytest.raises((ConfError, SourceError), match=message):
            regression(place, inputCols=None, categories=None, bounds={"features": slots, "income": (0, 1)}).fit(rows)
    with pytest.raises(SourceError, match="expected a vector"):
        DPLinearRegression(
            featuresCol="age", labelCol="income", bounds={"age": [(0, 1)], "income": (0, 1)}, releaseName="v", **place
        ).fit(frame)
    with pytest.raises(SourceError, match="no such column"):
        DPLinearRegression(
            labelCol="income", bounds={"features": [(0, 1)], "income": (0, 1)}, releaseName="v", **place
        ).fit(frame)
    assert not charges(place)


@pytest.mark.spark35
def test_params_are_pyspark_params() -> None:
    """Kills: what a user of pyspark.ml is used to. No Spark is needed for any of it."""
    estimator = DPLinearRegression(epsilon=1, bounds={"x": (np.float64(0), 1)}).setDelta(1e-9).setInputCols(("x",))
    assert (estimator.getEpsilon(), estimator.getDelta(), estimator.getInputCols()) == (1.0, 1e-9, ["x"])
    assert estimator.getBounds() == {"x": [0.0, 1.0]}
    assert estimator.uid.startswith("DPLinearRegression_")
    copied = estimator.copy({estimator.epsilon: 2.0})
    assert (copied.uid, copied.getEpsilon(), estimator.getEpsilon()) == (estimator.uid, 2.0, 1.0)
    assert "current: 1.0" in estimator.explainParam("epsilon")
    assert {"bounds", "epsilon", "featuresCol"} < {param.name for param in estimator.params}
    for bad in ({"epsilon": "one"}, {"bounds": [(0, 1)]}, {"bounds": {"x": (1,)}}, {"bounds": {"x": (True, 2)}},
                {"conf": {"x": object()}}, {"conf": {"columns": {"age": 5}}}, {"nonsense": 1}):  # fmt: skip
        with pytest.raises(TypeError):
            DPLinearRegression(**bad)
    with pytest.raises(TypeError, match="password"):
        DPLinearRegression(ledgerUrl="postgresql://me:secret-7@host/ledger")
    for kind in (DPCovariance, DPTheilSen, DPLinearRegression):
        for param in kind().params:
            name = param.name[0].upper() + param.name[1:]
            assert callable(getattr(kind, f"get{name}")), name
            assert callable(getattr(kind, f"set{name}")), name
