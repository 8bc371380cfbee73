"""Where there is no answer, the terms that are to blame are named, from the noisy matrix alone."""

from __future__ import annotations

import numpy as np
import pytest

from dpspark.analysis.ols import Moments, NotIdentified, solve
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.formula import Formula
from dpspark.mechanisms.gram.coordinates import centre_and_scale
from dpspark.mechanisms.gram.noisy import AdditiveNoise

NOISE = AdditiveNoise(30.0, 30.0)


def refused(shares: list[float], rows: float, seed: int = 1) -> NotIdentified:
    """A regression on a number and a category, whose last one is rare or not, with noise of 30 rows."""
    rng, count = np.random.default_rng(seed), 20_000
    domain = Domain((Numeric("x", -1, 1), Categorical("c", tuple("abcd"[: len(shares)])), Numeric("y", -1, 1)))
    code = rng.choice(len(shares), count, p=np.array(shares) / sum(shares))
    dummies = [(code == i).astype(float) for i in range(len(shares))]
    z = np.column_stack([np.ones(count), rng.uniform(-1, 1, count), *dummies, rng.uniform(-1, 1, count)])
    matrix = rows * z.T @ z / count + NOISE.draw(z.T @ z, rng, 1)[0]
    moments = Moments(domain.terms, matrix, *centre_and_scale(domain), NOISE).given(domain.known)
    with pytest.raises(NotIdentified) as error:
        solve(moments, Formula("y", ("x", *domain.columns[1].terms[1:]), True))
    return error.value


def test_a_rare_category_is_named() -> None:
    found = refused([50, 30, 20, 0.05], 5000).weak
    assert found is not None
    assert found.terms == ("c[d]",)
    assert found.kappa_w >= 2
    assert "merge the category with another" in str(found)


def test_nobody_is_named_where_all_are_drowned() -> None:
    found = refused([1, 1, 1, 1], 20).weak
    assert found is not None
    assert found.terms == ()
    assert "larger budget" in str(found)
