"""What releases cost together, against dp-accounting, closed forms and sums by hand."""

from __future__ import annotations

import math
import time
from decimal import Decimal

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dpspark.privacy.budget import Budget, analytic_mu, gaussian_delta, zcdp_delta, zcdp_epsilon
from dpspark.privacy.composition import by_losses, compose, gaussian_epsilon, one_by_one, total_rho, within
from dpspark.privacy.events import (
    Approximate,
    Charge,
    Claim,
    Concentrated,
    Event,
    Exponential,
    Gaussian,
    Pure,
    from_json,
    to_json,
)

MU = analytic_mu(1.0, 1e-9)
MONTHLY = Charge(Budget(1.0, 1e-9), (Gaussian.of(MU, 1e-18),))


def test_twelve_monthly_gaussians() -> None:
    """Kills: epsilons added up; mu added instead of mu²; the noise multiplier of a part instead of the whole."""
    cost = compose([MONTHLY] * 12, Decimal("2.4e-8"))
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(1 / MU), 12)
    assert float(cost.epsilon) == pytest.approx(accountant.get_epsilon(2.4e-8), rel=1e-6)
    assert float(cost.epsilon) == pytest.approx(3.37775, abs=1e-4)
    assert float(cost.delta) == 2.4e-8
    assert float(one_by_one([MONTHLY] * 12, Decimal("2.4e-8")).epsilon) == 12


@pytest.mark.parametrize("mu", [1e-3, 0.2, 1.0, 8.0, 300.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-30])
def test_gaussian_epsilon_is_the_least_that_holds(mu: float, delta: float) -> None:
    found = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, found) <= delta
    assert found <= 1e-9 or gaussian_delta(mu, found * (1 - 1e-5)) > delta


def exact_delta(epsilon: float, mu: float, each: float, count: int) -> float:
    """One Gaussian and `count` randomised responses, without any grid: the sum over how many of them went one way."""
    share = 1 / (1 + math.exp(-each))

    def gaussian(at: float) -> float:  # for a negative epsilon: 1 − e^at + e^at·delta(−at)
        return gaussian_delta(mu, at) if at >= 0 else -math.expm1(at) + math.exp(at) * gaussian_delta(mu, -at)

    return sum(binom.pmf(j, count, share) * gaussian(epsilon - (2 * j - count) * each) for j in range(count + 1))


@pytest.mark.parametrize(("each", "count"), [(0.1, 30), (0.0333, 5), (1.0, 3)])
def test_pld_of_a_mixture_is_pessimistic_and_close(each: float, count: int) -> None:
    """Kills: a grid rounded down, a lost count, a Gaussian left out."""
    for delta in (1e-4, 1e-8, 1e-11):
        found = by_losses((Gaussian.of(0.5, 0.0), Pure(each, count)), delta)
        assert exact_delta(found, 0.5, each, count) <= delta
        assert exact_delta(found - 1e-4 * count - 0.01, 0.5, each, count) > delta


def test_delta_of_approximate_events_adds_up() -> None:
    """Kills: an (epsilon, delta) event taken as pure."""
    events = (Gaussian.of(0.5, 0.0), *[Approximate(0.5, 1e-9)] * 4)
    assert by_losses(events, 3.9e-9) == math.inf
    assert by_losses(events, 1e-8) > by_losses((Gaussian.of(0.5, 0.0), Pure(0.5, 4)), 1e-8)
    for delta, finite in ((3.9e-9, False), (1e-8, True)):
        assert within([Charge(Budget(9e9, 1e-7), events)], Decimal(100), Decimal(repr(delta))) is finite


def test_samplers_take_their_part_of_delta() -> None:
    """Kills: Ση left out of the composition, or taken at epsilon 0."""
    delta, distance = 1e-8, 1e-12
    events = (*[Gaussian.of(0.2, distance)] * 12,)
    found = by_losses(events, delta)
    mu = 0.2 * math.sqrt(12)
    assert gaussian_delta(mu, found) + (1 + math.exp(found)) * 12 * distance <= delta
    assert found > gaussian_epsilon(mu, delta - 2 * 12 * distance) + 1e-4
    assert by_losses((*[Gaussian.of(0.2, 1e-9)] * 12,), delta) == math.inf  # they would take all of it
    coarse = Charge(Budget(1.0, 1e-9), (Gaussian.of(0.2, 1.0),))  # no claim of nearness: zCDP alone
    assert compose([coarse] * 12, Decimal("1e-8")).how == "zCDP"


def test_zcdp_against_another_accountant() -> None:
    """Kills: epsilon² for an exponential mechanism's epsilon²/8, or less than a pure mechanism's epsilon²/2."""
    charges = [
        Charge(Budget(9.0, 1e-9), (Exponential(0.1, 40), Gaussian.of(0.3, 1.0))),
        Charge(Budget(rho=0.02), (Concentrated(0.02),)),
        Charge(Budget(0.1), (Pure(0.1),)),
    ]
    rho = 40 * 0.1**2 / 8 + 0.3**2 / 2 + 0.02 + 0.1**2 / 2
    assert float(total_rho(charges)) == pytest.approx(rho, rel=1e-12)
    cost = compose(charges, Decimal("1e-6"))
    accountant = RdpAccountant([1 + i / 20 for i in range(1, 4000)])
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    assert cost.how == "zCDP"
    assert float(cost.epsilon) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)
    assert zcdp_delta(rho, float(cost.epsilon)) <= 1e-6 * (1 + 1e-9)


def test_large_pure_epsilons_cost_no_more_than_themselves_in_rho() -> None:
    assert Pure(100.0).rho == 100.0
    assert Exponential(100.0, 2).rho == 200.0
    assert math.isinf(by_losses((Pure(800.0), Gaussian.of(1.0, 0.0)), 1e-6))  # past a double: another way is taken


def test_bare_claims_are_added_and_the_rest_composed() -> None:
    """Kills: a claim without events composed as if it were known what ran; its delta forgotten."""
    bare = Charge.of(Budget(0.5, 1e-9))
    assert bare.events == Charge.of(Budget(0.5, 1e-9), []).events == (Claim(0.5, 1e-9),)
    cost = compose([bare] * 2 + [MONTHLY] * 12, Decimal("2.6e-8"))
    assert float(cost.epsilon) == pytest.approx(1.0 + gaussian_epsilon(MU * math.sqrt(12), 2.4e-8), rel=1e-6)
    assert compose([bare] * 100, Decimal("1e-3")).epsilon == 50


def test_without_delta_there_are_sums_alone() -> None:
    pure = Charge(Budget(0.1, 0.0), (Pure(0.1),))
    cost = compose([pure] * 3, Decimal(0))
    assert (cost.epsilon, cost.delta, cost.how) == (Decimal("0.3"), 0, "basic")
    assert not within([MONTHLY], Decimal(100), Decimal(0))


positive = st.floats(1e-3, 5.0)
kinds: st.SearchStrategy[Event] = st.one_of(
    st.builds(Gaussian.of, st.floats(1e-3, 2.0), st.sampled_from([0.0, 1e-18, 1e-9, 1.0])),
    st.builds(Exponential, positive, st.integers(1, 5)),
    st.builds(Pure, positive, st.integers(1, 5)),
    st.builds(Approximate, positive, st.floats(1e-12, 1e-9)),
    st.builds(Claim, positive, st.floats(0.0, 1e-9)),
    st.builds(Concentrated, st.floats(1e-4, 0.5)),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(kinds, min_size=1, max_size=6), kinds)
def test_never_more_than_the_sum_and_never_less_for_more(events: list[Event], one_more: Event) -> None:
    """Kills: a way that loses an event. `within` and `compose` agree."""
    delta = Decimal("1e-6")
    charges = [Charge(claim(event), (event,)) for event in events]
    cost, sums = compose(charges, delta), one_by_one(charges, delta)
    assert cost.epsilon <= sums.epsilon
    assert within(charges, cost.epsilon, delta)
    more = compose([*charges, Charge(claim(one_more), (one_more,))], delta)
    assert more.epsilon >= cost.epsilon * Decimal("0.9999")


def claim(event: Event) -> Budget:
    if isinstance(event, Approximate | Claim):
        return Budget(event.epsilon, event.delta)
    if isinstance(event, Exponential | Pure):
        return Budget(event.epsilon * event.count, 0.0)
    return Budget(rho=event.rho)


def test_tens_of_mixed_releases_take_about_a_second() -> None:
    charges = [
        Charge(Budget(1.0, 1e-9), (Gaussian.of(0.18, 1e-18), Exponential(0.001 * i, 6), Approximate(0.01 * i, 1e-10)))
        for i in range(1, 41)
    ]
    compose([MONTHLY], Decimal("1e-6"))  # imports
    start = time.process_time()
    cost = compose(charges, Decimal("1e-6"))
    assert time.process_time() - start < 10  # about 1 s on a machine of its own
    assert cost.epsilon < 20


def test_a_charge_in_rho_is_what_was_asked() -> None:
    charge = Charge(Budget(rho=0.1), (Gaussian.of(math.sqrt(0.2) * (1 - 1e-9), 0.0),))
    assert total_rho([charge] * 3) == Decimal("0.3")
    assert float(compose([charge] * 3, Decimal("1e-6")).epsilon) < zcdp_epsilon(0.3, 1e-6)


def test_events_survive_the_ledger() -> None:
    events = (Gaussian.of(0.2, 1e-18), Exponential(0.1, 4), Pure(0.2), Approximate(1.0, 1e-9), Claim(1.0, 0.0))
    assert from_json(to_json(events)) == events
    assert to_json([Gaussian(5.0, 0.0)]) == '[{"event": "gaussian", "noise_multiplier": 5.0, "sampler_distance": 0.0}]'
