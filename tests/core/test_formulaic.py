"""Formulas against the design matrices of formulaic, on random data and random formulas."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pandas as pd
import pytest

from dpspark.core.arithmetic import evaluate
from dpspark.core.formula import expand_formula

formulaic = pytest.importorskip("formulaic")

CATEGORIES = {"sex": ("F", "M"), "race": ("a", "b", "c")}
BLOCKS = {name: tuple(f"{name}[{label}]" for label in labels) for name, labels in CATEGORIES.items()}
TERMS = ("(intercept)", "y", "u", "v", "w", *BLOCKS["sex"], *BLOCKS["race"])
FACTORS = ["u", "v", "w", "C(sex)", "race", "I(u**2)", "log(w)", "I(u*v)", "np.sqrt(w)", "I(u + 2*v)", "np.exp(v)"]


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({name: rng.uniform(1, 3, 80) for name in ("y", "u", "v", "w")})
    for name, labels in CATEGORIES.items():
        frame[name] = rng.choice(labels, 80)
    return frame


FRAME = _frame()


def _values(name: str) -> np.ndarray:
    column, _, label = name.rstrip("]").partition("[")
    return np.asarray(FRAME[column] == label, dtype=float) if label else FRAME[column].to_numpy()


def _ours(text: str) -> np.ndarray:
    found = expand_formula(text, TERMS, BLOCKS)
    columns = [evaluate(one.quantity.expression, _values) for one in found.regressors]
    return np.column_stack([np.ones(len(FRAME))] * found.intercept + columns)


def _theirs(text: str) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(formulaic.model_matrix(text, FRAME, context={"np": np}).rhs, dtype=float)


def _same_columns(text: str) -> None:
    ours, theirs = _ours(text), _theirs(text)
    order = [np.lexsort(np.round(matrix, 9)) for matrix in (ours, theirs)]
    assert ours.shape == theirs.shape, text
    np.testing.assert_allclose(ours[:, order[0]], theirs[:, order[1]], rtol=1e-9, atol=1e-9, err_msg=text)


@pytest.mark.parametrize(
    "text",
    [
        "y ~ u + v",
        "y ~ u*v",
        "y ~ u:v - 1",
        "y ~ C(sex)*u",
        "y ~ C(sex):u",
        "y ~ sex:race",
        "y ~ sex*race*u",
        "y ~ sex - 1",
        "y ~ 0 + race + sex",
        "y ~ (u + v + sex)**2",
        "y ~ u + race:u + sex:race",
        "y ~ poly(u, 3, raw=True)",
        "y ~ (poly(u, 2, raw=True) + v)**2",
        "y ~ poly(u, 2, raw=True)*sex*poly(v, 2, raw=True)",
        "y ~ v + poly(u, 2, raw=True)*(poly(u, 2, raw=True) + race)",
        'y ~ C(race, Treatment("b"))*u',
        'y ~ C(sex, Treatment("M")) + u:C(sex, Treatment("M"))',
        "log(y) ~ np.log(w) + I(u**2) + I(u/2)",
        "y ~ u + v + u:v - u",
        "y ~ sex:u + sex:v",
        "y ~ race + sex:race - 1",
    ],
)
def test_designs(text: str) -> None:
    """Kills: a category too many or too few, products by the wrong factor, another reference."""
    _same_columns(text)


def test_random_designs() -> None:
    """The same of random formulas."""
    rng = random.Random(7)
    for _ in range(150):
        parts = [
            rng.choice([":", "*"]).join(rng.sample(FACTORS, rng.choice([1, 1, 2, 2, 3])))
            for _ in range(rng.randint(1, 4))
        ]
        _same_columns(f"y ~ {' + '.join(parts)}{rng.choice(['', '', ' - 1'])}")
