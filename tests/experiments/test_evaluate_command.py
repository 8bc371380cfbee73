"""`python -m experiments` as its users run it: killed and run again, quick from end to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
EXPERIMENT = "bain-noise"


def start(out: Path) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "experiments", EXPERIMENT, "--quick", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(program, env=environment, start_new_session=True, stdout=subprocess.PIPE)


def kept(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob(f"cells/{EXPERIMENT}/*.parquet")}


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """Kills: cells measured again after a kill -9; half a file taken for a whole one; numbers that depend on the order."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    running = start(killed)
    while len(kept(killed)) < 5:
        assert running.poll() is None
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    before = kept(killed)
    assert not (killed / f"{EXPERIMENT}.parquet").exists()
    for out in (killed, whole):
        finished = start(out)
        said = finished.communicate()[0].decode()
        assert (finished.returncode, said) == (0, f"{out / 'evaluation.md'}\n")
    after = kept(killed)
    assert len(before) < len(after)
    assert before.items() <= after.items()
    tables = [pd.read_parquet(out / f"{EXPERIMENT}.parquet") for out in (killed, whole)]
    pd.testing.assert_frame_equal(*tables)
    for out in (killed, whole):
        page = (out / "evaluation.md").read_text()
        assert all((out / picture).stat().st_size > 10_000 for picture in pictures(page))
        assert pictures(page)


def pictures(page: str) -> list[str]:
    return [line.split("](")[1].rstrip(")") for line in page.splitlines() if line.startswith("![")]
