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
    least_rows: ClassVar[int] = 0  # where fewer rows are expected it is refused
    limitation: ClassVar[str]  # what a release with such bounds has to say of them

    @classmethod
    def problem_of(cls, domain: Domain, records: Records, axes: tuple[Axis, ...], asked: Facts) -> BoundsProblem:
        """Read the problem from the part `bounds` of a manifest's spec."""
        options = cls.Options(**{name: asked.number(name) for name in options_of(cls)})
        return BoundsProblem(domain, records, axes=axes, options=options)

    @abstractmethod
    def release(self, histogram: ExactHistogram, noise: NoiseSource) -> dict[str, tuple[float, float]]:
        """Draw the private sides of every column, once. They are edges of its cells; a public side stays as it is."""
