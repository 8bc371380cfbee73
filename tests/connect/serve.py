"""Become a Spark Connect server: python serve.py SPARK_HOME PORT [KEY=VALUE]..., with a Python that has all of Spark."""

from __future__ import annotations

import os
import sys

from dpspark.spark.java import ensure_java

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

if __name__ == "__main__":
    home, port, *settings = sys.argv[1:]
    ensure_java()
    os.environ.pop("PYTHONPATH", None)  # dpspark is not for the server
    bound = ["spark.connect.grpc.binding.address=127.0.0.1", f"spark.connect.grpc.binding.port={port}"]
    options = [part for setting in (*bound, *settings) for part in ("--conf", setting)]
    command = ["bash", f"{home}/bin/spark-submit", "--class", SERVER, "--master", "local[2,4]", *options]
    os.execvp("bash", [*command, "spark-internal"])
