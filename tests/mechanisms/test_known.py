"""What is known exactly of a matrix: facts of real rows, the projection and its covariance against dense linear algebra."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.core.known import Known
from dpspark.exact.bounds import grid_rows, settle_nulls
from dpspark.mechanisms.gram.coordinates import back_transform, centre_and_scale
from dpspark.mechanisms.gram.noisy import AdditiveNoise, SamplingNoise

AGE, PAY = Numeric("age", 18.0, 98.0), Numeric("pay", 0.0, 1000.0)
SEX, RACE, ONE = Categorical("sex", ("F", "M")), Categorical("race", ("a", "b", "c")), Categorical("one", ("x",))
COLUMNS = {
    "two blocks": (AGE, SEX, PAY, RACE),
    "three blocks": (SEX, RACE, AGE, Categorical("s", tuple("pqrs"))),
    "one category": (AGE, ONE, RACE),
    "blocks alone": (SEX, RACE),
    "one block": (RACE, AGE, PAY),
}
LEVELS = {"totals": (True, True), "diagonal": (True, False), "zeros": (False, False)}
NOISES = {
    "spherical": AdditiveNoise(2.0, 2.0),
    "symmetric": AdditiveNoise(2.0 * 2**0.5, 2.0),
    "public count": AdditiveNoise(2.0, 2.0, count_is_exact=True),
    "laplace": AdditiveNoise(3.0, 3.0, law="laplace"),
}


def facts(known: Known) -> np.ndarray:
    """Every fact as a row of coefficients on the upper triangle, written down one by one."""
    upper = list(zip(*np.triu_indices(known.width), strict=True))
    at = {pair: i for i, pair in enumerate(upper)}
    found = []

    def fact(*parts: tuple[int, int, float]) -> None:
        row = np.zeros(len(upper))
        for i, j, factor in parts:
            row[at[min(i, j), max(i, j)]] += factor
        found.append(row)

    for block in known.blocks:
        for i, j in itertools.combinations(block, 2):
            fact((i, j, 1.0))
        for c in block if known.diagonal else ():
            fact((c, c, 1.0), (0, c, -1.0))
        for j in range(known.width) if known.totals else ():
            fact(*((c, j, 1.0) for c in block), (0, j, -1.0))
    return np.array(found)


def dense(known: Known, noise: AdditiveNoise) -> tuple[np.ndarray, np.ndarray]:
    """The projection on the upper triangle, by the least whitened change that obeys the facts, and what it leaves."""
    rows, columns = np.triu_indices(known.width)
    std = np.where(rows == columns, noise.diagonal_std, noise.off_diagonal_std)
    if noise.count_is_exact:
        std[0] = 0.0
    given = facts(known)
    projection = np.eye(len(std)) - std[:, None] * np.linalg.pinv(given * std, rcond=1e-10) @ given
    return projection, projection * std**2


def square(upper: np.ndarray, width: int) -> np.ndarray:
    found = np.zeros((*upper.shape[:-1], width, width))
    at = np.triu_indices(width)
    found[..., at[0], at[1]] = found[..., at[1], at[0]] = upper
    return found


def four(covariance: np.ndarray, width: int) -> np.ndarray:
    """Cov(E_ij, E_kl) at [i, j, k, l]."""
    place = square(np.arange(width * (width + 1) // 2).astype(float), width).astype(int)
    return covariance[place[:, :, None, None], place[None, None]]


def cases(noises: dict = NOISES):
    for columns, level, noise in itertools.product(COLUMNS, LEVELS, noises):
        domain = Domain(COLUMNS[columns])
        assert domain.known is not None
        known = Known(domain.width, domain.known.blocks, *LEVELS[level])
        if known.says_something:
            yield pytest.param(domain, known, noises[noise], id=f"{columns}-{level}-{noise}")


@pytest.mark.parametrize(("domain", "known", "noise"), cases())
def test_projection_is_generalised_least_squares(domain, known, noise):
    """Kills a wrong weight of the diagonal, a margin or a total that is counted once too often, and a count that moves."""
    rng = np.random.default_rng(1)
    width = known.width
    upper = rng.standard_normal((3, width * (width + 1) // 2))
    projection = dense(known, noise)[0]
    model = noise.given(known)
    found = model.project(square(upper, width))
    np.testing.assert_allclose(found, square(upper @ projection.T, width), atol=1e-12)
    np.testing.assert_allclose(model.project(found), found, atol=1e-12)
    if noise.count_is_exact:
        np.testing.assert_array_equal(found[:, 0, 0], upper[:, 0])


@pytest.mark.parametrize(("domain", "known", "noise"), cases())
def test_every_variance_is_that_of_the_projection(domain, known, noise):
    """Kills each wrong term of the closed forms: spread, along, traces, entries, and those of covariances."""
    rng, width = np.random.default_rng(2), known.width
    tensor = four(dense(known, noise)[1], width)
    model, scaled = noise.given(known), np.diag(np.arange(1.0, width + 1))
    scaled[0, 1:] = scaled[1:, 0] = rng.standard_normal(width - 1) / 3
    close = {"rtol": 1e-10, "atol": 1e-11}
    factor = rng.standard_normal((2, width, 3))
    expected = np.einsum("ijkl,sjm,skm->sil", tensor, factor, factor)
    np.testing.assert_allclose(model.spread(factor, scaled), expected, **close)
    w = factor[0, :, 0]
    np.testing.assert_allclose(model.along(w, scaled), np.einsum("ijkl,j,k->il", tensor, w, w), **close)
    middle, half = centre_and_scale(domain)
    back = back_transform(middle, half)
    entries = np.einsum("ia,jb,ic,jd,abcd->ij", back, back, back, back, tensor, optimize=True)
    np.testing.assert_allclose(model.entry_std(domain, scaled) ** 2, entries, **close | {"atol": 1e-6})
    centre = np.column_stack([-scaled[0, 1:] / scaled[0, 0], np.eye(width - 1)])
    joint = np.einsum("ia,jb,kc,ld,abcd->ijkl", centre, centre, centre, centre, tensor, optimize=True)
    found = model.centred(scaled)
    np.testing.assert_allclose(found.entries, np.einsum("ijij->ij", joint), **close)
    np.testing.assert_allclose(found.with_own_variance, np.einsum("ijii->ij", joint), **close)
    np.testing.assert_allclose(found.between_variances, np.einsum("iijj->ij", joint), **close)
    to_count = np.einsum("ia,jb,ab->ij", centre, centre, tensor[:, :, 0, 0])
    np.testing.assert_allclose(found.to_count, to_count, **close)
    np.testing.assert_allclose(found.count, tensor[0, 0, 0, 0], **close)


@pytest.mark.parametrize(("domain", "known", "noise"), cases({"spherical": NOISES["spherical"]}))
def test_many_regressions_at_once_are_one_at_a_time(domain, known, noise):
    rng, width = np.random.default_rng(3), known.width
    model, y = noise.given(known), width - 1
    at = np.array([[0, *chosen] for chosen in itertools.combinations(range(1, y), 2)])
    inverse = np.array([a @ a.T for a in rng.standard_normal((len(at), 3, 3))])
    gamma, scaled = rng.standard_normal((len(at), 3)), np.eye(width)
    traces, spreads = model.traces(scaled, at, y, inverse, gamma), model.spread_at(scaled, at, inverse)
    for i, places in enumerate(at):
        x = np.eye(width)[:, places]
        omega = x.T @ model.along(np.eye(width)[y] - x @ gamma[i], scaled) @ x
        assert traces[i] == pytest.approx(np.trace(inverse[i] @ omega))
        whole = model.spread(x @ np.linalg.cholesky(inverse[i]), scaled)
        np.testing.assert_allclose(spreads[i], x.T @ whole @ x, rtol=1e-10)
        part = model.only(places)
        np.testing.assert_allclose(part.spread(np.linalg.cholesky(inverse[i]), scaled[:3, :3]), spreads[i], rtol=1e-10)


@pytest.mark.parametrize("noise", [AdditiveNoise(2.0, 2.0), SamplingNoise(50.0, 3.0)])
def test_spread_of_plain_noise(noise):
    rng = np.random.default_rng(4)
    scaled, factor = np.diag([5.0, 4, 3, 2]), rng.standard_normal((4, 2))
    assert noise.given(Known(4, ((1, 2),), True, True) if noise.grows_with_data else None) is noise
    found = sum(noise.along(w, scaled) for w in factor.T)
    np.testing.assert_allclose(noise.spread(factor, scaled), found)
    at, inverse = np.array([[0, 2], [1, 3]]), np.array([[[2.0, 1], [1, 3]], [[1, 0], [0, 1]]])
    for i, places in enumerate(at):
        x = np.eye(4)[:, places]
        whole = noise.spread(x @ np.linalg.cholesky(inverse[i]), scaled)
        np.testing.assert_allclose(noise.spread_at(scaled, at, inverse)[i], x.T @ whole @ x)


def test_wide_domains_are_quick():
    """Hundreds of columns: no step of the projection or its covariance needs more than matrix products."""
    columns = (AGE, *(Categorical(f"c{i}", tuple(range(2 + i))) for i in range(24)))
    domain = Domain(columns)
    assert domain.known is not None
    model = AdditiveNoise(1.0, 1.0).given(domain.known)
    noise = np.random.default_rng(5).standard_normal((domain.width, domain.width))
    found = model.project(noise + noise.T)
    last = domain.known.blocks[-1]
    np.testing.assert_allclose(found[:, list(last)].sum(axis=1), found[:, 0], atol=1e-10)
    assert np.trace(model.along(np.ones(domain.width), found)) > 0


def row_facts_hold(domain: Domain, rows: np.ndarray) -> None:
    """Every fact that the domain knows holds of integer matrices of real rows, exactly."""
    known = domain.known
    assert known is not None
    weights = np.random.default_rng(6).integers(0, 9, rows.shape[1])
    matrix = (rows.astype(object) * weights) @ rows.astype(object).T
    values = [matrix[i, j] for i, j in zip(*np.triu_indices(known.width), strict=True)]
    for fact in facts(known).astype(int):
        assert sum(int(f) * v for f, v in zip(fact, values, strict=True) if f) == 0


@pytest.mark.parametrize("nulls", ["drop_row", "midpoint"])
@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize(
    "norm",
    [None, RowNorm("cap", 1.1), RowNorm("cap", 1.1, True), RowNorm("project", 2.0, True), RowNorm("project", 2.0)],
)
def test_facts_hold_of_bounded_rows(nulls, base, norm):
    """Kills a fact that a null policy, a base category or a row norm breaks: totals of base, diagonal under a row norm."""
    rng = np.random.default_rng(7)
    blocks = tuple(Categorical(c.name, c.categories, base) for c in (SEX, RACE))
    include = norm is not None and norm.include_response
    domain = Domain((*blocks, AGE, PAY), nulls, norm, response="pay" if include else None)
    count = 200
    age = np.where(rng.random(count) < 0.1, np.nan, rng.normal(50, 30, count))
    columns = [rng.integers(-1, 2, count), rng.integers(-1, 3, count), age, rng.normal(500, 300, count)]
    rows = np.empty((domain.width, count))
    grid_rows(domain, columns, rows)
    settle_nulls(domain, rows)
    row_facts_hold(domain, rows)
    known = domain.known
    assert known is not None
    assert known.totals == (nulls == "drop_row" and not base and (norm is None or norm.include_response))
    assert known.diagonal == (norm is None or norm.include_response)


def test_a_part_of_a_matrix_keeps_the_facts_that_it_can_have():
    known = Known(6, ((1, 2), (3, 4)), True, True)
    assert known.only([0, 2, 4, 5]) == Known(4, ((1,), (2,)), True, False)
    assert known.only([0, 1, 2, 5]) == Known(4, ((1, 2),), True, True)
    assert known.only([1, 2, 5]) == Known(3, ((0, 1),), False, False)
    assert known.only([0, 5]) is None
    assert known.only([2, 5]) is None
