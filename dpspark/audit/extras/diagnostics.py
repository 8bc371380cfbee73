"""Attacks on the counts of clipped values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case
from dpspark.audit.neighbours import hostile_pairs
from dpspark.audit.sensitivity_attack import CHANGES, DOMAINS, ROOM
from dpspark.audit.tables import gram_of
from dpspark.audit.target import Attack, Target, measured
from dpspark.core.domain import Categorical, Domain
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import clipped_l1, clipped_l2
from dpspark.spec.choose import choose
from dpspark.spec.extras import clipped_counts
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Count clipped values: a record beyond a bound of every column, and of the other one where it is replaced.

    `quieter` is how many times too small the noise is.
    """
    counts = clipped_counts(spec, choose(spec).domain)
    domain = counts.domain
    beyond = [
        tuple(c.categories[0] if isinstance(c, Categorical) else c.middle + sign * 3 * c.half for c in domain.columns)
        for sign in (-1, 1)
    ]
    before = [] if spec.records.change == "added" else [beyond[0]] * spec.records.rows
    grams = [gram_of(domain, rows, count_clipped=True) for rows in (before, [beyond[1]] * spec.records.rows)]
    exact = [np.array(gram.reveal_clipped(), dtype=float) for gram in grams]
    std = np.full(len(exact[0]), counts.noise_std)

    drawn = replace(counts, scale=counts.scale / quieter)

    def see(side: int, noise: NoiseSource) -> np.ndarray:
        return np.array(drawn.release(grams[side], 1.0, noise).share)

    return additive_case(spec, spec.extra_budget("diagnostics"), counts.law.name, std, exact, see, "extra diagnostics")


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find how far a record moves the counts, in both norms."""
    change, domain = CHANGES[neighbours], DOMAINS["3 numbers"]
    beyond = [tuple(column.middle + sign * 9 * column.half for column in domain.numeric) for sign in (-1, 1)]
    worst, tried = [0.0, 0.0], [([] if change == "added" else beyond[:1], beyond[1:]), *hostile_pairs(domain, change)]
    for before, after in tried:
        counts = [np.array(gram_of(domain, rows, True).reveal_clipped(), dtype=float) for rows in (before, after)]
        for at, order in enumerate((1, 2)):
            worst[at] = max(worst[at], float(np.linalg.norm(counts[1] - counts[0], order)))
    most = [clipped_l1(domain, change), clipped_l2(domain, change)]
    at = int(np.argmax(np.array(worst) / most))
    broken = worst[at] > most[at] * ROOM
    return [Finding("sensitivity", target, neighbours, f"l{at + 1} norm", most[at], worst[at], len(tried), broken)]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ 2": measured(lambda: case(spec, 2))}


TARGET = Target(
    "extra",
    "diagnostics",
    case,
    noise_free,
    broken,
    beside=("gram", "laplace"),
    asks={"diagnostics": {"epsilon_share": 0.5}},
)
