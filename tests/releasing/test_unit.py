"""A person as the unit of privacy: what one can change after the cap, in one group or several, and an audit with 100 rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.core.domain import Domain
from dpspark.core.records import Records
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.exact.histogram import Axis
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.mechanisms.lines.depth import DepthLine
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.gram import MomentsLine
from dpspark.mechanisms.lines.huber import HuberLine
from dpspark.mechanisms.lines.plane import FINE, Plane
from dpspark.mechanisms.lines.sufficient_statistics import UNIT, SufficientStatistics, centred_sums
from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles
from dpspark.mechanisms.regression.base import StatisticsMechanism
from dpspark.privacy.budget import Budget, gaussian_delta
from dpspark.privacy.calibration import distance_from_rounded, sampler_delta
from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.parquet import ParquetSource, open_parquet
from dpspark.spark import person_tasks
from dpspark.spark.persons import ContributionCap, row_keeper
from dpspark.spark.usable import Usable
from dpspark.spec.choose import choose, choose_gram, choose_lines, choose_regression
from dpspark.spec.spec import Spec, load_spec
from tests.auditing import gram_of
from tests.lines import calibrate
from tests.mechanisms.test_group_quantiles import cell_distances
from tests.mechanisms.test_robust_theil_sen import tight_values
from tests.noises import SeededNoise
from tests.persons import kept_rows
from tests.robust_laws import edge_law, line_law, loss, lower_bound

MOST = 2
VERTICES = [[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)] + [[0.0, 0.0]]
Row = tuple[int, int]  # group, vertex


def spec_of(neighbours: str, grouped: bool, most: int = MOST, **changes: Any) -> Spec:
    groups = {"group_by": ["g"], "groups": ["0", "1"]} if grouped else {}
    return load_spec(
        {
            "columns": {"x": {"lower": -1, "upper": 1}, "y": {"lower": -1, "upper": 1}},
            "privacy": {
                **changes.pop("privacy", {"epsilon": 1.0}),
                "neighbours": neighbours,
                "unit": {"column": "person", "max_rows": most},
            },
            "release": {"name": "n", "version": "1", **groups, **changes.pop("release", {})},
            "ledger": {"dataset": "d"},
            **changes,
        }
    )


def tables(groups: int, most: int = MOST) -> list[tuple[Row, ...]]:
    """All that one person may have after the cap: no rows, or up to `most` in any groups."""
    rows = list(itertools.product(range(groups), range(len(VERTICES))))
    return [t for count in range(most + 1) for t in itertools.combinations_with_replacement(rows, count)]


def changes(neighbours: str, groups: int) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]]:
    """Pairs of what a person has before and after: numbers of rows differ, and so may groups."""
    every = tables(groups)
    for before in every:
        for after in [()] if neighbours == "add_remove" else every:
            yield before, after


@lru_cache
def statistic(domain: Domain) -> np.ndarray:
    """The real matrices of one row each, upper triangles, by vertex."""
    return np.array([[float(v) for v in gram_of(domain, [row]).reveal()] for row in VERTICES]) / domain.steps_per_row


def moved(domain: Domain, pair: tuple[tuple[Row, ...], tuple[Row, ...]], groups: int) -> np.ndarray:
    """What all groups' matrices change by, one a row."""
    one, total = statistic(domain), np.zeros((groups, domain.width * (domain.width + 1) // 2))
    for sign, rows in zip((-1, 1), pair, strict=True):
        for group, vertex in rows:
            total[group] += sign * one[vertex]
    return total


def is_diagonal(width: int) -> np.ndarray:
    return np.array([i == j for i in range(width) for j in range(i, width)])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_every_person_of_two_rows_is_within_the_noise_of_matrices(neighbours: str, grouped: bool) -> None:
    """Every pair of small persons, spread over the groups, by the scales that are really drawn.

    Kills: one row's noise for a person; `replaced` for a person who may have another number of rows (the count without noise);
    keys that stay where a person's rows may move; either half of `moved_between_groups`.
    """
    groups = 2 if grouped else 1
    laplace = choose_gram(spec_of(neighbours, grouped, mechanism={"name": "laplace"}))
    gaussian = choose_gram(spec_of(neighbours, grouped, privacy={"rho": 0.5}))
    assert isinstance(laplace, LaplaceGram)
    assert isinstance(gaussian, GaussianGram)
    assert not laplace.count_is_public
    assert not gaussian.count_is_public
    std = np.where(is_diagonal(3), gaussian.diagonal_std, gaussian.off_diagonal_std)
    most = [0.0, 0.0]
    for pair in changes(neighbours, groups):
        change = moved(gaussian.domain, pair, groups)
        most[0] = max(most[0], float(abs(change).sum()) / laplace.scale)
        most[1] = max(most[1], float(((change / std) ** 2).sum()))
    assert most[0] <= 1.0  # epsilon
    assert most[1] <= 1.0 * (1 + 1e-9)  # mu², of rho = 0.5
    if neighbours == "add_remove":  # and not more noise than needed
        assert most[0] > 1 - 1e-9
        assert most[1] > 1 - 1e-9


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", ["gram_ridge", "adassp"])
def test_every_person_of_two_rows_is_within_the_noise_of_regressions(neighbours: str, grouped: bool, name: str) -> None:
    """Kills: as for matrices; statistics of which one keeps the noise of one row. λ_min moves by up to the rows' norms."""
    spec = spec_of(
        neighbours,
        grouped,
        privacy={"rho": 0.5},
        release={"kind": "regression", "response": "y"},
        mechanism={"name": name},
    )
    made = choose_regression(spec)
    assert isinstance(made, StatisticsMechanism)
    noise, groups = made.statistics.noise, 2 if grouped else 1
    std = np.array(  # (1, x, y): 11, 1x, 1y, xx, xy, yy
        [noise.diagonal_std, noise.off_diagonal_std, noise.cross_std, noise.diagonal_std, noise.cross_std, 0.0]
    )
    std[-1] = noise.response_std or math.nan
    base = np.array([[5.0, 0.0], [0.0, 5.0]])
    most = 0.0
    for pair in changes(neighbours, groups):
        change = moved(made.domain, pair, groups)
        total = float(((change / std) ** 2).sum())
        if noise.least_eigenvalue_std is not None:
            for one in change:
                after = base + np.array([[one[0], one[1]], [one[1], one[3]]])
                total += float((np.linalg.eigvalsh(after)[0] - 5.0) / noise.least_eigenvalue_std) ** 2
        most = max(most, total)
    assert most <= 1.0 * (1 + 1e-9)
    if neighbours == "add_remove" and name == "gram_ridge":
        assert most > 1 - 1e-3


def test_the_sampler_s_distance_counts_every_group_that_changes() -> None:
    """Kills: delta for the sampler of one group where a person's rows are in several, or move between them."""
    budget = {"epsilon": 1.0, "delta": 1e-9}
    for neighbours, groups in (("add_remove", 3), ("replace_one", 6)):
        gram = choose_gram(spec_of(neighbours, True, 3, privacy=budget))
        one = choose_gram(spec_of(neighbours, False, 3, privacy=budget))
        assert isinstance(gram, GaussianGram)
        assert isinstance(one, GaussianGram)
        assert (gram.sensitivity.groups, one.sensitivity.groups) == (groups, 1)
        assert gram.eta == groups * distance_from_rounded(6, gram.off_diagonal_std * gram.domain.steps_per_row)
        assert gaussian_delta(gram.mu, 1.0) + sampler_delta(gram.eta, 1.0) <= 1e-9
        fit = choose_regression(
            spec_of(neighbours, True, 3, privacy=budget, release={"kind": "regression", "response": "y"})
        )
        assert isinstance(fit, StatisticsMechanism)
        assert fit.statistics.sensitivity.squares.groups == groups
        assert fit.statistics.delta(1.0) <= 1e-9
    assert (Records("added", 3, grouped=True).groups, Records("either", 3, True, grouped=True).groups) == (3, 6)


# Lines and quantiles: exact laws of each group; a person's loss is the sum over the groups.

PLANE = Plane((0.0, 1.0), (0.0, 1.0))
Point = tuple[float, float]


VALUES = (0.0, 0.25, 0.5, 0.75, 1.0)
Placed = tuple[int, float, float]  # group, x, y


def climbed(lost: Callable[[list[Point], list[Point]], np.ndarray], replaced: bool, seed: int = 0) -> float:
    """The largest loss, over both groups, that hill climbing finds: a person's two rows, before and after, among any others."""
    rng = np.random.default_rng(seed)

    def some(count: int) -> list[Placed]:
        return [(int(rng.integers(2)), float(rng.choice(VALUES)), float(rng.choice(VALUES))) for _ in range(count)]

    def total(parts: list[list[Placed]]) -> float:
        ways = np.zeros(2)
        for group in range(2):
            others, before, after = ([(x, y) for g, x, y in part if g == group] for part in parts)
            ways += lost(others + before, others + after)
        return float(ways.max())

    state = [some(8), some(MOST), some(MOST) if replaced else []]
    best = total(state)
    for _ in range(400):
        new = [list(part) for part in state]
        part = new[int(rng.choice([0, 0, 1, 2] if replaced else [0, 0, 1]))]
        if part is new[0] and rng.random() < 0.4:
            part[: int(rng.integers(2))] = some(int(rng.integers(2))) if len(part) < 12 else []
        elif part:
            part[int(rng.integers(len(part)))] = some(1)[0]
        if (found := total(new)) >= best:
            best, state = found, new
    return best


def arrays(points: list[Point]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p[0] for p in points], dtype=float), np.array([p[1] for p in points], dtype=float)


def line_spec(neighbours: str, name: str) -> Spec:
    return spec_of(
        neighbours,
        True,
        columns={"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
        release={"kind": "theil_sen", "x": "x", "y": "y"},
        mechanism={"name": name, **({"cells": 6} if name in ("depth", "huber") else {})},
    )


def both_ways(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The largest log ratio of two laws, given by their logarithms, in each direction."""
    return np.array([(before - after).max(), (after - before).max()])


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", ["depth", "huber"])
def test_lines_of_a_person_s_groups_cost_epsilon(neighbours: str, name: str) -> None:
    """Kills: one row's exponent for a person; no doubling where rows move; a whole budget for each group."""
    kernel = choose_lines(line_spec(neighbours, name)).kernel
    assert isinstance(kernel, DepthLine | HuberLine)

    def lost(before: list[Point], after: list[Point]) -> np.ndarray:
        return both_ways(*(line_law(kernel, arrays(rows)) for rows in (before, after)))

    assert 0.8 < climbed(lost, neighbours == "replace_one") <= 1.0


@pytest.mark.parametrize("spread", [(2, 0), (1, 1)])
@pytest.mark.parametrize(("neighbours", "times"), [("add_remove", 1), ("replace_one", 2)])
def test_pairs_of_a_person_s_groups_cost_epsilon(neighbours: str, times: int, spread: tuple[int, int]) -> None:
    """Kills: 4k for a person of two rows; 8k where they leave their groups for others; all of epsilon in each group.

    Each row that comes or goes moves one value of each matching (test_robust_theil_sen has the coupling), here from one end to
    the other, at both anchors; of a replaced person twice as many.
    """
    kernel = choose_lines(line_spec(neighbours, "exponential")).kernel
    assert isinstance(kernel, ExponentialTheilSen)
    assert kernel.matchings
    lost = 0.0
    for rows in spread * times:
        pair = (tight_values(kernel.cells, moved, rows * kernel.matchings) for moved in (False, True))
        lost += loss(*(edge_law(kernel, values) for values in pair)) if rows else 0.0
    assert 0.9 < 2 * lost <= 1.0


class Scales:
    """In a stream's place: the scales that a kernel really draws with."""

    def __init__(self) -> None:
        self.scales: list[float] = []

    def discrete_laplace(self, scale: Fraction) -> int:
        self.scales.append(float(scale))
        return 0


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", ["sufficient_statistics", "gram"])
def test_moments_of_a_person_s_groups_cost_epsilon(neighbours: str, name: str) -> None:
    """Kills: centred sums, counts or products with the noise of one row, or of one group where rows move."""
    kernel = choose_lines(line_spec(neighbours, name)).kernel
    assert isinstance(kernel, SufficientStatistics | MomentsLine)
    assert not kernel.public_rows

    def lost(before: list[Point], after: list[Point]) -> np.ndarray:
        parts = []
        for rows in (PLANE.rows(*arrays(points)) for points in (before, after)):
            x, y = rows.x / FINE, rows.y / FINE
            if isinstance(kernel, SufficientStatistics):
                drawn = Scales()
                kernel.slope(rows, drawn)  # type: ignore[arg-type]
                kernel.level(rows, 0.0, drawn)  # type: ignore[arg-type]
                sums = [*centred_sums(rows), len(rows), (x - 0.5).sum(), (y - 0.5).sum()]
                parts.append([float(v) * UNIT / scale for v, scale in zip(sums, drawn.scales, strict=True)])
            else:
                z = np.stack([np.ones(len(rows)), 2 * x - 1, 2 * y - 1])
                parts.append((z @ z.T)[np.triu_indices(3)] / kernel.diagonal)
        return np.full(2, abs(np.subtract(*parts)).sum())

    # DPSuffStats' three parts are not at their worst at once, for replaced rows least of all.
    least = 0.8 if name == "gram" else 0.55
    assert least < climbed(lost, neighbours == "replace_one") <= 1.0


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_quantiles_of_a_person_s_groups_cost_epsilon(neighbours: str) -> None:
    """Kills: a rank's distance for one row of a person; the whole budget for each of two groups that change."""
    spec = spec_of(
        neighbours,
        True,
        privacy={"epsilon": 0.1},
        columns={"x": {"lower": 0, "upper": 4000}},
        release={"kind": "quantiles", "probabilities": [0.99]},
    )
    made = choose(spec)
    assert isinstance(made, ExponentialQuantiles)
    ((_, _, exponent),) = made.kernel.targets
    axis = Axis("x", 0.0, 4000.0, cells=4000)

    def logs(values: tuple[float, ...]) -> np.ndarray:
        found = -exponent * cell_distances(values, 0.99, axis)
        return found - math.log(np.exp(found).sum())

    def lost(at: float, new: float, rows: int) -> np.ndarray:
        """Rows that come, where nearly all others are at one end; the largest ratio of before to after."""
        values = (at,) * (100 * rows)
        return both_ways(logs(values), logs((*values, *(new,) * rows)))

    for spread in ((2, 0), (1, 1)):  # a person's rows by group; of one who moves, as many leave two others
        ways = np.zeros(2)
        for rows in filter(None, spread):
            ways += lost(1.5, 3999.5, rows)
            if neighbours == "replace_one":
                ways += lost(3998.5, 3999.5, rows)[::-1]
        assert 0.095 < ways.max() <= 0.1


def test_squares_of_parts_for_zcdp() -> None:
    """Kills: a calibration in rho that grows slower than the rows of one group. Exponents are ε/(rows), so ρ_g ∝ m_g²."""
    one = calibrate("depth", PLANE, Budget(rho=0.5), Records("added", 1)).kernel
    three = calibrate("depth", PLANE, Budget(rho=0.5), Records("added", 3)).kernel
    assert isinstance(one, DepthLine)
    assert isinstance(three, DepthLine)
    assert three.exponent <= one.exponent / 3 * (1 + 1e-12)


# The audit: through the executors' own cap, bounds and products, and the mechanism's noise.


class Audited:
    """Releases as they are made, but for Spark's shuffle: rows that meet, capped, bounded, summed, noise added.

    Ten others, and one person with `more` rows of 1. `files`: as tasks read them themselves; else sorted, as of a frame.
    """

    def __init__(self, more: int, files: Path | None = None):
        self.spec = spec_of("add_remove", False, 3, columns=COLUMN, mechanism={"name": "laplace"})
        self.mechanism = choose_gram(self.spec)
        table = pa.table({"c0": [0.0] * 10 + [1.0] * more, "c1": [f"p{i}" for i in range(10)] + ["z"] * more})
        self.batches = table.to_batches(max_chunksize=80)
        self.files: ParquetSource | None = None
        if files is not None:
            path = files / f"{more}.parquet"
            pq.write_table(table.rename_columns(["x", "person"]), path, row_group_size=60)
            self.files = open_parquet(str(path), self.spec.source_columns)

    def kept(self, secret: bytes) -> Iterator[Any]:
        unit = self.spec.privacy.unit
        assert unit is not None
        if self.files is not None:
            return iter(kept_rows(self.files, self.spec.domain, unit.column, unit.max_rows, secret))
        return row_keeper(Usable(self.spec.domain), unit.max_rows, KeyedRandom(secret))(iter(self.batches))

    def exact(self, secret: bytes) -> ExactGram:
        accumulator = GramAccumulator(self.mechanism.domain)
        for kept in self.kept(secret):
            accumulator.add([kept.column(0)], kept.num_rows)
        return ExactGram.from_partials(self.mechanism.domain, [accumulator.finish()])

    def release(self, noise: SeededNoise) -> np.ndarray:
        noisy = self.mechanism.release(self.exact(noise.secret()), noise)
        return np.array(noisy.upper, dtype=float) / self.mechanism.domain.steps_per_row


COLUMN = {"x": {"lower": -1, "upper": 1}}
START, CHOOSE_ROWS = ContributionCap.__init__, person_tasks.choose_rows


def shown_epsilon(kept: int, files: Path | None, trials: int = 1200) -> float:
    """A lower bound of epsilon, at 99.9% confidence, from two tables that differ in one person with 100 rows.

    With Laplace noise on all entries, the event that each is beyond where `kept` more rows take it shows the loss of all
    entries together.
    """
    hits = []
    for seed, more in enumerate((100, 0)):
        audited, noise = Audited(more, files), SeededNoise(seed)
        drawn = np.array([audited.release(noise) for _ in range(trials)])
        hits.append(int((drawn >= np.array([10.0 + kept, kept, kept])).all(axis=1).sum()))
    return lower_bound((hits[0], hits[1]), trials)


def cap_of(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The mutant: so many rows stay, whatever the conf says, in both ways."""
    monkeypatch.setattr(ContributionCap, "__init__", lambda self, _, random: START(self, most, random))
    monkeypatch.setattr(person_tasks, "choose_rows", lambda met, _, *more: CHOOSE_ROWS(met, most, *more))


@pytest.mark.parametrize("way", ["frames", pytest.param("files", marks=pytest.mark.slow)])
def test_a_person_with_100_rows_is_within_epsilon(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit of the unit: epsilon = 1, a cap of 3 (false alarm 0.1%, seeds fixed); and not with the cap off (mutant)."""
    files = tmp_path if way == "files" else None
    assert shown_epsilon(3, files) <= 1.0
    cap_of(monkeypatch, 6)
    assert shown_epsilon(6, files) > 1.0
    cap_of(monkeypatch, 1000)
    assert shown_epsilon(100, files) > 1.0


@pytest.mark.parametrize("way", ["frames", "files"])
def test_the_exact_change_of_a_person_with_100_rows(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, by the scale that is drawn: exactly epsilon. Kills: a cap of m + 1."""
    with_person, without = (Audited(more, tmp_path if way == "files" else None) for more in (100, 0))

    def loss_of(secret: bytes) -> float:
        changes = (
            a - b for a, b in zip(with_person.exact(secret).reveal(), without.exact(secret).reveal(), strict=True)
        )
        mechanism = with_person.mechanism
        assert isinstance(mechanism, LaplaceGram)
        return sum(map(abs, changes)) / mechanism.domain.steps_per_row / mechanism.scale

    assert all(1 - 1e-9 < loss_of(bytes([i]) * 32) <= 1.0 for i in range(5))
    cap_of(monkeypatch, 4)
    assert loss_of(b"s" * 32) > 1.3
