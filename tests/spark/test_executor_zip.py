"""The zip for executors, and the list of what a Connect client installs."""

from __future__ import annotations

import pickle
import pickletools
import re
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pyarrow
import pytest

from dpspark.audit.confs import specs_of
from dpspark.audit.run import chosen
from dpspark.spark.executor_zip import executor_modules, write_zip
from dpspark.spec.choose import choose
from dpspark.version import __version__

ROOT = Path(__file__).parents[2]


def bare(place: Path) -> Path:
    """Make a directory with numpy and pyarrow and nothing else, to be all that a Python has beside its own library."""
    place.mkdir()
    for package in (numpy, pyarrow):
        source = Path(package.__file__).parent
        for part in (source, source.with_name(f"{source.name}.libs")):
            if part.exists():
                (place / part.name).symlink_to(part)
    return place


def python(program: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python that has these on its path, in this order, and no site-packages."""
    given = "".join(f"sys.path.insert({i}, {str(entry)!r})\n" for i, entry in enumerate(path))
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys\n{given}{program}"], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_zip(tmp_path_factory.mktemp("zip"))


def test_every_module_of_the_zip_needs_numpy_and_pyarrow_alone(zipped: Path, tmp_path: Path) -> None:
    """Kills: an import, at once or later, that the zip does not have; a module that needs what executors have not."""
    assert zipped.name == f"dpspark-{__version__}.zip"
    names = sorted(executor_modules())
    program = f"import importlib\nfor name in {names!r}: print(importlib.import_module(name).__file__)"
    done = python(program, zipped, bare(tmp_path / "bare"))
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(zipped)) for line in done.stdout.splitlines())
    assert len(done.stdout.splitlines()) == len(names)


def test_the_zip_has_what_executors_import_and_no_more(zipped: Path) -> None:
    """Kills: a command, the spec, the ledger, the judge or the driver's noise on every executor.

    A kernel shares its file with its mechanism: what its calibration imports comes along, and needs numpy alone.
    """
    with zipfile.ZipFile(zipped) as archive:
        names = set(archive.namelist())
    files = {path.relative_to(ROOT).as_posix() for path in executor_modules().values()}
    assert names == {"dpspark/__init__.py", *files}
    inside = {name.split("/")[1] for name in names} - {"__init__.py"}
    assert inside == {"core", "demo", "errors.py", "exact", "mechanisms", "privacy", "show", "source", "spark"}
    assert not {name for name in names if re.search("noise|session|connect|tracts|composition|profiles|registry", name)}


def modules_in(payload: bytes) -> set[str]:
    """Name the modules that unpickling imports."""
    strings: list[str] = []
    found = set()
    for opcode, argument, _ in pickletools.genops(payload):
        if opcode.name == "STACK_GLOBAL":
            found.add(strings[-2])
        elif isinstance(argument, str):
            strings.append(argument)
    return {name for name in found if name.startswith("dpspark")}


@pytest.mark.parametrize("name", [name for _, name in chosen("theil_sen")])
def test_every_kernel_travels(name: str) -> None:
    """Kills: a kernel, or a part of one, whose module the zip does not have."""
    for spec in specs_of("theil_sen", name):
        kernel = choose(spec).kernel  # type: ignore[union-attr]
        needed = modules_in(pickle.dumps(kernel, protocol=4))
        assert type(kernel).__module__ in needed
        assert needed <= executor_modules().keys()


def test_a_driver_has_the_installed_package(zipped: Path) -> None:
    """spark-submit puts the zip first. Kills: a driver that has executors' modules alone, or two copies of one."""
    shown = "print(p.__file__, dpspark.cli.__file__, dpspark.__file__)"
    program = f"import dpspark.spark.passes as p, dpspark.cli\n{shown}\ndpspark.DpsparkError"
    done = python(program, zipped, ROOT, *map(Path, site.getsitepackages()))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(ROOT / "dpspark" / name) for name in ("spark/passes.py", "cli/__init__.py", "__init__.py")
    ]


def test_an_installed_package_of_another_version_is_not_mixed_in(zipped: Path, tmp_path: Path) -> None:
    """On executors it is not used, whatever it is; a driver is told. Kills: half of one version and half of another."""
    shutil.copytree(ROOT / "dpspark", tmp_path / "other" / "dpspark", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "other" / "dpspark" / "exact" / "bounds.py").open("a") as file:
        file.write("# changed\n")
    paths = (zipped, tmp_path / "other", bare(tmp_path / "bare"))
    done = python("import dpspark.exact.bounds as b; print(b.__file__)", *paths)
    assert done.stdout.startswith(str(zipped)), done.stderr
    for program in ("import dpspark.cli.main", "import dpspark; dpspark.release"):
        done = python(program, *paths)
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert re.search(r"No module named 'dpspark\.\w+' in \S+\.zip, which has what executors import", last)
        assert "Install dpspark on the driver" in last


def test_same_sources_same_bytes(tmp_path: Path) -> None:
    assert write_zip(tmp_path / "a").read_bytes() == write_zip(tmp_path / "b").read_bytes()
