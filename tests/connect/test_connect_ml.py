"""dpspark.ml through a real Spark Connect server, from a client without Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from server import ROOT, Server

from dpspark.errors import SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.ml import DPCovariance, DPLinearRegression, DPLinearRegressionModel, DPTheilSen

pytestmark = pytest.mark.connect

BOUNDS = {"age": (18, 99), "educ": (1, 16), "income": (0, 200000)}


@pytest.fixture
def place(conf: dict[str, Any]) -> dict[str, Any]:
    Ledger(conf["ledger"]["url"]).grant("people", epsilon=1e9)
    where = {"ledgerUrl": conf["ledger"]["url"], "ledgerDataset": "people", "outputPath": conf["output"]["path"]}
    return {**where, "epsilon": 5e7, "delta": 1e-4, "releaseVersion": "1", "rowsPerRecord": 1}


def test_fit_transform_save_and_load(remote: Any, people: Path, place: dict[str, Any], tmp_path: Path) -> None:
    """Kills: what asks for a JVM. The session is no default of pyspark's: it is taken from the DataFrame, or passed."""
    frame = remote.read.parquet(str(people))
    private = DPLinearRegression(
        inputCols=["age", "educ", "sex"],
        labelCol="income",
        bounds=BOUNDS,
        categories={"sex": ["F", "M"]},
        releaseName="r",
    ).setParams(**place)
    model = private.fit(frame)
    assert private.fit(frame).coefficients == model.coefficients
    table = pq.read_table(people).to_pandas()
    x = np.column_stack([np.ones(len(table)), table["age"], table["educ"].clip(1, 16), table["sex"] == "M"])
    truth = np.linalg.lstsq(x.astype(float), table["income"].clip(0, 200000), rcond=None)[0]
    assert [model.intercept, *model.coefficients] == pytest.approx(truth, rel=1e-3)
    model.write().session(remote).save(str(tmp_path / "model"))
    model.write().session(remote).overwrite().save(str(tmp_path / "model"))
    loaded = DPLinearRegressionModel.read().session(remote).load(str(tmp_path / "model"))
    rows = table.head(50)
    found = loaded.transform(remote.createDataFrame(rows)).toPandas()["prediction"]
    assert np.allclose(found, model.summary.predict(rows), rtol=1e-5)
    again = private.copy({private.releaseVersion: "2"})
    with pytest.raises(SourceError, match="a sample of rows in its plan"):
        again.fit(frame.sample(0.5))
    again.clear(again.rowsPerRecord)
    for each in (frame, frame.where("age > 20"), frame.limit(3)):
        with pytest.raises(SourceError, match="plan that Spark Connect shows as text only"):
            again.fit(each)
    assert len([act for act in Ledger(place["ledgerUrl"]).history("people") if act.what == "reserve"]) == 1


def test_components_and_lines(remote: Any, people: Path, place: dict[str, Any]) -> None:
    """A vector is made, and lines are joined, on the server."""
    frame = remote.read.parquet(str(people))
    matrix = DPCovariance(inputCols=["age", "educ"], bounds={"age": (18, 99), "educ": (1, 16)})
    model = matrix.setParams(k=1, outputCol="pc", releaseName="m", **place).fit(frame)
    rows = model.transform(frame).select("pc").toPandas()["pc"].map(lambda vector: vector[0])
    assert rows.var(ddof=0) == pytest.approx(model.pca.eigenvalues[0], rel=1e-3)
    lines = DPTheilSen(inputCol="age", labelCol="income", groupCols=["sex"], groups=["F"], releaseName="l")
    bounds = {name: BOUNDS[name] for name in ("age", "income")}
    lined = lines.setParams(bounds=bounds, **place | {"epsilon": 50.0}).fit(frame).transform(frame).toPandas()
    assert (lined["prediction"].isna() == (lined["sex"] == "M")).all()


PROGRAM = """
import sys
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession
from dpspark.ml import DPLinearRegression

url, people, ledger, home = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
frame = spark.read.parquet(people)
private = DPLinearRegression(
    labelCol="income", bounds={"features": [(18, 99), (1, 16)], "income": (0, 200000)}, epsilon=1.0, delta=1e-9,
    releaseName="p", releaseVersion="1", ledgerUrl=ledger, ledgerDataset="people", outputPath=home + "/releases",
    rowsPerRecord=1,
)
stages = [VectorAssembler(inputCols=["age", "educ"], outputCol="features", handleInvalid="keep"), private]
Pipeline(stages=stages).save(home + "/pipeline")
model = Pipeline.load(home + "/pipeline").fit(frame)
model.save(home + "/model")
loaded = PipelineModel.load(home + "/model")
assert loaded.transform(frame).first()["prediction"] == model.transform(frame).first()["prediction"]
print(loaded.stages[-1].terms)
"""


def test_a_pipeline_as_a_user_writes_it(server: Server, people: Path, place: dict[str, Any], tmp_path: Path) -> None:
    """pyspark's own stages, saving and loading need its default session: a process of its own."""
    program = tmp_path / "job.py"  # a client's pyspark does not run from python -c
    program.write_text(PROGRAM)
    arguments = [str(program), server.url, str(people), place["ledgerUrl"], str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "('features_0', 'features_1')" in done.stdout
