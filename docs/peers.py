"""Put a run of `python -m benchmarks peers`, read from stdin, into docs/peers.md. `make docs-peers` does both."""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("peers.md")

if __name__ == "__main__":
    run = f"<!-- bench peers -->\n```\n{sys.stdin.read().strip()}\n```\n<!-- /bench peers -->"
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        re.sub("<!-- bench peers -->.*<!-- /bench peers -->", lambda _: run, old, flags=re.S), encoding="utf-8"
    )
