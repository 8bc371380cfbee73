"""A real Spark Connect server on the loopback, whose Python has numpy and pyarrow but not dpspark."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARIES = ("numpy", "numpy.libs", "pyarrow", "pyarrow.libs")
PATIENCE = 120  # seconds for a busy machine
TOKEN = "correct-horse-7b2c"  # no real one: tests look for it where it must not be


@dataclass(frozen=True)
class Server:
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def spark_home() -> Path:
    """A Spark with its Java parts: as told, else this environment's, else the one that `make` set up."""
    import pyspark

    told = os.environ.get("DPSPARK_TEST_SPARK_HOME")
    made = (ROOT / ".venv" / "lib").glob("python3*/site-packages/pyspark")
    for home in [Path(told)] if told else [Path(pyspark.__file__).parent, *made]:
        if (home / "jars").is_dir():
            return home
    raise RuntimeError("no Spark to serve with: run `make .venv/ready`, or set DPSPARK_TEST_SPARK_HOME to a pyspark")


@contextmanager
def connect_server(scratch: Path, *settings: str) -> Iterator[Server]:
    """Its Python also finds what is in scratch/libraries."""
    home = spark_home()
    site = home.parent
    python = site.parents[2] / "bin" / "python"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workers = _bare_python(scratch, python, site)
    names = ("SPARK_", "PYSPARK_", "PYTHON")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(names)}
    environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(workers), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_LOCAL_DIRS": str(scratch), "SPARK_HOME": str(home), "OMP_NUM_THREADS": "1"}
    fixed = (
        f"spark.connect.authenticate.token={TOKEN}",
        "spark.ui.enabled=false",
        "spark.sql.shuffle.partitions=2",
        "spark.driver.memory=2g",
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts faster
    )
    log = scratch / "server.log"
    serve = str(Path(__file__).with_name("serve.py"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python), serve, str(home), str(port), *fixed, *settings],
            env=environment,
            cwd=scratch,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    server = Server(f"sc://localhost:{port}/;token={TOKEN}", process, log)
    try:
        _wait_for(port, server)
        yield server
    finally:
        server.kill()


def _bare_python(scratch: Path, python: Path, site: Path) -> Path:
    """A Python without site-packages, but for numpy and pyarrow."""
    libraries = scratch / "libraries"
    libraries.mkdir(exist_ok=True)
    for name in LIBRARIES:
        if (site / name).exists():
            (libraries / name).symlink_to(site / name)
    launcher = scratch / "python"
    found = f'PYTHONPATH="$PYTHONPATH":{shlex.quote(str(libraries))}'
    launcher.write_text(f'#!/bin/sh\n{found} exec {shlex.quote(str(python))} -S "$@"\n')
    launcher.chmod(0o755)
    return launcher


def _wait_for(port: int, server: Server) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if server.process.poll() is not None:
            break
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the Connect server did not start: {server.log.read_text(errors='replace')[-2000:]}")


if __name__ == "__main__":  # for a look by hand
    import tempfile

    with tempfile.TemporaryDirectory() as made, connect_server(Path(made), *sys.argv[1:]) as running:
        print(running.url, flush=True)
        running.process.wait()
