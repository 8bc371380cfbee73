"""Differentially private second-moment matrices and regressions on Apache Spark.

Names are loaded on first use, so that a Spark executor can import `dpspark.data` with numpy and pyarrow alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dpspark.version import __version__

_HOME = {
    "load_spec": "dpspark.spec",
    "release": "dpspark.pipeline",
    "read_release": "dpspark.bundle",
    "Release": "dpspark.released",
    "Ledger": "dpspark.privacy.ledger",
    "verify": "dpspark.verification",
    "plan": "dpspark.planning",
    "compute_vcv": "dpspark.zelig",
    "get_accuracy": "dpspark.zelig",
    "get_parameters": "dpspark.zelig",
    "DpsparkError": "dpspark.errors",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dpspark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
