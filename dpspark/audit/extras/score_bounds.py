"""Attacks on standard errors by clusters: the bound of scores that is drawn, the meats, and what is released beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case, case_of
from dpspark.audit.likelihood import additive_std
from dpspark.audit.quantiles.exponential import log_cell
from dpspark.audit.sensitivity_attack import CHANGES, ROOM
from dpspark.audit.tables import Raw, TableRows, gram_of, upper_of
from dpspark.audit.target import Attack, Target, found_without_noise, measured
from dpspark.audit.theil_sen.shared import spread_of
from dpspark.core.domain import SCORE_STEPS, Domain, Numeric
from dpspark.core.records import Change, Clusters, Records
from dpspark.core.scores import ScoreAxes
from dpspark.exact.residuals import Residual
from dpspark.exact.scores import EDGES, Scores, SummedClusters, sum_scores
from dpspark.mechanisms.errors.cluster_meat import ClusterMeats
from dpspark.mechanisms.errors.score_map import ScoreMap, weighted_score
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.quantiles.exponential import CellLaw
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import cluster_count, cluster_step, cluster_steps, row_score, row_scores_moved
from dpspark.spec.choose import choose
from dpspark.spec.extras import score_bounds
from dpspark.spec.spec import Spec

NAME = "score bounds"
TARGET_NAME = f"extra {NAME}"
PLAIN = ((SCORE_STEPS, SCORE_STEPS),)  # scales by which sums stay what they are
LONG = 8  # scores of a row in one cluster
Row = tuple[float, float, int]  # x and y in half-ranges, and the cluster


def case(spec: Spec) -> Case:
    """Tell apart bounds of clusters whose scores a record makes longer."""
    laws = _laws(spec)

    def draw(side: int, noise: NoiseSource) -> float:
        cell = laws[side].draw(noise)
        return log_cell(laws[1], cell) - log_cell(laws[0], cell)

    return case_of(spec, spec.extra_budget(NAME), draw, TARGET_NAME)


def _laws(spec: Spec, times: float = 1.0) -> list[CellLaw]:
    """The laws of the bound on two neighbours: a row comes to a long cluster, or goes from one that it held back, too."""
    finder = score_bounds(spec)
    drawn = replace(finder, exponent=times * finder.exponent)
    # As many clusters as make up what the bound is asked to take away, and some more.
    count = math.ceil(1.5 * finder.target / LONG)
    base = [(1.0, 1.0, g) for g in range(count) for _ in range(LONG)]
    before, after = _neighbours(base, spec.records.change, spec.records.rows)
    axes = _axes(choose(spec).domain)
    score = weighted_score(axes, PLAIN[0])
    return [drawn.law(_summed(spec, rows).norms(PLAIN), 0, score) for rows in (before, after)]


def _neighbours(base: list[Row], change: Change, rows: int, long: int = LONG) -> tuple[list[Row], list[Row]]:
    """A record that makes as many clusters longer as it has rows; a replaced one goes where it had held some back."""
    more = [(1.0, 1.0, g) for g in range(rows)]
    if change == "added":
        return base, base + more
    others = [(1.0, 1.0, -2 - g) for g in range(rows) for _ in range(long + 1)]
    against = [(1.0, -1.0, -2 - g) for g in range(rows)]
    return base + others + against, base + others + more


def _axes(domain: Domain) -> ScoreAxes:
    regressors = replace(domain, columns=domain.columns[:1], response=None)
    return ScoreAxes(regressors, (0, 0))


def _summed(spec: Spec, rows: list[Row]) -> SummedClusters:
    """Add up the scores of rows, through the code that executors run; the residual is the response, clipped to its bounds."""
    domain, raw = choose(spec).domain, _raw(spec, rows)
    scores = Scores(domain, (Residual.of(domain, np.zeros(2), 2, (0, 1)),), (1.0,), (_axes(domain),))
    # Clusters have any whole numbers for keys; negative ones would be rows without a key.
    with TableRows.of(domain, raw, [10_000 + g for _, _, g in rows]).clusters(scores) as found:
        return found


def _raw(spec: Spec, rows: list[Row]) -> Raw:
    age, income = (column for column in spec.domain.columns if isinstance(column, Numeric))
    return [(age.middle + x * age.half, income.middle + y * income.half) for x, y, _ in rows]


def weights_finding(spec: Spec, times: float = 1.0) -> Finding:
    """Find how far a record drives the weights of two bounds apart, without a draw."""
    laws, each = _laws(spec, times), score_bounds(spec).epsilon_each
    cells = range(len(EDGES) - 1)
    found = spread_of(np.array([log_cell(laws[1], cell) - log_cell(laws[0], cell) for cell in cells]))
    broken = found > each * (1 + 1e-9)
    return Finding(
        "sensitivity",
        TARGET_NAME,
        spec.privacy.neighbours,
        "epsilon",
        each,
        found,
        2,
        broken,
        note="weights of two bounds",
    )


def meat_case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell matrix, meat and what is beside it of two neighbours apart, together.

    `quieter` is how many times too small the noise of all but the matrix is.
    """
    mechanism = choose(spec)
    assert isinstance(mechanism, GaussianGram)
    meats = mechanism.meats
    assert isinstance(meats, ClusterMeats)
    drawn = replace(meats, mu=meats.mu * quieter)
    sides = _neighbours([(1.0, 1.0, g) for g in range(3) for _ in range(LONG)], spec.records.change, spec.records.rows)
    grams, summed = (
        [gram_of(mechanism.domain, _raw(spec, rows)) for rows in sides],
        [_summed(spec, rows) for rows in sides],
    )
    bound = EDGES[np.searchsorted(EDGES, 2 * LONG * SCORE_STEPS)]
    by = ScoreMap(_axes(mechanism.domain), PLAIN[0], 1.0, int(bound))
    unit, beside = meats.sigma * meats.unit(by), meats.stds_beside()
    own = [unit, unit / math.sqrt(2), unit, beside["count"], beside["squares"], *[beside["totals"]] * 2]
    std = np.concatenate([additive_std(mechanism.noise, mechanism.domain.width), own])
    exact = [np.concatenate([upper_of(gram), _exact(each, by)]) for gram, each in zip(grams, summed, strict=True)]

    def see(side: int, noise: NoiseSource) -> np.ndarray:
        matrix = np.array(mechanism.release(grams[side], noise).upper, dtype=float) / mechanism.domain.steps_per_row
        told = drawn.release_beside(summed[side].totals(), noise)
        (meat,) = drawn.release_meats(summed[side].grams(PLAIN, [by.radius]), [by], noise)
        seen = meat.matrix[np.triu_indices(2)] / by.back[0, 0] ** 2
        return np.concatenate([matrix, seen, [told.count, told.squares[0], *told.totals[0]]])

    return additive_case(spec, spec.release_budget, "gaussian", std, exact, see, TARGET_NAME)


def _exact(summed: SummedClusters, by: ScoreMap) -> np.ndarray:
    """The same without noise, in units of C², clusters, R² and scores."""
    totals = summed.totals()
    sizes, squares = totals.reveal(0)
    meat = np.array(summed.grams(PLAIN, [by.radius]).reveal(0), dtype=float) / SCORE_STEPS**2
    return np.concatenate([meat, [totals.reveal_count()], np.array([squares, *sizes], dtype=float) / SCORE_STEPS])


def meat_finding(target: str, neighbours: str, doubled: float = 1.0) -> Finding:
    """Find how far a record moves Σ s·sᵀ, through the code that executors run; `doubled` divides the claim."""
    change, found = CHANGES[neighbours], []
    for rows in (1, 3):
        clusters = Clusters(Records(change, rows))
        for long in (2, LONG, 40):
            base = [(1.0, 1.0, g) for g in range(rows) for _ in range(long)]
            tables = _neighbours(base, change, rows, long)
            axes, scores = _plain()
            # The bound is just beyond the longest score.
            radius = math.ceil((long + 1) * row_score(axes, (1.0, 1.0)) * (1 + 1e-6))
            step = cluster_step(clusters, 2, row_score(axes, (1.0, 1.0)) / radius)
            claim = cluster_steps(clusters) * step / doubled
            moved = _moved(scores, tables, radius)
            found.append((moved / claim, claim, moved, f"{rows} rows a record, {long} in a cluster"))
    ratio, most, moved, note = max(found)
    return Finding(
        "sensitivity", target, neighbours, "C² of the meat", most, moved, len(found), ratio > ROOM, note=note
    )


def _plain() -> tuple[ScoreAxes, Scores]:
    domain = Domain((Numeric("x", -1.0, 1.0), Numeric("y", -1.0, 1.0)), response="y")
    axes = ScoreAxes(domain.regressors, (0, 0))
    return axes, Scores(domain, (Residual.of(domain, np.zeros(2)),), (1.0,), (axes,))


def _moved(scores: Scores, tables: Sequence[list[Row]], radius: int) -> float:
    matrices = []
    for rows in tables:
        columns = [np.array([row[at] for row in rows], dtype=float) for at in (0, 1)]
        sums = sum_scores(scores, columns, np.array([10_000 + g for _, _, g in rows], dtype=np.int64))
        a, b, c = SummedClusters(scores, sums).grams(PLAIN, [radius]).reveal(0)
        matrices.append(np.array([a, b, b, c], dtype=float) / SCORE_STEPS**2)
    return float(np.linalg.norm(matrices[1] - matrices[0]))


def count_finding(target: str, neighbours: str) -> Finding:
    """Find how far a record moves the number of clusters and the sums of sizes."""
    change, (_, scores) = CHANGES[neighbours], _plain()
    worst: list[tuple[float, float]] = []
    for rows in (1, 3):
        clusters = Clusters(Records(change, rows))
        tables = [[], [(1.0, 1.0, g) for g in range(rows)]]
        sums = [
            sum_scores(
                scores, [np.array([r[at] for r in t]) for at in (0, 1)], np.array([r[2] for r in t], dtype=np.int64)
            )
            for t in tables
        ]
        worst.append((abs(sums[1].shape[1] - sums[0].shape[1]), cluster_count(clusters)))
        sizes = np.linalg.norm(np.abs(sums[1][:-1]).sum(axis=1)) / SCORE_STEPS
        worst.append((float(sizes), row_scores_moved(clusters) * math.sqrt(2)))
    moved, most = max(worst, key=lambda pair: pair[0] / pair[1])
    return Finding(
        "sensitivity", target, neighbours, "clusters, or scores", most, moved, len(worst), moved > most * ROOM
    )


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [meat_finding(target, neighbours), count_finding(target, neighbours)]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {
        "γ twice as large": found_without_noise(lambda: weights_finding(spec, times=2)),
        "noise of the meat ÷ 2": measured(lambda: meat_case(spec, 2)),
        "a sensitivity of half": found_without_noise(lambda: meat_finding(TARGET_NAME, spec.privacy.neighbours, 2)),
    }


TARGET = Target(
    "extra",
    NAME,
    case,
    noise_free,
    broken,
    beside=("gram", "gaussian"),
    asks={"release": {"errors": {"cluster": "tract"}, "regressions": ["income ~ age"]}},
)
