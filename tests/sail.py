"""Sail, a Spark Connect server of others that takes no packages from its clients, in an environment of its own.

`make test-sail` makes it; DPSPARK_TEST_SAIL names another one than .venv-sail.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATIENCE = 60  # seconds


def environment() -> Path:
    found = Path(os.environ.get("DPSPARK_TEST_SAIL", ROOT / ".venv-sail"))
    assert (found / "bin" / "sail").is_file(), f"no Sail in {found}. Run `make test-sail`"
    return found


@contextmanager
def sail_server(scratch: Path, *libraries: Path) -> Iterator[str]:
    """The URL of a server whose workers also import from some directories."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [environment() / "bin" / "sail", "spark", "server", "--ip", "127.0.0.1", "--port", str(port)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, libraries))}
    with (scratch / f"sail-{port}.log").open("wb") as log:
        process = subprocess.Popen(program, env=variables, stdout=log, stderr=log, cwd=scratch)
        try:
            _wait_for(port)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, "Sail does not answer"
            time.sleep(0.1)
