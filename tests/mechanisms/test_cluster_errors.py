"""Standard errors by clusters: what is drawn, what it costs, and what comes of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpspark.audit.confs import specs_of
from dpspark.audit.extras.score_bounds import count_finding, meat_finding, weights_finding
from dpspark.core.domain import SCORE_STEPS, Categorical, Domain, Numeric
from dpspark.core.facts import Facts
from dpspark.core.records import Change, Clusters, Records
from dpspark.core.scores import ScoreAxes
from dpspark.exact.residuals import Residual
from dpspark.exact.scores import EDGES, Scores, SummedClusters, sum_scores
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.errors.asked import asked_of
from dpspark.mechanisms.errors.clip import CLIP_SHARE
from dpspark.mechanisms.errors.cluster_meat import PARTS, ClusterMeats
from dpspark.mechanisms.errors.score_bounds import MOST_HEADROOM, SCORE_SHARE, ScoreBounds, with_headroom
from dpspark.mechanisms.errors.score_map import LEAST_SCALE, ScoreMap, ScoreNoise, axes_of, scales_of
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Exponential, Gaussian
from dpspark.spec.charges import charged_events
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from tests.manifests import BASE, CONFS, conf_of, variant
from tests.mechanisms.test_gaussian import precise_delta
from tests.noises import RecordedNoise, RecordedZeros

DOMAIN = Domain((Numeric("a", -1, 1), Categorical("s", ("f", "m")), Numeric("y", -1, 1)), "midpoint")
BUDGET = Budget(1.0, 1e-6)


def problem_of(change: Change = "added", rows: int = 1, whole: bool = False, *texts: str) -> Problem:
    records = Records(change, rows)
    asked = asked_of(DOMAIN, 0.2, texts or ("y ~ a",), "g", Clusters(records, 1, whole))
    return Problem(DOMAIN, records, errors=asked)


def plain_scores(meats: ClusterMeats) -> Scores:
    """Scores of residuals that are the response, on axes through the middle."""
    residuals, axes = [], []
    for one in meats.asked.regressions:
        places = one.places(meats.domain)
        residuals.append(Residual.of(meats.domain, np.zeros(len(places)), meats.domain.width - 1, places))
        axes.append(ScoreAxes(one.regressors(meats.domain), (0,) * len(places)))
    return Scores(meats.domain, tuple(residuals), (1.0,) * len(axes), tuple(axes))


def summed(scores: Scores, rows: list[tuple[float, int, float, int]]) -> SummedClusters:
    a, s, y, codes = (np.array(column) for column in zip(*rows, strict=True)) if rows else [np.zeros(0)] * 4
    return SummedClusters(scores, sum_scores(scores, [a, s.astype(int), y], codes.astype(np.int64)))


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_a_record_moves_all_as_far_as_said(neighbours: str) -> None:
    """Kills: a sensitivity that is 1% too small, and one for an added row where it is replaced."""
    found = meat_finding("meat", neighbours)
    assert not found.broken
    assert found.found > 0.99 * found.claim
    assert meat_finding("meat", neighbours, 1.01).broken
    assert not count_finding("count", neighbours).broken


@pytest.mark.parametrize("spec", specs_of("extra", ScoreBounds.name), ids=lambda spec: spec.privacy.neighbours)
def test_a_record_drives_the_weights_of_bounds_apart_as_far_as_said(spec: Any) -> None:
    """Kills: an exponent of the bound's draw that is 1% too large; a row that moves one cluster where it moves two."""
    assert not weights_finding(spec).broken
    assert weights_finding(spec).found > 0.999 * weights_finding(spec).claim
    assert weights_finding(spec, times=1.01).broken


@pytest.mark.parametrize(("change", "rows"), [("added", 1), ("added", 3), ("either", 2)])
def test_what_is_drawn_is_what_it_costs(change: Change, rows: int) -> None:
    """Kills: a share of mu² that is not what was drawn; two regressions priced as one; a wrong unit of the noise.

    mu from the scales that the sampler was asked for, and from a record that goes through the real sums.
    """
    mechanism = GaussianGram.for_budget(problem_of(change, rows, False, "y ~ a", "y ~ 1"), BUDGET)
    meats, noise = mechanism.meats, RecordedZeros()
    assert isinstance(meats, ClusterMeats)
    scores = plain_scores(meats)
    scales = tuple((SCORE_STEPS,) * width for width in scores.widths)
    long = [(1.0, 0, 1.0, g) for g in range(2 * rows) for _ in range(5 if g < rows else 6)]
    more, less = [(1.0, 0, 1.0, g) for g in range(rows)], [(1.0, 0, -1.0, rows + g) for g in range(rows)]
    sides = [summed(scores, long + (less if change == "either" else [])), summed(scores, long + more)]
    radii = [math.ceil(6 * math.sqrt(width) * SCORE_STEPS * (1 + 1e-5)) for width in scores.widths]
    maps = [ScoreMap(*each) for each in zip(scores.axes, scales, scores.clips, radii, strict=True)]
    meats.release_beside(sides[0].totals(), noise)
    count, *beside = noise.asked
    meats.release_meats(sides[0].grams(scales, radii), maps, noise)
    drawn = noise.asked[1 + len(beside) :]
    squared = {"meats": 0.0, "totals": 0.0, "count": (rows * SCORE_STEPS / count.scale) ** 2, "squares": 0.0}
    for at, width in enumerate(scores.widths):
        change_of = np.subtract(*(np.array(each.grams(scales, radii).reveal(at), dtype=float) for each in sides[::-1]))
        i, j = np.triu_indices(width)
        assert (drawn[2 * at].count, drawn[2 * at + 1].count) == (width, width * (width - 1) // 2)
        std = np.where(i == j, drawn[2 * at].scale, drawn[2 * at + 1].scale)
        squared["meats"] += float(((change_of / std) ** 2).sum())
        sizes = np.subtract(*(np.array(each.totals().reveal(at)[0], dtype=float) for each in sides[::-1]))
        squared["totals"] += float(((sizes / beside[2 * at].scale) ** 2).sum())
        squared["squares"] += (rows * SCORE_STEPS / beside[2 * at + 1].scale) ** 2
    parts = {name: part * meats.mu**2 for name, part in PARTS.items()}
    for name, most in parts.items():
        assert squared[name] <= most * (1 + 1e-9), name
    assert squared["meats"] > 0.99 * parts["meats"]
    assert squared["count"] == pytest.approx(parts["count"])
    assert squared["squares"] == pytest.approx(parts["squares"])
    assert meats.mu**2 / (meats.mu**2 + mechanism.mu**2) == pytest.approx(0.2, rel=1e-9)
    assert precise_delta(math.hypot(mechanism.mu, math.sqrt(sum(parts.values()))), 1.0) <= 1e-6
    (event,) = mechanism.events()
    assert isinstance(event, Gaussian)
    assert event.mu >= math.hypot(mechanism.mu, meats.mu)


def test_the_noise_is_gaussian_of_its_size() -> None:
    """Rejects 0.7 and 1.3 times the scale; false alarms: 1e-7."""
    meats = ClusterMeats.at(problem_of("added", 1, True), 0.5)
    scores = plain_scores(meats)
    none, scales = summed(scores, []), ((SCORE_STEPS,) * 2,)
    by = ScoreMap(scores.axes[0], scales[0], 1.0, 1 << 23)
    noise, drawn, stds = RecordedNoise(), [], meats.stds_beside()
    for _ in range(3000):
        (meat,) = meats.release_meats(none.grams(scales, [by.radius]), [by], noise)
        assert isinstance(meat.noise, ScoreNoise)
        shown = meat.matrix / (by.back[0, 0] ** 2 * meat.noise.std)
        beside = meats.release_beside(none.totals(), noise)
        drawn += [shown[0, 0], shown[0, 1] * math.sqrt(2), beside.count / stds["count"]]
        drawn += [beside.squares[0] / stds["squares"], beside.totals[0][1] / stds["totals"]]
    assert stats.kstest(drawn, "norm").pvalue > 1e-7
    for times in (0.7, 1.3):
        assert stats.kstest(np.array(drawn) * times, "norm").pvalue < 1e-6


def test_a_meat_without_noise_is_that_of_liang_and_zeger() -> None:
    """Kills: a shift that is not taken back, a scale or an extent on one side alone, a wrong unit of R or C."""
    rng = np.random.default_rng(1)
    rows = [(rng.uniform(-1, 1), int(rng.integers(2)), rng.uniform(-1, 1), int(rng.integers(40))) for _ in range(400)]
    meats = replace(ClusterMeats.at(problem_of("added", 1, False, "y ~ a + s"), 1.0), mu=math.inf)
    one, coefficients, clip = meats.asked.regressions[0], np.array([0.25, -0.5, 0.125, 0.0]), 0.75
    residual = Residual.of(meats.domain, coefficients, DOMAIN.width - 1, one.places(meats.domain))
    axes = ScoreAxes(one.regressors(meats.domain), (0, -200, 300, 700))
    scores = Scores(meats.domain, (residual,), (clip,), (axes,))
    scales = ((3 << 19, 1 << 19, 1 << 18, 5 << 17),)
    by = ScoreMap(axes, scales[0], clip, 1 << 27)
    exact = summed(scores, rows).grams(scales, [by.radius])
    (meat,) = meats.release_meats(
        exact, [by], type("", (), {"discrete_gaussian": lambda self, sigma, count: [0] * count})()
    )
    x = np.array([[1.0, row[0], row[1] == 0, row[1] == 1] for row in rows])
    r = np.clip(np.array([row[2] for row in rows]) - x @ coefficients, -clip, clip)
    sums = np.zeros((40, 4))
    np.add.at(sums, [row[3] for row in rows], x * r[:, None])
    assert meat.matrix == pytest.approx(sums.T @ sums, rel=1e-3, abs=1e-3)


def test_the_noise_of_terms_is_that_of_scores() -> None:
    """Kills: a covariance, or a standard deviation in a table, of another map. False alarms: below 1e-6 (five deviations)."""
    axes = ScoreAxes(replace(DOMAIN, columns=DOMAIN.columns[:1]), (0, -400))
    noise = ScoreNoise(0.7, ScoreMap(axes, (3 << 19, 1 << 19), 0.8, 1 << 24).back)
    rng, w = np.random.default_rng(1), np.array([0.3, -1.1])
    e = rng.normal(size=(40_000, 2, 2)) * 0.7 / math.sqrt(2)
    drawn = noise.back @ ((e + e.transpose(0, 2, 1)) / math.sqrt(2)) @ noise.back.T
    assert np.cov((drawn @ w).T) == pytest.approx(noise.along(w, np.zeros((2, 2))), rel=0.05)
    middle, half = np.array([1.0, 0.4]), np.array([0.0, 2.0])
    back = np.array([[1.0, 0.0], [0.4, 2.0]])
    assert (back @ drawn @ back.T).std(axis=0) == pytest.approx(noise.congruence_std(middle, half), rel=0.03)


def test_axes_and_scales_follow_from_what_is_released() -> None:
    regressors = replace(DOMAIN, columns=DOMAIN.columns[:2])
    axes = axes_of(regressors, np.array([[100.0, -30.0, 60.0, -2.0]] * 4))
    assert axes.shifts == (0, -307, 614, 0)
    assert axes.extents == pytest.approx((1.0, 1 + 307 / 1024, 614 / 1024, 1.0))
    assert axes_of(regressors, -np.eye(4)).shifts == (0, 0, 0, 0)
    assert scales_of((50.0, -3.0), 100.0) == (SCORE_STEPS // 2, LEAST_SCALE)
    assert scales_of((50.0,), -100.0) == (50 * SCORE_STEPS,)


def test_a_bound_has_more_room_the_less_noise_there_is() -> None:
    assert with_headroom(10, lambda radius: 0.0) == EDGES[10 + MOST_HEADROOM]
    assert with_headroom(10, lambda radius: 1.0) == EDGES[12]
    assert with_headroom(10, lambda radius: radius / EDGES[15] * 0.45) == EDGES[15]
    assert with_headroom(len(EDGES) - 1, lambda radius: 0.0) == EDGES[-1]


def test_the_bound_leaves_about_what_it_is_asked_to() -> None:
    """Kills: a target in other units, a law that is upside down. 200 draws of a law whose cells are 25% apart."""
    finder = ScoreBounds.for_budget(problem_of(), Budget(20.0))
    scores = plain_scores(ClusterMeats.at(problem_of(), 1.0))
    rng, scales = np.random.default_rng(3), ((SCORE_STEPS,) * 2,)
    sums = np.rint(rng.normal(size=(3, 4000)) * 5 * SCORE_STEPS).astype(np.int64)
    norms = SummedClusters(scores, sums).norms(scales)
    size, excess = math.sqrt(2) * SCORE_STEPS, norms.reveal_excess(0)
    edges = [finder.release(norms, [size], RecordedNoise())[0] for _ in range(200)]
    taken = [(excess[edge - 1] / size, excess[edge] / size) for edge in edges]
    assert sum(low >= finder.target / 2 and high <= 2 * finder.target for low, high in taken) > 150


def test_the_ledger_is_charged_for_all_of_it() -> None:
    """Kills: a bound that is found for nothing; meats that are not in the event."""
    spec = load_spec(conf_of(CONFS["gaussian errors clusters"]))
    clip, bound, whole = charged_events(spec, choose(spec))
    assert isinstance(clip, Exponential) and isinstance(bound, Exponential)  # noqa: PT018
    assert clip.epsilon * clip.count >= float(CLIP_SHARE) * (1 - 1e-9)
    assert bound.epsilon * bound.count >= float(SCORE_SHARE) * (1 - 1e-9)
    assert isinstance(whole, Gaussian)
    hc1 = load_spec(conf_of(CONFS["gaussian errors"]))
    assert whole.mu < charged_events(hc1, choose(hc1))[1].mu  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["count_std", "squares_std", "totals_std"])
def test_noise_beside_the_meats_is_priced_from_its_scale(name: str) -> None:
    """Kills: a manifest with a quieter number of clusters that passes."""
    spec = load_spec(conf_of(CONFS["gaussian errors clusters"]))
    mechanism, problem = choose(spec), Problem(spec.domain, spec.records, errors=spec.asked_errors)
    assert isinstance(mechanism, GaussianGram)
    facts = {**mechanism.facts(), "noise": {**vars(mechanism.noise)}}
    beside = facts["errors"]["beside"]
    assert GaussianGram.from_facts(problem, Facts(facts, ""), spec.release_budget).cost().within(spec.release_budget)
    facts["errors"] = {**facts["errors"], "beside": {**beside, name: beside[name] / 4}}
    found = GaussianGram.from_facts(problem, Facts(facts, ""), spec.release_budget)
    assert not found.cost().within(spec.release_budget)
    assert "errors: another split of mu²" in found.differences(Facts(facts, ""))


REFUSED = {
    "no column": ({"errors": {"cluster": ""}, "regressions": ["income ~ age"]}, r"errors.*hc1 or \{cluster: column\}"),
    "another key": ({"errors": {"cluster": "g", "by": "h"}, "regressions": ["income ~ age"]}, "cluster: column"),
    "a number": ({"errors": {"cluster": 3}, "regressions": ["income ~ age"]}, "cluster: column"),
    "by group": (
        {"errors": {"cluster": "g"}, "regressions": ["income ~ age"], "group_by": ["sex"], "groups": ["F"]},
        "not for releases by group",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_apply_is_refused(what: str) -> None:
    keys, message = REFUSED[what]
    with pytest.raises(Exception, match=message):
        load_spec(variant(BASE, release={**BASE["release"], **keys}))


def test_clusters_are_people_only_where_the_unit_is_their_column() -> None:
    """Kills: the sensitivity of a person for clusters that several people share."""
    people, others = (
        load_spec(conf_of(CONFS[name])).asked_errors
        for name in ("gaussian errors clusters of people", "gaussian errors clusters person")
    )
    assert people is not None and others is not None  # noqa: PT018
    assert people.clusters is not None and others.clusters is not None  # noqa: PT018
    assert (people.clusters.whole, others.clusters.whole) == (True, False)
