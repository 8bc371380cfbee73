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
    modules = "dpspark.data dpspark.data.histogram dpspark.data.contribution "
    modules += "dpspark.robust.huber dpspark.robust.depth dpspark.robust.widened dpspark.robust.smooth "
    modules += "dpspark.robust.descent dpspark.robust.gram dpspark.robust.groups dpspark.robust.sufficient "
    modules += "dpspark.robust.interval dpspark.data.buckets "
    modules += "dpspark.data.gram dpspark.data.frames dpspark.data.fixed_point dpspark.data.tree dpspark.microdata"
    done = imports_without(modules, BLOCKED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "modules",
    [
        "dpspark.privacy.ledger dpspark.mechanisms.gaussian dpspark.bundle dpspark.commands.check",
        "dpspark.planning dpspark.zelig dpspark.commands.plan dpspark.commands.covariance dpspark.released dpspark.report",
    ],
)
def test_no_pyspark_for_analysts_and_stewards(modules: str) -> None:
    done = imports_without(modules, ("pyspark",))
    assert done.returncode == 0, done.stderr


def test_a_plan_starts_fast() -> None:
    """What takes long to import is not needed to plan; a conf with SQL, a ledger or a picture takes a little longer."""
    done = imports_without(
        "dpspark.commands.plan", ("pyspark", "opendp", "dp_accounting", "matplotlib", "pandas", "sqlglot")
    )
    assert done.returncode == 0, done.stderr


def test_lazy_package() -> None:
    import dpspark

    assert callable(dpspark.release)
    import dpspark.pipeline

    assert callable(dpspark.release)  # not shadowed by a module
    with pytest.raises(AttributeError):
        _ = dpspark.nonsense
