"""Random plans, by brute force: never do more rows change than the judge says.

A plan is a chain of operators on a frame, or on a view of it. Where the judge takes it for row by row, the plan is run on a
tiny table, and again with one row left out and with one row replaced: one row may go, one may come, and no other may change.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Window, functions

from dpspark.errors import SourceError
from dpspark.judge.frames import judge_frame

pytestmark = pytest.mark.spark35
Rows = list[tuple[Any, ...]]
Operator = Callable[[Any], Any]
SCHEMA = "x double, n bigint, s string, d date, a array<double>"
TABLE: Rows = [
    (1.5, 1, "a", None, [1.0, 2.0]),
    (2.5, 2, "b", None, []),
    (None, 3, "a", None, [3.0]),
    (float("nan"), 1, None, None, None),
    (-4.0, None, "ab", None, [5.0, 6.0, 7.0]),
    (1.5, 1, "a", None, [1.0, 2.0]),
]
OTHERS: Rows = [(9.0, 1, "a", None, [2.0]), (None, None, None, None, None)]


def by_sql(sql: str) -> Operator:
    """A query of the frame, by a view."""

    def run(frame: Any) -> Any:
        frame.createOrReplaceTempView("fuzzed")
        return frame.sparkSession.sql(sql.format("fuzzed"))

    return run


def by_view(sql: str) -> Operator:
    """A view on a view, looked up by its name."""

    def run(frame: Any) -> Any:
        name = f"fuzzed_{random.getrandbits(60)}"
        frame.createOrReplaceTempView(name)
        frame.sparkSession.sql(f"create or replace temp view {name}_on as {sql.format(name)}")
        return frame.sparkSession.table(f"{name}_on")

    return run


ROW_BY_ROW: dict[str, Operator] = {
    "where": lambda f: f.where("x > 0 or n is null"),
    "where text": lambda f: f.where("s like 'a%'"),
    "where column": lambda f: f.filter(functions.col("n").isin(1, 2)),
    "na.drop": lambda f: f.na.drop(subset=["x"]),
    "na.fill": lambda f: f.na.fill({"n": 7}),
    "columns": lambda f: f.selectExpr("x * 2 as x", "n + 1 as n", "upper(s) as s", "d", "a"),
    "case": lambda f: f.withColumn("x", functions.expr("case when n > 1 then x else log1p(abs(n)) end")),
    "array": lambda f: f.withColumn("x", functions.expr("aggregate(a, cast(0 as double), (t, v) -> t + v)")),
    "sort": lambda f: f.orderBy("n", "x"),
    "partitions": lambda f: f.repartition(3).coalesce(2),
    "by a key": lambda f: f.repartition(2, "s"),
    "hint": lambda f: f.hint("broadcast").alias("t"),
    "sql": by_sql("select x, n, s, d, a from {} where n <=> 1 or x < 5"),
    "nested": by_sql("select * from (select x - 1 as x, n, s, d, a from {})"),
    "view": by_view("select coalesce(x, 0) as x, n, s, d, a from {}"),
    "view with a filter": by_view("select * from {} where isnotnull(s) and not isnan(x)"),
}
ACROSS: dict[str, Operator] = {
    "distinct": lambda f: f.dropDuplicates(["x", "n", "s"]),
    "aggregate": lambda f: f.groupBy("s").agg(
        functions.max("x").alias("x"), functions.sum("n").alias("n"), functions.max("d").alias("d"),
        functions.max("a").alias("a"),
    ).select("x", "n", "s", "d", "a"),
    "window": lambda f: f.withColumn("n", functions.row_number().over(Window.orderBy("x")).cast("bigint")),
    "mean": by_view("select x - avg(x) over (partition by s) as x, n, s, d, a from {}"),
    "union": lambda f: f.unionAll(f),
    "join": lambda f: f.join(f.selectExpr("n as m"), functions.expr("n = m")).drop("m"),
    "limit": lambda f: f.orderBy("x").limit(2),
    "offset": by_sql("select * from {} order by x offset 2"),
    "explode": lambda f: f.withColumn("x", functions.explode_outer("a")),
    "scalar": by_sql("select * from {0} where x > (select avg(n) from {0})"),
    "exists": by_sql("select * from {0} where exists (select 1 from {0} b where b.n > 1)"),
    "in": by_sql("select * from {0} where n in (select count(*) from {0} group by s)"),
    "except": lambda f: f.exceptAll(f.where("n = 1")),
    "python": lambda f: f.mapInPandas(lambda batches: batches, f.schema),
    "function": lambda f: f.withColumn("x", functions.udf(lambda x: x, "double")("x")),
    "checkpoint": lambda f: f.localCheckpoint(),
    "rdd": lambda f: f.rdd.toDF(f.schema),
    "cte": by_sql("with t as (select * from {}) select p.* from t p, t q"),
}  # fmt: skip
OPERATORS = {**ROW_BY_ROW, **ACROSS}


def output(spark: Any, rows: Rows, chain: list[str]) -> Counter[str]:
    frame = spark.createDataFrame(rows, SCHEMA)
    for name in chain:
        frame = OPERATORS[name](frame)
    return Counter(map(str, frame.collect()))


def judgement(spark: Any, chain: list[str]) -> Any:
    frame = spark.createDataFrame(TABLE, SCHEMA)
    for name in chain:
        frame = OPERATORS[name](frame)
    try:
        return judge_frame(frame, "the DataFrame", False)
    except SourceError:
        return None


def neighbours(rng: random.Random) -> list[tuple[str, Rows]]:
    at = rng.randrange(len(TABLE))
    less = TABLE[:at] + TABLE[at + 1 :]
    return [("added", less), ("replaced", [*less[:at], rng.choice(OTHERS), *less[at:]])]


def check(spark: Any, seed: int, plans: int) -> tuple[int, int]:
    rng, known, refused = random.Random(seed), 0, 0
    for _ in range(plans):
        pool = list(OPERATORS) if rng.random() < 0.4 else list(ROW_BY_ROW)
        chain = rng.choices(pool, k=rng.randint(1, 4))
        found = judgement(spark, chain)
        if found is None:
            refused += 1
            continue
        known += 1
        whole = output(spark, TABLE, chain)
        for relation, rows in neighbours(rng):
            other = output(spark, rows, chain)
            gone, come = (whole - other).total(), (other - whole).total()
            assert gone <= 1, (seed, chain, relation)
            assert come <= (1 if relation == "replaced" else 0), (seed, chain, relation)
            if relation == "replaced" and not found.drops:
                assert gone == come, (seed, chain)
    return known, refused


def test_no_random_plan_changes_more_than_the_judge_says(spark: Any) -> None:
    """Kills: an operator, or a composition of some, that is taken for row by row and is not; a filter that is not seen."""
    known, refused = check(spark, 20261118, 25)
    assert min(known, refused) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_more(spark: Any, seed: int) -> None:
    check(spark, seed, 60)


@pytest.mark.parametrize("name", ACROSS)
def test_each_operator_across_rows_is_refused(spark: Any, name: str) -> None:
    """Kills: a fuzz that finds nothing, as its operators do nothing. Also below a projection."""
    for chain in ([name], ["columns", name, "case"]):
        assert judgement(spark, chain) is None


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_each_operator_row_by_row_is_known(spark: Any, name: str) -> None:
    found = judgement(spark, [name])
    assert found is not None
    filters = ("where", "where text", "where column", "na.drop", "sql", "view with a filter")
    assert found.drops == (name in filters)
