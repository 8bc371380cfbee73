"""The content of a release of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dpspark.analysis.clipping import Beyond, shares_beyond
from dpspark.analysis.remarks import definitions, interval_level
from dpspark.bundle.files import HIERARCHY, MANIFEST
from dpspark.bundle.files import group_by as group_columns
from dpspark.bundle.storage import Place
from dpspark.core.domain import Domain, domain_from_manifest
from dpspark.errors import OutputError
from dpspark.source.hierarchy import Hierarchy


class Content:
    """The manifest and the tables of one release, or of one of its groups."""

    needed: ClassVar[str | None] = None  # a table without which it holds nothing

    def __init__(
        self,
        path: Place,
        manifest: dict[str, Any],
        tables: Mapping[str, pa.Table],
        group: Mapping[str, str] | None = None,
    ):
        if not tables or (self.needed is not None and self.needed not in tables):
            raise ValueError("no table")
        self.path = path
        self.manifest = manifest
        self.tables = {name: table for name, table in tables.items() if name != HIERARCHY}
        self._levels_table = tables.get(HIERARCHY)
        self.group = dict(group or {})  # whose tables these are, of a release by group
        self._read()

    def _read(self) -> None:
        """Read what the tables hold. Whatever does not fit together raises an error of any kind: see `refuse_damaged`."""

    @property
    def kind(self) -> str:
        return str(self.manifest["release"]["kind"])

    @property
    def name(self) -> str:
        """The name and the version."""
        return f"{self.manifest['release']['name']} {self.manifest['release']['version']}"

    @property
    def title(self) -> str:
        """The name, the group if it is one, and the guarantee in short."""
        group = "".join(f", {key}={value}" for key, value in self.group.items())
        return f"Release {self.name}{group}: {self.cost}"

    @property
    def cost(self) -> str:
        """The guarantee in short."""
        privacy = self.manifest["privacy"]
        if privacy["rho"] is not None:
            cost = f"rho = {privacy['rho']:g}"
        else:
            cost = f"epsilon = {privacy['epsilon']:g}" + (f", delta = {privacy['delta']:g}" if privacy["delta"] else "")
        return f"{cost}, {privacy['neighbours']}"

    @property
    def record(self) -> str:
        """Whom the guarantee is for, in words; nothing where an old release does not say it."""
        unit = self.manifest["privacy"].get("unit")
        return str(unit.get("record") or "") if isinstance(unit, dict) else ""

    @property
    def group_by(self) -> tuple[str, ...]:
        """The columns of the groups; none of a release without groups."""
        return tuple(group_columns(self.manifest))

    @property
    def published_tables(self) -> dict[str, pa.Table]:
        """All tables, that of the levels too, which holds no results."""
        return self.tables if self._levels_table is None else {**self.tables, HIERARCHY: self._levels_table}

    @cached_property
    def hierarchy(self) -> Hierarchy | None:
        """The levels of the groups, in the order of the groups; None where there are none."""
        return None if self._levels_table is None else Hierarchy.of_table(self._levels_table)

    @cached_property
    def domain(self) -> Domain:
        return domain_from_manifest(self.manifest)

    @property
    def definitions(self) -> dict[str, str]:
        """The SQL of each computed column."""
        return definitions(self.manifest)

    @property
    def level(self) -> float | None:
        """The confidence level of published intervals; None if none were paid for."""
        return interval_level(self.manifest)

    @property
    def clipped(self) -> list[dict[str, Any]]:
        """Shares of values outside the bounds of each column; none if they were not paid for."""
        return self.tables["diagnostics"].to_pylist() if "diagnostics" in self.tables else []

    def beyond(self, rows: float) -> list[Beyond]:
        """The shares of values beyond the bounds, counted or expected, of about so many rows."""
        return shares_beyond(self.manifest, self.clipped, rows)


@contextmanager
def refuse_damaged(path: str | Place) -> Iterator[None]:
    """Turn whatever goes wrong with tables and numbers that do not fit together into one clear error."""
    try:
        yield
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError):
        raise OutputError(f"release {str(path)!r} is damaged: its tables and its {MANIFEST} do not fit.") from None
