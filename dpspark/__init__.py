"""Differentially private second-moment matrices and regressions on Apache Spark.

Names are loaded on first use, so that a Spark executor can import its kernels with numpy and pyarrow alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dpspark.version import __version__

_HOME = {
    "load_spec": "dpspark.spec.spec",
    "release": "dpspark.releasing.run",
    "read_release": "dpspark.published.reading",
    "compare": "dpspark.published.comparing",
    "load": "dpspark.warehouse.load",
    "pool": "dpspark.published.pooling",
    "Release": "dpspark.published.release",
    "Ledger": "dpspark.ledger.ledger",
    "series": "dpspark.published.series",
    "table": "dpspark.published.model_tables",
    "verify": "dpspark.verifying.verification",
    "plan": "dpspark.planning",
    "compute_vcv": "dpspark.interop.zelig",
    "get_accuracy": "dpspark.interop.zelig",
    "get_parameters": "dpspark.interop.zelig",
    "DpsparkError": "dpspark.errors",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dpspark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
