"""Each stage is calibrated to its own share, and to what one record changes: from the spec to the mechanism."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.mechanisms.quantiles.exponential import Quantiles
from dpspark.mechanisms.quantiles.percentile import PercentileBounds
from dpspark.privacy.budget import gaussian_delta
from dpspark.spec.choose import choose_gram
from dpspark.spec.extras import bounds_finder, clipped_counts
from dpspark.spec.spec import Spec, load_spec

SHARES = {"bounds": 0.125, "diagnostics": 0.375}
REST = 0.5  # 1 − 0.125 − 0.375, exact in binary


def bound_quantiles(spec: Spec) -> Quantiles:
    finder = bounds_finder(spec)
    assert isinstance(finder, PercentileBounds)
    return finder.quantiles


def staged(conf: dict[str, Any], privacy: dict[str, Any], **changes: Any) -> Spec:
    columns = {**conf["columns"], "income": {"bounds": "private", "search": [0, 1e6]}}
    stages = {"bounds": {"epsilon_share": 0.125, "method": "percentile"}, "diagnostics": {"epsilon_share": 0.375}}
    return load_spec({**conf, "columns": columns, **stages, "privacy": privacy, **changes})


@pytest.mark.parametrize("mechanism", ["gaussian", "wishart", "johnson_lindenstrauss", "inverse_wishart"])
def test_the_release_has_what_the_stages_leave(conf: dict[str, Any], mechanism: str) -> None:
    """Kills: a mechanism calibrated to the whole budget beside paid stages."""
    beside = choose_gram(staged(conf, {"epsilon": 2.0, "delta": 1e-6}, mechanism={"name": mechanism}))
    rest = {"epsilon": 2.0 * REST, "delta": 1e-6 * REST}
    alone = choose_gram(load_spec({**conf, "privacy": rest, "mechanism": {"name": mechanism}}))
    assert beside.facts() == alone.facts()
    assert beside.delta(2.0 * REST) <= 1e-6 * REST  # type: ignore[attr-defined]


def test_in_rho_and_pure(conf: dict[str, Any]) -> None:
    in_rho = choose_gram(staged(conf, {"rho": 0.1}))
    assert isinstance(in_rho, GaussianGram)
    assert in_rho.rho == pytest.approx(0.1 * REST)
    pure = choose_gram(staged(conf, {"epsilon": 1.0}, mechanism={"name": "laplace"}))
    assert isinstance(pure, LaplaceGram)
    assert pure.epsilon == pytest.approx(REST)


def test_the_stages_have_their_shares(conf: dict[str, Any]) -> None:
    """Kills: a stage calibrated to the whole budget, or to another's share. Two quantiles; three numeric columns."""
    spec = staged(conf, {"epsilon": 1.0, "delta": 1e-6})
    assert 2 * bound_quantiles(spec).epsilon_each == pytest.approx(SHARES["bounds"])
    counts = clipped_counts(spec, spec.domain)
    mu = counts.sensitivity / counts.scale
    assert gaussian_delta(mu, SHARES["diagnostics"]) <= 1e-6 * SHARES["diagnostics"]
    assert gaussian_delta(mu * 1.02, SHARES["diagnostics"]) > 1e-6 * SHARES["diagnostics"]
    in_rho = staged(conf, {"rho": 0.1})
    assert 2 * bound_quantiles(in_rho).epsilon_each ** 2 / 8 == pytest.approx(0.1 * SHARES["bounds"])
    counts = clipped_counts(in_rho, in_rho.domain)
    assert (counts.sensitivity / counts.scale) ** 2 / 2 == pytest.approx(0.1 * SHARES["diagnostics"])
    pure = staged(conf, {"epsilon": 1.0}, mechanism={"name": "laplace"})
    counts = clipped_counts(pure, pure.domain)
    assert (counts.law.name, counts.sensitivity / counts.scale) == ("laplace", pytest.approx(SHARES["diagnostics"]))


@pytest.mark.parametrize(
    ("privacy", "source", "ranks", "counts"),
    [
        ({"neighbours": "add_remove"}, None, 0.99, math.sqrt(3)),
        ({"neighbours": "replace_one"}, None, 1.0, math.sqrt(6)),
        ({}, {"sql": "select * from t join u using (i)", "rows_per_record": 4}, 4.0, 4 * math.sqrt(6)),
    ],
)
def test_the_stages_know_what_one_record_changes(
    conf: dict[str, Any], privacy: dict[str, str], source: dict[str, Any] | None, ranks: float, counts: float
) -> None:
    """Kills: stages calibrated to one added row where a record replaces one, or changes four."""
    changes = {"source": source} if source else {}
    spec = staged(conf, {"epsilon": 1.0, "delta": 1e-6, **privacy}, **changes)
    quantiles = bound_quantiles(spec)
    assert quantiles.epsilon_each / (2 * quantiles.exponent(0.01)) == pytest.approx(ranks)
    assert clipped_counts(spec, spec.domain).sensitivity == pytest.approx(counts)


def test_weighted_counts_are_as_sensitive_as_the_largest_weight(conf: dict[str, Any]) -> None:
    spec = staged(conf, {"epsilon": 1.0, "delta": 1e-6}, weight={"column": "w", "upper": 50})
    assert clipped_counts(spec, spec.domain).sensitivity == pytest.approx(50 * math.sqrt(3))
    assert bound_quantiles(spec).exponent(0.01) == bound_quantiles(
        staged(conf, {"epsilon": 1.0, "delta": 1e-6})
    ).exponent(0.01)
