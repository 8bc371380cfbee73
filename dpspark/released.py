"""A published release in the hands of an analyst. Everything computed from it is post-processing: no cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.data.bounds import plain_values
from dpspark.data.domain import Numeric, domain_from_manifest
from dpspark.errors import ConfError
from dpspark.mechanisms.noisy import centre_and_scale, noise_from_manifest
from dpspark.mechanisms.statistics import NoisyStatistics, StatisticsNoise
from dpspark.regression.fit import RegressionFit, seed_of, to_scaled
from dpspark.regression.formula import parse_formula
from dpspark.regression.ols import Moments
from dpspark.regression.result import RegressionResult

LEAST_EIGENVALUE = "(least eigenvalue)"


class Release:
    """What every kind of release has: its place, its certificate, its tables."""

    def __init__(self, path: Path, manifest: dict[str, Any], tables: Mapping[str, pa.Table]):
        self.path = path
        self.manifest = manifest
        self.tables = dict(tables)

    @property
    def kind(self) -> str:
        return str(self.manifest["release"]["kind"])

    def regress(self, formula: str | None = None, level: float = 0.95) -> RegressionResult | RegressionFit:
        """Least squares from what was released."""
        raise ConfError(f"{str(self.path)!r} is a release of kind {self.kind}: it has no matrix to regress on.")

    def _title(self) -> str:
        privacy, release = self.manifest["privacy"], self.manifest["release"]
        if privacy["rho"] is not None:
            cost = f"rho = {privacy['rho']:g}"
        else:
            cost = f"epsilon = {privacy['epsilon']:g}" + (f", delta = {privacy['delta']:g}" if privacy["delta"] else "")
        return f"Release {release['name']} {release['version']}: {cost}, {privacy['neighbours']}"

    def __repr__(self) -> str:
        release = self.manifest["release"]
        return f"{type(self).__name__}({release['name']} {release['version']}, {str(self.path)!r})"


class RegressionRelease(Release):
    """One published regression."""

    def __init__(self, path: Path, manifest: dict[str, Any], tables: Mapping[str, pa.Table]):
        super().__init__(path, manifest, tables)
        self._domain = domain_from_manifest(manifest)
        terms = self._domain.terms
        table = tables["coefficients"]
        if tuple(table["term"].to_pylist()) != terms[:-1]:
            raise ValueError("wrong terms")
        self._theta = to_scaled(self._domain, table["estimate"].to_numpy())
        self._statistics = _read_statistics(tables["statistics"], terms, manifest) if "statistics" in tables else None

    def fit(self, level: float = 0.95) -> RegressionFit:
        """The regression, with intervals at a level."""
        seed = seed_of(self.manifest["spec_hash"])
        mechanism = self.manifest["mechanism"]
        return RegressionFit(self._domain, mechanism, self._theta, self._statistics, seed, self._title(), level)

    def coefficients(self) -> Any:
        return self.fit().to_frame()

    def regress(self, formula: str | None = None, level: float = 0.95) -> RegressionFit:
        """The one regression of this release; another formula is refused."""
        fit = self.fit(level)
        if formula is not None:
            blocks = {block.name: block.terms for block in self._domain.blocks}
            asked = parse_formula(formula, self._domain.terms, {name: ("", *of) for name, of in blocks.items()})
            if (asked.response, set(asked.regressors), asked.intercept) != (fit.response, set(fit.terms[1:]), True):
                raise ConfError(
                    f"{str(self.path)!r} holds one regression, {fit.formula}. For others, release kind gram."
                )
        return fit


def _read_statistics(table: pa.Table, terms: tuple[str, ...], manifest: dict[str, Any]) -> NoisyStatistics:
    found = {(row["row"], row["col"]): row["value"] for row in table.to_pylist()}
    regressors, response = terms[:-1], terms[-1]
    return NoisyStatistics(
        np.array([[found[row, col] for col in regressors] for row in regressors]),
        np.array([found[row, response] for row in regressors]),
        found.get((response, response)),
        found.get((LEAST_EIGENVALUE, LEAST_EIGENVALUE)),
        StatisticsNoise(**manifest["mechanism"]["noise"]),
    )


class GramRelease(Release):
    """A published second-moment matrix."""

    def __init__(self, path: Path, manifest: dict[str, Any], tables: Mapping[str, pa.Table]):
        super().__init__(path, manifest, tables)
        table = tables["second_moment"]
        self._domain = domain_from_manifest(manifest)
        self._noise = noise_from_manifest(manifest["mechanism"]["noise"])
        width = self._domain.width
        index = {term: i for i, term in enumerate(self._domain.terms)}
        at = [index[term] for term in table["row"].to_pylist()], [index[term] for term in table["col"].to_pylist()]
        if len(at[0]) != width * width:
            raise ValueError("wrong number of entries")
        self._matrix, self._noise_std = np.zeros((width, width)), np.zeros((width, width))
        self._matrix[at] = table["value"].to_numpy()
        self._noise_std[at] = table["noise_std"].to_numpy()

    @property
    def terms(self) -> tuple[str, ...]:
        return self._domain.terms

    def second_moment(self) -> Any:
        """DᵀD with noise, in original units, as a labelled table."""
        return self._labelled(self._matrix, self.terms)

    def noise_std(self) -> Any:
        """The standard deviation of the noise in each entry of `second_moment`."""
        return self._labelled(self._noise_std, self.terms)

    def covariance(self) -> Any:
        rows = self._matrix[0, 0]
        means = self._matrix[0, 1:] / rows
        return self._labelled(self._matrix[1:, 1:] / rows - np.outer(means, means), self.terms[1:])

    def correlation(self) -> Any:
        """NaN where the noise leaves no positive variance."""
        covariance = self.covariance().to_numpy()
        variance = np.diag(covariance)
        std = np.sqrt(np.where(variance > 0, variance, np.nan))
        return self._labelled(covariance / np.outer(std, std), self.terms[1:])

    def variance_along(self, direction: Mapping[str, float]) -> float:
        """The variance of a combination of columns, e.g. {"age": 1, "educ": -2}; negative if the noise wins."""
        unknown = [term for term in direction if term not in self.terms[1:]]
        if unknown:
            raise ConfError(f"variance_along: no column {unknown[0]!r}; there are {', '.join(self.terms[1:])}.")
        weights = np.array([direction.get(term, 0.0) for term in self.terms[1:]])
        return float(weights @ self.covariance().to_numpy() @ weights)

    def regress(self, formula: str | None = None, level: float = 0.95) -> RegressionResult:
        """Least squares from the matrix alone."""
        if formula is None:
            raise ConfError(f"formula: missing, e.g. '{self.terms[-1]} ~ {self.terms[1]}'. This release serves any.")
        blocks = {block.name: block.terms for block in self._domain.blocks}
        parsed = parse_formula(formula, self.terms, blocks)
        return RegressionResult(
            self._moments(),
            parsed,
            level,
            self._row_values,
            self._title(),
            self._clipped((parsed.response, *parsed.regressors)),
        )

    def _moments(self) -> Moments:
        moments = Moments.from_original(self.terms, self._matrix, *centre_and_scale(self._domain), self._noise)
        return replace(moments, weighted=self.manifest.get("weight") is not None)

    def _clipped(self, terms: Sequence[str]) -> list[dict[str, Any]]:
        """What the release says about values outside the bounds of some columns; nothing if that was not paid for."""
        table = self.tables.get("diagnostics")
        return [] if table is None else [row for row in table.to_pylist() if row["column"] in terms]

    def _row_values(self, frame: Any, term: str) -> np.ndarray:
        """One term's column for new rows, bounded as the release was."""
        column = next(column for column in self._domain.columns if term in column.terms)
        if column.name not in frame:
            raise ConfError(f"predict: the rows have no column {column.name!r}.")
        try:
            values = plain_values(column, pa.array(frame[column.name], from_pandas=True))
        except (pa.ArrowException, TypeError):
            raise ConfError(f"predict: column {column.name!r} has the wrong type.") from None
        if isinstance(column, Numeric):
            return np.where(np.isnan(values), column.middle, np.clip(values, column.lower, column.upper))
        return (values == column.terms.index(term)).astype(float)

    @staticmethod
    def _labelled(values: np.ndarray, terms: tuple[str, ...]) -> Any:
        import pandas as pd

        return pd.DataFrame(values, index=list(terms), columns=list(terms))
