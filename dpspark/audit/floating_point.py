"""Attacks on sums: does their order, or how rows are dealt out, leave a trace; can rounding move a sum too far?

Float sums fail both ways (Casacuberta, Shoemate, Vadhan & Wagaman, 2022): their last bits depend on the order, and one record
can move them by more than its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from dpspark.audit.attacks import Finding
from dpspark.audit.sensitivity_attack import ROOM
from dpspark.audit.tables import Raw, arrays
from dpspark.core.domain import Domain, Numeric
from dpspark.exact.fixed_point import ExactGram, GramAccumulator, merge_partials
from dpspark.privacy.sensitivity import second_moment

DOMAIN = Domain((Numeric("a", -1e6, 1e6), Numeric("b", 0.0, 3.0)), "midpoint")
HOSTILE = [
    1e308,
    -1e308,
    5e-324,
    -5e-324,
    math.inf,
    -math.inf,
    math.nan,
    -0.0,
    1e6,
    -1e6,
    1e6 * (1 - 2**-53),
    1 / 3,
    1e-17,
]
ORDERS = 60

Sum = Callable[[Domain, Sequence[Raw]], Sequence[float | int]]


def exact_sum(domain: Domain, parts: Sequence[Raw]) -> list[int]:
    """Add up as a release does: an accumulator in each task, merged in their order, two by two."""
    payloads = []
    for rows in parts:
        accumulator = GramAccumulator(domain)
        accumulator.add(arrays(domain, rows), len(rows))
        payloads.append(accumulator.finish())
    while len(payloads) > 1:
        payloads = [merge_partials(payloads[at : at + 2], domain.width) for at in range(0, len(payloads), 2)]
    return ExactGram.from_partials(domain, payloads).reveal()


def pathological_rows(count: int) -> list[tuple[float, float]]:
    rng = np.random.default_rng(6)  # which are tried: nothing secret
    return [
        (float(rng.choice(HOSTILE)), float(rng.choice(HOSTILE) if rng.random() < 0.5 else rng.random() * 3))
        for _ in range(count)
    ]


def order_finding(total: Sum = exact_sum) -> Finding:
    """Some 60 orders and partitionings of one table: how many different results?"""
    rng, rows = np.random.default_rng(7), pathological_rows(500)
    seen: set[Hashable] = set()
    for _ in range(ORDERS):
        order = rng.permutation(len(rows))
        cuts = np.sort(rng.choice(len(rows), int(rng.integers(0, 12)), replace=False)).tolist()
        parts = [[rows[at] for at in order[start:stop]] for start, stop in zip([0, *cuts], [*cuts, None], strict=True)]
        seen.add(tuple(total(DOMAIN, parts)))
    note = "results of 60 orders"
    return Finding("floating point", "sums", "", "results", 1, len(seen), ORDERS, len(seen) > 1, note=note)


def move_finding(total: Sum = exact_sum) -> Finding:
    """A record more in a large table of extremes: the sum must move by what the record is, to the last bit."""
    claim, rows, worst = second_moment(DOMAIN, "added"), pathological_rows(500), 0.0
    before = total(DOMAIN, [rows])
    for value in HOSTILE:
        for other in (3.0, 0.0, math.nan, 1.5):
            after = total(DOMAIN, [[*rows[:250], (value, other), *rows[250:]]])
            change = np.array([(one - zero) / DOMAIN.steps_per_row for zero, one in zip(before, after, strict=True)])
            at = np.triu_indices(DOMAIN.width)
            twice = 1 + (at[0] != at[1]) if claim.shape == "symmetric" else 1
            size = math.hypot(*(np.sqrt(twice) * change)) if np.isfinite(change).all() else math.inf
            worst = max(worst, size)
    note = "change by one more record"
    broken = worst > claim.value * ROOM
    return Finding(
        "floating point", "sums", "add_remove", "l2 norm", claim.value, worst, 4 * len(HOSTILE), broken, note=note
    )
