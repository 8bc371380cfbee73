"""Every constant of the proofs is attacked: where one function of privacy/sensitivity.py says half, some test fails."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.halved import constants

ATTACKS = (
    "tests/privacy",
    "tests/mechanisms",
    "tests/spec",
    "tests/verifying",
    "tests/releasing/test_unit.py",
    "tests/audit",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", constants())
def test_half_of_a_constant_is_noticed(name: str) -> None:
    """Kills: a sensitivity that no attack reaches."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "tests.halved",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
    ]
    done = subprocess.run(
        [*command, *ATTACKS], capture_output=True, text=True, env={**os.environ, "DPSPARK_HALVED": name}
    )
    assert done.returncode == 1, done.stdout[-2000:]
    assert " failed" in done.stdout.splitlines()[-1], done.stdout[-2000:]
