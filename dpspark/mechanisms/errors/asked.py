"""The regressions whose standard errors are to hold where variances differ, as a conf or a manifest asks for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.formula import Formula, formula_text, parse_formula
from dpspark.core.products import Product
from dpspark.core.records import Clusters
from dpspark.errors import ConfError

HC1 = "hc1"
CLUSTER = "cluster"
CLASSICAL = "classical"
DEFAULT_SHARE = 0.1  # of mu²


@dataclass(frozen=True)
class AskedRegression:
    """One regression, under its name in meat.parquet: the conf's own text."""

    text: str
    formula: Formula

    def columns(self, domain: Domain) -> tuple[Numeric | Categorical, ...]:
        """List the columns that it has regressors of, or products of them: these lean on their columns."""
        factors = {name for product in self.products(domain) for name in product.of}
        own = set(self.formula.regressors)
        return tuple(column for column in domain.columns if column.name in factors or set(column.terms) & own)

    def products(self, domain: Domain) -> tuple[Product, ...]:
        """List the blocks of products that it has regressors of."""
        return tuple(each for each in domain.products if set(domain.terms_of(each)) & set(self.formula.regressors))

    def regressors(self, domain: Domain) -> Domain:
        """Describe its rows without the response: the intercept, and every term of its columns.

        A category that the formula leaves out is among them: with it a row has one 1 in each block, which makes the noise
        smaller, and never the sensitivity larger.
        """
        return replace(domain, columns=self.columns(domain), response=None, products=self.products(domain))

    def terms(self, domain: Domain) -> tuple[str, ...]:
        """List the rows and columns of its meat."""
        return self.regressors(domain).terms

    def places(self, domain: Domain) -> tuple[int, ...]:
        """Find these among the terms of the release."""
        return tuple(domain.terms.index(term) for term in self.terms(domain))


@dataclass(frozen=True)
class AskedErrors:
    """What is asked for: the regressions, and the part of mu² that their meats get."""

    share: float
    regressions: tuple[AskedRegression, ...]
    by: str | None = None  # the column of clusters, whose rows may be alike
    clusters: Clusters | None = None  # and what one record can change of them

    @property
    def kind(self) -> str:
        """The name that tables and results have for such errors."""
        return HC1 if self.by is None else CLUSTER

    def split(self, mu: float) -> tuple[float, float]:
        """Divide mu between the release and the meats: squares add up to that of the whole."""
        return mu * math.sqrt(1 - self.share), mu * math.sqrt(self.share)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.regressions)


def asked_of(
    domain: Domain,
    share: float,
    texts: Sequence[str] | None,
    by: str | None = None,
    clusters: Clusters | None = None,
) -> AskedErrors:
    """Read the regressions of a release: those that are listed, or the one that a release of kind regression is."""
    if domain.response is not None:
        *regressors, response = domain.terms[1:]
        formula = Formula(response, tuple(regressors), True)
        return AskedErrors(share, (AskedRegression(formula_text(response, regressors), formula),), by, clusters)
    blocks = {block.name: block.terms for block in domain.blocks}
    found = tuple(AskedRegression(text, parse_formula(text, domain.terms, blocks)) for text in texts or ())
    meanings = [(one.formula.response, frozenset(one.formula.regressors), one.formula.intercept) for one in found]
    odd = next((one for one in found if domain.factor_terms(one.formula.response)), None)
    if odd is not None:
        raise ConfError(f"{odd.formula.response} is a product with a category: robust errors are for other responses.")
    if len(set(meanings)) < len(meanings):
        raise ConfError("two of them are the same regression. Leave one out.")
    return AskedErrors(share, found, by, clusters)


def clusters_of(asked: AskedErrors) -> Clusters:
    """What one record can change of the clusters that are asked for."""
    assert asked.clusters is not None
    return asked.clusters
