"""Noise-free attacks: the furthest that one record moves an exact statistic, through the code that executors run."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpspark.audit.attacks import Finding
from dpspark.audit.neighbours import (
    Bounding,
    Norm,
    Worst,
    hostile_pairs,
    worst_change,
)
from dpspark.audit.tables import Raw, TableRows, bounded_rows, gram_of, upper_of
from dpspark.core.domain import Categorical, Clip, Domain, Numeric, RowNorm
from dpspark.core.products import Product
from dpspark.core.records import Change
from dpspark.exact.gradient import GRADIENT_BITS
from dpspark.privacy.sensitivity import (
    clipped_gradient,
    regression_statistics,
    second_moment,
    second_moment_l1,
)

CHANGES: dict[str, Change] = {"add_remove": "added", "replace_one": "replaced"}
ROOM = 1 + 1e-12  # float64 norms of exact changes

Claim = Callable[[Domain, Change, int], float]


def _numbers(count: int) -> tuple[Numeric, ...]:
    return tuple(Numeric(f"x{i}", -2.0, 5.0) for i in range(count))


DOMAINS = {
    "3 numbers": Domain(_numbers(3), "midpoint"),
    "6 numbers": Domain(_numbers(6), "midpoint"),
    "a number and 2 blocks": Domain(
        (*_numbers(1), Categorical("s", ("a", "b")), Categorical("t", ("a", "b", "c"))), "midpoint"
    ),
    "2 numbers by a block, and 2 blocks by each other": Domain(
        (*_numbers(2), Categorical("s", ("a", "b")), Categorical("t", ("a", "b", "c"))),
        "midpoint",
        products=(Product(("s", "x0")), Product(("s", "x1")), Product(("s", "t"))),
    ),
    "row norm capped at 1.3": Domain(_numbers(3), "midpoint", RowNorm("cap", 1.3)),
    "row norm 0.7": Domain(_numbers(3), "midpoint", RowNorm("project", 0.7)).with_bits(20),
}


def matrix_finding(
    target: str,
    neighbours: str,
    norm: Norm | None,
    claim: Claim | None = None,
    bound: Bounding = bounded_rows,
    domains: dict[str, Domain] = DOMAINS,
    rows_per_record: tuple[int, ...] = (1, 3),
) -> Finding:
    """The matrix of many kinds of rows, and of m rows a record; the one that comes nearest to its claim is shown.

    `norm` None: the one that the claim's own shape of noise needs.
    """
    change, found = CHANGES[neighbours], []
    for name, domain in domains.items():
        of: Norm = norm or ("frobenius" if second_moment(domain, change).shape == "symmetric" else "l2")
        worst = worst_change(domain, change, of, bound)
        for rows in rows_per_record:
            most = (claim or _claimed(norm))(domain, change, rows)
            moved = rows * worst.moved if bound is not bounded_rows else _confirmed(domain, worst, rows, of)
            found.append((moved / most, most, moved, f"{name}, {rows} row{'s' if rows > 1 else ''} a record"))
    ratio, most, moved, note = max(found)
    return Finding("sensitivity", target, neighbours, of_norm(norm), most, moved, len(found), ratio > ROOM, note=note)


def of_norm(norm: Norm | None) -> str:
    return "l1 norm" if norm == "l1" else "l2 norm"


def _claimed(norm: Norm | None) -> Claim:
    return second_moment_l1 if norm == "l1" else lambda *of: second_moment(*of).value


def _confirmed(domain: Domain, worst: Worst, rows: int, norm: Norm) -> float:
    """The same change again, of whole tables, by the sums that releases are made of."""
    some = [tuple(column.middle if isinstance(column, Numeric) else column.categories[0] for column in domain.columns)]
    before = [] if worst.before is None else [worst.before] * rows
    tables: list[Raw] = [[*some, *before], [*some, *[worst.after] * rows]]
    change = upper_of(gram_of(domain, tables[1])) - upper_of(gram_of(domain, tables[0]))
    if norm == "l1":
        return float(abs(change).sum())
    at = np.triu_indices(domain.width)
    twice = (1 + (at[0] != at[1])) if norm == "frobenius" else 1
    return math.sqrt(float((twice * change**2).sum()))


def statistics_finding(target: str, neighbours: str) -> Finding:
    """Σ x xᵀ, Σ x y and Σ y² of a regression: the one that comes nearest to its claim."""
    change = CHANGES[neighbours]
    domain = Domain((*_numbers(2), Numeric("y", 0.0, 9.0)), "midpoint", response="y")
    claims, worst = regression_statistics(domain, change), [0.0, 0.0, 0.0]
    tried = list(hostile_pairs(domain, change))
    for before, after in tried:
        z = [bounded_rows(domain, rows) if rows else np.zeros((1, domain.width)) for rows in (before, after)]
        change_of = z[1].T @ z[1] - z[0].T @ z[0]
        squares = change_of[:-1, :-1]
        upper = squares if claims.squares.shape == "symmetric" else np.triu(squares)
        for at, moved in enumerate(map(np.linalg.norm, (upper, change_of[:-1, -1], change_of[-1:, -1]))):
            worst[at] = max(worst[at], float(moved))
    most = [claims.squares.value, claims.cross, claims.response]
    at = int(np.argmax(np.array(worst) / most))
    name = ("Σ x xᵀ", "Σ x y", "Σ y²")[at]
    broken = worst[at] > most[at] * ROOM
    return Finding("sensitivity", target, neighbours, "l2 norm", most[at], worst[at], len(tried), broken, note=name)


def gradient_finding(target: str, neighbours: str) -> Finding:
    """Sums of clipped gradients, at several coefficients."""
    change, found = CHANGES[neighbours], []
    domain = Domain((*_numbers(2), Numeric("y", 0.0, 9.0)), "midpoint", response="y")
    for clip in (Clip("ball", 0.4), Clip("box", 0.2)):
        most, moved = clipped_gradient(clip, domain.width - 1, change), 0.0
        for before, after in hostile_pairs(domain, change, 100):
            for theta in (np.zeros(3), np.array([0.5, -3.0, 1e6])):
                sums = [
                    np.array(TableRows.of(domain, rows).gradient(domain, theta, clip).reveal(), dtype=float)
                    for rows in (before, after)
                ]
                size = np.linalg.norm(sums[1] - sums[0], 2 if clip.shape == "ball" else 1)
                moved = max(moved, float(size) / 2**GRADIENT_BITS)
        found.append((moved / most, most, moved, f"clipped to a {clip.shape}"))
    ratio, most, moved, note = max(found)
    return Finding("sensitivity", target, neighbours, "norm", most, moved, 400, ratio > ROOM, note=note)
