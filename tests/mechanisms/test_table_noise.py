"""The noise that is left of matrices with products, and in turned coordinates: against dense covariances and draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpspark.mechanisms.gram.table_noise as table_noise
from dpspark.analysis.covariance import covariance_of, covariance_std
from dpspark.analysis.ols import Moments
from dpspark.core.domain import Domain
from dpspark.core.known import Known
from dpspark.core.tables import Tables
from dpspark.mechanisms.gram.coordinates import back_transform, centre_and_scale, congruence_of, turn_of, unscale
from dpspark.mechanisms.gram.known_noise import KnownNoise
from dpspark.mechanisms.gram.noisy import AdditiveNoise, SamplingNoise
from dpspark.mechanisms.gram.turned_noise import TurnedNoise, turned
from tests.core.test_product_tables import COLUMNS, domain_with, random_rows

OF = [("s", "x"), ("s", "r"), ("r", "y")]
BASES = {
    "spherical": AdditiveNoise(2.0, 2.0),
    "symmetric": AdditiveNoise(3.0, 3 / 2**0.5),
    "counted": AdditiveNoise(2.0, 2.0, True),
}


class Dense:
    """Every entry's noise as a column: what the projection and the turn make of it."""

    def __init__(self, domain: Domain, base: AdditiveNoise):
        width = domain.width
        at = np.triu_indices(width)
        units = np.zeros((len(at[0]), width, width))
        units[range(len(at[0])), at[0], at[1]] = units[range(len(at[0])), at[1], at[0]] = 1.0
        self.variances = np.where(at[0] == at[1], base.diagonal_std**2, base.off_diagonal_std**2)
        if base.count_is_exact:
            self.variances[0] = 0.0
        assert domain.known is not None
        self.projected = domain.known.project(units, base.ratio, base.count_is_exact)

    def spread(self, turn: np.ndarray, factor: np.ndarray) -> np.ndarray:
        images = turn @ self.projected @ turn.T @ factor
        return np.einsum("n,nij,nkj->ik", self.variances, images, images)

    def std(self, back: np.ndarray) -> np.ndarray:
        return np.sqrt(np.einsum("n,nij->ij", self.variances, (back @ self.projected @ back.T) ** 2))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("nulls", ["drop_row", "midpoint"])
@pytest.mark.parametrize("base", BASES)
def test_second_moments(base: str, nulls: str, wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: noise that was taken off and is still in the errors, or the other way round; another way for wide matrices."""
    if wide:
        monkeypatch.setattr(table_noise, "WIDEST_KERNEL", 2)
    domain, law = domain_with(OF, nulls), BASES[base]
    noise, dense, rng = turned(law, domain).given(domain.known), Dense(domain, law), np.random.default_rng(2)
    turn = turn_of(domain)
    assert turn is not None
    assert isinstance(noise, TurnedNoise)
    zeros = np.zeros((domain.width, domain.width))
    for at in (np.arange(domain.width), np.array([0, 3, 7, 9])):
        part, factor = noise.only(at.tolist()), rng.normal(size=(3, len(at), 2))
        wanted = [dense.spread(turn[at], one) for one in factor]
        assert part.spread(factor, zeros) == pytest.approx(np.stack(wanted), abs=1e-9)
        assert part.along(factor[0, :, 0], zeros) == pytest.approx(dense.spread(turn[at], factor[0, :, :1]), abs=1e-9)
    assert noise.entry_std(domain, zeros) == pytest.approx(dense.std(congruence_of(domain)), rel=1e-9, abs=1e-9)
    inverse = np.stack([np.eye(3), 2 * np.eye(3)])
    at = np.array([[0, 1, 9], [0, 4, 10]])
    found = noise.spread_at(zeros, at, inverse)
    for one, places, h in zip(found, at, inverse, strict=True):
        factor = np.zeros((domain.width, 3))
        factor[places] = np.linalg.cholesky(h)
        assert one == pytest.approx(dense.spread(turn, factor)[np.ix_(places, places)], abs=1e-9)


def test_without_products_it_is_the_noise_of_blocks() -> None:
    """Kills: a kernel or a variance that is not that of the closed form."""
    domain = Domain(COLUMNS)
    assert isinstance(domain.known, Known)
    law, every, factor = (
        AdditiveNoise(3.0, 2.0),
        tuple(range(domain.width)),
        np.random.default_rng(4).normal(size=(9, 2)),
    )
    zeros = np.zeros((domain.width, domain.width))
    factor = np.vstack([factor, np.ones((domain.width - 9, 2))])
    for totals in (True, False):
        plain = KnownNoise(law, Known(domain.width, domain.known.blocks, True, totals), every)
        tables = table_noise.TableNoise(law, Tables(domain.parts, totals), every)
        assert tables.spread(factor, zeros) == pytest.approx(plain.spread(factor, zeros), abs=1e-9)
        assert tables.entry_std(domain, zeros) == pytest.approx(plain.entry_std(domain, zeros), abs=1e-9)


def test_published_noise_of_entries_is_that_of_independent_ones() -> None:
    """Kills: a noise_std of products in original units that forgets what they lean on, or that twice the same entry is one."""
    domain, law = domain_with(OF), AdditiveNoise(3.0, 2.0)
    rng = np.random.default_rng(6)
    drawn = law.draw(np.zeros((domain.width, domain.width)), rng, 20_000)
    back = congruence_of(domain)
    simulated = (back @ drawn @ back.T).std(axis=0)
    # The standard deviation of 20,000 draws is known to 0.5%: 6 of them, and 300 entries.
    assert simulated == pytest.approx(law.entry_std(domain, np.zeros_like(drawn[0])), rel=0.03)


@pytest.mark.parametrize("base", BASES)
def test_draws_and_covariances(base: str) -> None:
    """Kills: draws without the facts or the turn, a first-order error of covariances in wrong coordinates."""
    domain, law, rng = domain_with(OF), BASES[base], np.random.default_rng(8)
    z = random_rows(domain, rng, 3000)
    moments = Moments.of(domain, 1000.0 * z.T @ z, law).given(domain.known)
    drawn = moments.noise.draw(moments.scaled, rng, 6000)
    if law.count_is_exact:
        assert np.abs(drawn[:, 0, 0]).max() == 0
    moved = np.stack([covariance_of(moments.scaled + one) for one in drawn]).std(axis=0)
    found = covariance_std(moments)
    some = found > 1e-3 * found.max()
    # 6,000 draws tell a standard deviation to 0.9%: 6 of them.
    assert moved[some] == pytest.approx(found[some], rel=0.056)


def test_noise_that_grows_with_the_matrix_turns_with_it() -> None:
    """Kills: a ridge of I in coordinates where it is A Aᵀ."""
    domain, law = domain_with(OF), SamplingNoise(500.0, 40.0)
    rng = np.random.default_rng(9)
    z = random_rows(domain, rng, 2000)
    moments, turn = Moments.of(domain, z.T @ z, law), turn_of(domain)
    assert turn is not None
    w = rng.normal(size=domain.width)
    wanted = turn @ law.along(turn.T @ w, z.T @ z) @ turn.T
    assert moments.noise.along(w, moments.scaled) == pytest.approx(wanted)
    places = [0, 2, 9]
    part = moments.noise.only(places).along(w[:3], moments.scaled[np.ix_(places, places)])
    whole = np.zeros(domain.width)
    whole[places] = w[:3]
    assert part == pytest.approx(moments.noise.along(whole, moments.scaled)[np.ix_(places, places)])


def test_coordinates() -> None:
    """Kills: a product that leans on the intercept, digits that are lost on the way to original units."""
    domain: Any = domain_with(OF)
    turn = turn_of(domain)
    assert turn is not None
    back = back_transform(*centre_and_scale(domain)) @ turn
    assert back == pytest.approx(congruence_of(domain))
    z = random_rows(domain, np.random.default_rng(1), 50)
    raw = z @ congruence_of(domain).T
    x, s = raw[:, domain.terms.index("x")], raw[:, domain.terms.index("s[b]")]
    assert raw[:, domain.terms.index("s[b]:x")] == pytest.approx(s * x)
    q = np.rint(z * domain.one).astype(object)
    upper = (q.T @ q)[np.triu_indices(domain.width)]
    assert unscale(domain, tuple(upper)) == pytest.approx(raw.T @ raw, rel=1e-12)
