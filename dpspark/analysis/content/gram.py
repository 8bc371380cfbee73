"""The content of a release of kind gram: a noisy second-moment matrix, and all that an analyst computes from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.meats import choose_meat, read_meats
from dpspark.analysis.covariance import correlation_of, correlation_std, covariance_of, covariance_std
from dpspark.analysis.example import example_formula
from dpspark.analysis.least_squares import RegressionResult
from dpspark.analysis.ols import Moments
from dpspark.analysis.options import Asked, check_level, check_weighted_options, level_or_usual
from dpspark.analysis.pca import Components, principal_components
from dpspark.analysis.remarks import TOO_MANY, assumptions, defined_of
from dpspark.analysis.repair import choose_repair
from dpspark.analysis.rows import term_values
from dpspark.analysis.subsets import Ranking, candidate_blocks, rank_subsets
from dpspark.analysis.summary import row_norm_lines
from dpspark.core.domain import Domain, Numeric
from dpspark.core.formula import Formula, parse_formula
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.coordinates import back_transform, centre_and_scale
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.noisy import noise_from_manifest
from dpspark.mechanisms.gram.turned_noise import turned


class GramContent(Content):
    """A noisy second-moment matrix in original units, in scaled ones where it has them, and the law of its noise."""

    needed = "second_moment"

    def _read(self) -> None:
        self.noise = noise_from_manifest(self.manifest["mechanism"]["noise"])  # in units of the scaled matrix
        self.matrix, self._noise_std = self._read_matrix("second_moment")  # as released
        # In original units a column far from 0 has lost digits: regressions start from the scaled matrix, if it is there.
        self.scaled = self._read_matrix("scaled")[0] if "scaled" in self.tables else None
        self.meats = read_meats(self.manifest["mechanism"], self.tables, self.domain, self.scaled)
        has_squares = "squared_weights" in self.tables
        self.squared_weights = self._read_matrix("squared_weights")[0] if has_squares else None
        self.squared_noise = _noise_of_extra(self.manifest, "squared weights") if has_squares else None

    def _read_matrix(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Read the values of a table and their noise, in the order of the terms."""
        table, width = self.tables[name], self.domain.width
        index = {term: i for i, term in enumerate(self.domain.terms)}
        at = [index[term] for term in table["row"].to_pylist()], [index[term] for term in table["col"].to_pylist()]
        if len(at[0]) != width * width:
            raise ValueError("wrong number of entries")
        matrix, noise_std = np.zeros((width, width)), np.zeros((width, width))
        matrix[at] = table["value"].to_numpy()
        noise_std[at] = table["noise_std"].to_numpy()
        return matrix, noise_std

    @property
    def terms(self) -> tuple[str, ...]:
        return self.domain.terms

    @property
    def is_weighted(self) -> bool:
        return self.manifest.get("weight") is not None

    @cached_property
    def moments(self) -> Moments:
        """The matrix in scaled coordinates, where regressions are computed, with what is known of it put in."""
        return self.noisy_moments.given(self.domain.known)

    @property
    def noise_std(self) -> np.ndarray:
        """The standard deviation of the noise in each entry, once what is known of the matrix is put in."""
        if self.moments.noise is self.noise:
            return self._noise_std
        return self.moments.noise.entry_std(self.domain, self.matrix)

    @cached_property
    def noisy_moments(self) -> Moments:
        """The matrix in scaled coordinates, as it was released."""
        scale, noise = centre_and_scale(self.domain), turned(self.noise, self.domain)
        if self.scaled is None:
            moments = Moments.from_original(self.terms, self.matrix, *scale, noise)
        else:
            moments = Moments.of(self.domain, self.scaled, self.noise)
        squared = squared_noise = None
        if self.squared_weights is not None and self.squared_noise is not None:
            squared = Moments.from_original(self.terms, self.squared_weights, *scale, noise).scaled
            squared_noise = turned(self.squared_noise, self.domain)
        return replace(moments, weighted=self.is_weighted, squared_weights=squared, squared_noise=squared_noise)

    def scaled_noise_std(self) -> np.ndarray:
        """The noise of each entry of the scaled matrix."""
        unit = Domain(tuple(Numeric(str(i), -1.0, 1.0) for i in range(1, len(self.terms))))
        return self.moments.noise.entry_std(unit, self.moments.scaled)

    def repaired(self, how: str | None = None) -> np.ndarray:
        """The matrix in original units, repaired as the release says, or as asked ("none": not)."""
        repair, moments = choose_repair(how, self.manifest), self.moments
        back = back_transform(moments.middle, moments.half)
        if repair.how != "none":
            return back @ repair.matrix(moments) @ back.T
        if moments.noise is self.noise:
            return self.matrix
        # What changes is added: in original units, all of it would lose digits of columns far from 0.
        return self.matrix + back @ (moments.scaled - self.noisy_moments.scaled) @ back.T

    def covariance(self, repair: str | None = None) -> np.ndarray:
        return covariance_of(self.repaired(repair))

    def covariance_std(self) -> np.ndarray:
        half = self.moments.half[1:]
        return covariance_std(self.moments) * np.outer(half, half)

    def correlation(self, repair: str | None = None) -> np.ndarray:
        return correlation_of(self.covariance(repair))

    def correlation_std(self) -> np.ndarray:
        return correlation_std(self.moments)

    def variance_along(self, direction: Mapping[str, float]) -> float:
        """The variance of a combination of columns."""
        columns = self.terms[1:]
        unknown = [term for term in direction if term not in columns]
        if unknown:
            raise ConfError(f"variance_along: no column {unknown[0]!r}; there are {', '.join(columns)}.")
        weights = np.array([direction.get(term, 0.0) for term in columns])
        return float(weights @ self.covariance() @ weights)

    def parse(self, formula: str) -> Formula:
        """Read a formula of this release's columns."""
        blocks = {block.name: block.terms for block in self.domain.blocks}
        return parse_formula(formula, self.terms, blocks, self.definitions)

    def example(self) -> str:
        """A regression of these columns that makes sense, to begin with."""
        return example_formula(self.domain, self.definitions, self.moments)

    def regress(self, asked: Asked) -> RegressionResult:
        """Compute least squares from the matrix alone."""
        if asked.formula is None:
            raise ConfError(f"formula: missing, e.g. '{self.example()}'. This release serves any.")
        return self.fit(self.parse(asked.formula), asked)

    def fit(self, formula: Formula, asked: Asked) -> RegressionResult:
        """Compute the least squares of a formula that was read already; its names may be any."""
        repair = choose_repair(asked.repair, self.manifest)
        check_weighted_options(self.moments.has_intervals, asked)
        meat, why_classical = choose_meat(self.meats, formula, asked)
        used = (formula.response, *formula.regressors)
        found = RegressionResult(
            self.moments,
            formula,
            level_or_usual(asked.level),
            self._row_values,
            "; ".join([self.title, *row_norm_lines(self.domain)]),
            [row for row in self.clipped if row["column"] in used],
            repair,
            "delta" if asked.interval is None else asked.interval,
            self._seed(str(formula)),
            self.domain,
            assumptions(self.manifest),
            defined_of(self.definitions, used),
            meat,
            why_classical,
            self.beyond(self.moments.effective_rows),
        )
        found.record = self.record
        return found

    def all_subsets(self, response: str, columns: Sequence[str] | None, max_terms: int | None, top: int) -> Ranking:
        """Rank every regression of a response on a subset of the columns."""
        for name, value, least in (("max_terms", max_terms, 0), ("top", top, 1)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ConfError(f"all subsets: {name}={value!r}; expected a whole number >= {least}.")
        if self.is_weighted:
            raise ConfError(
                "all subsets: the rows are weighted, and their number, which the ranking needs, is not known."
            )
        known = [(column.name, column.terms) for column in self.domain.columns]
        blocks = candidate_blocks(response, known, columns)
        found = rank_subsets(self.moments, response, blocks, max_terms, top)
        named = {name for subset in found.subsets for name in subset.columns}
        return replace(
            found,
            assumptions=tuple(assumptions(self.manifest, "BIC and R-squared", TOO_MANY)),
            definitions=defined_of(self.definitions, (response, *named)),
        )

    def pca(self, k: int | None, scale: bool, level: float) -> Components:
        """Compute the first k principal components, with bands for the noise."""
        left_out = {block.terms[0] for block in self.domain.blocks if len(block.terms) > 1}
        left_out |= {term for product in self.domain.products for term in self.domain.terms_of(product)}
        moments = self.moments.only([term for term in self.terms if term not in left_out])
        return principal_components(moments, k, scale, check_level(level), self._seed(f"pca {scale}"))

    def _seed(self, purpose: str) -> int:
        """Make a seed from the release itself, so that an analyst's results repeat. It protects nothing."""
        text = f"{self.manifest['spec_hash']} {self.manifest['ledger']['id']} {purpose}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def _row_values(self, frame: Any, term: str) -> np.ndarray:
        """One term's column for new rows, bounded as the release was."""
        return term_values(self.domain, self.definitions, frame, term)


def _noise_of_extra(manifest: dict[str, Any], name: str) -> NoiseModel:
    """Read the noise of an extra that was paid for beside the matrix."""
    from dpspark.bundle.manifest_shape import Additive

    (extra,) = (each for each in manifest["privacy"]["spending"] if each["stage"] == name)
    return noise_from_manifest(Additive.model_validate(extra["noise"]).model_dump())
