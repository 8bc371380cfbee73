"""The class archive: only the user's own is used, a broken one hurts no one, and `dpspark warm` alone makes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from dpspark.errors import DpsparkError
from dpspark.spark.class_archive import SWITCH, _options, archive_path, drop_archive, make_archive, use_archive
from dpspark.spark.java import ensure_java
from dpspark.spark.sockets import LONGEST
from dpspark.spark.user_cache import own_directory
from tests.commands import exit_code

ROOT = Path(__file__).parents[2]
root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive's place in an empty cache."""
    ensure_java()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(SWITCH, raising=False)
    path = archive_path()
    assert path is not None
    own_directory(path.parent)
    return path


def put(archive: Path, content: bytes = b"classes") -> None:
    archive.touch(mode=0o600)
    archive.write_bytes(content)
    archive.with_suffix(".size").write_text(str(len(content)))


def used() -> bool:
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    with use_archive():
        found = str(archive_path()) in os.environ.get("SPARK_SUBMIT_OPTS", "")
    assert os.environ.get("SPARK_SUBMIT_OPTS") == before
    return found


def test_an_own_archive_is_used(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not used()
    put(archive)
    assert used()
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    with use_archive():
        assert os.environ["SPARK_SUBMIT_OPTS"].endswith(" -Dmine=1")
    monkeypatch.setenv(SWITCH, "off")
    assert archive_path() is None
    with use_archive():
        assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"


def test_what_others_can_write_is_not_used(archive: Path, tmp_path: Path) -> None:
    """Kills: running code that another user put there."""
    put(archive)
    archive.chmod(0o620)
    assert not used()
    archive.chmod(0o600)
    archive.parent.chmod(0o707)
    assert not used()
    archive.parent.chmod(0o700)
    assert used()
    archive.rename(tmp_path / "elsewhere")
    archive.symlink_to(tmp_path / "elsewhere")
    assert not used()


@root_only
@pytest.mark.parametrize("which", ["file", "directory"])
def test_what_belongs_to_others_is_not_used(archive: Path, which: str) -> None:
    put(archive)
    os.chown(archive if which == "file" else archive.parent, 12345, 12345)
    assert not used()


@root_only
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    """Kills: a Java launcher kept where a stranger can replace it."""
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(PermissionError):
        own_directory(tmp_path)


def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    """What is in it may be theirs: to mend its mode would not be enough."""
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError):
        own_directory(tmp_path)


def test_a_cut_archive_is_not_used(archive: Path) -> None:
    """Kills: an archive cut short, by a full disk or a copy that ended early: Java 17 dies of one."""
    put(archive)
    archive.write_bytes(b"class")
    assert not used()
    put(archive)
    archive.with_suffix(".size").write_text("")
    assert not used()


def test_an_archive_goes_if_java_did_not_start(archive: Path) -> None:
    put(archive)
    assert not drop_archive(RuntimeError("another reason"))
    assert archive.exists()
    assert drop_archive(RuntimeError("[JAVA_GATEWAY_EXITED] ..."))
    assert not archive.exists()
    assert not drop_archive(RuntimeError("[JAVA_GATEWAY_EXITED] ..."))  # and no third try


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "of another program"])
def test_java_does_without_an_archive_that_does_not_fit(archive: Path, damage: str) -> None:
    """Kills: an archive that stops Java, or one whose warnings are on stdout, where the path of a release belongs."""
    java, (making, using) = str(Path(os.environ["JAVA_HOME"], "bin", "java")), _options(archive)
    if damage == "of another program":
        jars = str(Path(pyspark.__file__).parent / "jars" / "*")
        subprocess.run([java, *making.split(), "-cp", jars, "org.apache.spark.launcher.Main"], capture_output=True)
        assert archive.stat().st_size > 1 << 20
    elif damage != "missing":
        archive.write_bytes(b"" if damage == "empty" else b"\xca\xfe" * 100_000)
    done = subprocess.run([java, *using.split(), "-version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_long_temporary_directories(tmp_path: Path) -> None:
    """Kills: sockets whose path is longer than the system takes, which fail every task; places that others can read.

    Fails on 0.2.0: there the directory went with the first session, and Java, which lives on, kept it in mind.
    """
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    program = (
        "import os, tempfile\n"
        f"tempfile.tempdir = {str(deep)!r}\n"
        "from dpspark.spark.sockets import socket_settings\n"
        "first = socket_settings()['spark.python.unix.domain.socket.dir']\n"
        "open(f'{first}/.left.sock', 'w').close()\n"
        "assert socket_settings()['spark.python.unix.domain.socket.dir'] == first\n"
        "os.remove(f'{first}/.left.sock')\n"
        "os.rmdir(first)\n"  # as cleaners of old files do
        "assert socket_settings()['spark.python.unix.domain.socket.dir'] == first\n"
        "assert os.stat(first).st_mode & 0o777 == 0o700\n"
        "if os.fork() == 0: raise SystemExit\n"  # a child takes nothing away
        "os.wait()\n"
        "assert os.path.isdir(first)\n"
        "os.chmod(first, 0o755)\n"
        "other = socket_settings()['spark.python.unix.domain.socket.dir']\n"
        "assert other != first\n"
        "print(first, other)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    for directory in done.stdout.split():
        assert len(directory) + 43 <= LONGEST
        assert not Path(directory).exists()


def warmed() -> int:
    return exit_code("warm")


def test_warm_says_where_the_archive_is(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails on 0.2.0, which has no such command."""
    put(archive)
    monkeypatch.setattr("dpspark.spark.class_archive._run", None)  # it is there: no Spark is started
    assert warmed() == 0
    assert capsys.readouterr().out.strip() == str(archive)
    assert sorted(path.name for path in archive.parent.iterdir()) == [archive.name, f"{archive.stem}.size"]


@pytest.mark.parametrize(
    ("why", "code", "said"),
    [("off", 2, SWITCH), ("space", 1, "MB free"), ("others", 1, "belongs to another user"), ("nothing", 1, "wrote no")],
)
def test_warm_says_why_it_makes_none(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str, code: int, said: str
) -> None:
    """In 0.2.0 a process in the background gave up, and told nobody."""
    monkeypatch.setattr("dpspark.spark.class_archive._run", lambda options: None)
    if why == "off":
        monkeypatch.setenv(SWITCH, "off")
    elif why == "space":
        monkeypatch.setattr("dpspark.spark.class_archive.SPACE", 1 << 62)
    elif why == "others":
        archive.parent.chmod(0o777)
    assert warmed() == code
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""
    assert not list(archive.parent.iterdir())


def test_what_makes_an_archive_ends(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a Java that goes on after `dpspark warm` gave up or was stopped. 0.2.0 left such a process on purpose."""
    stub = tmp_path / "python"
    stub.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/java\nsleep 1000\n")
    stub.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(stub))
    monkeypatch.setattr("dpspark.spark.class_archive.PATIENCE", 1)
    with pytest.raises(DpsparkError, match="did not end"):
        make_archive(archive)
    java = (tmp_path / "java").read_text().strip()
    found = Path("/proc", java, "stat")
    assert not found.exists() or found.read_text().split()[2] == "Z"
    assert not list(archive.parent.iterdir())


@pytest.mark.slow
def test_the_archive_is_made_once_and_used(archive: Path, tmp_path: Path) -> None:
    """Two at once: one makes it. A session maps it. Kills: an archive that Java silently does without."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from dpspark.cli.main import main; main()", "warm"]
    makers = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [maker.wait(1500) for maker in makers] == [0, 0]
    assert sorted(path.name for path in archive.parent.iterdir()) == [archive.name, f"{archive.stem}.size"]
    made = archive.stat().st_mtime
    program = (
        "from dpspark.spark.session import spark_session\n"
        "with spark_session() as spark:\n"
        "    pid = spark._jvm.java.lang.ProcessHandle.current().pid()\n"
        "    print(open(f'/proc/{pid}/maps').read())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert str(archive) in done.stdout
    assert archive.stat().st_mtime > made  # used, hence kept
    # Java dies of this one: Spark starts without it, and it goes.
    archive.chmod(0o600)
    with open(archive, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (archive.stat().st_size - 8192))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert str(archive) not in done.stdout
