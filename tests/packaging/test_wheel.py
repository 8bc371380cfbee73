"""Wheel and sdist: complete, described, and enough to work with where there is no repository and no Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from dpspark.version import __version__

ROOT = Path(__file__).parents[2]
# What a repository has and a release of the sources has not.
LEFT_OUT = re.compile(r"\.gitignore|\.ci/.*|.*\.ipynb_checkpoints/.*")


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def sources() -> set[str]:
    """What git has, or would have."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def dist(sources: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, built as `make wheel` does: the wheel from the sdist, so that the sdist is enough to install from."""
    home = tmp_path_factory.mktemp("wheel")
    for name in sources:
        (home / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, home / "src" / name)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", home / "dist", home / "src")
    run(*build, cwd=home, env={**os.environ, "DPSPARK_URL": "https://example.org/dpspark/"})
    return home / "dist"


def the_wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    assert found.name == f"dpspark-{__version__}-py3-none-any.whl"
    return found


def metadata(dist: Path) -> Message:
    with zipfile.ZipFile(the_wheel(dist)) as wheel:
        return message_from_bytes(wheel.read(f"dpspark-{__version__}.dist-info/METADATA"))


def test_the_wheel_has_the_package_and_nothing_else(dist: Path, sources: set[str]) -> None:
    """Kills: a package or a data file that setup.py does not name; tests or caches in the wheel."""
    with zipfile.ZipFile(the_wheel(dist)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        licences = [name for name in wheel.namelist() if name.endswith("LICENSE")]
    assert names == {name for name in sources if name.startswith("dpspark/")}
    assert "dpspark/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"dpspark"}
    assert not {name for name in names if {"benchmarks", "experiments", "tests"} & set(Path(name).parts)}
    assert len(licences) == 1


def test_the_sdist_has_all_sources(dist: Path, sources: set[str]) -> None:
    """Kills: a file that MANIFEST.in leaves out, so that tests or documents cannot be run from an sdist."""
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {name for name in sources if not LEFT_OUT.fullmatch(name)} <= names


def test_the_description_stands_alone(dist: Path) -> None:
    """Kills: a README that an index cannot show, or with links and pictures that lead nowhere there."""
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())
    found = metadata(dist)
    text = str(found.get_payload(decode=True), "utf-8")
    assert text.startswith("# dpspark")
    assert "make demo" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "docs/" not in text.partition("```")[0]
    assert found["License"] == "Apache-2.0" or found["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in found.get_all("Classifier", [])


def test_an_index_links_to_the_project(dist: Path) -> None:
    """Kills: an address that does not get into the wheel, which is built from the sdist; Pythons that are not named."""
    found = metadata(dist)
    links = dict(link.split(", ") for link in found.get_all("Project-URL", []))
    assert links["Source"] == links.get("Homepage", found["Home-page"]) == "https://example.org/dpspark"
    versions = {line.rpartition(" ")[2] for line in found.get_all("Classifier", []) if "Python :: 3." in line}
    assert versions == {"3.11", "3.12", "3.13", "3.14"}


def test_all_is_all(dist: Path) -> None:
    """Kills: an extra for users that `all` forgets. A Connect client alone takes the place of all of pyspark."""
    extras = set(metadata(dist).get_all("Provides-Extra", []))
    (named,) = (line for line in metadata(dist).get_all("Requires-Dist", []) if line.startswith("dpspark["))
    assert set(re.findall(r"[\w-]+", named.partition("]")[0])) - {"dpspark"} == extras - {
        "all",
        "client",
        "docs",
        "dev",
    }


@pytest.mark.slow
def test_a_new_user_needs_the_wheel_alone(dist: Path, tmp_path: Path) -> None:
    """A fresh environment, an empty directory, no Java on the path. Kills: code that reads files of the repository."""
    unwanted = ("JAVA_HOME", "PYTHONPATH", "SPARK_HOME", "VIRTUAL_ENV")
    settings = {key: value for key, value in os.environ.items() if key not in unwanted}
    run(sys.executable, "-m", "venv", tmp_path / "venv", env=settings)
    install = (tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", "-c", ROOT / "conf/constraints.txt")
    run(*install, f"{the_wheel(dist)}[spark,java,sign]", cwd=tmp_path, env=settings)
    tools, home = tmp_path / "tools", tmp_path / "home"
    tools.mkdir()
    home.mkdir()
    for directory in ("/bin", "/usr/bin"):
        for tool in Path(directory).iterdir():
            if not re.match(r"java|dpspark", tool.name) and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    settings |= {"PATH": f"{tmp_path / 'venv/bin'}:{tools}", "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    assert shutil.which("java", path=settings["PATH"]) is None

    def dpspark(*arguments: str) -> str:
        return run(tmp_path / "venv/bin/dpspark", *arguments, cwd=home, env=settings).stdout

    assert __version__ in dpspark("--version")
    assert "educ" in dpspark("demo", "--rows", "20000")
    assert "The conf is valid" in dpspark("check", "demo/demo.yaml")
    made = dpspark("release", "demo/demo.yaml", "--set", "release.version=two").strip()
    assert "sex[M]" in dpspark("regress", made, "income ~ age + sex")
    assert "Verified" in dpspark("verify", made, "--url", "sqlite:///demo/ledger.db")
    dpspark("plan", "demo/demo.yaml")
    dpspark("audit", "laplace", "--trials", "200")
