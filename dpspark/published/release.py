"""A published release in the hands of an analyst. Everything computed from it is post-processing: no cost."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.beyond import new_values
from dpspark.analysis.covariance import correlation_of, correlation_std, covariance_of, covariance_std
from dpspark.analysis.fit import RegressionFit, interval_method, seed_of, to_scaled
from dpspark.analysis.formula import parse_formula
from dpspark.analysis.ols import Moments
from dpspark.analysis.options import (
    check_fit_options,
    check_stored_level,
    check_weighted_options,
    level_or_usual,
    refuse_matrix_options,
)
from dpspark.analysis.pca import Components, principal_components
from dpspark.analysis.remarks import TOO_MANY, assumptions, defined_of, definitions, interval_level, line_remarks
from dpspark.analysis.repair import choose_repair
from dpspark.analysis.result import RegressionResult, check_level
from dpspark.analysis.subsets import Ranking, candidate_blocks, rank_subsets
from dpspark.analysis.summary import row_norm_lines
from dpspark.bundle.schemas import LEAST_EIGENVALUE
from dpspark.bundle.storage import Place, near
from dpspark.core.domain import Domain, Numeric, domain_from_manifest
from dpspark.errors import ConfError, NotOfThisKind
from dpspark.mechanisms.gram.noisy import NoiseModel, back_transform, centre_and_scale, noise_from_manifest
from dpspark.mechanisms.lines.aims import aim, has_own_interval, target_of
from dpspark.mechanisms.quantiles.published import MEANING, RANK_ERROR
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise
from dpspark.source.group_keys import key_label, same_key

NO_INTERVAL = (
    "No interval was paid for (release.interval): a good line and noise look alike, and an empty group has one, too"
)


class Release:
    """What every kind of release has: its place, its certificate, its tables."""

    _needed: str | None = None  # a table without which it holds nothing
    _has = "coefficients(), regress()"  # what its kind is asked for

    def __init__(self, path: Place, manifest: dict[str, Any], tables: Mapping[str, pa.Table]):
        if not tables or (self._needed is not None and self._needed not in tables):
            raise ValueError("no table")
        self.path = path
        self.manifest = manifest
        self.tables = dict(tables)
        self._group: dict[str, Any] = {}  # whose tables these are, of a release by group

    @property
    def kind(self) -> str:
        return str(self.manifest["release"]["kind"])

    def regress(
        self,
        formula: str | None = None,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
    ) -> Any:
        """Least squares from what was released."""
        raise self._no_matrix()

    def all_subsets(
        self, response: str, columns: Sequence[str] | None = None, max_terms: int | None = None, top: int = 10
    ) -> Ranking:
        """Every regression of one response, ranked."""
        raise self._no_matrix()

    def pca(self, k: int | None = None, scale: bool = False, level: float = 0.95) -> Components:
        """Principal components."""
        raise self._no_matrix()

    def group(self, **keys: Any) -> Any:
        """What was released of one group."""
        raise ConfError(
            f"{str(self.path)!r} is not a release by group: it has no groups to choose from. Use it as it is, or "
            "release with release.group_by."
        )

    def report(self, path: str | Path, *, regress: str | Sequence[str] = (), url: str | None = None) -> Path:
        """Write one HTML page that shows it all; `regress` are formulas, `url` a ledger whose balance is shown too."""
        from dpspark.report import write_report

        return write_report(self, path, [regress] if isinstance(regress, str) else regress, url)

    def describe(self) -> Any:
        """What it holds, and what can be asked of it: columns, bounds, definitions, and means with their noise where it has
        them. Print it, or take `to_dict()`."""
        from dpspark.published.description import describe

        return describe(self)

    def _no_matrix(self, what: str = "matrix") -> ConfError:
        return NotOfThisKind(
            f"{str(self.path)!r} is a release of kind {self.kind}: it has no {what}. Release kind gram for that.\n"
            f"This one has {self._has} and describe()."
        )

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(GramRelease, name):
            if isinstance(self, GroupedRelease) and self.kind == "gram":
                raise NotOfThisKind(
                    f"a release by group has no {name} of its own: choose a group first, with .group(...)"
                )
            raise Release._no_matrix(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _title(self) -> str:
        privacy, release = self.manifest["privacy"], self.manifest["release"]
        if privacy["rho"] is not None:
            cost = f"rho = {privacy['rho']:g}"
        else:
            cost = f"epsilon = {privacy['epsilon']:g}" + (f", delta = {privacy['delta']:g}" if privacy["delta"] else "")
        group = "".join(f", {key}={value}" for key, value in self._group.items())
        return f"Release {release['name']} {release['version']}{group}: {cost}, {privacy['neighbours']}"

    def plot(self, ax: Any = None) -> Any:
        """What was released, as matplotlib Axes."""
        from dpspark.published.plots import plot_release

        return plot_release(self, ax)

    def _repr_html_(self) -> str:
        from dpspark.published.notebook import release_parts
        from dpspark.show.html import as_html

        return as_html(release_parts(self))

    def __repr__(self) -> str:
        release = self.manifest["release"]
        return f"{type(self).__name__}({release['name']} {release['version']}, {near(self.path)!r})"


class LinesRelease(Release):
    """Published lines, one for each group."""

    _needed = "predictions"
    _has = "predictions(), summary()"

    @property
    def group_by(self) -> tuple[str, ...]:
        return tuple(self.manifest["spec"]["release"].get("group_by") or ())

    @property
    def target(self) -> str:
        """The line that is aimed at: median or mean."""
        return target_of(self.manifest)

    @property
    def notes(self) -> list[str]:
        """What a reader of the table should know."""
        stages = {stage["stage"] for stage in self.manifest["privacy"].get("spending", ())}
        paid = "interval" in stages or has_own_interval(self.manifest)
        return [] if paid else [NO_INTERVAL]

    @property
    def aim(self) -> str:
        """The same in a sentence."""
        return f"Aims at {aim(self.manifest)}"

    def predictions(self) -> Any:
        """A row for each group and cut, as a table."""
        return self.tables["predictions"].to_pandas()

    @property
    def level(self) -> float | None:
        """The confidence level of the intervals; None if none were paid for."""
        return interval_level(self.manifest)

    def regress(
        self,
        formula: str | None = None,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
    ) -> LinesRelease:
        """The lines themselves; a formula is refused, and a level that is not that of their intervals."""
        refuse_matrix_options(self.kind, repair, interval)
        check_stored_level(self.manifest, level)
        if formula is not None:
            raise ConfError(f"{str(self.path)!r} holds lines of {self.manifest['release']['y']}; it takes no formula.")
        return self

    def group(self, **keys: Any) -> Any:
        """The predictions of one group, e.g. group(tract="06037101110")."""
        return self.only(**keys).predictions()

    def only(self, **keys: Any) -> LinesRelease:
        """The release of one group."""
        check_keys(keys, self.group_by)
        found = LinesRelease(self.path, self.manifest, _of_group(self.tables, keys))
        found._group = _written(found.tables, self.group_by)
        return found

    def summary(self, shown: int = 10) -> str:
        release = self.manifest["release"]
        table = self.predictions()
        groups = len(table) // max(1, table["x"].nunique())
        count = f"{groups:,} line{'s' if groups != 1 else ''}"
        head = [f"{release['y']} at {release['x']}, by {', '.join(self.group_by) or 'one line'}: {count}"]
        head.append(f"{self._title()}; {self.manifest['mechanism']['kernel']}")
        head.append(self.aim)
        if "chosen" in self.manifest["mechanism"]:
            head.append(f"Chosen because {self.manifest['mechanism']['chosen']}")
        more = [f"... {len(table) - shown:,} more rows in predictions.parquet"] if len(table) > shown else []
        lines = [*more, *self.notes, *line_remarks(self.manifest)]
        return "\n".join([*head, "", table.head(shown).to_string(index=False), *lines])

    def to_dict(self) -> dict[str, Any]:
        found = [_plain(row) for row in self.tables["predictions"].to_pylist()]
        return {
            "kind": self.kind,
            "target": self.target,
            "level": self.level,
            "predictions": found,
            "definitions": definitions(self.manifest),
        }


class GroupedRelease(Release):
    """Published matrices or regressions, one for each group."""

    _has = "groups(), group(...)"

    @property
    def group_by(self) -> tuple[str, ...]:
        return tuple(self.manifest["spec"]["release"]["group_by"])

    def groups(self) -> Any:
        """The groups, as a table."""
        first = next(iter(self.tables.values()))
        return first.select(list(self.group_by)).to_pandas().drop_duplicates(ignore_index=True)

    def group(self, **keys: Any) -> Any:
        """The release of one group, e.g. group(state="CA"): all that a release of its kind can do."""
        check_keys(keys, self.group_by)
        tables = _of_group(self.tables, keys)
        chosen = {name: table.drop_columns(list(self.group_by)) for name, table in tables.items()}
        found = GROUPED[self.kind](self.path, self.manifest, chosen)
        found._group = _written(tables, self.group_by)
        return found

    def regress(
        self,
        formula: str | None = None,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
    ) -> Any:
        raise self.no_group_chosen()

    def no_group_chosen(self) -> ConfError:
        what = "regression" if self.kind == "regression" else "matrix"
        first = next(iter(self.tables.values()))
        example = " ".join(f"--group {key}={key_label(first[key][0].as_py())}" for key in self.group_by)
        return ConfError(
            f"this release has a {what} for each {', '.join(self.group_by)}: choose one with group, or {example}"
        )

    def _no_matrix(self, what: str = "matrix") -> ConfError:
        return self.no_group_chosen() if self.kind == "gram" else super()._no_matrix(what)


def check_keys(keys: Mapping[str, Any], group_by: Sequence[str]) -> None:
    if set(keys) != set(group_by):
        raise ConfError(f"group: expected {', '.join(group_by) or 'no keys: this release has no groups'}.")


def _of_group(tables: Mapping[str, pa.Table], keys: Mapping[str, Any]) -> dict[str, pa.Table]:
    found = {}
    for name, table in tables.items():
        for column, value in keys.items():
            table = table.filter(same_key(table, column, value))
        if not table.num_rows:
            raise ConfError(f"group: {', '.join(f'{k}={v!r}' for k, v in keys.items())} is not among the groups.")
        found[name] = table
    return found


def _written(tables: Mapping[str, pa.Table], group_by: Sequence[str]) -> dict[str, str]:
    """The keys of the one group of these tables, as they are shown."""
    first = next(iter(tables.values()))
    return {name: key_label(first[name][0].as_py()) for name in group_by}


class QuantilesRelease(Release):
    """Published quantiles of columns."""

    _needed = "quantiles"
    _has = "quantiles(), summary()"

    @property
    def notes(self) -> list[str]:
        """What its columns say, for readers of the table."""
        table = self.tables["quantiles"]
        if "rank_error" not in table.column_names:  # of version 0.2
            return []
        said = sorted({*table["status"].to_pylist()} & {*MEANING})
        return [RANK_ERROR, *(f"{status}: {MEANING[status]}" for status in said)]

    def quantiles(self) -> Any:
        return self.tables["quantiles"].to_pandas()

    @property
    def group_by(self) -> tuple[str, ...]:
        return tuple(self.manifest["spec"]["release"].get("group_by") or ())

    def group(self, **keys: Any) -> Any:
        """The quantiles of one group, e.g. group(state="CA")."""
        return self.only(**keys).quantiles()

    def only(self, **keys: Any) -> QuantilesRelease:
        """The release of one group."""
        if not self.group_by:
            super().group(**keys)
        check_keys(keys, self.group_by)
        found = QuantilesRelease(self.path, self.manifest, _of_group(self.tables, keys))
        found._group = _written(found.tables, self.group_by)
        return found

    def regress(
        self,
        formula: str | None = None,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
    ) -> QuantilesRelease:
        """The quantiles themselves; a formula is refused, and what would change them."""
        refuse_matrix_options(self.kind, repair, interval)
        check_stored_level(self.manifest, level)
        if formula is not None:
            raise self._no_matrix()
        return self

    def summary(self) -> str:
        shown = self.quantiles().to_string(index=False)
        return "\n".join([self._title(), "", shown, *self.notes, *line_remarks(self.manifest)])

    def to_dict(self) -> dict[str, Any]:
        found = [_plain(row) for row in self.tables["quantiles"].to_pylist()]
        return {"kind": self.kind, "quantiles": found, "definitions": definitions(self.manifest)}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in row.items()}


class RegressionRelease(Release):
    """One published regression."""

    def __init__(self, path: Place, manifest: dict[str, Any], tables: Mapping[str, pa.Table]):
        super().__init__(path, manifest, tables)
        self._domain = domain_from_manifest(manifest)
        terms = self._domain.terms
        table = tables["coefficients"]
        if tuple(table["term"].to_pylist()) != terms[:-1]:
            raise ValueError("wrong terms")
        self._theta = to_scaled(self._domain, table["estimate"].to_numpy())
        self._statistics = _read_statistics(tables["statistics"], terms, manifest) if "statistics" in tables else None

    def fit(
        self, level: float | None = None, *, repair: str | None = None, interval: str | None = None
    ) -> RegressionFit:
        """The regression, with intervals at a level, by default 95%; what its mechanism does not give is refused."""
        method, why_none = interval_method(self._domain, self.manifest["mechanism"], self._statistics)
        check_fit_options(method, why_none, level, repair, interval)
        seed = seed_of(self.manifest["spec_hash"])
        mechanism = self.manifest["mechanism"]
        clipped = self.tables["diagnostics"].to_pylist() if "diagnostics" in self.tables else []
        return RegressionFit(
            self._domain,
            mechanism,
            self._theta,
            self._statistics,
            seed,
            self._title(),
            level_or_usual(level),
            clipped,
            assumptions(self.manifest),
            definitions(self.manifest),
        )

    def coefficients(self, level: float | None = None) -> Any:
        """As a table, with intervals at a level."""
        return self.fit(level).to_frame()

    def regress(
        self,
        formula: str | None = None,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
    ) -> RegressionFit:
        """The one regression of this release; another formula is refused."""
        fit = self.fit(level, repair=repair, interval=interval)
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


def _noise_of_stage(manifest: dict[str, Any], name: str) -> NoiseModel:
    from dpspark.bundle.manifest_shape import Additive

    (stage,) = (each for each in manifest["privacy"]["spending"] if each["stage"] == name)
    return noise_from_manifest(Additive.model_validate(stage["noise"]).model_dump())


class GramRelease(Release):
    """A published second-moment matrix."""

    def __init__(self, path: Place, manifest: dict[str, Any], tables: Mapping[str, pa.Table]):
        super().__init__(path, manifest, tables)
        self._domain = domain_from_manifest(manifest)
        self._noise = noise_from_manifest(manifest["mechanism"]["noise"])
        self._matrix, self._noise_std = self._read_matrix(tables["second_moment"])
        # In original units a column far from 0 has lost digits: regressions start from the scaled matrix, if it is there.
        self._scaled = self._read_matrix(tables["scaled"])[0] if "scaled" in tables else None
        self._squared_noise = _noise_of_stage(manifest, "squared weights") if "squared_weights" in tables else None

    def _read_matrix(self, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Values and their noise, in the order of the terms."""
        width = self._domain.width
        index = {term: i for i, term in enumerate(self._domain.terms)}
        at = [index[term] for term in table["row"].to_pylist()], [index[term] for term in table["col"].to_pylist()]
        if len(at[0]) != width * width:
            raise ValueError("wrong number of entries")
        matrix, noise_std = np.zeros((width, width)), np.zeros((width, width))
        matrix[at] = table["value"].to_numpy()
        noise_std[at] = table["noise_std"].to_numpy()
        return matrix, noise_std

    @property
    def terms(self) -> tuple[str, ...]:
        return self._domain.terms

    @property
    def noise(self) -> NoiseModel:
        """In units of the scaled matrix."""
        return self._noise

    def scaled_noise_std(self) -> np.ndarray:
        """The noise of each entry of the scaled matrix."""
        width = len(self.terms)
        unit = Domain(tuple(Numeric(str(i), -1.0, 1.0) for i in range(1, width)))
        return self._noise.entry_std(unit, self._moments().scaled)

    def second_moment(self, repair: str | None = None) -> Any:
        """DᵀD with noise, in original units, as a labelled table; repaired as the release says, or as asked ("none": not)."""
        return self._labelled(self._repaired(repair), self.terms)

    def repaired(self, how: str | None = None) -> Any:
        """The matrix made positive definite: ridge, eigen, nearest_psd, or safe for wishart. Post-processing: no cost."""
        return self.second_moment(repair=how)

    def noise_std(self) -> Any:
        """The standard deviation of the noise in each entry of the unrepaired `second_moment`."""
        return self._labelled(self._noise_std, self.terms)

    def covariance(self, repair: str | None = None) -> Any:
        """Of the columns, as bounded."""
        return self._labelled(covariance_of(self._repaired(repair)), self.terms[1:])

    def covariance_std(self) -> Any:
        """The standard deviation of the noise in each entry of the unrepaired `covariance`, to first order."""
        half = self._moments().half[1:]
        return self._labelled(covariance_std(self._moments()) * np.outer(half, half), self.terms[1:])

    def correlation(self, repair: str | None = None) -> Any:
        """NaN where the noise leaves no positive variance."""
        return self._labelled(correlation_of(covariance_of(self._repaired(repair))), self.terms[1:])

    def correlation_std(self) -> Any:
        """The standard deviation of the noise in each entry of the unrepaired `correlation`, to first order."""
        return self._labelled(correlation_std(self._moments()), self.terms[1:])

    def variance_along(self, direction: Mapping[str, float]) -> float:
        """The variance of a combination of columns, e.g. {"age": 1, "educ": -2}; negative if the noise wins."""
        unknown = [term for term in direction if term not in self.terms[1:]]
        if unknown:
            raise ConfError(f"variance_along: no column {unknown[0]!r}; there are {', '.join(self.terms[1:])}.")
        weights = np.array([direction.get(term, 0.0) for term in self.terms[1:]])
        return float(weights @ self.covariance().to_numpy() @ weights)

    def regress(
        self,
        formula: str | None = None,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
    ) -> RegressionResult:
        """Least squares from the matrix alone, with 95% intervals unless `level` says otherwise.

        `interval` is delta (the default) or bootstrap; `repair` as in `repaired`.
        """
        if formula is None:
            from dpspark.published.description import gram_example

            raise ConfError(f"formula: missing, e.g. '{gram_example(self)}'. This release serves any.")
        blocks = {block.name: block.terms for block in self._domain.blocks}
        parsed = parse_formula(formula, self.terms, blocks)
        chosen, moments = choose_repair(repair, self.manifest), self._moments()
        check_weighted_options(moments.has_intervals, level, interval)
        return RegressionResult(
            moments,
            parsed,
            level_or_usual(level),
            self._row_values,
            "; ".join([self._title(), *row_norm_lines(self._domain)]),
            self._clipped((parsed.response, *parsed.regressors)),
            chosen,
            "delta" if interval is None else interval,
            self._seed(str(parsed)),
            self._domain,
            assumptions(self.manifest),
            defined_of(definitions(self.manifest), (parsed.response, *parsed.regressors)),
        )

    def all_subsets(
        self, response: str, columns: Sequence[str] | None = None, max_terms: int | None = None, top: int = 10
    ) -> Ranking:
        """Every regression of a response on a subset of the columns, ranked by a BIC that knows the privacy noise."""
        for name, value, least in (("max_terms", max_terms, 0), ("top", top, 1)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ConfError(f"all subsets: {name}={value!r}; expected a whole number >= {least}.")
        if self.manifest.get("weight") is not None:
            raise ConfError(
                "all subsets: the rows are weighted, and their number, which the ranking needs, is not known."
            )
        known = [(column.name, column.terms) for column in self._domain.columns]
        blocks = candidate_blocks(response, known, columns)
        found = rank_subsets(self._moments(), response, blocks, max_terms, top)
        named = {name for subset in found.subsets for name in subset.columns}
        return replace(
            found,
            assumptions=tuple(assumptions(self.manifest, "BIC and R-squared", TOO_MANY)),
            definitions=defined_of(definitions(self.manifest), (response, *named)),
        )

    def pca(self, k: int | None = None, scale: bool = False, level: float = 0.95) -> Components:
        """The first k principal components, with bands for the noise.

        Of the covariance with each column in half-ranges of its bounds, so that units do not matter; `scale=True`: of the
        correlation matrix. A categorical column stands for its columns less the first, as in a formula.
        """
        firsts = {block.terms[0] for block in self._domain.blocks if len(block.terms) > 1}
        moments = self._moments().only([term for term in self.terms if term not in firsts])
        return principal_components(moments, k, scale, check_level(level), self._seed(f"pca {scale}"))

    def _repaired(self, how: str | None) -> np.ndarray:
        repair = choose_repair(how, self.manifest)
        if repair.how == "none":
            return self._matrix
        moments = self._moments()
        back = back_transform(moments.middle, moments.half)
        return back @ repair.matrix(moments) @ back.T

    def _seed(self, purpose: str) -> int:
        """From the release itself, so that an analyst's results repeat. It protects nothing."""
        text = f"{self.manifest['spec_hash']} {self.manifest['ledger']['id']} {purpose}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def _moments(self) -> Moments:
        middle, half = centre_and_scale(self._domain)
        moments = (
            Moments.from_original(self.terms, self._matrix, middle, half, self._noise)
            if self._scaled is None
            else Moments(self.terms, self._scaled, middle, half, self._noise)
        )
        squared = None
        if "squared_weights" in self.tables:
            matrix, _ = self._read_matrix(self.tables["squared_weights"])
            squared = Moments.from_original(self.terms, matrix, moments.middle, moments.half, self._noise).scaled
        weighted = self.manifest.get("weight") is not None
        return replace(moments, weighted=weighted, squared_weights=squared, squared_noise=self._squared_noise)

    def _clipped(self, terms: Sequence[str]) -> list[dict[str, Any]]:
        """What the release says about values outside the bounds of some columns; nothing if that was not paid for."""
        table = self.tables.get("diagnostics")
        return [] if table is None else [row for row in table.to_pylist() if row["column"] in terms]

    def _row_values(self, frame: Any, term: str) -> np.ndarray:
        """One term's column for new rows, bounded as the release was."""
        column = next(column for column in self._domain.columns if term in column.terms)
        values = new_values(column, frame)
        if isinstance(column, Numeric):
            return np.where(np.isnan(values), column.middle, np.clip(values, column.lower, column.upper))
        return (values == column.terms.index(term)).astype(float)

    @staticmethod
    def _labelled(values: np.ndarray, terms: tuple[str, ...]) -> Any:
        import pandas as pd

        return pd.DataFrame(values, index=list(terms), columns=list(terms))


# Kinds that may be released by group, and what one group's release is.
GROUPED: dict[str, type[Release]] = {"gram": GramRelease, "regression": RegressionRelease}
