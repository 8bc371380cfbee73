"""Plans of quantiles: a bound on ranks that holds for any data, and errors in units of the columns by simulation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpspark.core.domain import Numeric
from dpspark.planning.guess import Guess
from dpspark.planning.row_norm import made_up_rows
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spec.choose import choose_quantiles
from dpspark.spec.spec import Spec

ROWS, DRAWS = 20_000, 60  # rows for all quantiles together: below one rank there is nothing to see


def rank_error(spec: Spec, guess: Guess, beta: float) -> float:
    """The largest share of the rows between a quantile and what is released for it, with probability 1 − beta each.

    A cell at distance t has e^(−γt) of the weight of the one that holds the quantile: P(distance > t) <= cells·e^(−γt).
    """
    return max(share for _, _, share in _shares(spec, guess, beta))


def _shares(spec: Spec, guess: Guess, beta: float) -> list[tuple[str, float, float]]:
    quantiles = choose_quantiles(spec).quantiles
    return [
        (axis.name, p, math.log(axis.cells / beta) / (quantiles.exponent(p) * guess.rows))
        for axis, p in quantiles.targets
    ]


def rank_notes(spec: Spec, guess: Guess, beta: float) -> tuple[str, ...]:
    worst = max(_shares(spec, guess, beta), key=lambda found: found[2])
    return (
        "Simulated with the mechanism itself on made-up rows: about, and as good as the guess",
        f"For any data, with probability {1 - beta:g}: off by at most {min(1.0, worst[2]):.2g} of the rows in rank "
        f"({worst[0]}, probability {worst[1]:g}, the worst)",
    )


def quantile_errors(spec: Spec, guess: Guess, random: KeyedRandom) -> list[tuple[str, float, float]]:
    """Label, sampling and privacy error of each quantile. The law depends on γ·rows: fewer rows, a larger γ."""
    kernel = choose_quantiles(spec).kernel
    rows = max(3, min(int(guess.rows), max(1000, ROWS // len(kernel.targets))))
    times = guess.rows / rows
    sharper = replace(kernel, targets=tuple((axis, p, min(gamma * times, 1e6)) for axis, p, gamma in kernel.targets))
    columns = [column for column in spec.domain.columns if isinstance(column, Numeric)]
    values = _values(guess, columns, rows * DRAWS)
    drawn, exact = [], []
    for i in range(DRAWS):
        group = {name: of[i * rows : (i + 1) * rows] for name, of in values.items()}
        drawn.append(sharper.fit(group, random, i))
        exact.append([float(np.quantile(group[axis.name], p)) for axis, p, _ in kernel.targets])
    privacy = np.sqrt(np.mean((np.array(drawn) - exact) ** 2, axis=0))
    sampling = np.std(exact, axis=0) / math.sqrt(times)
    return [
        (f"{axis.name}, quantile {p:g}", float(sampling[i]), float(privacy[i]))
        for i, (axis, p, _) in enumerate(kernel.targets)
    ]


def _values(guess: Guess, columns: list[Numeric], count: int) -> dict[str, np.ndarray]:
    if guess.assumed:
        rng = np.random.default_rng(0)
        return {c.name: rng.uniform(c.lower, c.upper, count) for c in columns}
    z = made_up_rows(guess.mean, guess.covariance, count)
    return {c.name: c.middle + c.half * z[:, i] for i, c in enumerate(columns)}
