"""The content of a release that is shown as it was released: one table, which no option changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import pyarrow as pa

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.keys import choose_group
from dpspark.analysis.options import Asked, check_stored_level, refuse_matrix_options


class TableContent(Content, ABC):
    """A table of results, with a row or a few for each group."""

    needed: ClassVar[str]

    @property
    def table(self) -> pa.Table:
        """The results, as published."""
        return self.tables[self.needed]

    @property
    @abstractmethod
    def notes(self) -> list[str]:
        """Lines that a reader of the table should know."""

    def one(self, keys: Mapping[str, Any]) -> Self:
        """Choose one group."""
        return type(self)(self.path, self.manifest, *choose_group(self, keys))

    def check(self, asked: Asked) -> None:
        """Refuse whatever would change the results."""
        refuse_matrix_options(self.kind, asked)
        check_stored_level(self.manifest, asked.level)
