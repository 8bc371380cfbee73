"""What samples of a release from two neighbouring tables show: a lower bound of epsilon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from dpspark.privacy.noise import NoiseSource

SHOWN = 0.95  # confidence of the bounds in the table
FALSE_ALARMS = 1e-3  # of a whole audit: each verdict has its part (Bonferroni)
EDGES = 200  # thresholds that are tried on the first half of the trials
CHOOSING = 0.9999  # confidence of the bounds that choose: rare events, which look best by chance, are not chosen


@dataclass(frozen=True)
class NoiseView:
    """Numbers with independent noise, in units of the standard deviation that each is claimed to have."""

    law: str  # gaussian or laplace
    shift: np.ndarray  # between the two tables
    residuals: Callable[[NoiseSource], np.ndarray]  # of one release: what was seen less what is true


@dataclass(frozen=True)
class Case:
    """One mechanism, calibrated to a claim, and two neighbouring tables.

    `draw(side, noise)` makes one release of table 0 or 1 and says what the attacker makes of it: a number that is larger the
    more it looks like table 1, a likelihood ratio where the law is known. `view` is for mechanisms that add noise to numbers.
    """

    target: str  # kind and name of the mechanism
    neighbours: str
    epsilon: float
    delta: float
    draw: Callable[[int, NoiseSource], Any]
    view: NoiseView | None = None


@dataclass(frozen=True)
class Finding:
    """One line of the audit. What was found must not exceed the claim."""

    attack: str
    target: str
    neighbours: str
    unit: str  # of claim and found: epsilon, or what the attack counts
    claim: float
    found: float
    trials: int
    broken: bool
    delta: float | None = None
    note: str = ""


def epsilon_bound(hits: Any, trials: int, other_hits: Any, other_trials: int, delta: float, confidence: float) -> Any:
    """The epsilon that an event shows: ln((p − delta) / q), p and q at the ends of their intervals (Clopper & Pearson, 1934).

    Either interval fails with half of the risk, so that the bound is too high with probability 1 − confidence at most.
    """
    risk = (1 - confidence) / 2
    hits, other_hits = np.asarray(hits), np.asarray(other_hits)
    least = np.where(hits > 0, beta.ppf(risk, np.maximum(hits, 1), trials - hits + 1), 0.0)
    most = np.where(
        other_hits < other_trials, beta.ppf(1 - risk, other_hits + 1, np.maximum(other_trials - other_hits, 1)), 1.0
    )
    return np.log(np.maximum(least - delta, 1e-300) / most).clip(0.0)


def distinguish(case: Case, trials: int, noise: NoiseSource, risk: float) -> Finding:
    """`trials` releases of each table. The first half picks the event, the second half alone is counted."""
    half = trials // 2
    samples = [[case.draw(side, noise) for _ in range(2 * half)] for side in (0, 1)]
    zero, one = (np.nan_to_num(np.array(sample, dtype=float), posinf=1e300, neginf=-1e300) for sample in samples)
    event = best_event(zero[:half], one[:half], case.delta)
    pair = (zero[half:], one[half:])
    hits, others = (int(event.holds(pair[side]).sum()) for side in (event.side, 1 - event.side))
    shown, sure = (float(epsilon_bound(hits, half, others, half, case.delta, level)) for level in (SHOWN, 1 - risk))
    return Finding(
        "distinguish",
        case.target,
        case.neighbours,
        "epsilon",
        case.epsilon,
        shown,
        2 * half,
        sure > case.epsilon,
        case.delta,
    )


@dataclass(frozen=True)
class Event:
    """`statistic > edge` or `statistic <= edge`, more likely on table `side`."""

    side: int
    above: bool
    edge: float

    def holds(self, statistics: np.ndarray) -> np.ndarray:
        return (statistics > self.edge) == self.above


def best_event(zero: np.ndarray, one: np.ndarray, delta: float) -> Event:
    """The event that shows the most on these samples, with the doubt that their size leaves."""
    edges = np.unique(np.quantile(np.concatenate([zero, one]), np.linspace(0, 1, EDGES), method="lower"))
    above = [len(part) - np.searchsorted(np.sort(part), edges, "right") for part in (zero, one)]
    n, found = len(zero), []
    for side in (0, 1):
        for up in (True, False):
            hits, others = (above[s] if up else n - above[s] for s in (side, 1 - side))
            bounds = epsilon_bound(hits, n, others, n, delta, CHOOSING)
            at = int(np.argmax(bounds))
            found.append((float(bounds[at]), Event(side, up, float(edges[at]))))
    return max(found, key=lambda one: one[0])[1]
