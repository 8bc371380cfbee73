"""Where the tables of results are: a schema of Spark's catalog, a directory of Delta tables, an Iceberg namespace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dpspark.source.stores import as_s3, problem_with

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
EXPECTED = (
    "expected catalog.schema of Spark, delta:DIRECTORY (a path, or s3://… and the like), or iceberg:catalog.namespace"
)


@dataclass(frozen=True)
class TableAddress:
    """One of the three, as a conf or an option names it."""

    kind: Literal["spark", "delta", "iceberg"]
    parts: tuple[str, ...]  # the names from the catalog on; of Delta, the directory alone

    @property
    def needs_spark(self) -> bool:
        return self.kind == "spark"

    def __str__(self) -> str:
        prefix = "" if self.kind == "spark" else f"{self.kind}:"
        return prefix + ".".join(self.parts)


def parse_tables(text: str) -> TableAddress:
    """Read an address of tables; ValueError says what is wrong with it, without any value that may be a secret."""
    if text.startswith("delta:"):
        place = as_s3(text.removeprefix("delta:"))
        problem = problem_with(place)
        if problem is not None or not place:
            raise ValueError(problem or f"no directory after delta:; {EXPECTED}.")
        if ".." in place.split("/"):
            raise ValueError("'..' in it. Write the whole path.")
        return TableAddress("delta", (place,))
    iceberg = text.startswith("iceberg:")
    parts = tuple(text.removeprefix("iceberg:").split("."))
    if "://" in text or "/" in text or not all(NAME.fullmatch(part) for part in parts):
        raise ValueError(f"no address of tables; {EXPECTED}. Names have letters, digits, '_' and '-'.")
    if iceberg and len(parts) < 2:
        raise ValueError(f"no namespace after the catalog; {EXPECTED}.")
    return TableAddress("iceberg" if iceberg else "spark", parts)
