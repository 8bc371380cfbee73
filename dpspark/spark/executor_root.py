"""The package as executors have it: this file is `dpspark/__init__.py` in their zip (executor_zip.py).

spark-submit puts the zip before what is installed, on the driver too, which needs all of dpspark. There the installed package
takes over, but only if it has the very sources of the zip: driver and executors never run different ones.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

HERE, IN_THE_PACKAGE = "dpspark/__init__.py", "dpspark/spark/executor_root.py"


def find_installed() -> ModuleSpec | None:
    """Find a package of this name outside of zip files."""
    directories = [entry for entry in sys.path if Path(entry or ".").is_dir()]
    for finder in sys.meta_path:
        found = finder.find_spec("dpspark", directories if finder is PathFinder else None)
        if found is not None and found.loader is not None and found.origin and Path(found.origin).is_file():
            return found
    return None


def has_same_sources(archive: str, package: Path) -> bool:
    """Say whether a package has every file of the zip, byte for byte."""
    with zipfile.ZipFile(archive) as held:
        for name in held.namelist():
            file = package.parent / (IN_THE_PACKAGE if name == HERE else name)
            if not file.is_file() or file.read_bytes() != held.read(name):
                return False
    return True


def explain(missing: str, archive: str) -> str:
    """Say what to do where something is not in the zip."""
    return (
        f"No module named '{missing}' in {archive}, which has what executors import and no more. Install dpspark on the "
        "driver, and write the zip from the same version: python -m dpspark.spark.executor_zip"
    )


class NotInTheZip:
    """The last finder: it explains why a module was not found."""

    def __init__(self, archive: str):
        self.archive = archive

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name.startswith("dpspark."):
            raise ModuleNotFoundError(explain(name, self.archive), name=name)


if __name__ == "dpspark":
    _archive: str = __loader__.archive  # type: ignore[name-defined]
    _installed = find_installed()
    if _installed is not None and has_same_sources(_archive, Path(str(_installed.origin)).parent):
        _whole = module_from_spec(_installed)
        sys.modules["dpspark"] = _whole
        _installed.loader.exec_module(_whole)  # type: ignore[union-attr]
    else:
        sys.meta_path.append(NotInTheZip(_archive))


def __getattr__(name: str) -> Any:
    if __name__ == "dpspark" and not name.startswith("__"):
        raise AttributeError(explain(f"dpspark.{name}", _archive))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
