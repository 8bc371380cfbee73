"""Gates in the tasks of a job: a task says that it has begun and waits, so that a test can kill something meanwhile.

The product has no hooks for this: functions that run on executors are wrapped on the driver, by nested functions, which travel
to the executors as they are.

spark-submit gates.py FOLDER PLACE JOB ARGUMENT...    runs a job file with a gate in it
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLACES = {
    "gram read": ("dpspark.spark.direct", "read_rows"),
    "gram merge": ("dpspark.spark.exact_sums", "merge_partials"),
    "persons keep": ("dpspark.spark.persons", "ContributionCap"),
    "lines read": ("dpspark.spark.groups", "row_reader"),
    "lines fit": ("dpspark.spark.groups", "fit_groups"),
}
FIRST = 2  # tasks before this one are let through, so that some are done when others are lost
VALUE = "Rumpelstiltskin"  # in the text of an error, as a library might quote a row
_originals: dict[str, Callable[..., Any]] = {}


def arm(place: str, folder: Path, how: str = "wait") -> None:
    """From now on tasks meet a gate here: they wait for it to open, `fail` twice, or are `slow` until they are killed."""
    folder.mkdir(parents=True)
    for other, function in _originals.items():
        setattr(importlib.import_module(PLACES[other][0]), PLACES[other][1], function)
    owner = importlib.import_module(PLACES[place][0])
    original = _originals.setdefault(place, getattr(owner, PLACES[place][1]))
    setattr(owner, PLACES[place][1], _gated(original, str(folder), how))


def _gated(function: Callable[..., Any], folder: str, how: str) -> Callable[..., Any]:
    def stop_here() -> None:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number, attempt = task.partitionId(), task.attemptNumber()
        begun = os.path.join(folder, f"{task.stageId()}-{number}-{attempt}")
        seen = os.path.exists(begun)
        if number >= FIRST and not seen:
            with open(begun + ".new", "w") as marker:
                marker.write(str(os.getpid()))
            os.rename(begun + ".new", begun)
        if how == "wait" and number >= FIRST and attempt == 0 and not seen:
            while not os.path.exists(os.path.join(folder, "open")):
                time.sleep(0.02)
        elif how == "fail" and number == FIRST and attempt < 2:
            if attempt == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError(VALUE)
        elif how == "slow" and number == FIRST:
            while attempt == 0:
                time.sleep(0.02)

    def gated(*arguments: Any, **more: Any) -> Any:
        stop_here()
        return function(*arguments, **more)

    return gated


if __name__ == "__main__":
    gate, place, *sys.argv = sys.argv[1:]
    arm(place, Path(gate))
    runpy.run_path(sys.argv[0], run_name="__main__")
