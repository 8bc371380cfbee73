"""How many clusters a variance is known by, and what the bound of scores takes off: of scores whose law is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspark.analysis.clustered import LEAST_ALIKE, MOST_MISSED, Carried
from dpspark.analysis.clusters import ReleasedClusters
from dpspark.analysis.sandwich import Bread, ReleasedMeat
from dpspark.core.formula import Formula
from dpspark.mechanisms.errors.score_map import ScoreNoise

COUNT = 20_000


def carried(scores: np.ndarray, kept: float = 1e12, headroom: float = 2.0, reach: float = 50.0) -> Carried:
    """What a release without noise says of clusters with these scores, in their mean sizes on each axis."""
    scores = scores / np.abs(scores).mean(axis=1, keepdims=True)
    count, axes = scores.shape[1], len(scores)
    eye = np.eye(axes)
    noise = ScoreNoise(0.0, reach * eye)
    clusters = ReleasedClusters("town", False, float(count), 0.0, 1.0, kept, reach, headroom)
    formula = Formula("y", ("x",), True)
    terms = ("1", "x")[:axes]
    meat = ReleasedMeat("cluster", "y ~ x", formula, terms, scores @ scores.T, noise, 0.0, clusters)
    bread = Bread(eye, eye, eye, 1.0, 1e6, np.ones(axes), np.zeros(axes))
    return Carried.of(bread, meat, eye)


def test_clusters_that_are_alike_count_in_full() -> None:
    """Normal scores of one size: E t² is π/2 of (E|t|)², within 1% of 20,000 clusters at five deviations and more."""
    found = carried(np.random.default_rng(1).normal(size=(2, COUNT)))
    assert np.allclose(found.alike, COUNT, rtol=0.15)
    assert np.all(found.missed < 1e-4)


@pytest.mark.parametrize("shape", [1.0, 2.0, 4.0])
def test_unequal_clusters_count_as_fewer(shape: float) -> None:
    """Satterthwaite's number, of spreads that are gamma: k(k + 1)/((k + 2)(k + 3)) of the clusters, to half of it or twice.

    Seeded: one outcome. Kills: degrees of freedom of the number of clusters, whatever their sizes are."""
    random = np.random.default_rng(2)
    sizes = random.gamma(shape, size=COUNT)
    found = carried(np.stack([sizes * random.normal(size=COUNT), random.normal(size=COUNT)]))
    expected = COUNT * shape * (shape + 1) / ((shape + 2) * (shape + 3))
    assert 0.5 < found.alike[0] / expected < 2
    assert found.alike[1] > 0.8 * COUNT


def test_one_cluster_that_has_it_all_is_never_fewer_than_the_least() -> None:
    scores = np.full((1, 100), 1e-3)
    scores[0, 0] = 1.0
    assert carried(scores).alike[0] == LEAST_ALIKE


def test_what_is_beyond_the_bound_is_made_up_for() -> None:
    """−log F(c) of scores as long as a Weibull's grows with a power of c: at 0.7 the estimate is of the true size.

    Seeded: one outcome. Kills: a factor of 2, or the bound in other units than the scores."""
    random = np.random.default_rng(3)
    scores = random.weibull(0.8, size=(1, COUNT)) * random.choice([-1.0, 1.0], size=COUNT)
    scores /= np.abs(scores).mean()
    drawn, reach = 4.0, 6.0
    excess = [np.maximum(0.0, np.abs(scores) - c).sum() for c in (0.0, drawn)]
    kept = float((excess[0] / excess[1]) ** (reach / drawn))
    shortened = np.clip(scores, -reach, reach)
    lost = float((scores**2).sum() / (shortened**2).sum() - 1)
    found = carried(scores, kept, reach / drawn, reach).missed[0]
    assert 0.5 < found / lost < 2
    assert carried(scores, 300.0, 1.01, reach).missed[0] <= MOST_MISSED
    assert math.isfinite(found)
