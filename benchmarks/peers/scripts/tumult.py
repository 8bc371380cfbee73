"""Tumult Analytics: every second moment in one grouped sum on Spark.

Tumult sums one column per query. Ten rows for each record, one in each of ten groups, make the ten sums one query, with the
noise of an even split of rho over ten queries and a tenth of their passes over the data.
"""

import json
import os
import sys
import tempfile
import time
from importlib.metadata import version

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from tmlt.analytics import AddMaxRowsInMaxGroups, KeySet, QueryBuilder, RhoZCDPBudget, Session

MOST_DRAWS = 5


def start_spark(warehouse):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": warehouse,  # where it keeps its results
    }
    builder = SparkSession.builder.master("local[*]").appName("peers")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def draw(spark, asked):
    columns = [sql.lit(1.0), *(sql.col(name) for name in (*asked["regressors"], asked["response"]))]
    products = [left * right for i, left in enumerate(columns) for right in columns[i:]]
    entries = spark.read.parquet(asked["people"]).select(sql.posexplode(sql.array(*products)).alias("entry", "value"))
    count, budget = len(products), RhoZCDPBudget(asked["rho"])
    change = AddMaxRowsInMaxGroups("entry", max_groups=count, max_rows_per_group=1)
    session = Session.from_dataframe(budget, "rows", entries, protected_change=change)
    keys = KeySet.from_dict({"entry": list(range(count))})
    query = QueryBuilder("rows").groupby(keys).sum("value", -1.0, 1.0, "total")
    totals = {row["entry"]: row["total"] for row in session.evaluate(query, budget).collect()}
    return [totals[entry] for entry in range(count)]


def main():
    asked = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as warehouse:
        spark = start_spark(warehouse)
        startup = time.time() - asked["started"]
        sums, seconds = [], []
        for _ in range(min(MOST_DRAWS, asked["draws"])):
            start = time.perf_counter()
            sums.append(draw(spark, asked))
            seconds.append(time.perf_counter() - start)
        answers = {"slopes": {"sums": sums, "seconds": seconds}}
        found = {"version": version("tmlt.analytics"), "startup_seconds": startup, "answers": answers, "shown": []}
        print(json.dumps(found))
        spark.stop()


if __name__ == "__main__":
    main()
