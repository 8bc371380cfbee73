"""The bound on clusters' scores: the one beyond which their norms add up to about as much as the noise of finding it is worth.

With t the weighted sum of a cluster's scores, F(c) = Σ max(0, ‖t‖ − c) over clusters is what a bound c takes away. It falls
with c, and one row moves it by one score, however large its cluster is: a count of the clusters beyond c would need many of
them. Between two neighbouring bounds c < c' of a public list the cell is at distance
    s = max(0, F(c') − K, K − F(c)),
0 if F is K somewhere in it, and is drawn with probability proportional to exp(−γ·s). No number of rows or clusters is needed.

K = 11/γ, rounded up: bounds beyond all clusters are at distance K, and weigh 117·e^−11 = 0.002 together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.scores import EDGES, ExactScoreNorms
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism, Problem
from dpspark.mechanisms.errors.asked import AskedErrors, clusters_of
from dpspark.mechanisms.quantiles.exponential import COVER, LARGEST_EXPONENT, CellLaw, cell_weights
from dpspark.privacy.budget import ROUTES, Budget, exponential_epsilon
from dpspark.privacy.cost import same
from dpspark.privacy.events import Event, Exponential
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import excess_spread, norm_step, row_scores_moved

SCORE_SHARE = Fraction(1, 20)  # of the budget
DEPTH = 11  # γ·K
HEADROOM_EDGES, MOST_HEADROOM = 2, 12  # bounds above the one that was drawn: half of it more, to eight times of it
LITTLE_NOISE = 0.45  # of a meat on each axis, over what it is at least
LARGEST_EXCESS = 1 << 62


@dataclass(frozen=True)
class ScoreBounds(Mechanism):
    """The norm that clusters' scores are shortened to, for each regression.

    Privacy
        Unit         one record: `Clusters` says which clusters it can change
        Requires     the sums of exact.scores; coefficients, clips of residuals, axes and scales that are published
        Sensitivity  sensitivity.row_scores_moved scores of a row (sensitivity.norm_step), of F and of each cell's utility
        Guarantee    each draw is pure with epsilon_each = γ·sensitivity.excess_spread; together count·epsilon_each, or
                     count·epsilon_each²/8-zCDP, whichever lets each have more. Head-room is post-processing
        Source       McSherry & Talwar (2007), Theorem 6
        Public       formulas, the list of bounds, γ, K; the bounds that were drawn, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_cluster_errors.py
    """

    kind: ClassVar[Kind] = "extra"
    name: ClassVar[str] = "score bounds"
    words: ClassVar[str] = (
        "Bounds that shorten clusters' scores by a set amount are exponentially more likely to be drawn."
    )
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    asked: AskedErrors
    epsilon_each: float
    route: str  # pure or zcdp
    exponent: float  # γ: what one score of a row costs

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: None = None) -> Self:
        """An equal part of the budget for each regression; every rounding is towards less of it."""
        asked = _asked(problem)
        most, route = exponential_epsilon(budget, len(asked.texts))
        each = most * COVER
        if each < 1e-12:
            raise ConfError(f"The bound on clusters has epsilon={each:g}: too little. Use a larger epsilon.")
        exponent = min(math.nextafter(each / excess_spread(clusters_of(asked)), 0), LARGEST_EXPONENT)
        return cls(asked, each, route, exponent)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        """Take the exponent of a manifest, and no less for epsilon than it costs."""
        asked, exponent = _asked(problem), facts.positive("exponent")
        each = max(facts.positive("epsilon_each"), exponent * excess_spread(clusters_of(asked)))
        return cls(asked, each, facts.text("calibration", *ROUTES), exponent)

    @property
    def target(self) -> int:
        """K, in scores of a row."""
        return math.ceil(Fraction(DEPTH) / Fraction(self.exponent))

    def law(self, norms: ExactScoreNorms, at: int, score: float) -> CellLaw:
        """The distribution of a regression's cell, where a row has a score of so many steps at most."""
        # −F rises, as ranks do; a sum that is cut off moves no farther than the sum.
        excess = -np.array([min(each, LARGEST_EXCESS) for each in norms.reveal_excess(at)], dtype=np.int64)
        step = norm_step(score)
        exponent = math.nextafter(self.exponent / step, 0)
        weights = cell_weights(excess[:-1], excess[1:], Fraction(-self.target * step), exponent)
        return CellLaw(list(range(len(weights))), weights, list(accumulate(weights)))

    def release(self, norms: ExactScoreNorms, scores: Sequence[float], noise: NoiseSource) -> tuple[int, ...]:
        """Draw the bounds, once: the upper ends of cells, as numbers of EDGES."""
        return tuple(self.law(norms, at, score).draw(noise) + 1 for at, score in enumerate(scores))

    def events(self) -> tuple[Event, ...]:
        return (Exponential(self.epsilon_each, len(self.asked.texts)),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return row_scores_moved(clusters_of(self.asked)), "scores of a row beyond a bound"

    def noise_in_words(self) -> str:
        return f"about {self.target:,} scores of a row beyond it, before head-room"

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states and is not what was asked for, or costs more than it says."""
        found, differs = self.facts(), []
        if stated.texts("regressions") != self.asked.texts or stated.text("cluster") != self.asked.by:
            differs.append("regressions or clusters: others than asked for")
        told, own = stated.part("sensitivity"), found["sensitivity"]
        if not (stated.says(found, "sampler") and told.says(own, "norm")):
            differs.append("sampler or norm")
        if (told.number("value"), told.whole("rows_per_record")) != (own["value"], own["rows_per_record"]):
            differs.append("sensitivity")
        if not same(stated.number("epsilon_each"), self.epsilon_each):
            differs.append("epsilon_each")
        if stated.whole("target") != self.target:
            differs.append("target")
        return tuple(differs)

    def facts(self) -> dict[str, Any]:
        value, norm = self.sensitivity_in_words()
        return {
            "sampler": "exponential mechanism on a public list of bounds, by exact integer weights, drawn once",
            "calibration": self.route,
            "epsilon_each": self.epsilon_each,
            "cluster": self.asked.by,
            "regressions": list(self.asked.texts),
            "exponent": self.exponent,
            "target": self.target,
            "sensitivity": {"value": value, "norm": norm, "rows_per_record": clusters_of(self.asked).records.rows},
        }


def _asked(problem: Problem) -> AskedErrors:
    assert problem.errors is not None
    return problem.errors


def with_headroom(edge: int, noise_at: Callable[[int], float]) -> int:
    """Widen a bound, as long as little noise comes of it. Post-processing: no cost.

    The scores of clusters have long tails, and what is beyond a bound makes errors too small. `noise_at` says, of a bound in
    steps, the noise of a meat over what it is at least.
    """
    last = len(EDGES) - 1
    found = min(edge + HEADROOM_EDGES, last)
    while found < min(edge + MOST_HEADROOM, last) and noise_at(int(EDGES[found + 1])) <= LITTLE_NOISE:
        found += 1
    return int(EDGES[found])
