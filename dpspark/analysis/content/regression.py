"""The content of a release of kind regression: coefficients, and the noisy sums that they come from, if published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.meats import choose_meat, read_meats
from dpspark.analysis.fit import RegressionFit, interval_method, seed_of, to_scaled
from dpspark.analysis.options import Asked, check_fit_options, level_or_usual
from dpspark.analysis.remarks import assumptions
from dpspark.analysis.sandwich import ReleasedMeat
from dpspark.bundle.statistics import read_statistics
from dpspark.core.formula import Formula, parse_formula
from dpspark.errors import ConfError
from dpspark.mechanisms.registry import regression_named
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise


class RegressionContent(Content):
    """One regression."""

    needed = "coefficients"

    def _read(self) -> None:
        terms, table, mechanism = self.domain.terms, self.tables["coefficients"], self.manifest["mechanism"]
        if tuple(table["term"].to_pylist()) != terms[:-1]:
            raise ValueError("wrong terms")
        self.published = to_scaled(self.domain, table["estimate"].to_numpy())
        self.noisy_statistics: NoisyStatistics | None = None  # as released
        self.statistics: NoisyStatistics | None = None
        if "statistics" in self.tables:
            noise = regression_named(mechanism["name"]).noise_of(mechanism)
            self.noisy_statistics = read_statistics(self.tables["statistics"], terms, noise)
            _check_ridge(mechanism, self.noisy_statistics.least_eigenvalue, noise)
            self.statistics = self.noisy_statistics.given(self.domain)
        self.meats: tuple[ReleasedMeat, ...] = ()
        if self.noisy_statistics is not None:
            self.meats = read_meats(mechanism, self.tables, self.domain, self.noisy_statistics.squares)

    @cached_property
    def theta(self) -> np.ndarray:
        """The coefficients; from the statistics, where an older version left out what is known of these."""
        mechanism = self.manifest["mechanism"]
        solver = regression_named(mechanism["name"]).solver_of(mechanism)
        if solver is None or not solver.follows or self.statistics is None or solver.now() == solver:
            return self.published
        return solver.now().solve(self.statistics)

    def regress(self, asked: Asked) -> RegressionFit:
        """Give the one regression of this release; refuse another formula, and what its mechanism does not give."""
        mechanism = self.manifest["mechanism"]
        method, why_none = interval_method(self.domain, mechanism, self.statistics)
        check_fit_options(method, why_none, asked)
        meat, why_classical = choose_meat(self.meats, self._formula, asked)
        fit = RegressionFit(
            self.domain,
            mechanism,
            self.theta,
            self.statistics,
            seed_of(self.manifest["spec_hash"]),
            self.title,
            level_or_usual(asked.level),
            self.clipped,
            assumptions(self.manifest),
            self.definitions,
            meat,
            why_classical,
            self.beyond(math.nan if self.statistics is None else float(self.statistics.squares[0, 0])),
        )
        fit.record = self.record
        if asked.formula is not None:
            self._check_formula(asked.formula, fit)
        return fit

    @property
    def _formula(self) -> Formula:
        *regressors, response = self.domain.terms[1:]
        return Formula(response, tuple(regressors), True)

    def _check_formula(self, formula: str, fit: RegressionFit) -> None:
        blocks = {block.name: ("", *block.terms) for block in self.domain.blocks}
        asked = parse_formula(formula, self.domain.terms, blocks, self.definitions)
        if (asked.response, set(asked.regressors), asked.intercept) != (fit.response, set(fit.terms[1:]), True):
            raise ConfError(f"{str(self.path)!r} holds one regression, {fit.formula}. For others, release kind gram.")


def _check_ridge(mechanism: Mapping[str, Any], least_eigenvalue: float | None, noise: StatisticsNoise) -> None:
    """Refuse a ridge that makes up for a small eigenvalue without that eigenvalue and its noise."""
    ridge = mechanism.get("ridge")
    needs_eigenvalue = isinstance(ridge, Mapping) and ridge["kind"] == "missing"
    if needs_eigenvalue and (least_eigenvalue is None or noise.least_eigenvalue_std is None):
        raise ValueError("no least eigenvalue")
