"""The base classes of all that an analyst is given: the same few methods, whatever was asked."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpspark.show.tables import Part, as_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Answer(ABC):
    """Something to read: as text, as HTML in a notebook, or as plain values for machines."""

    @abstractmethod
    def parts(self) -> list[Part]:
        """The lines and tables that it is shown as."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All of it for machines: NaN as None."""

    def summary(self) -> str:
        """All of it as text."""
        return as_text(self.parts())

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from dpspark.show.html import as_html

        return as_html(self.parts())


class Result(Answer):
    """The answer of `regress`, of every kind of release: numbers with a title and notes, as a table and as a picture."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The release that it is from, and its guarantee in short."""

    @property
    @abstractmethod
    def notes(self) -> list[str]:
        """Lines that a reader of the numbers should know."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """The numbers as a pandas table."""

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Axes:
        """The numbers as matplotlib Axes."""


def without_nan(value: Any) -> Any:
    """Replace numbers that JSON does not have by None."""
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
