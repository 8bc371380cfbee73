"""Several releases in one Python process, with Sparks of our own and of the user's, in threads too.

Java outlives a session, and so does what it keeps in mind of the first one. This takes real processes: the sessions of the
other tests would be in the way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MARK = "DPSPARK_TEST_SEVERAL"
PROGRAM = """
import json, sys, threading
import dpspark
from dpspark.errors import DpsparkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

conf = json.loads(sys.argv[1])
told = {}
def release(version, **changes):
    spec = {**conf, "release": {"name": "income", "version": version}, **changes}
    return str(dpspark.release(spec).path)
def same(batches):
    return batches
def python_works(spark):
    return [row.id for row in spark.range(3).mapInArrow(same, "id long").collect()] == [0, 1, 2]
def in_threads(versions):
    done = []
    threads = [threading.Thread(target=lambda v=v: done.append(release(v, where="age > 20"))) for v in versions]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return len(done)
"""
LOOP = """
for number in range(3):
    release(f"loop-{number}", **({"where": "age > 20"} if number else {}))
told["none left running"] = SparkContext._active_spark_context is None

own = SparkSession.builder.appName("own").config("spark.sql.shuffle.partitions", "3").getOrCreate()
own.conf.set("spark.sql.ansi.enabled", "true")
java = own._jvm
level = lambda: java.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
told["own settings"] = [own.conf.get("spark.ui.enabled", None), own.conf.get("spark.log.level", None)]
told["own works"] = python_works(own)
own.sparkContext.setLogLevel("FATAL")
release("theirs")
told["threads in the user's"] = in_threads(["a", "b"])
told["own is left"] = [own.sparkContext.appName, own.conf.get("spark.sql.shuffle.partitions"), level(), python_works(own)]
told["own ansi"] = own.conf.get("spark.sql.ansi.enabled")
own.stop()
release("after-theirs")
told["level is left"] = level()
"""
THREADS = """
told["threads"] = in_threads(["1", "2", "3"])
told["none left running"] = SparkContext._active_spark_context is None
context = SparkContext("local[1]", "a context alone")
release("context")
told["context is left"] = context.parallelize([1, 2], 1).count()
context._jsc.sc().stop()
release("stopped")
stopped = SparkSession.builder.master("local[1]").getOrCreate()
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
release("killed")
try:
    dpspark.release({**conf, "release": {"name": "income", "version": "refused"}}, spark=stopped)
except DpsparkError as error:
    told["refused"] = str(error)
"""
END = """
from dpspark.spark.sockets import _made
told["sockets"] = list(_made.values())
print(json.dumps(told))
"""


@pytest.mark.parametrize("part", ["loop", "threads"])
@pytest.mark.spark35
def test_several_releases_in_one_process(conf: dict[str, Any], tmp_path: Path, part: str) -> None:
    """Fails on 0.2.0: the second release of a loop failed after its charge, and blamed the source; a release in a thread
    stopped the user's session; and a process stayed behind that made an archive of Java's classes.
    """
    program = PROGRAM + (LOOP if part == "loop" else THREADS) + END
    known = {**os.environ, MARK: str(tmp_path), "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(conf)], capture_output=True, text=True, env=known, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("none left running")
    sockets = told.pop("sockets")
    assert len(sockets) == 1
    if part == "loop":
        assert told == {
            "own settings": [None, None],
            "own works": True,
            "threads in the user's": 2,
            "own is left": ["own", "3", "FATAL", True],
            "own ansi": "true",
            "level is left": "FATAL",
        }
    else:
        assert told.pop("refused").startswith("The Spark session was stopped")
        assert told == {"threads": 3, "context is left": 2}
    published = {path.name for path in (tmp_path / "releases" / "income").iterdir()}
    assert len(published) == (7 if part == "loop" else 6)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name.startswith("spark-")]
    assert not left_behind(str(tmp_path))
    assert not any(map(os.path.exists, sockets))


def left_behind(mark: str) -> list[str]:
    """Processes that were started with this mark. Java ends when Python has: give it a moment."""
    limit = time.monotonic() + 10
    while True:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
            except OSError:
                continue
        if not found or time.monotonic() > limit:
            return found
        time.sleep(0.2)
