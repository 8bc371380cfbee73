"""Jobs by spark-submit, as separate processes, and what their output and logs give away."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
import yaml

import dpspark
from dpspark.ledger.ledger import Ledger
from dpspark.spark.executor_zip import write_zip
from dpspark.spark.java import ensure_java

pytestmark = pytest.mark.spark35

ROOT = Path(__file__).parents[2]
SECRET = "Rumpelstiltskin"


def submit(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    ensure_java()
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", *arguments]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    paths = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        command, capture_output=True, text=True, env={**inherited, **paths, **environment}, timeout=300
    )


def test_release_job(conf: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump(conf))
    done = submit(str(ROOT / "jobs" / "release_gram.py"), str(path), "--set", "privacy.epsilon=2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(Path(conf["output"]["path"]) / "income" / "1")
    assert dpspark.read_release(done.stdout.strip()).regress("income ~ age").status == "OK"
    refused = submit(str(ROOT / "jobs" / "release_gram.py"), str(path), "--set", "privacy.epsilon=3")
    assert refused.returncode == 3
    assert "new release.version" in refused.stdout  # spark-submit puts both streams of its Python process there


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """A Python with numpy and pyarrow, and nothing else."""
    venv.create(tmp_path / "executors", symlinks=True)
    packages = Path(sysconfig.get_path("platlib", vars={"platbase": str(tmp_path / "executors")}))
    for module in (numpy, pa):
        home = Path(module.__file__).parent
        for part in (home, home.with_name(f"{home.name}.libs")):
            if part.exists():
                (packages / part.name).symlink_to(part)
    return str(tmp_path / "executors" / "bin" / "python")


@pytest.mark.skipif(not pyspark.__version__.startswith("3."), reason="tests/cluster does this on Spark 4")
def test_executors_need_the_zip_numpy_and_pyarrow(conf: dict[str, Any], tmp_path: Path, bare_python: str) -> None:
    """Kills: an import on executors of what only the driver has, by dpspark or by its use of Spark."""
    found = subprocess.run([bare_python, "-c", "import pandas"], capture_output=True, text=True, cwd=tmp_path)
    assert "No module named 'pandas'" in found.stderr
    lines = {
        "columns": {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 2e5}},
        "privacy": {"epsilon": 1.0},
        "release": {"name": "lines", "version": "1", "kind": "theil_sen", "x": "age", "y": "income"},
    }
    lines["release"] |= {"group_by": ["sex"], "groups": ["F", "M"]}
    pythons = [
        "--conf",
        f"spark.pyspark.python={bare_python}",
        "--conf",
        f"spark.pyspark.driver.python={sys.executable}",
    ]
    for job, changes in (("release_gram.py", {}), ("release_theil_sen.py", lines)):
        path = tmp_path / f"{job}.yaml"
        path.write_text(yaml.safe_dump({**conf, **changes}))
        zipped = ["--py-files", str(write_zip(tmp_path))]
        done = submit(*pythons, *zipped, str(ROOT / "jobs" / job), str(path), PYTHONPATH="")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (Path(done.stdout.strip()) / "_SUCCESS").exists()


ANSI_FAILURE = """
import sys
import dpspark
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.sql.ansi.enabled", "true").getOrCreate()
frame = spark.read.parquet(sys.argv[2]).selectExpr("cast(name as int) as x")
try:
    dpspark.release(sys.argv[1], frame)
except dpspark.DpsparkError as error:
    print("refused with", error.exit_code, error, repr(error.__context__), repr(error.__cause__))
"""


def test_ansi_mode_gives_no_value_away(conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: Spark's own message, log line or traceback reaching the user. The failing value is in all three."""
    pq.write_table(pa.table({"name": [SECRET] * 10}), tmp_path / "names.parquet")
    conf["columns"] = {"x": {"lower": 0, "upper": 1}}
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump(conf))
    (tmp_path / "job.py").write_text(ANSI_FAILURE)
    done = submit(str(tmp_path / "job.py"), str(tmp_path / "conf.yaml"), str(tmp_path / "names.parquet"))
    assert "refused with 4" in done.stdout, done.stderr
    assert SECRET not in done.stdout + done.stderr
    balance = Ledger(conf["ledger"]["url"]).balances("people")[0]
    assert [entry.state for entry in balance.entries] == ["reserved"]


@pytest.mark.parametrize("expression", ["cast(name as int)", "1 / length(nullif(name, 'x')) / (length(name) - 15)"])
def test_queries_do_not_fail_on_values(spark: Any, conf: dict[str, Any], tmp_path: Path, expression: str) -> None:
    """Under ANSI rules both would fail; here a bad value is a null, whatever the session's setting."""
    pq.write_table(pa.table({"name": [SECRET] * 10}), tmp_path / "names.parquet")
    spark.read.parquet(str(tmp_path / "names.parquet")).createOrReplaceTempView("names")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    conf["columns"] = {"x": {"lower": 0, "upper": 1}}
    conf["source"] = {"sql": f"select {expression} as x from names"}
    assert dpspark.release(conf, spark=spark).path.exists()
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
