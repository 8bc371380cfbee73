"""The dpspark beside the Python workers of a server that takes no package from its clients: is it this one?"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dpspark.errors import DpsparkError
from dpspark.spark.executor_zip import PACKAGE, executor_modules
from dpspark.version import __version__

TAKES_NONE = "The Spark Connect server takes no package from its clients (AddArtifacts is not implemented)"
WHAT_TO_DO = (
    f"Install dpspark {__version__} for the Python that runs the server's workers, with numpy and pyarrow: "
    f"pip install --no-deps dpspark=={__version__}"
)


def check_installed(spark: Any) -> None:
    """Refuse workers whose Python has no dpspark, or another one: it would run in place of what is here."""
    names = sorted(path.relative_to(PACKAGE).as_posix() for path in executor_modules().values())
    kind = None
    try:
        question = spark.range(0, 1, 1, 1).mapInArrow
        (found,) = question(_asking(names), "version string, sources string, python string").collect()
    except Exception as error:
        kind = type(error).__name__  # its text is the server's own
    if kind is not None:
        raise DpsparkError(f"{TAKES_NONE}, and its Python workers cannot be asked for theirs ({kind}).\n{WHAT_TO_DO}.")
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if found["python"] != ours:
        raise DpsparkError(
            f"The Spark Connect server's workers have Python {found['python']}, and this is {ours}. Give both the same."
        )
    if found["version"] is None:
        raise DpsparkError(f"{TAKES_NONE}, and its Python workers have no dpspark.\n{WHAT_TO_DO}.")
    if found["version"] != __version__:
        raise DpsparkError(
            f"{TAKES_NONE}, and its Python workers have dpspark {found['version']}; this is {__version__}.\n{WHAT_TO_DO}."
        )
    if found["sources"] != _digest(PACKAGE, names):
        raise DpsparkError(
            f"{TAKES_NONE}, and its Python workers have a dpspark {__version__} of other sources than this one.\n"
            "Install the same there: both from one wheel."
        )


def _digest(package: Path, names: list[str]) -> str:
    content = b"".join((package / name).read_bytes() for name in names)
    return hashlib.sha256(content).hexdigest()


def _asking(names: list[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Make the question. It travels by value, so that the zip for executors does not need this module."""

    def ask(batches: Iterator[Any]) -> Iterator[Any]:
        import contextlib
        import hashlib
        import os
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        version, folder = None, ""
        with contextlib.suppress(ImportError):
            import dpspark.version as installed

            version, folder = installed.__version__, os.path.dirname(str(sys.modules["dpspark"].__file__))
        digest = hashlib.sha256()
        for name in names if folder else ():
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    digest.update(file.read())
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        yield pa.RecordBatch.from_pydict(
            {"version": pa.array([version], pa.string()), "sources": [digest.hexdigest()], "python": [python]}
        )

    return ask
