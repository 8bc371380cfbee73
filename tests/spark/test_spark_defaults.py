"""conf/spark-defaults.conf: settings that Spark has, and a job that runs with them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.spark.test_spark_submit import ROOT, submit

FILE = ROOT / "conf" / "spark-defaults.conf"
SETTINGS = dict(re.findall(r"^(spark\S+)\s+(\S+)$", FILE.read_text(), re.M))


@pytest.mark.spark35
def test_spark_knows_every_setting(spark: Any) -> None:
    """Kills: a misspelt name, which Spark would ignore, on both Sparks. An executor's environment may have any."""
    find = spark.sparkContext._jvm.org.apache.spark.internal.config.ConfigEntry.findEntry
    known = {key for key in SETTINGS if find(key) is not None or key.startswith("spark.executorEnv.")}
    assert known == set(SETTINGS)
    assert find("spark.task.maxFailure") is None


def test_every_setting_has_its_reason() -> None:
    lines = FILE.read_text().splitlines()
    assert len(SETTINGS) == sum(line.startswith("spark") for line in lines) < 15
    for group in FILE.read_text().split("\n\n")[1:]:
        assert group.startswith("# ")
    assert all(len(line) <= 128 for line in lines)


def test_a_job_runs_with_them(conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: settings that keep a job from running; a path that is not the last line, with logs in the same stream."""
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump(conf))
    job = str(ROOT / "jobs" / "release_gram.py")
    done = submit("--properties-file", str(FILE), job, str(path), "--verbose")
    assert done.returncode == 0, done.stderr
    *logged, last = done.stdout.splitlines()
    assert last == str(Path(conf["output"]["path"]) / "income" / "1")
    assert [line for line in logged if " INFO dpspark: income 1: " not in line] == []
    assert re.search(r"reading .* took \d+\.\d s, 2 tasks", done.stdout)
