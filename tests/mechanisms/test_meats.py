"""The meats of regressions: what one record moves, what is drawn, and what both cost together with the release."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpspark.audit.confs import specs_of
from dpspark.audit.extras.meat import meat_finding
from dpspark.audit.extras.residual_bounds import weights_finding
from dpspark.audit.sensitivity_attack import DOMAINS
from dpspark.audit.tables import TableRows
from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.core.facts import Facts
from dpspark.core.records import Change, Records
from dpspark.exact.residuals import ExactSums, Residual, meat_steps
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.errors.asked import asked_of
from dpspark.mechanisms.errors.clip import CLIP_SHARE, ResidualBounds
from dpspark.mechanisms.errors.meat import Meats
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.regression.gram_ridge import GramRidge
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Gaussian
from dpspark.privacy.sensitivity import Sensitivity, meats_together, residual_meat
from dpspark.spec.charges import charged_events
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from tests.manifests import BASE, CONFS, conf_of, variant
from tests.mechanisms.test_gaussian import precise_delta
from tests.noises import RecordedNoise

NUMBERS = tuple(Numeric(name, -1.0, 1.0) for name in "abcde")
BOX = Domain((*NUMBERS[:2], Categorical("s", ("f", "m")), Numeric("y", -1.0, 1.0)), "midpoint")
WIDE = Domain((*NUMBERS, Numeric("y", -1.0, 1.0)), "midpoint")
BALL = Domain((*NUMBERS[:2], Numeric("y", -1.0, 1.0)), "midpoint", RowNorm("cap", 1.2))
BUDGET = Budget(1.0, 1e-6)


def problem_of(domain: Domain, change: Change = "added", rows: int = 1, *texts: str, share: float = 0.1) -> Problem:
    asked = asked_of(domain, share, texts or ("y ~ .",))
    return Problem(domain, Records(change, rows), errors=asked)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", DOMAINS)
def test_a_record_moves_a_meat_as_far_as_said(neighbours: str, name: str) -> None:
    """Kills: a sensitivity of the meat that is 1% too small, one of an added row for a replaced one, √m for m rows."""
    only = {name: DOMAINS[name]}
    found = meat_finding("meat", neighbours, only)
    assert not found.broken
    assert found.found > found.claim * 0.995

    def less(domain: Domain, change: Change, rows: int) -> Sensitivity:
        claimed = residual_meat(domain, change, rows)
        return replace(claimed, value=claimed.value * 0.99)

    assert meat_finding("meat", neighbours, only, less).broken


@pytest.mark.parametrize("spec", specs_of("extra", ResidualBounds.name), ids=lambda spec: spec.privacy.neighbours)
def test_a_record_drives_the_weights_of_clips_apart_as_far_as_said(spec: Any) -> None:
    """Kills: an exponent of the clip's draw that is 1% too large; a row that is counted twice."""
    assert not weights_finding(spec).broken
    assert weights_finding(spec).found > 0.999 * weights_finding(spec).claim
    assert weights_finding(spec, times=1.01).broken


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("mechanism", [GaussianGram, GramRidge])
def test_meats_and_the_matrix_are_of_the_very_same_rows(
    mechanism: type[GaussianGram] | type[GramRidge], epsilon: float
) -> None:
    """Kills: R²/2 times a matrix of finer values, added to a meat of coarser ones: an error that does not fall with n."""
    problem = problem_of(BOX)
    found = mechanism.for_budget(problem, Budget(epsilon, 1e-6))
    meats = found.paid_meats()
    assert meats is not None
    assert found.domain.bits == meats.domain.bits < BOX.most_bits


def corner(domain: Domain, regression: int, meats: Meats, change: Change, rows: int) -> np.ndarray:
    """The change of one meat, in units of R²/2, by a record at the upper bounds whose residual is 0, or comes beyond R."""
    one = meats.asked.regressions[regression]
    places = one.places(meats.domain)
    at = meats.domain.terms.index(one.formula.response)
    residual = Residual.of(meats.domain, np.zeros(len(places)), at, places)
    row = [column.categories[-1] if isinstance(column, Categorical) else column.upper for column in domain.columns]
    tables = [[] if change == "added" else [(*row[:-1], 0.0)] * rows, [(*row[:-1], 1.0)] * rows]
    sums = [
        TableRows.of(meats.domain, table).residual_grams(meats.domain, [residual], [1.0]).reveal() for table in tables
    ]
    return (np.array(sums[1], dtype=float) - np.array(sums[0], dtype=float)) / meat_steps(meats.domain)


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("domain", [BOX, WIDE], ids=["box", "wide"])
@pytest.mark.parametrize("rows", [1, 3])
def test_what_is_drawn_is_what_it_costs(domain: Domain, change: Change, rows: int) -> None:
    """Kills: a share of mu² that is not what was drawn; two regressions priced as one; a wrong unit of the noise.

    mu of the meats from the scales that the sampler was asked for, and from a record that goes through the real sums.
    """
    problem = problem_of(domain, change, rows, "y ~ .", "y ~ a", share=0.2)
    mechanism = GaussianGram.for_budget(problem, BUDGET)
    meats, noise = mechanism.meats, RecordedNoise()
    assert meats is not None
    widths = [len(one.terms(domain)) for one in meats.asked.regressions]
    nothing = ExactSums([0] * sum(width * (width + 1) // 2 for width in widths))
    meats.release(nothing, [1.0, 0.5], noise)
    squared = 0.0
    for at, width in enumerate(widths):
        diagonal, off = noise.asked[2 * at : 2 * at + 2]
        assert (diagonal.count, off.count) == (width, width * (width - 1) // 2)
        i, j = np.triu_indices(width)
        std = np.where(i == j, diagonal.scale, off.scale) / meat_steps(meats.domain)
        squared += float(((corner(domain, at, meats, change, rows) / std) ** 2).sum())
    # To the 1% that a sensitivity must not be short of; corners of a box with a replaced row are exact.
    assert math.sqrt(squared) == pytest.approx(meats.mu, rel=1e-9)
    assert meats.mu**2 / (meats.mu**2 + mechanism.mu**2) == pytest.approx(0.2, rel=1e-9)
    assert precise_delta(math.hypot(mechanism.mu, math.sqrt(squared)), 1.0) <= 1e-6
    (event,) = mechanism.events()
    assert isinstance(event, Gaussian)
    assert event.mu >= math.hypot(mechanism.mu, meats.mu)


def test_a_regression_pays_for_its_meat() -> None:
    """Kills: statistics that keep all of mu² beside a meat."""
    domain = replace(WIDE, response="y")
    asked = Problem(domain, Records("added"), errors=asked_of(domain, 0.3, None))
    with_meat, without = (GramRidge.for_budget(each, BUDGET) for each in (asked, Problem(domain, Records("added"))))
    statistics, meats = with_meat.statistics, with_meat.paid_meats()
    assert meats is not None
    assert statistics.mu == pytest.approx(math.sqrt(0.7) * without.statistics.mu, rel=1e-6)
    assert meats.mu == pytest.approx(math.sqrt(0.3) * without.statistics.mu, rel=1e-6)
    assert statistics.total_mu == pytest.approx(without.statistics.mu, rel=1e-6)
    assert precise_delta(math.hypot(statistics.mu, meats.mu), 1.0) <= 1e-6


def test_meats_together_are_one_vector() -> None:
    each = [residual_meat(BOX, "added"), residual_meat(BALL, "replaced", 2)]
    assert meats_together(each) == pytest.approx(math.hypot(*(one.value for one in each)), rel=1e-12)
    assert meats_together(each) >= math.hypot(*(one.value for one in each))


def test_the_noise_is_gaussian_of_its_size() -> None:
    """Rejects 0.7 and 1.3 times the scale, of 21,000 draws; false alarms: 1e-7."""
    meats = Meats.at(problem_of(WIDE, "added", 1, "y ~ ."), 0.5)
    drawn, noise, upper = [], RecordedNoise(), np.triu_indices(6)
    for _ in range(1000):
        (meat,) = meats.release(ExactSums([0] * 21), [0.8], noise)
        stds = np.where(upper[0] == upper[1], meat.noise.diagonal_std, meat.noise.off_diagonal_std)
        drawn += (meat.matrix[upper] / stds).tolist()
    assert stats.kstest(drawn, "norm").pvalue > 1e-7
    for times in (0.7, 1.3):
        assert stats.kstest(np.array(drawn) * times, "norm").pvalue < 1e-12


def test_a_meat_without_noise_is_the_sum_of_squared_residuals() -> None:
    """Kills: a wrong unit of R, of the grid, or of the half that is taken off and put back."""
    rng = np.random.default_rng(1)
    rows = [(*rng.uniform(-1, 1, 2), str(rng.choice(["f", "m"])), rng.uniform(-1, 1)) for _ in range(300)]
    meats = replace(Meats.at(problem_of(BOX, "added", 1, "y ~ a + s"), 1.0), mu=math.inf)
    one = meats.asked.regressions[0]
    places, coefficients, clip = one.places(BOX), np.array([0.25, -0.5, 0.125, 0.0]), 0.75
    residual = Residual.of(meats.domain, coefficients, BOX.width - 1, places)
    sums = TableRows.of(meats.domain, rows).residual_grams(meats.domain, [residual], [clip])
    noise = type("Silent", (), {"discrete_gaussian": lambda self, sigma, count: [0] * count})()
    (meat,) = meats.release(sums, [clip], noise)
    x = np.array([[1.0, row[0], row[2] == "f", row[2] == "m"] for row in rows])
    r = np.clip(np.array([row[3] for row in rows]) - x @ coefficients, -clip, clip)
    expected = (x * (r**2 - clip**2 / 2)[:, None]).T @ x
    assert meat.matrix == pytest.approx(expected, abs=300 * clip**2 * 2.0**-12)


@pytest.mark.parametrize("kind", [name for name in CONFS if "errors" in name])
def test_it_is_read_back(kind: str) -> None:
    """Kills: a manifest whose meats are priced from what it claims, not from its scales."""
    spec = load_spec(conf_of(CONFS[kind]))
    mechanism, problem = choose(spec), Problem(spec.domain, spec.records, errors=spec.asked_errors)
    facts = {**mechanism.facts()}
    if isinstance(mechanism, GaussianGram):
        facts["noise"] = {**vars(mechanism.noise)}
    found = type(mechanism).from_facts(problem, Facts(facts, ""), spec.release_budget)
    assert found.paid_meats() is not None
    assert found.cost().within(spec.release_budget)
    quieter = {**facts, "errors": {**facts["errors"]}}
    quieter["errors"]["regressions"] = [
        {**one, "diagonal_std": one["diagonal_std"] / 2, "off_diagonal_std": one["off_diagonal_std"] / 2}
        for one in facts["errors"]["regressions"]
    ]
    short = type(mechanism).from_facts(problem, Facts(quieter, ""), spec.release_budget)
    assert not short.cost().within(spec.release_budget)


def test_the_ledger_is_charged_for_all_of_it() -> None:
    """Kills: a clip that is found for nothing; meats that are not in the event."""
    plain = load_spec(conf_of({}))
    spec = load_spec(conf_of(CONFS["gaussian errors"]))
    clip, whole = charged_events(spec, choose(spec))
    (alone,) = charged_events(plain, choose(plain))
    assert clip.epsilon * clip.count >= float(CLIP_SHARE) * (1 - 1e-9)  # type: ignore[union-attr]
    assert isinstance(whole, Gaussian) and isinstance(alone, Gaussian)  # noqa: PT018
    assert 0.97 * alone.mu < whole.mu < alone.mu


REFUSED = {
    "errors_share without errors": ({"errors_share": 0.2}, "errors_share is for release.errors"),
    "regressions that add nothing": ({"regressions": ["income ~ age"]}, "every column is there already"),
    "no regressions": ({"errors": "hc1"}, "needs release.regressions"),
    "an unknown column": ({"errors": "hc1", "regressions": ["income ~ height"]}, "no column 'height'"),
    "one regression twice": ({"errors": "hc1", "regressions": ["income ~ age", "income ~ age + 1"]}, "same regression"),
    "by group": (
        {"errors": "hc1", "regressions": ["income ~ age"], "group_by": ["sex"], "groups": ["F"]},
        "not for releases by group",
    ),
    "a share of everything": (
        {"errors": "hc1", "regressions": ["income ~ age"], "errors_share": 1.0},
        "part of the budget",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_apply_is_refused(what: str) -> None:
    keys, message = REFUSED[what]
    with pytest.raises(Exception, match=message):
        load_spec(variant(BASE, release={**BASE["release"], **keys}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": {"name": "laplace"}, "privacy": {"epsilon": 1.0}}, "not for mechanism laplace"),
        ({"mechanism": {"name": "wishart"}}, "not for mechanism wishart"),
        ({"weight": {"column": "w", "upper": 5}}, "not proved for weighted rows"),
    ],
)
def test_mechanisms_and_weights_without_a_proof_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        load_spec(variant(conf_of(CONFS["gaussian errors"]), **changes))


def test_a_conf_without_them_has_the_hash_it_had() -> None:
    """Kills: a new key that changes the hash of every conf."""
    assert not {"errors", "errors_share", "regressions"} & set(load_spec(BASE).public()["release"])
