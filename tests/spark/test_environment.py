"""conf/venv.sh, which `make demo` and `make test` set up their environments with: what it refuses, keeps and makes anew.

All fail on 0.2.0, where the Makefile ran `python -m venv` and `pip install --quiet` and left what came of it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASE = Path(getattr(sys, "_base_executable", sys.executable)).resolve()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What venv.sh looks at, and a package that needs no index."""
    (tmp_path / "conf").mkdir()
    for name in ("setup.py", "conf/venv.sh", "conf/constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    for name, needs in (("tiny", ""), ("greedy", "Requires-Dist: not-to-be-had>=7\n")):
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            about = f"{name}-1.0.dist-info"
            wheel.writestr(f"{name}.py", "")
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
            wheel.writestr(
                f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{about}/RECORD", f"{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return tmp_path


def python_like(project: Path, name: str, before: str) -> Path:
    """A Python that runs some lines before what it is told with -c."""
    program = project / name
    program.write_text(
        "#!/bin/sh\n"
        f"""if [ "$1" = -c ]; then exec {BASE} -c "{before}; exec(__import__('sys').argv[1])" "$2"; fi\n"""
        f'exec {BASE} "$@"\n'
    )
    program.chmod(0o755)
    return program


def run(
    project: Path, python: Path | str, *packages: str, named: str = "command line"
) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(project)}
    command = ["sh", "conf/venv.sh", ".venv/ready", str(python), named, *(packages or ("tiny-1.0-py3-none-any.whl",))]
    return subprocess.run(command, cwd=project, env=known, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (None, "There is no"),
        ("import sys; sys.version_info = (3, 10, 13, 'final', 0)", "is Python 3.10.13, and 3.11 or newer is needed"),
        (
            "import sys; sys.modules['ensurepip'] = None",
            "has no venv. Install it (Debian, Ubuntu: apt install python3-venv)",
        ),
        ("raise SystemExit(1)", "does not run"),
    ],
)
def test_one_line_says_what_is_wrong(project: Path, before: str | None, said: str) -> None:
    """Missing, too old, without venv, broken."""
    python = project / "nowhere" if before is None else python_like(project, "python", before)
    done = run(project, python)
    assert done.returncode == 1
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "make PYTHON=" in done.stderr
    assert not (project / ".venv").exists()


def test_a_failed_one_is_made_anew(project: Path) -> None:
    """pip's reason is shown; the next try, with whatever Python, begins from nothing; a finished one is left alone."""
    done = run(project, BASE, "greedy-1.0-py3-none-any.whl")
    assert done.returncode == 1
    assert re.search("ERROR: .*not-to-be-had", done.stderr)
    assert not (project / ".venv/ready").exists()
    (project / ".venv/stale").touch()

    done = run(project, BASE, named="file")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == "Setting up .venv ...\n"
    assert not (project / ".venv/stale").exists()
    assert list((project / ".venv/lib").glob("python3*/site-packages/tiny.py"))

    made = (project / ".venv/bin/python").lstat().st_mtime_ns
    for named in ("file", "command line"):
        assert run(project, BASE, named=named).stderr == ""
    assert run(project, project / "nowhere", named="file").stderr == ""  # nobody asked for another
    (project / ".venv/unfinished").touch()  # as Ctrl-C leaves it
    assert run(project, project / ".venv/bin/python").returncode == 0  # of an activated environment
    assert (project / ".venv/bin/python").lstat().st_mtime_ns != made


def test_another_python_makes_it_anew(project: Path) -> None:
    """Only if somebody named it; and changed requirements are installed into what is there."""
    assert run(project, BASE).returncode == 0
    (project / ".venv/stale").touch()
    with open(project / "conf/constraints.txt", "a") as file:
        file.write("tiny==1.0\n")
    assert run(project, BASE).stderr == "Setting up .venv ...\n"
    assert (project / ".venv/stale").exists()
    other = python_like(project, "other", "import sys; sys.base_prefix = '/elsewhere'")
    assert run(project, other, named="file").stderr == ""
    assert run(project, other, named="environment").stderr == "Setting up .venv ...\n"
    assert not (project / ".venv/stale").exists()


def test_the_demo_installs_what_a_release_needs() -> None:
    """Kills: tools for tests and documents in the environment of `make demo`."""
    rules = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"-e '([^']*)'", rules) == [".[spark,java]"]
    for goal in ("lint", "test-main", "docs", "wheel"):
        rules = subprocess.run(["make", "-n", goal], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert re.findall(r"-e '([^']*)'", rules) == [".[spark,java]", ".[all,docs,dev]"]
