"""What a fit sees of a DataFrame's plan: subqueries, hidden columns, clocks, plans that are cut short."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.sql import functions

from dpspark.errors import ConfError, SourceError
from dpspark.ml import DPCovariance, plans
from dpspark.privacy.ledger import Ledger


@pytest.fixture
def frame(spark: Any, tmp_path: Path) -> Any:
    path = str(tmp_path / "rows")
    spark.range(200).selectExpr("id / 200 as x", "id % 7 / 7 as y").write.parquet(path)
    rows = spark.read.parquet(path)
    rows.createOrReplaceTempView("ml_plans")
    return rows


@pytest.fixture
def covariance(tmp_path: Path) -> DPCovariance:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger(url).grant("people", epsilon=100.0, delta=1e-3)
    return DPCovariance(
        inputCols=["x"],
        bounds={"x": (0, 1)},
        epsilon=1.0,
        delta=1e-9,
        ledgerUrl=url,
        ledgerDataset="people",
        outputPath=str(tmp_path / "releases"),
        releaseName="m",
        releaseVersion="1",
    )


def charges(estimator: DPCovariance) -> list[str]:
    return [act.why for act in Ledger(estimator.getLedgerUrl()).history("people") if act.what == "reserve"]


SUBQUERIES = {
    "exists": "SELECT x FROM ml_plans WHERE EXISTS (SELECT 1 FROM ml_plans b WHERE b.x > 0.95)",
    "not exists": "SELECT x FROM ml_plans a WHERE NOT EXISTS (SELECT 1 FROM ml_plans b WHERE b.x > a.x)",
    "in": "SELECT x FROM ml_plans WHERE x IN (SELECT x FROM ml_plans WHERE y > 0.5)",
    "scalar": "SELECT x FROM ml_plans WHERE x > (SELECT y FROM ml_plans WHERE x = 0.5)",
    "exists as a column": "SELECT x, EXISTS (SELECT 1 FROM ml_plans b WHERE b.x > 0.95) AS z FROM ml_plans",
    "in as a column": "SELECT x, x IN (SELECT y FROM ml_plans) AS z FROM ml_plans",
    "scalar as a column": "SELECT x - (SELECT y FROM ml_plans WHERE x = 0.5) AS x FROM ml_plans",
    "inside": "SELECT x FROM (SELECT * FROM ml_plans WHERE x IN (SELECT y FROM ml_plans)) WHERE x < 1",
}


@pytest.mark.spark35
@pytest.mark.parametrize("case", SUBQUERIES)
def test_subqueries_are_steps_across_rows(spark: Any, frame: Any, covariance: DPCovariance, case: str) -> None:
    """Kills: a subquery of row-local steps alone, by which one record lets all rows in or out. Text alone is as strict."""
    rows = spark.sql(SUBQUERIES[case])
    with pytest.raises(ConfError, match=r"step across rows in its plan \(Subquery\)"):
        covariance.fit(rows)
    with pytest.raises(ConfError, match="Set rowsPerRecord"):
        plans.check_plan(plans._of_text(plans.plan_of(rows).text), None)
    assert not charges(covariance)


UNSTABLE = {
    "row index": "_metadata.row_index % 2 = 0",
    "file size": "_metadata.file_size > 1000",
    "reflect": "reflect('java.lang.Math', 'random') < '0.5'",
    "java_method": "java_method('java.lang.Math', 'random') < '0.5'",
    "block": "input_file_block_start() < 1000",
    "block length": "input_file_block_length() < 1000",
    "local time": "localtimestamp() > date'2020-01-01'",
    "unix time": "unix_timestamp() > 5",
}


@pytest.mark.spark35
@pytest.mark.parametrize("case", UNSTABLE)
def test_hidden_columns_and_clocks_are_refused(frame: Any, covariance: DPCovariance, case: str) -> None:
    """Kills: a rule that looks at where a row is, or at the time, also where there is a plan's text alone."""
    rows = frame.where(UNSTABLE[case]).select("x")
    for more in ({}, {covariance.rowsPerRecord: 2}):
        with pytest.raises(ConfError, match="in its plan: which rows"):
            covariance.fit(rows, more)
    with pytest.raises(ConfError, match="in its plan: which rows"):
        plans.check_plan(plans._of_text(plans.plan_of(rows).text), 2)
    assert not charges(covariance)


def test_newer_functions_of_chance_and_time_are_refused(frame: Any, covariance: DPCovariance) -> None:
    """Kills: the names that Spark 4 added."""
    for rule in ("try_reflect('java.lang.Math', 'random') < '0.5'", "cast(current_time() as string) > '0'"):
        with pytest.raises(ConfError, match="in its plan: which rows"):
            covariance.fit(frame.where(rule))


@pytest.mark.spark35
def test_functions_that_say_they_are_not_deterministic_are_refused(frame: Any, covariance: DPCovariance) -> None:
    """Kills: a list of names in place of what Spark knows; a UDF of any other kind is for its author to get right."""
    same = functions.udf(lambda x: x, "double")
    covariance.fit(frame.withColumn("z", same("x")))
    random = same.asNondeterministic()
    # Beside, inside and around a feature stage, which says the same of itself and is row-local.
    features = VectorAssembler(inputCols=["x"], outputCol="v", handleInvalid="keep").transform(frame)
    covariance.fit(features, {covariance.releaseVersion: "2"})
    slot = vector_to_array("v")[0]
    for rows in (frame.withColumn("z", random("x")), features.withColumn("z", random(slot) + 1),
                 features.withColumn("z", slot + random("x"))):  # fmt: skip
        with pytest.raises(ConfError, match="not deterministic in its plan"):
            covariance.fit(rows)


LONG = " and ".join(f"x + y * {i} < 1000" for i in range(20))


@pytest.mark.spark35
def test_a_plan_is_seen_in_full(spark: Any, frame: Any, covariance: DPCovariance) -> None:
    """Kills: steps below the point where a session's setting cuts the plan's text. The setting is as before, after it."""
    key = "spark.sql.maxPlanStringLength"
    before = spark.conf.get(key)
    spark.conf.set(key, "200")
    try:
        joined = frame.join(frame.agg(functions.max("y").alias("top"))).where(LONG)
        with pytest.raises(ConfError, match="Set rowsPerRecord"):
            covariance.fit(joined)
        with pytest.raises(ConfError, match=r"rand\(\)"):
            covariance.fit(frame.where("rand() < 0.5").where(LONG))
        assert spark.conf.get(key) == "200"
    finally:
        spark.conf.set(key, before)
    assert not charges(covariance)


@pytest.mark.spark35
@pytest.mark.parametrize(
    ("key", "few"), [("spark.sql.maxPlanStringLength", "200"), ("spark.sql.debug.maxToStringFields", "3")]
)
def test_a_plan_that_is_cut_short_is_refused(
    spark: Any, frame: Any, monkeypatch: pytest.MonkeyPatch, key: str, few: str
) -> None:
    """Kills: a text that another thread's setting cut, taken as all there is."""
    monkeypatch.setattr(plans, "IN_FULL", {key: few})
    rows = frame.selectExpr("*", *(f"x + {i} as x{i}" for i in range(30)))
    with pytest.raises(SourceError, match="plan in full"):
        plans.plan_of(rows)


@pytest.mark.spark35
def test_many_fits_at_once_leave_the_settings_alone(spark: Any, frame: Any) -> None:
    """Kills: a thread that restores what another has set for the moment."""
    before = {key: spark.conf.get(key) for key in plans.IN_FULL}
    with ThreadPoolExecutor(8) as threads:
        texts = list(threads.map(lambda _: plans.plan_of(frame).text, range(80)))
    assert len(set(texts)) == 1
    assert {key: spark.conf.get(key) for key in plans.IN_FULL} == before


@pytest.mark.spark35
def test_an_error_quotes_no_literal(frame: Any) -> None:
    """Kills: a line of a literal, taken as a step of that name. Node by node it is none; in a text it may be one."""
    plan = plans.plan_of(frame.withColumn("z", functions.lit("abc\nSecret_42 is a value")))
    plans.check_plan(plan, None)
    with pytest.raises(ConfError, match="a step across rows in its plan") as refused:
        plans.check_plan(plans._of_text(plan.text), None)
    assert "Secret" not in str(refused.value)


def test_a_heading_in_a_literal_hides_nothing() -> None:
    """Kills: an explanation that is cut at a literal that looks like the next heading."""
    explained = "== Analyzed Logical Plan ==\nx: int\nProject [{}]\n+- Join\n\n== Optimized Logical Plan ==\nJoin"
    assert plans._of_text(plans._analysed(explained.format("1"))).steps == ("Project", "Join")
    assert plans._analysed(explained.format("\n== Optimized Logical Plan ==")) == ""


@pytest.mark.spark35
@pytest.mark.parametrize("eager", [True, False])
def test_a_checkpoint_hides_what_was_done_before(frame: Any, covariance: DPCovariance, eager: bool) -> None:
    """Kills: an aggregate that nobody sees any more, as the plan begins at the checkpoint."""
    rows = frame.groupBy("y").agg(functions.max("x").alias("x")).localCheckpoint(eager)
    with pytest.raises(ConfError, match="Checkpoint"):
        covariance.fit(rows)
    covariance.fit(rows, {covariance.rowsPerRecord: 2})
