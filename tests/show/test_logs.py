"""The dpspark logger beside others."""

from __future__ import annotations

import logging

import pytest

from dpspark.show.logs import info, others_silent


def test_a_library_says_nothing_unasked(capfd: pytest.CaptureFixture[str]) -> None:
    info("a step")
    assert capfd.readouterr() == ("", "")


def test_other_loggers_stay_silent_while_ours_speaks(caplog: pytest.LogCaptureFixture) -> None:
    """Kills: py4j's account of a failed call, which may quote a row, let through together with our own lines."""
    caplog.set_level(logging.INFO)
    with others_silent():
        info("a step of %d", 5)
        logging.getLogger("py4j.clientserver").critical("Rumpelstiltskin")
        logging.getLogger("pyspark.new").error("Rumpelstiltskin")
        logging.error("Rumpelstiltskin")
    logging.getLogger("py4j.clientserver").info("after")
    assert [record.getMessage() for record in caplog.records] == ["a step of 5", "after"]


def test_what_the_application_disabled_stays_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        info("no")
        with others_silent(), others_silent():
            info("no")
        assert logging.root.manager.disable == logging.INFO
    finally:
        logging.disable(before)
    assert caplog.records == []
