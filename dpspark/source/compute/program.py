"""A compiled expression: a tree of kernels that a task runs on the columns of a batch of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.source.compute.kernels import KERNELS
from dpspark.source.spark_types import arrow_type


@dataclass(frozen=True)
class Column:
    """A column of the source, of Spark's type."""

    name: str
    type: str


@dataclass(frozen=True)
class Literal:
    """A constant: days of a date, microseconds of a time, None for a null."""

    value: Any
    type: str


@dataclass(frozen=True)
class Call:
    """A kernel, by its name, on the values of other nodes."""

    kernel: str
    inputs: tuple[Node, ...]
    type: str
    options: tuple[Any, ...] = ()


Node: TypeAlias = Column | Literal | Call


@dataclass(frozen=True)
class Program:
    """An expression that a task can evaluate, and the type that Spark gives to it."""

    root: Node
    columns: tuple[str, ...] = field(init=False)  # that it reads, spelt as in the source

    def __post_init__(self) -> None:
        read = dict.fromkeys(node.name for node in walk(self.root) if isinstance(node, Column))
        object.__setattr__(self, "columns", tuple(read))

    @property
    def type(self) -> str:
        return self.root.type

    def run(self, arrays: Mapping[str, Any], rows: int) -> Any:
        """Evaluate it on the columns of `rows` rows. Nothing that a row holds can make it fail."""
        found = evaluate(self.root, arrays)
        return found if isinstance(found, pa.Array) else pa.repeat(found, rows)


def keep_mask(program: Program, arrays: Mapping[str, Any], rows: int) -> np.ndarray | None:
    """Tell which rows a filter keeps: those for which it is true, not false or null. None if it keeps all."""
    kept = program.run(arrays, rows)
    if kept.true_count == rows:
        return None
    return pc.fill_null(kept, False).to_numpy(zero_copy_only=False)


def evaluate(node: Node, arrays: Mapping[str, Any]) -> Any:
    """Evaluate a node to an array, or to a scalar if no column is in it."""
    if isinstance(node, Column):
        return arrays[node.name]
    kind = arrow_type(node.type)
    if isinstance(node, Literal):
        return pa.scalar(node.value, kind)
    inputs = [evaluate(one, arrays) for one in node.inputs]
    constant = all(isinstance(one, pa.Scalar) for one in inputs)
    if constant:  # kernels want one array at least
        inputs = [pa.repeat(one, 1) for one in inputs]
    found = KERNELS[node.kernel](kind, *inputs, *node.options)
    return found[0] if constant else found


def walk(node: Node) -> Iterator[Node]:
    """All nodes of a tree, from its root."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, Call):
            waiting += reversed(one.inputs)
