"""`auto`: which line mechanism to use, from public quantities alone.

Of lines of means, what decides is epsilon·n·var(x), as Alabi et al. found: noise on moments is negligible where it is large;
below that, scores that one record moves little win by far. Of lines of medians it is epsilon·n: where it is small, the depth
wins, which is drawn in one piece and needs no guess of any scale; where it is large, medians over pairs are as precise, and
take a moment where the depth takes seconds. The limits are measured: tests/mechanisms/test_robust_choose.py has the tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dpspark.core.facts import Facts, Garbled
from dpspark.mechanisms.lines.base import LineMechanism, LineProblem, is_pure
from dpspark.mechanisms.lines.defaults import ROWS
from dpspark.mechanisms.lines.depth import DepthLines
from dpspark.mechanisms.lines.exponential import ExponentialLines
from dpspark.mechanisms.lines.gram import GaussianMoments, LaplaceMoments
from dpspark.mechanisms.lines.huber import HuberLines
from dpspark.privacy.budget import Budget

EVEN = 1 / 12  # the variance of x spread evenly over its bounds
STRONG = 1500.0  # of epsilon·n·var(x), one row replaced: from here on noise on moments is small
CLEAR = 500.0  # of epsilon·n: from here on medians over pairs are as good as the depth
MOST_DEEP = 2000  # rows of which the depth is found within a second or so


@dataclass(frozen=True, kw_only=True)
class AutoLines(LineMechanism):
    """`auto`: one of the others, which is made in its place and says why. Its manifest names both."""

    name: ClassVar[str] = "auto"
    kernel_name: ClassVar[str] = "auto"
    words: ClassVar[str] = "The mechanism was chosen from public quantities."
    target: ClassVar[None] = None  # as the release asks

    @classmethod
    def drawn_by(cls) -> tuple[type[LineMechanism], ...]:
        return ()

    @classmethod
    def for_budget(cls, problem: LineProblem, budget: Budget, options: Any) -> LineMechanism:  # type: ignore[override]
        chosen, why = choose(problem, budget)
        return replace(chosen.for_budget(problem, budget, chosen.Options()), reason=why)

    @classmethod
    def from_facts(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:  # type: ignore[override]
        from dpspark.mechanisms.registry import line_of_kernel  # which lists this one, too

        chosen = line_of_kernel(facts.text("kernel"))
        if chosen is None:
            raise Garbled("mechanism.kernel is of no line that is known here")
        return chosen.read(problem, facts, claimed)


def choose(problem: LineProblem, budget: Budget) -> tuple[type[LineMechanism], str]:
    """A mechanism that aims at the target, and why."""
    if problem.target == "median":
        if problem.buckets > 1:
            return ExponentialLines, f"{problem.expected_rows:,} expected rows are too many for one task"
        return _of_medians(problem, budget)
    return _of_means(problem, budget)


def _of_medians(problem: LineProblem, budget: Budget) -> tuple[type[LineMechanism], str]:
    each = _each(problem, budget)
    shown = f"epsilon·rows is about {each:,.0f}" if each >= 10 else f"epsilon·rows is about {each:.2g}"
    shown += _guess(problem)
    if each < CLEAR and (problem.expected_rows or ROWS) <= MOST_DEEP:
        return DepthLines, f"{shown}: little; the depth is drawn in one piece, and needs no scale of x or y"
    return ExponentialLines, f"{shown}: enough for medians over pairs of rows"


def _of_means(problem: LineProblem, budget: Budget) -> tuple[type[LineMechanism], str]:
    records = problem.records
    strength = _each(problem, budget) * (EVEN if problem.x_variance is None else problem.x_variance)
    # Where rows are only added or removed, scores may weigh twice as much.
    doubled = 2 if records.change == "added" and not records.moves else 1
    shown = f"epsilon·rows·var(x) is about {strength:.2g}{_guess(problem)}"
    if strength < STRONG * doubled:
        return HuberLines, f"{shown}: too little for noise on moments"
    return _quieter(problem, budget), f"{shown}: noise on moments is small, and they give intervals"


def _each(problem: LineProblem, budget: Budget) -> float:
    """epsilon·rows, for each of a record's rows."""
    epsilon = math.sqrt(8 * budget.rho) if budget.rho is not None else budget.epsilon
    assert epsilon is not None
    return epsilon / problem.records.rows * (problem.expected_rows or ROWS)


def _guess(problem: LineProblem) -> str:
    return "" if problem.expected_rows else f" if a group has {ROWS:.0f} rows (release.expected_rows is not set)"


def _quieter(problem: LineProblem, budget: Budget) -> type[LineMechanism]:
    """The law with the smaller standard deviation."""
    laws: list[Any] = [LaplaceMoments] if is_pure(budget) else [LaplaceMoments, GaussianMoments]
    return min(laws, key=lambda law: law.calibrated(problem, budget, law.Options()).line.off_diagonal_std)
