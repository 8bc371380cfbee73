"""Noise in covariances, correlations and principal components, against repeated noise on fixed rows."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from dpspark.analysis.covariance import correlation_of, correlation_std, covariance_of, covariance_std
from dpspark.analysis.ols import Moments
from dpspark.analysis.pca import principal_components
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoiseModel, SamplingNoise
from dpspark.mechanisms.gram.simulated import draw_noise
from tests.conftest import release_of

NOISES = [
    AdditiveNoise(30.0, 20.0),
    AdditiveNoise(25.0, 25.0, True),
    AdditiveNoise(25.0, 25.0, law="laplace"),
    SamplingNoise(10**6, 20_000.0),
]


def exact(n: int = 50_000) -> np.ndarray:
    rng = np.random.default_rng(6)
    mix = np.array([[0.5, 0, 0, 0], [0.35, 0.25, 0, 0], [-0.15, 0.2, 0.3, 0], [0.25, -0.15, -0.1, 0.1]])
    x = rng.uniform(-1, 1, (n, 4)) @ mix.T + np.array([0.05, -0.2, 0.1, 0.2])
    z = np.column_stack([np.ones(n), x])
    return z.T @ z


def moments(scaled: np.ndarray, noise: NoiseModel) -> Moments:
    width = len(scaled)
    terms = ("(intercept)", *(f"x{i}" for i in range(1, width)))
    return Moments(terms, scaled, np.eye(width)[0], 1 - np.eye(width)[0], noise)


@pytest.mark.parametrize("noise", NOISES)
def test_covariance_and_correlation_noise(noise: NoiseModel) -> None:
    """20,000 draws: each stated standard deviation within 5%. Kills: noisy means forgotten; a count taken as exact."""
    scaled = exact()
    drawn = covariance_of(scaled + draw_noise(noise, scaled, True, np.random.default_rng(1), 20_000))
    stated = covariance_std(moments(scaled, noise))
    assert drawn.std(axis=0) == pytest.approx(stated, rel=0.05)
    correlations = correlation_of(drawn).std(axis=0)
    assert correlations == pytest.approx(correlation_std(moments(scaled, noise)), rel=0.06, abs=1e-9)
    means = scaled[0, 1:] / scaled[0, 0]
    if isinstance(noise, AdditiveNoise):  # the usual formula is this without the count's part in C
        off = noise.off_diagonal_std**2 * (1 + means[0] ** 2 + means[1] ** 2)
        off += 0 if noise.count_is_exact else (means[0] * means[1] * noise.diagonal_std) ** 2
        assert stated[0, 1] == pytest.approx(np.sqrt(off) / scaled[0, 0], rel=0.05)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [False, True])
def test_eigenvalue_bands_cover(noise: NoiseModel, scale: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """93-97% over 1500 draws of noise on fixed rows (seed 2), for each eigenvalue and each share; 400 replicates.

    Kills: bands that ignore the noise in the means or in the scales.
    """
    monkeypatch.setattr("dpspark.analysis.pca.REPLICATES", 400)
    scaled, rng = exact(), np.random.default_rng(2)
    target = correlation_of(covariance_of(scaled)) if scale else covariance_of(scaled)
    truth = np.linalg.eigvalsh(target)[::-1]
    shares = truth / truth.sum()
    inside, inside_share, separated = [], [], 0
    for run, e in enumerate(draw_noise(noise, scaled, True, rng, 1500)):
        found = principal_components(moments(scaled + e, noise), None, scale, 0.95, run)
        inside.append((found.bands[:, 0] <= truth) & (truth <= found.bands[:, 1]))
        inside_share.append((found.share_bands[:, 0] <= shares) & (shares <= found.share_bands[:, 1]))
        separated += found.separated.all()
    assert separated > 1400
    for covered in (np.mean(inside, axis=0), np.mean(inside_share, axis=0)):
        assert ((covered > 0.93) & (covered < 0.97)).all(), covered


def test_loadings_and_their_noise() -> None:
    """600 draws: the spread of each loading is the stated one, to 15% of the largest."""
    noise, scaled = NOISES[0], exact()
    truth = principal_components(moments(scaled, noise), None, False, 0.95, 0)
    values, vectors = np.linalg.eigh(covariance_of(scaled))
    assert truth.eigenvalues == pytest.approx(values[::-1])
    assert np.abs(truth.vectors) == pytest.approx(np.abs(vectors[:, ::-1]))
    assert (np.take_along_axis(truth.vectors, np.abs(truth.vectors).argmax(axis=0)[None], axis=0) > 0).all()
    drawn = []
    for e in draw_noise(noise, scaled, True, np.random.default_rng(3), 600):
        turned = np.linalg.eigh(covariance_of(scaled + e))[1][:, ::-1]
        drawn.append(turned * np.sign(np.sum(turned * truth.vectors, axis=0)))
    assert np.std(drawn, axis=0) == pytest.approx(truth.vector_std, abs=0.15 * truth.vector_std.max())


def test_components_that_noise_mixes_are_marked() -> None:
    scaled = np.diag([1000.0, 200.0, 199.0, 50.0])
    found = principal_components(moments(scaled, AdditiveNoise(7.0, 5.0)), None, False, 0.95, 0)
    assert found.separated.tolist() == [False, False, True]
    assert "*" in found.summary()


def test_shares_that_cannot_be_are_explained() -> None:
    """Kills: a share of 9.56 without a word; the same word where all is well."""
    noise = AdditiveNoise(30.0, 20.0)
    scaled = np.diag([100.0, 50.0, -30.0, -10.0])
    found = principal_components(moments(scaled, noise), None, False, 0.95, 1)
    assert found.shares[0] == pytest.approx(5.0)
    assert "drowned by the noise" in found.summary()
    assert "drowned" not in principal_components(moments(exact(), noise), None, False, 0.95, 1).summary()


def test_from_a_release(conf: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    n = 5000
    age = rng.uniform(18, 99, n)
    columns = {
        "age": age,
        "educ": rng.uniform(1, 16, n),
        "income": 1000 * age + rng.uniform(0, 9e4, n),
        "sex": rng.choice(["F", "M"], n),
    }
    rel = release_of(conf, columns)
    real = np.cov([columns["age"], columns["educ"], columns["income"]], bias=True)
    found, std = rel.covariance().to_numpy()[:3, :3], rel.covariance_std().to_numpy()[:3, :3]
    assert (abs(found - real) < 5 * std).all()
    assert (std < 0.2 * np.sqrt(np.outer(np.diag(real), np.diag(real)))).all()
    assert (np.diag(rel.correlation_std()) == 0).all()
    correlation = np.corrcoef(columns["age"], columns["income"])[0, 1]
    assert abs(rel.correlation().loc["age", "income"] - correlation) < 5 * rel.correlation_std().loc["age", "income"]
    shown = rel.pca(2)
    assert shown.terms == ("age", "educ", "income", "sex[M]")
    assert list(shown.to_frame().index) == ["PC1", "PC2"]
    assert shown.loadings().shape == shown.loadings_std().shape == (4, 2)
    assert json.loads(json.dumps(shown.to_dict(), allow_nan=False))["components"][0]["component"] == "PC1"
    assert rel.pca(2).to_dict() == shown.to_dict()  # the same again
    assert rel.pca(scale=True).shares.sum() == pytest.approx(1)
    for k in (0, 5, 1.5, True):
        with pytest.raises(ConfError, match="from 1 to 4"):
            rel.pca(k)  # type: ignore[arg-type]


def test_no_variance_left(conf: dict[str, Any]) -> None:
    conf = copy.deepcopy(conf)
    conf["columns"] = {"age": {"lower": 18, "upper": 99}, "educ": {"lower": 1, "upper": 16}}
    rel = release_of(conf, {"age": [50.0] * 300, "educ": [8.5] * 300}, seed=7)
    assert np.isnan(rel.correlation().to_numpy()).any()
    with pytest.raises(ConfError, match="no positive variance"):
        rel.pca(scale=True)
    none = release_of(conf, {"age": [50.0], "educ": [8.5]}, seed=next(s for s in range(99) if _count(conf, s) <= 0))
    with pytest.raises(ConfError, match="count is not positive"):
        none.pca()


def _count(conf: dict[str, Any], seed: int) -> float:
    return release_of(conf, {"age": [50.0], "educ": [8.5]}, seed).second_moment().iloc[0, 0]
