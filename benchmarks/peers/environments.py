"""Environments of peers, made once for each user: the peer's own Python packages, apart from dpspark's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.known import Peer
from dpspark.errors import DpsparkError
from dpspark.releasing.lock import taking_turns
from dpspark.spark.java import ensure_java, java_version
from dpspark.spark.user_cache import cache_directories, own_directory

SCRIPTS = Path(__file__).parent / "scripts"
JAVA_OF_SPARK_35 = range(17, 21)
INSTALL_SECONDS, RUN_SECONDS = 1800, 1200
LONGEST_REASON = 160


class NotInstalled(DpsparkError):
    """No environment for this peer. The message is its row."""


class Failed(DpsparkError):
    """It is there, but did not answer."""


def run_peer(peer: Peer, parameters: dict[str, Any], install: bool) -> dict[str, Any]:
    """Run the peer's script, and read what it printed."""
    python = environment(peer, install)
    variables = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    if peer.spark:
        variables["JAVA_HOME"] = _java_home(peer)
    for name in ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        variables.pop(name, None)  # dpspark's, not the peer's
    # -I: the scripts have the names of what they import.
    command = [str(python), "-I", str(SCRIPTS / f"{peer.name}.py"), json.dumps({**parameters, "started": time.time()})]
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"failed: no answer in {RUN_SECONDS} seconds") from None
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise Failed(f"failed: {_reason(done.stderr)}") from None


def environment(peer: Peer, install: bool) -> Path:
    """The Python that has the peer."""
    if not peer.requirements:
        return Path(sys.executable)
    base = _fitting_python(peer)
    made = json.dumps([base, *peer.requirements])
    for cache in cache_directories():
        home = cache / "peers" / f"{peer.name}-{peer.version}"
        python = home / "bin" / "python"
        try:
            own_directory(cache)
            home.parent.mkdir(exist_ok=True, mode=0o700)
            with taking_turns(home.with_suffix(".lock"), lambda step: None):
                if not _is_ready(home, made):
                    if not install:
                        raise NotInstalled("not installed: leave out --no-install to install it")
                    _make(home, base, peer.requirements)
                    (home / "ready").write_text(made, encoding="utf-8")
            return python
        except OSError:
            continue
    raise NotInstalled("not installed: no writable directory. Set XDG_CACHE_HOME to one.")


def _is_ready(home: Path, made: str) -> bool:
    """Finished, and by the same Python from the same requirements."""
    try:
        return (home / "ready").read_text(encoding="utf-8") == made
    except OSError:
        return False


def _fitting_python(peer: Peer) -> str:
    oldest, newest = peer.pythons
    if oldest <= sys.version_info.minor <= newest:
        return sys.executable
    found = [shutil.which(f"python3.{minor}") for minor in range(min(newest, 20), oldest - 1, -1)]
    for python in filter(None, found):
        return python
    raise NotInstalled(f"not installed: needs a Python 3.{oldest} to 3.{newest} on the PATH")


def _make(home: Path, python: str, requirements: tuple[str, ...]) -> None:
    shutil.rmtree(home, ignore_errors=True)
    steps = [
        [python, "-m", "venv", str(home)],
        [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
    ]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for step in steps:
        try:
            done = subprocess.run(step, env=variables, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"not installed: not done in {INSTALL_SECONDS} seconds") from None
        if done.returncode != 0:
            raise NotInstalled(f"not installed: {_reason(done.stderr or done.stdout)}")


def _java_home(peer: Peer) -> str:
    """Find a Java that runs the peer's Spark."""
    ensure_java()
    home = os.environ["JAVA_HOME"]
    if peer.spark != "3.5":
        return home
    on_path = shutil.which("java")
    homes = [Path(home), *([Path(on_path).resolve().parent.parent] if on_path else [])]
    for each in homes:
        if java_version(each / "bin" / "java") in JAVA_OF_SPARK_35:
            return str(each)
    raise Failed("failed: its Spark 3.5 needs a Java 17. Set JAVA_HOME to one.")


def _reason(output: str) -> str:
    """The line of a program's complaints that tells most: its last error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    line = (errors or lines or ["it said nothing"])[-1].removeprefix("ERROR: ")
    return line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON] + "…"
