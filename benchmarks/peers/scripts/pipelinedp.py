"""PipelineDP: the vector of second moments as one VECTOR_SUM on Spark RDDs."""

import json
import math
import os
import sys
import time
from importlib.metadata import version

import pipeline_dp
from pipeline_dp.aggregate_params import NormKind
from pyspark.sql import SparkSession

MOST_DRAWS = 5
ALL = "all"  # the one partition


def start_spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
    builder = SparkSession.builder.master("local[*]").appName("peers")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def products(row):
    values = [1.0, *row]
    return [left * right for i, left in enumerate(values) for right in values[i:]]


def noisy_sums(spark, asked):
    """What DPEngine gives: an RDD, not yet computed."""
    names = [*asked["regressors"], asked["response"]]
    count = (len(names) + 1) * (len(names) + 2) // 2
    rows = spark.read.parquet(asked["people"]).select(*names).rdd.map(tuple).zipWithUniqueId()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=asked["epsilon"], total_delta=asked["delta"])
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.SparkRDDBackend(spark.sparkContext))
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.VECTOR_SUM],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        vector_norm_kind=NormKind.L2,
        vector_max_norm=math.sqrt(count),  # a row's products are all in [-1, 1]
        vector_size=count,
        # There is one partition, and it is public. Naming it fails: VECTOR_SUM of no rows has no norm.
        public_partitions_already_filtered=True,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[1],
        partition_extractor=lambda row: ALL,
        value_extractor=lambda row: products(row[0]),
    )
    result = engine.aggregate(rows, parameters, extractors)
    accountant.compute_budgets()
    return result


def collect(result):
    [(_, metrics)] = result.collect()
    return [float(value) for value in metrics.vector_sum]


def main():
    asked = json.loads(sys.argv[1])
    spark = start_spark()
    startup = time.time() - asked["started"]
    sums, seconds = [], []
    for _ in range(min(MOST_DRAWS, asked["draws"])):
        start = time.perf_counter()
        result = noisy_sums(spark, asked)
        sums.append(collect(result))
        seconds.append(time.perf_counter() - start)
    first, second = sums[-1][0], collect(result)[0]
    told = "redraws its noise, for one charge" if first != second else "is the same"
    shown = [f"one result collected twice {told}: {first:.2f}, then {second:.2f} rows"]
    answers = {"slopes": {"sums": sums, "seconds": seconds}}
    found = {"version": version("pipeline-dp"), "startup_seconds": startup, "answers": answers, "shown": shown}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
