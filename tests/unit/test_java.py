"""Finding a Java: the system's, else the packaged one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dpspark.java import ensure_java, packaged_java_home


def fake_java(directory: Path, version: str) -> Path:
    launcher = directory / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    launcher.chmod(0o755)
    return directory


@pytest.mark.parametrize(("version", "good"), [("17.0.9", True), ("21", True), ("11.0.2", False), ("1.8.0_302", False)])
def test_java_home_counts_if_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, good: bool
) -> None:
    home = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ensure_java()
    assert (os.environ["JAVA_HOME"] == str(home)) is good


def test_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1")
    monkeypatch.delenv("JAVA_HOME", raising=False)
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
