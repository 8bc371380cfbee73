"""What may be imported where."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

BLOCKED = (
    "pyspark",
    "opendp",
    "pandas",
    "scipy",
    "pydantic",
    "sqlalchemy",
    "sqlglot",
    "click",
    "yaml",
    "dp_accounting",
)


def imports_without(modules: str, blocked: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    program = f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n" + "".join(
        f"import {module}\n" for module in modules.split()
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def modules_of(*packages: str) -> list[str]:
    """Every module of some packages, as they are found."""
    found = []
    for name in packages:
        package = import_module(name)
        found += [name, *(module.name for module in walk_packages(package.__path__, f"{name}."))]
    return found


def test_executors_need_numpy_and_pyarrow_alone() -> None:
    """Every module of these packages, as they are found: no list by hand."""
    done = imports_without(" ".join(modules_of("dpspark.core", "dpspark.exact", "dpspark.mechanisms.lines")), BLOCKED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "modules",
    [
        "dpspark.ledger.ledger dpspark.mechanisms.gram.gaussian dpspark.bundle.files dpspark.cli.actions.check",
        "dpspark.planning dpspark.interop.zelig dpspark.cli.actions.plan dpspark.cli.actions.covariance "
        "dpspark.published.reading dpspark.report",
    ],
)
def test_no_pyspark_for_analysts_and_stewards(modules: str) -> None:
    done = imports_without(modules, ("pyspark",))
    assert done.returncode == 0, done.stderr


def test_a_plan_starts_fast() -> None:
    """What takes long to import is not needed to plan; a conf with SQL, a ledger or a picture takes a little longer."""
    done = imports_without(
        "dpspark.cli.actions.plan", ("pyspark", "opendp", "dp_accounting", "matplotlib", "pandas", "sqlglot")
    )
    assert done.returncode == 0, done.stderr


def test_lazy_package() -> None:
    import dpspark

    assert callable(dpspark.release)
    import dpspark.releasing.run

    assert callable(dpspark.release)  # not shadowed by a module
    with pytest.raises(AttributeError):
        _ = dpspark.nonsense
