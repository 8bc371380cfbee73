"""What a user sees while a release runs: a bar on a real terminal, nothing in a pipe, log lines when asked for."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpspark.archive import SWITCH
from dpspark.cli import main
from dpspark.progress import bar

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from dpspark.cli import main; main()"]
COLUMNS = 32
LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO dpspark: income 1: (.*)")


@pytest.fixture
def conf_file(conf: dict[str, Any], tmp_path: Path) -> str:
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump(conf))
    return str(path)


def on_a_terminal(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run it with stdin, stdout and stderr on a terminal of its own; what came through, byte by byte."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    seen = b""
    try:
        while True:
            try:
                more = os.read(leader, 4096)
            except OSError:  # all have closed it
                break
            seen += more
        return process.wait(60), seen.decode()
    finally:
        process.kill()
        os.close(leader)


def screen(text: str) -> list[str]:
    """What is left to read, once the terminal has done as it was told."""
    return [re.sub(r"\x1b\[\d*m", "", line.split("\r\x1b[K")[-1]) for line in text.replace("\r\n", "\n").split("\n")]


def test_a_bar_that_leaves_nothing_behind(conf_file: str) -> None:
    """Kills: no bar; a bar wider than the terminal; one that stays; sockets of Spark that stay."""
    with tempfile.TemporaryDirectory(prefix="d-", dir="/tmp") as scratch:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": scratch, "TERM": "xterm"}
        environment[SWITCH] = "off"  # the process that makes an archive outlives the release
        code, seen = on_a_terminal([*PROGRAM, "release", conf_file], environment)
        assert code == 0, seen
        assert [name for name in os.listdir(scratch) if name.startswith(("dpspark-", "."))] == []
    drawn = re.findall(r"\r\x1b\[K(  [^\r\x1b]+)", seen)
    assert drawn
    assert all(len(line) < COLUMNS and re.search(r"\d+/\d+ tasks +\d+\.\d s$", line) for line in drawn), drawn
    left = [line for line in screen(seen) if line]
    steps = ["checking the source", "starting Spark", "reading (1 file, 0 MB)", "adding noise", "publishing"]
    assert left[:-1] == [f"  {step} ..." for step in steps]
    assert left[-1].endswith("releases/income/1")


def test_no_bar_in_a_pipe(spark: Any, conf_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["release", conf_file])
    out, err = capfd.readouterr()
    assert (caught.value.code, err) == (0, "")
    assert out.endswith("releases/income/1\n")


@pytest.mark.parametrize("as_json", [False, True])
def test_verbose_logs_steps_on_stderr(
    spark: Any, conf_file: str, capfd: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """Kills: a row count in the log (there are 40,000); a step without its time; anything but the result on stdout."""
    with pytest.raises(SystemExit) as caught:
        main(["release", conf_file, "-v", *(["--json"] if as_json else [])])
    out, err = capfd.readouterr()
    assert caught.value.code == 0
    assert len(out.splitlines()) == 1
    found = [LOGGED.fullmatch(line) for line in err.splitlines()]
    assert all(found), err
    texts = [match[1] for match in found if match]
    assert texts[0] == "gram by gaussian"
    assert f"Spark {spark.version}" in texts
    reading = [text for text in texts if text.startswith("reading")]
    assert reading[0] == "reading (1 file, 0 MB)"
    assert re.fullmatch(r"reading \(1 file, 0 MB\) took \d+\.\d s, 2 tasks", reading[1])
    assert re.fullmatch(r"publishing took \d+\.\d s", texts[-1])
    assert not re.search(r"40[,.]?0\d\d|39[,.]?9\d\d", err)


def test_tasks_of_a_query_are_not_counted(spark: Any, conf_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Spark leaves out stages without rows: their number can tell whether one person is there."""
    with pytest.raises(SystemExit):
        main(["release", conf_file, "-v", "--set", "where=age > 30"])
    err = capfd.readouterr().err
    assert re.search(r"reading \(through Spark\) took \d+\.\d s$", err, re.M)
    assert "task" not in err


def test_a_closed_stderr_stops_no_release(conf_file: str) -> None:
    """Kills: a bar or a step that fails on a stream that is not there."""
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" 2>&-', "sh", *PROGRAM, "release", conf_file, "-v"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0
    assert done.stdout.endswith("releases/income/1\n")


@pytest.mark.parametrize("width", [1, 2, 10, 20, 31, 32, 80, 300])
@pytest.mark.parametrize(("done", "total"), [(0, 1), (3, 40), (40, 40), (123_456, 200_000)])
def test_a_bar_fits(done: int, total: int, width: int) -> None:
    line = bar(done, total, 7.25, width)
    assert len(line) < width
    if width >= 40 + 30:
        assert line.count("#") == 40 * done // total
        assert line.count("#") + line.count(".") == 41  # and the point of the seconds
        assert f"{done}/{total} tasks" in line
