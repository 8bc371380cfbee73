"""Counting tasks, and a listener that is told of them, on a real session."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.show.progress import Event, Step, Tasks, listening
from dpspark.spark.task_progress import Count, tasks_of


def settled(tasks: Any) -> None:
    """Spark tells of its last task a little after the result."""
    until = time.monotonic() + 30
    while tasks.count().total and time.monotonic() < until:
        time.sleep(0.05)


def test_only_own_tasks_are_counted(spark: Any) -> None:
    """Kills: jobs of others in the same session; tasks of a stage that was skipped, counted as if they ran."""
    spark.range(0, 10, 1, 7).count()
    tasks = tasks_of(spark)
    assert tasks is not None
    try:
        assert tasks.count() == Count(0, 0, 0)
        spark.range(0, 10, 1, 3).count()  # three tasks, and one to add up
        settled(tasks)
        assert tasks.count() == Count(0, 0, 4)
    finally:
        tasks.close()
    spark.range(0, 10, 1, 5).count()
    assert tasks.count() == Count(0, 0, 4)
    assert not spark.sparkContext.getJobTags()


class Bar:
    """A listener that keeps steps and tasks; it fails at whatever it is told, if it is to."""

    def __init__(self, fails: bool = False):
        self.steps: list[str] = []
        self.told: list[tuple[int, int]] = []
        self.fails = fails

    def __call__(self, event: Event) -> None:
        match event:
            case Step(text):
                self.steps.append(text)
            case Tasks(done, total):
                self.told.append((done, total))
        if self.fails:
            raise OSError("no terminal any more")


@pytest.mark.parametrize("fails", [False, True])
def test_a_listener_is_told_and_cannot_hurt(spark: Any, conf: dict[str, Any], fails: bool) -> None:
    """Kills: a release that fails since its progress could not be shown; a bar that is not taken away at the end."""
    listener, texts = Bar(fails), list[str]()
    with listening(listener):
        done = dpspark.release(conf, spark=spark, report=texts.append)
    assert done.path.exists()
    assert listener.steps == texts
    assert texts[-1] == "publishing"
    assert listener.told[-1] == (0, 0)
    assert all(0 <= done <= total for done, total in listener.told)


def test_the_bar_goes_before_an_error_is_shown(spark: Any, conf: dict[str, Any], people: Path) -> None:
    """Kills: an error message drawn behind the bar. The file is damaged after its footer was written."""
    start = pq.ParquetFile(people).metadata.row_group(0).column(0).data_page_offset
    with open(people, "r+b") as file:
        file.seek(start)
        file.write(b"\xff" * 4000)
    listener = Bar()
    with pytest.raises(dpspark.DpsparkError), listening(listener):
        dpspark.release(conf, spark=spark)
    assert listener.told[-1] == (0, 0)
    assert not spark.sparkContext.getJobTags()
