"""What may be imported where."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

from dpspark.spark.executor_zip import all_modules, executor_modules, imported_modules

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


def modules_of(*packages: str) -> set[str]:
    """Name every module of some packages, as they are found."""
    found = set()
    for name in packages:
        package = import_module(name)
        found |= {name, *(module.name for module in walk_packages(package.__path__, f"{name}."))}
    return found


def needed_by(command: str) -> str:
    """Name the modules that a command imports, once it runs."""
    return " ".join(sorted(imported_modules(f"dpspark.cli.{command}", all_modules())))


def test_executors_need_numpy_and_pyarrow_alone() -> None:
    """All of these packages, and what executors import of `source`, `spark` and the rest, as their zip finds it."""
    packages = modules_of("dpspark.core", "dpspark.exact", "dpspark.mechanisms.lines", "dpspark.source.compute")
    modules = packages | executor_modules().keys()
    assert {"dpspark.source.parquet", "dpspark.spark.passes", "dpspark.privacy.keyed"} <= modules
    done = imports_without(" ".join(sorted(modules)), BLOCKED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "modules",
    [
        f"dpspark.ledger.ledger dpspark.mechanisms.gram.gaussian dpspark.bundle.files {needed_by('check')}",
        f"dpspark.planning dpspark.interop.zelig {needed_by('plan')} {needed_by('covariance')}",
        f"dpspark.published.reading dpspark.report {needed_by('ledger')} {needed_by('verify')} {needed_by('sign')}",
    ],
)
def test_no_pyspark_for_analysts_and_stewards(modules: str) -> None:
    done = imports_without(modules, ("pyspark", "opendp"))
    assert done.returncode == 0, done.stderr


def test_a_plan_starts_fast() -> None:
    """What takes long to import is not needed to plan; a conf with SQL, a ledger or a picture takes a little longer."""
    slow = ("pyspark", "opendp", "dp_accounting", "matplotlib", "pandas", "sqlglot")
    done = imports_without(needed_by("plan"), slow)
    assert done.returncode == 0, done.stderr


def test_help_starts_fast() -> None:
    """Kills: a command that imports at once what it needs only when it runs."""
    done = imports_without(
        "dpspark.cli.main", tuple(name for name in (*BLOCKED, "numpy", "pyarrow") if name != "click")
    )
    assert done.returncode == 0, done.stderr


def test_the_product_knows_nothing_of_its_experiments() -> None:
    """Kills: a module that works in the repository alone."""
    for name, path in all_modules().items():
        imports = [
            node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        named = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
        named |= {str(node.module) for node in imports if isinstance(node, ast.ImportFrom)}
        assert not {one for one in named if one.split(".")[0] in ("benchmarks", "experiments", "tests")}, name


def test_lazy_package() -> None:
    import dpspark

    assert callable(dpspark.release)
    import dpspark.releasing.run

    assert callable(dpspark.release)  # not shadowed by a module
    with pytest.raises(AttributeError):
        _ = dpspark.nonsense
