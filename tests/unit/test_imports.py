"""What may be imported where."""

from __future__ import annotations

import subprocess
import sys

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


def test_executors_need_numpy_and_pyarrow_alone() -> None:
    modules = "dpspark.data dpspark.exact.histogram dpspark.spark.persons "
    modules += "dpspark.mechanisms.lines.huber dpspark.mechanisms.lines.depth dpspark.mechanisms.lines.widened dpspark.mechanisms.lines.smooth "
    modules += "dpspark.mechanisms.lines.descent dpspark.mechanisms.lines.moments dpspark.mechanisms.lines.kernel dpspark.mechanisms.lines.sufficient "
    modules += "dpspark.mechanisms.lines.interval dpspark.spark.buckets "
    modules += "dpspark.spark.gram dpspark.spark.frames dpspark.exact.fixed_point dpspark.spark.tree dpspark.demo.microdata"
    done = imports_without(modules, BLOCKED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "modules",
    [
        "dpspark.ledger.ledger dpspark.mechanisms.gram.gaussian dpspark.bundle.files dpspark.cli.actions.check",
        "dpspark.planning dpspark.interop.zelig dpspark.cli.actions.plan dpspark.cli.actions.covariance dpspark.published.release dpspark.report",
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
