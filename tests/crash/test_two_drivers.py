"""Two real drivers of one release at once: one waits for the other, takes over from it, or finds that it was faster."""

from __future__ import annotations

import os
import signal
from multiprocessing.context import ForkServerProcess

import pytest
from places import Place, ended, on_both, stopped, until
from test_crash_walk import check_published

from dpspark.releasing.lock import WAITING


def waiting(place: Place) -> bool:
    return WAITING in place.log


@pytest.fixture
def first(place: Place) -> ForkServerProcess:
    """A driver that is at work, and stands still."""
    process = place.start("after reserve", "STOP")
    until(lambda: stopped(process))
    return process


def test_the_second_waits_and_returns_what_the_first_published(place: Place, first: ForkServerProcess) -> None:
    second = place.start()
    until(lambda: waiting(place))
    assert f"process {first.pid} on" in place.log
    os.kill(first.pid or 0, signal.SIGCONT)
    assert (ended(first), ended(second)) == (0, 0)
    assert "already published, nothing was read or spent" in place.log
    check_published(place)


def test_the_second_takes_over_when_the_first_is_killed(place: Place, first: ForkServerProcess) -> None:
    second = place.start()
    until(lambda: waiting(place))
    os.kill(first.pid or 0, signal.SIGKILL)
    assert (ended(first), ended(second)) == (-signal.SIGKILL, 0)
    assert "already published" not in place.log
    check_published(place)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_waits_can_be_stopped(place: Place, first: ForkServerProcess, number: int) -> None:
    second = place.start()
    until(lambda: waiting(place))
    os.kill(second.pid or 0, number)
    assert ended(second) == 1
    assert "dpspark: stopped. Run the same release again" in place.log
    os.kill(first.pid or 0, signal.SIGCONT)
    assert ended(first) == 0
    check_published(place)


@pytest.mark.parametrize(
    ("ledger_url", "step"),
    on_both(
        *("after noise", "mid-stage", "before ledger.stage", "after ledger.stage", "before commit"),
        less=("mid-stage", "after ledger.stage", "before commit"),
    ),
    indirect=["ledger_url"],
)
def test_without_locks_one_draw_is_published(place: Place, step: str) -> None:
    """The first stands still with its draw in hand while the second goes all the way; then it goes on.

    Kills: a draw that is staged late and published over, or beside, the one that everybody saw.
    """
    first = place.start(step, "STOP", locks=False)
    until(lambda: stopped(first))
    assert place.run(locks=False) == 0, place.log
    published = place.files()
    os.kill(first.pid or 0, signal.SIGCONT)
    assert ended(first) == 0, place.logs[0].read_text()
    assert check_published(place) == published
