"""The limitations of a manifest: each where it applies, for every kind and mechanism."""

from __future__ import annotations

from typing import Any

import pytest

from dpspark.releasing.limitations import limitations
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from tests.manifests import BY_GROUP, CONFS, LINE, QUANTILES, REGRESSION, conf_of, named

MORE: dict[str, dict[str, Any]] = {
    "gaussian weighted, no squares": {"weight": {"column": "w", "upper": 50}},
    "gaussian of categories": {"columns": {"sex": {"categories": ["F", "M"]}, "race": {"categories": [1, 2]}}},
    "gram_ridge shrunk": {**REGRESSION, "row_norm": {"mode": "cap", "radius": 1.1}},
    "line gram interval": {**LINE, **BY_GROUP, **named("gram"), "release/interval": {}},
    "quantiles person": {**QUANTILES, "privacy/unit": {"column": "person", "max_rows": 3}},
    "descent person": {**REGRESSION, **named("gradient_descent"), "privacy/unit": {"column": "p", "max_rows": 3}},
}
EVERY = {**CONFS, **MORE}


@pytest.mark.parametrize("name", EVERY)
def test_each_is_said_where_it_applies(name: str) -> None:
    """Fails on 0.2.0: quantiles, lines and gradient_descent had fourth moments, standard errors and coefficients."""
    spec = load_spec(conf_of(EVERY[name]))
    mechanism = choose(spec)
    said = limitations(spec, mechanism)
    text = " ".join(said)
    kind, lines = spec.release.kind, spec.release.kind == "theil_sen"
    unweighted = spec.weight is None or spec.weight.squares_share is not None
    shrunk = kind == "regression" and spec.row_norm is not None and not spec.row_norm.include_response
    descent = kind == "regression" and spec.mechanism_name == "gradient_descent"
    has_errors = kind in ("gram", "regression") and unweighted and not shrunk and not descent
    robust = spec.asked_errors is not None
    assert ("fourth moments" in text) == (has_errors and not robust)
    clustered = spec.cluster_key is not None
    assert ("HC1" in text) == (has_errors and robust and not clustered)
    assert ("are alike, unless" in text) == ("cluster of its own" in text) == clustered
    assert ("the matrix holds no fourth" in text) == (has_errors and kind == "gram" and not robust)
    assert ("There are no standard errors" in text) == (shrunk or descent)
    clipped = [line for line in said if line.startswith("Values outside the bounds")]
    assert bool(clipped) == bool(spec.domain.numeric)
    assert ("coefficients are biased" in "".join(clipped)) == (kind in ("gram", "regression") and bool(clipped))
    assert ("lines are biased" in text) == lines
    assert ("counted as the middle" in text) == (kind != "quantiles" and spec.null_policy == "midpoint")
    assert ("a quantile beyond a bound" in text) == (kind == "quantiles")
    assert ("Intervals of lines" in text) == (lines and spec.release.interval is not None)
    assert ("nearer to medians" in text) == (
        lines and spec.release.interval is not None and mechanism.name != "gram"  # which auto may have chosen
    )
    several = spec.records.rows > 1 and (has_errors or spec.release.interval is not None)
    several = several and name != "gaussian errors clusters of people"
    assert ("take rows as independent" in text) == several
    assert ("were kept at random" in text) == (spec.privacy.unit is not None)
    assert ("holds no squared weights" in text) == (not unweighted)
    assert ("Weights above" in text) == (spec.weight is not None)
    assert ("row_norm" in text) == (spec.row_norm is not None)
    assert len(set(said)) == len(said)
    assert "{" not in text


def test_what_row_norms_do_is_told_apart() -> None:
    """Fails on 0.2.0: rows that were moved to one norm, or weighted, were said to be shrunk."""

    def about(name: str) -> str:
        spec = load_spec(conf_of(EVERY[name]))
        return next(text for text in limitations(spec, choose(spec)) if "row_norm" in text)

    assert about("gaussian capped").startswith("Long rows were shrunk")
    assert about("gaussian projected").startswith("Rows were moved")
    assert about("gram_ridge capped").startswith("Rows were weighted")


def test_other_samplers_are_those_of_the_kind() -> None:
    """Fails on 0.2.0: a regression was told to use the mechanisms of matrices."""
    for name, other in (("wishart", "gaussian and laplace"), ("objective", "gram_ridge")):
        spec = load_spec(conf_of(EVERY[name]))
        assert other in limitations(spec, choose(spec))[-1]
