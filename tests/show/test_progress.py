"""What a user sees while a release runs: a bar on a real terminal, nothing in a pipe, log lines when asked for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from terminals import COLUMNS, PROGRAM, ROOT, on_a_terminal, screen

from dpspark.cli.main import main
from dpspark.published.gram import GramRelease
from dpspark.show.json_lines import ProgressLines
from dpspark.show.notebook_progress import Cell, reporting
from dpspark.show.progress import Event, Loop, Note, NoteKind, Reading, Step, StepDone, Steps, Tasks, listening, tell
from dpspark.show.terminal import bar
from tests.conftest import release_of

SHOWN = ("step", "tasks_done", "tasks_total", "megabytes", "files_done", "files_total")
LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO dpspark: income 1: (.*)")


@pytest.fixture
def release_of_many(conf: dict[str, Any]) -> GramRelease:
    rng = np.random.default_rng(0)
    age, educ = rng.uniform(18, 99, 20_000), rng.uniform(1, 16, 20_000)
    values = {"age": age, "educ": educ, "income": 900 * age, "sex": rng.choice(["F", "M"], 20_000)}
    return release_of(conf, values)


def test_a_bar_that_leaves_nothing_behind(conf_file: str) -> None:
    """Kills: no bar; a bar wider than the terminal; one that stays; sockets of Spark that stay."""
    with tempfile.TemporaryDirectory(prefix="d-", dir="/tmp") as scratch:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": scratch, "TERM": "xterm"}
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
    assert not re.search(r"40[,.]?0\d\d|39[,.]?9\d\d", "\n".join(texts))  # without the times of day


def test_tasks_of_a_query_are_not_counted(spark: Any, conf_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Spark leaves out stages without rows: their number can tell whether one person is there."""
    with pytest.raises(SystemExit):
        main(["release", conf_file, "-v", "--set", "where=age > 30", "--set", "source.reader=spark"])
    err = capfd.readouterr().err
    assert re.search(r"reading \(through Spark\) took \d+\.\d s$", err, re.M)
    assert "task" not in err


def test_json_for_schedulers(spark: Any, conf_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Kills: a line that is not JSON; a step without an end; a count of rows (there are 40,000) or of exact bytes."""
    with pytest.raises(SystemExit) as caught:
        main(["release", conf_file, "--progress", "json", "--pay-count"])
    out, err = capfd.readouterr()
    assert caught.value.code == 0
    assert out.endswith("releases/income/1\n")
    lines = [json.loads(line) for line in err.splitlines()]
    assert all((line["release"], line["version"]) == ("income", "1") for line in lines)
    started = [line["step"] for line in lines if line["state"] == "started"]
    done = {line["step"]: line for line in lines if line["state"] == "done"}
    assert started[:2] == ["checking the source", "starting Spark"]
    assert started[2:] == ["reading (1 file, 0 MB)", "adding noise", "publishing"]
    assert list(done) == started
    assert done["reading (1 file, 0 MB)"].get("tasks", 2) in (1, 2)  # Spark may tell of the last one too late
    assert all(line["seconds"] >= 0 for line in done.values())
    assert [line["message"][:10] for line in lines if line["state"] == "note"] == ["rows used:"]  # a noisy one
    assert lines[-1]["state"] == "finished"
    assert lines[-1]["path"] == out.strip()
    told = [line for line in lines if line["state"] != "note"]
    assert not re.search(r"40[,.]?000|bytes\"", json.dumps(told))


def test_json_of_a_query_counts_nothing(spark: Any, conf_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Kills: the tasks of a query in what a scheduler reads: they can tell whether one person is there."""
    with pytest.raises(SystemExit):
        main(["release", conf_file, "--progress", "json", "--set", "where=age > 30"])
    err = capfd.readouterr().err
    assert json.loads(err.splitlines()[-1])["state"] == "finished"
    assert "tasks" not in err
    assert "megabytes" not in err


def test_json_says_why_it_failed(conf_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Kills: an error that a scheduler must parse out of prose; another exit code; text that is not JSON."""
    for change, code in (("ledger.dataset=poor", 3), ("privacy.epsilon=-1", 2), ("source.parquet=none", 4)):
        with pytest.raises(SystemExit) as caught:
            main(["release", conf_file, "--progress", "json", "--set", change])
        out, err = capfd.readouterr()
        last = json.loads(err.splitlines()[-1])
        assert (caught.value.code, out, last["state"], last["exit_code"]) == (code, "", "failed", code)
        assert all(json.loads(line) for line in err.splitlines())


def test_json_of_an_unforeseen_failure(
    conf_file: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: a last line that is no JSON; an error's text, which may quote a row."""

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("row 17")

    monkeypatch.setattr("dpspark.cli.release.run_release", fails)
    with pytest.raises(SystemExit) as caught:
        main(["release", conf_file, "--progress", "json"])
    last = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert caught.value.code == 1
    assert (last["state"], last["message"], last["exit_code"]) == ("failed", "unexpected ZeroDivisionError", 1)


def test_lines_of_progress_tell_tasks_and_megabytes(capfd: pytest.CaptureFixture[str]) -> None:
    """Kills: a line for each look; tasks where they are not to be known; megabytes of an earlier step."""
    lines = ProgressLines()
    lines.about("income", "1")
    lines(Step("reading"))
    lines(Reading(12))
    for done in range(5):
        lines(Tasks(done, 40))
    lines(Step("shuffling"))
    lines(Tasks(3, 7, counted=False))
    lines(Step("checking"))
    lines(Loop("files", 2, 9))
    lines(Tasks(0, 0))
    found = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    shown = [{k: v for k, v in line.items() if k in SHOWN} for line in found if line["state"] == "progress"]
    assert shown == [
        {"step": "reading", "tasks_done": 0, "tasks_total": 40, "megabytes": 12},
        {"step": "shuffling"},
        {"step": "checking", "files_done": 2, "files_total": 9},
    ]


def test_a_bar_of_files_goes_before_the_result(tmp_path: Path) -> None:
    """Kills: no bar while many footers are opened; one that stays; one in what is printed."""
    pq.write_table(pa.table({"age": [20.0]}), tmp_path / "0.parquet")
    for number in range(1, 1500):
        shutil.copy(tmp_path / "0.parquet", tmp_path / f"{number}.parquet")
    # However fast the files are opened: a fast machine would be done before the bar is due.
    at_once = "from dpspark.show import terminal; terminal.SECONDS_BETWEEN_DRAWINGS = 0"
    program = [PROGRAM[0], "-c", f"{at_once}; {PROGRAM[2]}"]
    command = [*program, "init", "--parquet", str(tmp_path), "--out", str(tmp_path / "conf.yaml"), "--name", "n"]
    code, seen = on_a_terminal(command, {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"})
    assert code == 0, seen
    assert re.search(r"\d+/1500 files +\d+\.\d s", seen)
    assert all("1500 files" not in line for line in screen(seen))
    assert screen(seen)[0].endswith("conf.yaml: 1 column, by their names and types; no data was read.")


def test_long_loops_are_told(release_of_many: GramRelease) -> None:
    """Kills: subsets or replicates that nobody hears of; a listener that stays, or that stops the work."""
    told: list[Event] = []
    with listening(told.append):
        release_of_many.all_subsets("income")
        release_of_many.regress("income ~ age", interval="bootstrap").summary()
    assert Loop("subsets", 8, 8) in told
    assert Loop("replicates", 2000, 2000) in told
    assert told[-1] == Loop("", 0, 0)
    count = len(told)
    release_of_many.all_subsets("income")
    assert len(told) == count
    with listening(lambda *_: 1 / 0):
        assert release_of_many.all_subsets("income").tried == 8


def test_steps_and_notes_by_their_type(capfd: pytest.CaptureFixture[str]) -> None:
    """Kills: a note that ends its step; a note known by its words; a listener that replaces the one around it; a report that
    gets more than texts, or that cannot stop the work."""
    outer: list[Event] = []
    inner: list[Event] = []
    texts: list[str] = []
    with listening(outer.append), reporting("income 1", texts.append) as report:
        with listening(inner.append):
            steps = Steps("income 1", report)
            steps("little budget is left")  # a step, whatever it is called
            steps.note(Note(NoteKind.FORESEEN, "reading"))
            steps.tell(Reading(3))
            steps.end()
        tell(Loop("files", 1, 2))
    told = [Step("little budget is left"), Note(NoteKind.FORESEEN, "reading"), Reading(3)]
    assert outer[:3] == inner[:3] == told
    assert [type(event) for event in inner[3:]] == [StepDone, Loop]
    assert [type(event) for event in outer[3:]] == [StepDone, Loop, Loop]
    assert texts == ["little budget is left", "reading"]
    with pytest.raises(ZeroDivisionError):
        Steps("income 1", lambda event: print(1 / 0))("publishing")
    lines = ProgressLines()
    for event in outer:
        lines(event)
    written = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["state"] for line in written] == ["started", "note", "done", "progress"]


def test_a_cell_shows_short_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a whole path in a cell; a note that is taken for the step."""
    cell, shown = Cell("income 1"), list[str]()
    monkeypatch.setattr(cell, "_show", lambda text, html: shown.append(text))
    cell(Note(NoteKind.ALREADY_PUBLISHED, "already published: /home/me/out", "already published: out"))
    cell(Step("reading"))
    assert shown == ["income 1: already published: out", "income 1: already published: out\nincome 1: reading …"]


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
    assert len(bar(done, total, 7.25, width, "tasks", 1234)) < width
    assert (f"{1234 * done // total}/1234 MB" in bar(done, total, 7.25, 100, "tasks", 1234)) is True
    line = bar(done, total, 7.25, width)
    assert len(line) < width
    if width >= 40 + 30:
        assert line.count("#") == 40 * done // total
        assert line.count("#") + line.count(".") == 41  # and the point of the seconds
        assert f"{done}/{total} tasks" in line
