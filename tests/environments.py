"""Tests for one environment, run in another, would pass and say nothing: they are refused."""

from __future__ import annotations

import ast

import pytest

OF_SPARK_35 = {"spark35": "make test-spark35", "lake": "make test-lake"}


def check_spark(expression: str) -> None:
    """Refuse `-m spark35` and `-m lake` where Spark is another."""
    for mark, command in OF_SPARK_35.items():
        if asks_for(expression, mark):
            import pyspark

            if not pyspark.__version__.startswith("3.5."):
                raise pytest.UsageError(f"-m {mark} needs Spark 3.5; this is {pyspark.__version__}. Run: {command}")


def asks_for(expression: str, mark: str) -> bool:
    """Whether a mark is in an expression of -m, and not under a `not`."""
    tree = ast.parse(expression.strip() or "True", mode="eval")
    denied = [node for no in ast.walk(tree) if isinstance(no, ast.UnaryOp) for node in ast.walk(no)]
    return any(isinstance(node, ast.Name) and node.id == mark and node not in denied for node in ast.walk(tree))
