"""What the judge sees in a DataFrame's plan: steps across rows, filters, chance and time, and what a plan does not show."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.sql import Window, functions

from dpspark.core.judgement import Judgement
from dpspark.errors import SourceError
from dpspark.judge import plan_text
from dpspark.judge.frames import _judge_text, judge_frame
from dpspark.judge.functions import OF_ONE_ROW, UNSTABLE
from dpspark.ledger.ledger import Ledger
from dpspark.ml import DPCovariance

pytestmark = pytest.mark.spark35
ACROSS, RUN = r"a step across rows in its plan \({}\)", "would change with their order, or with every run"


@pytest.fixture
def frame(spark: Any, tmp_path: Path) -> Any:
    path = str(tmp_path / "rows")
    spark.range(200).selectExpr("id / 200 as x", "id % 7 / 7 as y", "cast(id as string) as s").write.parquet(path)
    rows = spark.read.parquet(path)
    rows.createOrReplaceTempView("judged")
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


def judged(frame: Any, stated: bool = False) -> Judgement:
    return judge_frame(frame, "the DataFrame", stated)


SUBQUERIES = {
    "exists": "SELECT x FROM judged WHERE EXISTS (SELECT 1 FROM judged b WHERE b.x > 0.95)",
    "not exists": "SELECT x FROM judged a WHERE NOT EXISTS (SELECT 1 FROM judged b WHERE b.x > a.x)",
    "in": "SELECT x FROM judged WHERE x IN (SELECT x FROM judged WHERE y > 0.5)",
    "scalar": "SELECT x FROM judged WHERE x > (SELECT y FROM judged WHERE x = 0.5)",
    "exists as a column": "SELECT x, EXISTS (SELECT 1 FROM judged b WHERE b.x > 0.95) AS z FROM judged",
    "in as a column": "SELECT x, x IN (SELECT y FROM judged) AS z FROM judged",
    "scalar as a column": "SELECT x - (SELECT y FROM judged WHERE x = 0.5) AS x FROM judged",
    "inside": "SELECT x FROM (SELECT * FROM judged WHERE x IN (SELECT y FROM judged)) WHERE x < 1",
    "in a comment's place": "SELECT x FROM judged WHERE x > 0 /* /*+ */ and (select max(y) from judged) > 0 -- */",
}


@pytest.mark.parametrize("case", SUBQUERIES)
def test_subqueries_are_steps_across_rows(spark: Any, frame: Any, covariance: DPCovariance, case: str) -> None:
    """Kills: a subquery of row-local steps alone, by which one record lets all rows in or out."""
    with pytest.raises(SourceError, match=ACROSS.format("a subquery")):
        covariance.fit(spark.sql(SUBQUERIES[case]))
    assert not charges(covariance)


STEPS = {
    "Window": lambda f: f.withColumn("z", functions.max("y").over(Window.partitionBy())),
    "Aggregate": lambda f: f.groupBy("y").agg(functions.max("x").alias("x")),
    "Union": lambda f: f.union(f),
    "Join": lambda f: f.join(f.selectExpr("s", "y as z"), "s"),
    "GlobalLimit": lambda f: f.limit(5),
    "Offset": lambda f: f.offset(5),
    "Deduplicate": lambda f: f.dropDuplicates(["y"]),
    "Generate": lambda f: f.select("x", functions.explode(functions.array("x", "y"))),
    "Expand": lambda f: f.unpivot(["s"], ["x", "y"], "k", "x"),
    "Except": lambda f: f.exceptAll(f.where("y > 0.5")),
    "Intersect": lambda f: f.intersect(f),
    "a file that is read twice": lambda f: f.sparkSession.read.parquet(*[_folder(f)] * 2),
}  # fmt: skip


def _folder(frame: Any) -> str:
    return str(frame.inputFiles()[0]).rpartition("/")[0]


@pytest.mark.parametrize("step", STEPS)
def test_steps_across_rows_need_a_statement(frame: Any, step: str) -> None:
    """Kills: a step that makes rows of others, or several of one, taken as row by row."""
    rows = STEPS[step](frame)
    with pytest.raises(SourceError, match=ACROSS.format(step)):
        judged(rows)
    assert judged(rows, stated=True) == Judgement("statement", drops=True)


FILTERS = {
    "where": lambda f: f.where("y > 0.5"),
    "a column": lambda f: f.filter(functions.col("s").isin("1", "2")),
    "na.drop": lambda f: f.na.drop(),
    "below a projection": lambda f: f.where("y > 0.5").select("x").withColumn("z", functions.col("x") + 1),
    "in a view": lambda f: _view(f, "select * from judged where y > 0.5"),
    "in a view of a view": lambda f: _view(_view(f, "select x from judged where y > 0.5"), "select x + 1 as x from v"),
    "in a nested query": lambda f: f.sparkSession.sql("select x from (select * from judged where y > 0.5)"),
    "before a sort": lambda f: f.where("y > 0.5").orderBy("x").repartition(3),
}


def _view(frame: Any, sql: str) -> Any:
    frame.sparkSession.sql(f"create or replace temp view v as {sql}" if " v" not in sql else f"select * from ({sql})")
    return frame.sparkSession.table("v")


@pytest.mark.parametrize("case", FILTERS)
def test_a_filter_is_seen_wherever_it_stands(frame: Any, case: str) -> None:
    """Kills: a count that is published as it is, though a value of one record decides whether it is counted."""
    assert judged(FILTERS[case](frame)) == Judgement("plan", drops=True)


def test_rows_of_lines_may_be_dropped(spark: Any, tmp_path: Path) -> None:
    """Kills: text files, in which a line that is empty or malformed is no row; or where a quote joins many lines."""
    spark.range(5).write.csv(str(tmp_path / "csv"))
    assert judged(spark.read.csv(str(tmp_path / "csv"))) == Judgement("plan", drops=True)
    for option, value in (("multiLine", True), ("MULTILINE", "True"), ("lineSep", ";")):
        with pytest.raises(SourceError, match="rows need not be its records"):
            judged(spark.read.option(option, value).csv(str(tmp_path / "csv")))
    with pytest.raises(SourceError, match="rows need not be its records"):
        judged(spark.read.text(str(tmp_path / "csv"), wholetext=True))
    spark.range(5).write.json(str(tmp_path / "json"))  # a line of JSON may be an array of rows
    with pytest.raises(SourceError, match="rows need not be its records"):
        judged(spark.read.json(str(tmp_path / "json")))


KEPT = {
    "itself": lambda f: f,
    "sorted": lambda f: f.orderBy("x").repartition(3).repartition(2, "y").coalesce(1),
    "columns": lambda f: f.selectExpr("x * 2 as x", "case when y > 1 then 0 else log1p(y) end as y").na.fill(0),
    "a nested query": lambda f: f.sparkSession.sql("select * from (select x, upper(s) as s from judged)"),
    "cached": lambda f: f.select("x").cache(),
    "pandas": lambda f: f.sparkSession.createDataFrame(pd.DataFrame({"x": [0.5, 0.25]})),
    "a list": lambda f: f.sparkSession.createDataFrame([(0.5,), (0.25,)], ["x"]),
    "dictionaries": lambda f: f.sparkSession.createDataFrame([{"x": 0.5}] * 3000),
    "a stage": lambda f: VectorAssembler(inputCols=["x"], outputCol="v", handleInvalid="keep").transform(f),
    "a vector's slot": lambda f: VectorAssembler(inputCols=["x"], outputCol="v", handleInvalid="keep").transform(f)
    .select(vector_to_array("v")[0].alias("x")),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_rows_that_stay_are_known_to_stay(frame: Any, case: str) -> None:
    assert judged(KEPT[case](frame)) == Judgement("plan", drops=False)


def test_a_filter_above_a_cache_is_seen(frame: Any) -> None:
    """Kills: a cache refused for a filter that is not behind it, or that is on no floats."""
    for rows in (
        frame.cache().where("y > 0.5"),
        frame.where("s > '5'").cache(),
        frame.selectExpr("y > 1 as z").cache(),
    ):
        assert judged(rows).by == "plan"
        rows.unpersist()


HIDDEN = {
    "python": lambda f: f.withColumn("z", functions.udf(lambda x: x, "double")("x")),
    "pandas": lambda f: f.mapInPandas(lambda batches: batches, f.schema),
    "arrow": lambda f: f.mapInArrow(lambda batches: batches, f.schema),
    "an eager checkpoint": lambda f: f.where("y > 0.5").localCheckpoint(True),
    "a lazy checkpoint": lambda f: f.where("y > 0.5").localCheckpoint(False),
    "a lazy checkpoint of a list": lambda f: _list(f).where("x > 0.3").localCheckpoint(False),
    "a lazy checkpoint of rows made of one": lambda f: _list(f).selectExpr("explode(array(x, x)) as x").localCheckpoint(False),
    "a list that was mapped": lambda f: _list(f).mapInPandas(lambda batches: batches, "x double").localCheckpoint(False),
    "an RDD of a frame": lambda f: f.where("y > 0.5").rdd.toDF(),
    "an RDD with a filter": lambda f: _rows(f).filter(lambda row: row[0] > 0).toDF(["x"]),
    "a sampled RDD": lambda f: _rows(f).sample(True, 3.0, 1).toDF(["x"]),
    "an RDD": lambda f: f.sparkSession.createDataFrame(_rows(f).map(lambda row: row), "x double"),
    "a fitted model": lambda f: StringIndexer(inputCol="s", outputCol="i").fit(f).transform(f),
    "a registered function": lambda f: _registered(f),
    "a cache behind a filter on floats": lambda f: f.where("y > 0.5").cache(),
    "a cache behind a comparison of floats": lambda f: f.selectExpr("x", "y > 0.5 as z").where("z").cache().selectExpr("x"),
}  # fmt: skip


def _list(frame: Any) -> Any:
    return frame.sparkSession.createDataFrame([(0.5,), (0.25,)], "x double")


def _rows(frame: Any) -> Any:
    return frame.sparkSession.sparkContext.parallelize([(1.0,)] * 3)


def _registered(frame: Any) -> Any:
    """A name of one of Spark's own functions, taken over."""
    frame.sparkSession.udf.register("judged_abs", lambda x: x, "double")
    return frame.selectExpr("judged_abs(x) as x")


@pytest.mark.parametrize("case", HIDDEN)
def test_what_a_plan_does_not_show_is_not_assumed(spark: Any, frame: Any, case: str) -> None:
    """Kills: a leaf or a function that hides what was done to the rows, taken for a plain one."""
    rows = HIDDEN[case](frame)
    with pytest.raises(SourceError, match=r"cannot be seen: it has (?s:.*)Set source\.rows_per_record"):
        judged(rows)
    assert judged(rows, stated=True) == Judgement("statement", drops=True)


CHANCE = {
    "row index": "_metadata.row_index % 2 = 0",
    "file size": "_metadata.file_size > 1000",
    "reflect": "reflect('java.lang.Math', 'random') < '0.5'",
    "quoted": "`reflect`('java.lang.Math', 'random') < '0.5'",
    "java_method": "java_method('java.lang.Math', 'random') < '0.5'",
    "rand": "rand() < 0.5",
    "inside": "case when x > 1 then uuid() else s end > 'a'",
    "block": "input_file_block_start() < 1000",
    "block length": "input_file_block_length() < 1000",
    "file": "input_file_name() > 'a'",
    "partition": "spark_partition_id() = 0",
    "row id": "monotonically_increasing_id() < 10",
    "local time": "localtimestamp() > date'2020-01-01'",
    "unix time": "unix_timestamp() > 5",
    "now": "cast('now' as timestamp) > timestamp'2020-01-01'",
    "now in a zone": "cast(' NOW UTC' as timestamp) > timestamp'2020-01-01'",
    "behind a control character": "cast('\\u0001now' as timestamp) > timestamp'2020-01-01'",
    "today": "to_date('today') > date'2020-01-01'",
    "in pieces": "to_date(concat('to', 'day')) > date'2020-01-01'",
    "compared": "date'2020-01-01' < 'tomorrow'",
    "added to": "date_add('yesterday', 1) > date'2020-01-01'",
}


@pytest.mark.parametrize("case", CHANCE)
def test_chance_and_time_are_refused(frame: Any, covariance: DPCovariance, case: str) -> None:
    """Kills: a rule that looks at where a row is, or at the time, by whatever name; a statement does not help."""
    rows = frame.where(CHANCE[case]).select("x")
    for more in ({}, {covariance.rowsPerRecord: 2}):
        with pytest.raises(SourceError, match=RUN):
            covariance.fit(rows, more)
    assert not charges(covariance)


def test_a_stream_and_a_view_of_a_moment_are_refused(spark: Any, frame: Any) -> None:
    """Kills: rows that come as time goes by; a view whose text says now, where its plan has a constant."""
    with pytest.raises(SourceError, match=RUN):
        judged(spark.readStream.format("rate").load(), stated=True)
    for literal in ("timestamp'now'", "date ' Today'", 'TIMESTAMP_NTZ"tomorrow"'):
        spark.sql(f"create or replace temp view moment as select x from judged where {literal} > date'2020-01-01'")
        with pytest.raises(SourceError, match=RUN):
            judged(spark.table("moment"))
    spark.sql("create or replace temp view moment as select x from judged where date'2021-01-01' > date'2020-01-01'")
    assert judged(spark.table("moment")).drops


def test_types_that_all_rows_decide(spark: Any, tmp_path: Path) -> None:
    """Kills: a column whose type one more record can change for all rows, by a directory's name or a value."""
    spark.range(9).selectExpr("id % 3 as ward", "cast(id as double) as x").write.partitionBy("ward").parquet(
        str(tmp_path / "w")
    )
    rows = spark.read.parquet(str(tmp_path / "w"))
    with pytest.raises(SourceError, match="directories' names, whose type Spark guessed"):
        judged(rows.selectExpr("cast(ward as string) as ward", "x"))
    assert judged(rows.selectExpr("x as c0")) == Judgement("plan", drops=False)
    spark.range(5).write.csv(str(tmp_path / "csv"))
    with pytest.raises(SourceError, match="a schema that Spark guessed from all rows"):
        judged(spark.read.option("inferSchema", True).csv(str(tmp_path / "csv")))


def test_one_file_by_several_names(spark: Any, tmp_path: Path) -> None:
    """Kills: links that make several rows of one."""
    spark.range(20).coalesce(1).write.parquet(str(tmp_path / "data"))
    (file,) = (tmp_path / "data").glob("*.parquet")
    for name, link in (("soft", Path.symlink_to), ("hard", Path.hardlink_to)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.parquet").hardlink_to(file)
        link(tmp_path / name / "b.parquet", tmp_path / name / "a.parquet")
        with pytest.raises(SourceError, match="a file that is read twice"):
            judged(spark.read.parquet(str(tmp_path / name)))
    table = (
        f"create table if not exists twice (id bigint, k int) using parquet partitioned by (k) location '{tmp_path}/t'"
    )
    spark.sql(table)
    try:
        for k in (1, 2):
            spark.sql(f"alter table twice add partition (k={k}) location '{tmp_path}/data'")
        assert spark.table("twice").count() == 40
        with pytest.raises(SourceError, match="a file that is read twice"):
            judged(spark.table("twice"))
    finally:
        spark.sql("drop table twice")


def test_chance_below_a_subquery_is_refused(spark: Any, frame: Any) -> None:
    """Kills: a plan that is read no further than its first step across rows."""
    rows = spark.sql("select * from judged where x > (select max(x) from judged where rand() < 0.5)")
    with pytest.raises(SourceError, match=RUN):
        judged(rows, stated=True)
    with pytest.raises(SourceError, match=RUN):
        judged(frame.sample(0.5), stated=True)


def test_functions_that_say_they_are_not_deterministic_are_refused(frame: Any) -> None:
    """Kills: a list of names in place of what Spark knows."""
    random = functions.udf(lambda x: x, "double").asNondeterministic()
    features = VectorAssembler(inputCols=["x"], outputCol="v", handleInvalid="keep").transform(frame)
    slot = vector_to_array("v")[0]
    for rows in (frame.withColumn("z", random("x")), features.withColumn("z", random(slot) + 1),
                 features.withColumn("z", slot + random("x"))):  # fmt: skip
        with pytest.raises(SourceError, match=RUN):
            judged(rows, stated=True)


def test_the_listed_classes_are_spark_s_and_harmless(spark: Any) -> None:
    """Kills: a name on the list that draws at random, makes several rows, or looks at others."""
    where = "org.apache.spark.sql.catalyst.expressions."
    java = spark._jvm.java.lang.Class
    harmful = ("Nondeterministic", "Generator", "WindowFunction", "aggregate.AggregateFunction", "PlanExpression")
    kinds = [java.forName(where + name) for name in (*harmful, "UserDefinedExpression")]
    unknown = []
    for name in sorted(OF_ONE_ROW | set(UNSTABLE)):
        found = None
        for package in ("", "objects.", "json."):
            try:
                found = java.forName(where + package + name)
            except Exception:
                continue
        if found is None:
            unknown.append(name)
        elif name in OF_ONE_ROW:
            assert not any(kind.isAssignableFrom(found) for kind in kinds), name
    newest = (
        {"TimeAdd", "TypedNullLiteral"} if spark.version.startswith("4") else set(unknown)
    )  # some are of one version alone
    assert set(unknown) <= newest | {"CurrentTime", "RandStr", "Uniform", "TryReflect"}


def test_a_text_is_seen_in_full(spark: Any, frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a text that a session's setting cut, taken as all there is. The setting is as before, after it."""
    key, rows = "spark.sql.maxPlanStringLength", frame.where(" and ".join(f"x + y * {i} < 1000" for i in range(20)))
    before = spark.conf.get(key)
    spark.conf.set(key, "200")
    try:
        assert "19" in plan_text.plan_text(rows, "the DataFrame")
        assert spark.conf.get(key) == "200"
    finally:
        spark.conf.set(key, before)
    monkeypatch.setattr(plan_text, "IN_FULL", {key: "200"})
    with pytest.raises(SourceError, match="plan in full"):
        plan_text.plan_text(rows, "the DataFrame")


def test_many_texts_at_once_leave_the_settings_alone(spark: Any, frame: Any) -> None:
    """Kills: a thread that restores what another has set for the moment."""
    before = {key: spark.conf.get(key) for key in plan_text.IN_FULL}
    with ThreadPoolExecutor(8) as threads:
        texts = list(threads.map(lambda _: plan_text.plan_text(frame, "the DataFrame"), range(80)))
    assert len(set(texts)) == 1
    assert {key: spark.conf.get(key) for key in plan_text.IN_FULL} == before


def test_a_text_alone_proves_nothing(frame: Any) -> None:
    """Kills: a plan that is known as text only, as on Spark Connect, taken as read; and what it shows, overlooked."""
    found = _judge_text(frame, "the DataFrame")
    assert (found.hidden is not None, found.unstable) == (True, None)
    for case in ("rand", "unix time", "row index"):
        assert _judge_text(frame.where(CHANCE[case]), "the DataFrame").unstable is not None
    assert _judge_text(frame.sample(0.5), "the DataFrame").unstable == "a sample of rows"


def test_a_heading_in_a_literal_hides_nothing() -> None:
    """Kills: an explanation that is cut at a literal that looks like the next heading."""
    explained = "== Analyzed Logical Plan ==\nx: int\nProject [{}]\n+- Join\n\n== Optimized Logical Plan ==\nJoin"
    assert plan_text.cut_plan(explained.format("1")) == "Project [1]\n+- Join\n"
    assert plan_text.cut_plan(explained.format("\n== Optimized Logical Plan ==")) == ""


def test_an_error_quotes_no_literal(frame: Any) -> None:
    """Kills: a value of a plan in a message."""
    rows = frame.withColumn("z", functions.lit("abc\nSecret_42 is a value")).where("rand() < 0.5 or z = 'Secret_42'")
    with pytest.raises(SourceError) as refused:
        judged(rows)
    assert "Secret" not in str(refused.value)
