"""The zip for executors, and the list of what a Connect client installs."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from dpspark.spark.executor_zip import write_zip
from dpspark.version import __version__

ROOT = Path(__file__).parents[2]


def test_everything_imports_from_the_zip(tmp_path: Path) -> None:
    made = write_zip(tmp_path)
    assert made.name == f"dpspark-{__version__}.zip"
    code = "import sys; sys.path.insert(0, sys.argv[1]); "
    code += "import dpspark.spark.exact_sums as g, dpspark.cli.main; print(g.__file__)"
    command = [sys.executable, "-I", "-c", code, str(made)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith(str(made)), done.stderr


def test_same_sources_same_bytes(tmp_path: Path) -> None:
    assert write_zip(tmp_path / "a").read_bytes() == write_zip(tmp_path / "b").read_bytes()


def test_a_connect_client_needs_what_the_package_needs() -> None:
    """Kills: a requirement added to setup.py and not to the client's list, or with other limits."""

    def split(lines: list[str]) -> dict[str, list[str]]:
        found = (re.match(r"([\w-]+)(.*)", line.split(";")[0].replace(" ", "")) for line in lines)
        return {match[1].lower(): sorted(match[2].split(",")) for match in found if match}

    needed = split([line for line in requires("dpspark") or [] if "extra" not in line])
    listed = split(
        [line for line in (ROOT / "conf/requirements-connect.txt").read_text().splitlines() if not line.startswith("#")]
    )
    assert needed.pop("pyspark")
    assert listed.pop("pyspark-client")
    assert needed == listed
