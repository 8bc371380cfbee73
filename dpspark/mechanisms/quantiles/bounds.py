"""What every method has that finds private bounds: it draws a cell of a public grid for each side that has none."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from dpspark.core.domain import Domain, Numeric, Side
from dpspark.core.facts import Facts
from dpspark.core.records import Records
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism, Problem, options_of
from dpspark.privacy.noise import NoiseSource


@dataclass(frozen=True, kw_only=True)
class BoundsProblem(Problem):
    """The columns that lack a bound, each with its search range, and the method's options."""

    axes: tuple[Axis, ...]
    options: Any

    def column(self, axis: Axis) -> Numeric:
        """The column that an axis is of. A side of it may be public."""
        return next(column for column in self.domain.numeric if column.name == axis.name)

    def sides(self, axis: Axis) -> tuple[Side, ...]:
        """The private sides of an axis's column."""
        return self.column(axis).private_sides

    @property
    def private_sides(self) -> int:
        """The number of private sides, of all columns."""
        return sum(len(self.sides(axis)) for axis in self.axes)


class BoundsMechanism(Mechanism):
    """A method that finds private bounds. `bounds.method` of a conf names it; the names of its options are keys there."""

    kind: ClassVar[Kind] = "bounds"
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    limitation: ClassVar[str]  # what a release with such bounds has to say of them

    @property
    def least_rows(self) -> int:
        """The number of rows below which it is refused: it would clip most of them."""
        return 0

    @property
    def enough_rows(self) -> int:
        """The number of rows from which on few of them are clipped: below, users are told."""
        return 0

    @classmethod
    def problem_of(cls, domain: Domain, records: Records, axes: tuple[Axis, ...], asked: Facts) -> BoundsProblem:
        """Read the problem from the part `bounds` of a manifest's spec."""
        options = cls.Options(**{name: asked.number(name) for name in options_of(cls)})
        return BoundsProblem(domain, records, axes=axes, options=options)

    @property
    def room(self) -> float:
        """How many times wider than what is found the bounds are, on each side."""
        return 1.0

    @abstractmethod
    def share_beyond(self, side: Side, rows: float) -> float:
        """The share of so many values that is to be expected beyond a side, before head-room."""

    @classmethod
    @abstractmethod
    def left_beyond(cls, facts: Facts) -> list[tuple[str, Side, float, float]]:
        """List, of a manifest's entry: column, side, and the share and the number of values that it is made to leave beyond."""

    @abstractmethod
    def release(self, histogram: ExactHistogram, noise: NoiseSource) -> dict[str, tuple[float, float]]:
        """Draw the private sides of every column, once. They are edges of its cells; a public side stays as it is."""
