"""The noise of interaction coefficients: a block of products, against a column for each product.

`python -m experiments.product_blocks` prints the table of docs/formulas.md. Rows are made up: a category of k at random, two
evenly spread numbers, a response that is linear in them. The matrix of 400,000 of them counts for 2,000,000; the noise is what
intervals are made with, to first order, at epsilon 1 and delta 1e-9.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dpspark.analysis.ols import Moments, coefficient_names, directions, fit_scaled, identification
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.formula import parse_formula
from dpspark.core.products import Product
from dpspark.core.records import Records
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.coordinates import congruence_of
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.privacy.budget import Budget

FORMULA = "wage ~ exper + C(state)*educ"
DRAWN, ROWS = 400_000, 2_000_000
NUMBERS = (Numeric("wage", 0, 100), Numeric("educ", 0, 20), Numeric("exper", 0, 50))


def raw_moments(domain: Domain, categories: int) -> np.ndarray:
    """Σ x xᵀ in original units of made-up rows, by the names of the terms."""
    rng = np.random.default_rng(1)
    educ, exper, state = rng.uniform(0, 20, DRAWN), rng.uniform(0, 50, DRAWN), rng.integers(0, categories, DRAWN)
    wage = np.clip(20 + 1.5 * educ + 0.3 * exper + rng.normal(0, 12, DRAWN), 0, 100)
    values = {"(intercept)": np.ones(DRAWN), "wage": wage, "educ": educ, "exper": exper}
    values |= {f"state[{i}]": (state == i) * 1.0 for i in range(categories)}
    values |= {f"state[{i}]:educ": (state == i) * educ for i in range(categories)}
    x = np.stack([values[term] for term in domain.terms])
    return x @ x.T * (ROWS / DRAWN)


def interaction_noise(domain: Domain, categories: int) -> tuple[float, float]:
    """The mean standard deviation that the noise gives to an interaction coefficient, and kappa_w."""
    back = np.linalg.inv(congruence_of(domain))
    scaled = back @ raw_moments(domain, categories) @ back.T
    noise = GaussianGram.for_budget(Problem(domain, Records("added")), Budget(1.0, 1e-9)).noise
    moments = Moments.of(domain, scaled, noise).given(domain.known)
    formula = parse_formula(FORMULA, domain.terms, {block.name: block.terms for block in domain.blocks})
    regressors, response, to_original, _ = directions(moments, formula)
    _, inverse, omega, _ = fit_scaled(moments, regressors, response)
    variances = np.diag(to_original @ inverse @ omega @ inverse @ to_original.T)
    products = [i for i, term in enumerate(coefficient_names(formula)) if ":" in term]
    return float(np.sqrt(variances[products]).mean()), identification(moments, regressors).kappa_w


def main() -> None:
    print("categories  a column each     a block        times less")
    for categories in (2, 5, 49):
        state = Categorical("state", tuple(range(categories)))
        columns = (*NUMBERS, state)
        single = [Numeric(f"state[{i}]:educ", 0, 20) for i in range(1, categories)]
        ways = [Domain((*columns, *single)), Domain(columns, products=(Product(("state", "educ")),))]
        found = [interaction_noise(domain, categories) for domain in ways]
        ((before, weak), (after, strong)) = next(pairwise(found))
        print(f"{categories:10}  {before:.5f} ({weak:.3g})  {after:.5f} ({strong:.3g})  {before / after:.3g}")


if __name__ == "__main__":
    main()
