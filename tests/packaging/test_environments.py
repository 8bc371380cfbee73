"""Tests that are meant for another environment do not pass in this one by accident."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from environments import asks_for

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mark", ["spark35", "lake"])
def test_spark_35_is_not_tested_on_another_spark(mark: str) -> None:
    """Kills: `-m spark35` that runs on Spark 4, passes, and has tested nothing new."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-m", f"{mark} and not slow"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"make test-{mark}" in done.stderr


@pytest.mark.parametrize(
    ("expression", "asks"),
    [
        ("spark35", True),
        ("cluster or spark35", True),
        ("", False),
        ("not (slow or cluster)", False),
        ("not (spark35 or slow)", False),
        ("not spark35 and cluster", False),
    ],
)
def test_which_expressions_ask_for_it(expression: str, asks: bool) -> None:
    assert asks_for(expression, "spark35") is asks
