"""Programs on a real terminal of their own, as a user sees them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = [sys.executable, "-c", "from dpspark.cli.main import main; main()"]
COLUMNS = 32


def on_a_terminal(command: list[str], environment: dict[str, str], columns: int = COLUMNS) -> tuple[int, str]:
    """Run it with stdin, stdout and stderr on a terminal of its own; what came through, byte by byte."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
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
