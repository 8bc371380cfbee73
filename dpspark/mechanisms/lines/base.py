"""What all mechanisms of lines share: the problem that they solve, how they are calibrated, and what they say of themselves.

A mechanism is made on the driver; its `kernel` is what executors run on each group. Every exponent is what the budget allows or
less: by COVER, for the rounding of weights.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dpspark.core.domain import Domain, Numeric
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism, Problem
from dpspark.mechanisms.lines.defaults import ROWS_PER_BUCKET
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import Plane
from dpspark.privacy.budget import Budget, exponential_epsilon
from dpspark.privacy.cost import Cost, cost_of
from dpspark.privacy.events import Event, Exponential

if TYPE_CHECKING:
    from dpspark.mechanisms.lines.interval import PaidInterval

COVER = 1 - 2.0**-40
NARROWEST = 1e-5  # the range of candidates, in units of y's bounds
Target = Literal["median", "mean"]
GUESSES = {
    "expected_rows": (1, 1e12),
    "x_variance": (0.0, 0.25),  # of x in units of its bounds
    "y_spread": (1e-6, 1.0),  # standard deviation of residuals, in units of the candidates' range
}


@dataclass(frozen=True)
class AskedInterval:
    """The interval that a release asks for: its level, and what may be paid for it."""

    level: float
    budget: Budget | None = None  # for sums beside the line; None: the line that is named needs none
    with_line: Budget | None = None  # this and the line's budget together, for a line that needs no sums


@dataclass(frozen=True, kw_only=True)
class LineProblem(Problem):
    """A line for each group: the public plane of x and y, what one record can change, and public guesses.

    A wrong guess costs accuracy, never privacy. Rows of one record may be in several groups: `records` is `grouped`.
    """

    plane: Plane
    x_variance: float | None = None
    y_spread: float | None = None
    target: Target = "median"
    interval: AskedInterval | None = None
    buckets: int = 1  # of a table without groups: how many tasks share its rows
    smoothed: bool = False  # whether counts are paid for, with which `dpspark smooth` takes noise off

    def __post_init__(self) -> None:
        for key, (low, high) in GUESSES.items():
            check_range(key, getattr(self, key), low, high)
        if not self.records.grouped:
            object.__setattr__(self, "records", replace(self.records, grouped=True))

    @classmethod
    def of(
        cls,
        domain: Domain,
        records: Records,
        by_group: bool,
        cuts: tuple[float, ...] = (),
        candidates: tuple[float, float] | None = None,
        expected_rows: int | None = None,
        **more: Any,
    ) -> LineProblem:
        """Make the problem that a spec or a manifest states: the plane, and how many buckets a large table is dealt out to."""
        buckets = 1 if by_group else -(-(expected_rows or 1) // ROWS_PER_BUCKET)
        # A replaced row may leave its bucket for another, as one may leave its group.
        moves = records.moves or (buckets > 1 and records.replaced)
        return cls(
            domain,
            replace(records, moves=moves),
            expected_rows,
            plane=_plane(domain, cuts, candidates),
            buckets=buckets,
            **more,
        )


def _plane(domain: Domain, cuts: tuple[float, ...], candidates: tuple[float, float] | None) -> Plane:
    x, y = domain.columns
    assert isinstance(x, Numeric)
    assert isinstance(y, Numeric)
    try:
        plane = Plane((x.lower, x.upper), (y.lower, y.upper), cuts, candidates)
    except ValueError as error:
        raise ConfError(f"release: {error}.") from None
    low, high = plane.candidate_range
    apart = len(set(plane.joint_anchors)) == 2 and len(set(plane.anchors)) == len(plane.anchors)
    if not (high - low > NARROWEST and apart):
        raise ConfError("release: cuts or candidates are too close together for the bounds of the columns.")
    return plane


@dataclass(frozen=True, kw_only=True)
class LineMechanism(Mechanism):
    """One line for each group, all with the whole budget: a row is in one group (parallel composition).

    Privacy
        Unit         one record (or person: `records` says how many rows that is, in one group or several); where a replaced
                     one may move to other groups, twice as many rows change
        Requires     a public list of groups; rows of other groups are not used
        Guarantee    that of the kernel, for all groups together
        Public       the list of groups, bounds, cuts, the kernel's options
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_*.py, tests/releasing/test_theil_sen.py
    """

    kind: ClassVar[Kind] = "theil_sen"
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    kernel_name: ClassVar[str]  # as manifests have it: the mechanism's own name, but for one that has several kernels
    target: ClassVar[Target | None]
    paid_interval: ClassVar[bool] = False  # sums that are paid for beside the line give it an interval
    own_interval: ClassVar[bool] = False  # what it publishes gives an interval as it is
    at_each_cut: ClassVar[bool] = False  # it draws at each cut by itself: one cut, and there is no slope
    in_buckets: ClassVar[bool] = False  # its kernel can run bucket by bucket on a table of any size
    slow: ClassVar[bool] = False  # its work grows with more than the rows

    problem: LineProblem
    line: Kernel  # what draws a group's line
    route: str  # by which proof the budget is used
    budget: Budget  # of the line alone, less what its interval takes
    options: Any
    reason: str = ""  # why `auto` chose it; empty if it was named
    interval: PaidInterval | None = None

    @classmethod
    def drawn_by(cls) -> tuple[type[LineMechanism], ...]:
        """List the classes that draw its lines, one for each kernel: itself, unless others are made in its place."""
        return (cls,)

    @classmethod
    def for_budget(cls, problem: LineProblem, budget: Budget, options: Any) -> LineMechanism:
        if problem.buckets > 1 and not cls.in_buckets:
            raise ConfError(
                f"mechanism {cls.kernel_name}: {problem.expected_rows:,} expected rows are too many for one line without "
                "groups.\nUse mechanism exponential, which aims at medians, or kind regression, of means."
            )
        check_limits(options)
        asked = problem.interval
        if asked is None:
            return cls.calibrated(problem, budget, options)
        if cls.own_interval:  # it takes no share
            return cls.calibrated(problem, asked.with_line or budget, options)
        line = cls.calibrated(problem, budget, options)
        cls._check_interval(problem)
        from dpspark.mechanisms.lines.interval import PaidInterval

        assert asked.budget is not None
        return replace(line, interval=PaidInterval.for_budget(problem, asked.budget))

    @classmethod
    @abstractmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: Any) -> LineMechanism:
        """Calibrate the line alone."""

    @classmethod
    def from_facts(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        if facts.text("kernel") != cls.kernel_name:
            raise Garbled("mechanism.kernel is not of the mechanism that was asked for")
        return cls.read(problem, facts, claimed)

    @classmethod
    @abstractmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        """Read it back, its kernel's name being right."""

    @classmethod
    def _check_interval(cls, problem: LineProblem) -> None:
        if not cls.paid_interval:
            raise ConfError(f"release.interval: mechanism {cls.kernel_name} has none. Remove this key.")
        if cls.at_each_cut and len(problem.plane.anchors) < 2:
            raise ConfError(
                f"release.interval: mechanism {cls.kernel_name} needs two cuts. Give two, or use huber or depth."
            )

    @property
    def kernel(self) -> Kernel:
        """The part that executors run: the line, and what its interval needs."""
        return self.line if self.interval is None else self.interval.around(self.line)

    @property
    def domain(self) -> Domain:
        return self.problem.domain

    @property
    def plane(self) -> Plane:
        return self.problem.plane

    @property
    def records(self) -> Records:
        return self.problem.records

    @property
    def count_is_public(self) -> bool:
        return self.records.public_rows

    @property
    def draw_epsilon(self) -> float | None:
        """The epsilon of each draw, of those that are made of draws alike."""
        return None

    def events(self) -> tuple[Event, ...]:
        return (self.line_event(), *(() if self.interval is None else self.interval.events()))

    def cost(self) -> Cost:
        """Price the line alone: its interval is paid for apart, and has a cost of its own."""
        return cost_of((self.line_event(),))

    @abstractmethod
    def line_event(self) -> Event:
        """Say what the line runs. What is drawn apart in each group that a moved record changes counts twice."""

    def facts(self) -> dict[str, Any]:
        return {
            **self.line_facts(),
            "kernel": self.kernel_name,
            "target": self.target,
            **({"chosen": self.reason} if self.reason else {}),
            "composition": self.records.composition,
            "cuts": list(self.plane.wanted),
            **({"buckets": self.problem.buckets} if self.problem.buckets > 1 else {}),
        }

    @abstractmethod
    def line_facts(self) -> dict[str, Any]:
        """Say every number of the line itself that the guarantee is made of."""

    def noise_in_words(self) -> str:
        """Say what `dpspark check` shows of the noise."""
        chosen = f" ({self.reason})" if self.reason else ""
        each = self.draw_epsilon
        return f"{self.kernel_name}{chosen}" + (f", epsilon={each:.4g} for each draw" if each else "")

    def rank_share(self, rows: float, beta: float) -> float | None:
        """Bound how far the rank of a released value is off, as a share, but with probability beta; None: no theory says."""
        return None

    def kernel_for(self, rows: int, times: float, most_cells: int) -> Kernel:
        """The kernel of the same mechanism for groups of `rows` rows and `times` its budget; a grid is not finer than told."""
        problem, options = replace(self.problem, expected_rows=rows), self._coarser(self.options, rows, most_cells)
        return self.calibrated(problem, more_of(self.budget, times), options).line

    @classmethod
    def _coarser(cls, options: Any, rows: int, most_cells: int) -> Any:
        return options

    @classmethod
    def aim(cls, x: str, y: str, facts: dict[str, Any], height: float | None) -> str:
        """Say which line it aims at, in words: lines differ where residuals are skewed.

        `facts` are the mechanism's of a manifest, which a stranger may have written; `height` is the candidates' range.
        """
        return f"the {cls.target} of {y} along {x}"


@dataclass(frozen=True, kw_only=True)
class DrawnLines(LineMechanism):
    """Lines that an exponential mechanism draws: epsilon is the exponent times the most by which changes of scores differ."""

    line: Any
    epsilon_each: float

    @property
    @abstractmethod
    def spread(self) -> int:
        """The most by which the changes of two scores differ, by one record."""

    @property
    def draws(self) -> int:
        return 1

    @property
    def draw_epsilon(self) -> float:
        return self.epsilon_each

    @classmethod
    def read_drawn(cls, problem: LineProblem, line: Any, facts: Facts, claimed: Budget) -> LineMechanism:
        """Take the exponent, and no less for epsilon than it costs."""
        stated, route = facts.positive("epsilon_each"), facts.text("calibration")
        found = cls(problem=problem, line=line, route=route, budget=claimed, options=cls.Options(), epsilon_each=stated)
        return replace(found, epsilon_each=max(stated, line.exponent * found.spread))

    def line_event(self) -> Event:
        return Exponential(self.epsilon_each, self.draws)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.spread, "spread of scores"

    def line_facts(self) -> dict[str, Any]:
        return {
            "sampler": "exponential mechanism on a public grid, by exact integer weights, from a secret drawn once",
            "calibration": self.route,
            "epsilon_each": self.epsilon_each,
            "exponent": self.line.exponent,
            "draws": self.draws,
            "sensitivity": {"value": self.spread, "norm": "spread of scores"},
            **self.option_facts(),
        }

    @abstractmethod
    def option_facts(self) -> dict[str, Any]:
        """Say the options that the kernel was made with."""


def check_limits(options: Any) -> None:
    """Refuse options outside of the limits that they are declared with: not every caller has a conf."""
    for each in fields(options):
        value = getattr(options, each.name)
        try:
            if value is not None:
                each.metadata["limits"].check(each.name, value)
        except ValueError as error:
            raise ConfError(str(error)) from None


def check_range(key: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        raise ConfError(f"mechanism.{key}={value}; expected a number from {low:g} to {high:g}.")


def epsilon_for_draws(budget: Budget, draws: int) -> tuple[float, str]:
    """Give each of some exponential mechanisms epsilon / draws, or by zCDP √(8ρ/draws), whichever is more."""
    epsilon, route = exponential_epsilon(budget, draws)
    return enough(epsilon * COVER), route


def epsilon_for_parts(budget: Budget, parts: int) -> tuple[float, str]:
    """Give each of some other pure mechanisms its part; they are epsilon²/2-zCDP."""
    if budget.rho is not None:
        return enough(math.sqrt(2 * budget.rho / parts) * COVER), "zcdp"
    assert budget.epsilon is not None
    return enough(budget.epsilon / parts * COVER), "pure"


def enough(epsilon: float) -> float:
    if not epsilon >= 1e-9:
        raise ConfError(f"epsilon={epsilon:g} for one draw: too little. Use a larger budget.")
    return min(epsilon, 1e6)


def is_pure(budget: Budget) -> bool:
    return budget.rho is None and not budget.delta


def more_of(budget: Budget, times: float) -> Budget:
    """Give as much privacy loss as `times` as many rows would have."""
    if budget.rho is not None:
        return Budget(rho=budget.rho * times**2)
    assert budget.epsilon is not None
    return Budget(min(budget.epsilon * times, 1e5), budget.delta)


def need_public_rows(name: str, records: Records) -> None:
    if not records.public_rows:
        raise ConfError(
            f"mechanism {name} needs the number of rows of each group to be public.\n"
            "Use neighbours: replace_one with the group columns under privacy.fixed and without a unit, or mechanism "
            "exponential."
        )


def check_public_rows(name: str, records: Records) -> None:
    """Refuse a manifest of a mechanism that is proved for a public number of rows alone."""
    if not records.public_rows:
        raise Garbled(f"{name} needs a public number of rows, and a record can change it")
