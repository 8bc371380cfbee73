"""The nodes of Spark's plans, as classic Spark shows them to Python."""

from __future__ import annotations

from typing import Any

SPARK = "org.apache.spark.sql."


def find_plan(frame: Any) -> Any:
    """Find the analysed plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


def to_list(found: Any) -> list[Any]:
    return [found.apply(at) for at in range(found.size())]


def class_of(tree: Any) -> str:
    """Name a class: Spark's own by its short name, any other in full, which is on no list."""
    name = str(tree.getClass().getName())
    return name.rpartition(".")[2] if name.startswith(SPARK) else name
