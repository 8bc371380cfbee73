"""A driver with a Spark of its own: its JVM is killed, or it is told to end, while tasks run."""

from __future__ import annotations

import time
from pathlib import Path

import driver
import psutil
import pytest
from places import Place
from test_crash_walk import check_published


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("java", "dpspark: Spark's Java process ended while it worked"),
        ("TERM", "dpspark: stopped. Run the same release again to go on: nothing is charged twice."),
        pytest.param(
            *("INT", "dpspark: stopped. Run the same release again to go on: nothing is charged twice."),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_clean_message_and_nothing_lost(place: Place, how: str, message: str) -> None:
    """Kills: py4j's own errors and tracebacks; a JVM that outlives its driver."""
    process = place.start_alone(str(Path(driver.__file__)), "mid-read", how, str(place.conf_path))
    started = psutil.Process(process.pid)
    family: set[psutil.Process] = set()
    while process.poll() is None:
        family |= set(started.children(recursive=True)) if started.is_running() else set()
        time.sleep(0.1)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (1, "")
    assert stderr.startswith(message)
    assert len(stderr.splitlines()) <= 2, stderr
    assert [entry.state for entry in place.balance.entries] == ["reserved"]
    assert not place.final.exists()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert place.run() == 0, place.log
    check_published(place)
