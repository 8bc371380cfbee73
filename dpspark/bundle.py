"""The release bundle: manifest and Parquet, written once, read by anyone. Every schema is in this file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.data.bounds import plain_values
from dpspark.data.domain import Categorical, Domain, Numeric
from dpspark.errors import ConfError, OutputError
from dpspark.mechanisms.noisy import NoisyGram, centre_and_scale, noise_from_manifest
from dpspark.regression.formula import parse_formula
from dpspark.regression.ols import Moments
from dpspark.regression.result import RegressionResult

FORMAT = 1
MANIFEST = "manifest.json"
SECOND_MOMENT = "second_moment.parquet"
SUCCESS = "_SUCCESS"
SECOND_MOMENT_SCHEMA = pa.schema(
    [("row", pa.string()), ("col", pa.string()), ("value", pa.float64()), ("noise_std", pa.float64())]
)


def stage(output: Path, entry_id: str, noisy: NoisyGram, manifest: dict[str, Any]) -> Path:
    """Write a complete bundle beside its final place, durably. It appears under its name whole or not at all."""
    staged = staging_path(output, entry_id)
    partial = staged.with_name(f"{entry_id}.{uuid.uuid4().hex}")
    try:
        partial.mkdir(mode=0o700, parents=True)
        table = _second_moment_table(noisy)
        pq.write_table(table, partial / SECOND_MOMENT)
        digest = hashlib.sha256((partial / SECOND_MOMENT).read_bytes()).hexdigest()
        content = {**manifest, "files": {SECOND_MOMENT: {"sha256": digest}}}
        (partial / MANIFEST).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        for path in (partial / SECOND_MOMENT, partial / MANIFEST, partial):
            _fsync(path)
        try:
            os.rename(partial, staged)
        except OSError:
            if not staged.exists():
                raise
            shutil.rmtree(partial)  # another driver of this release was first: its draw stands, ours was seen by no one
        _fsync(staged.parent)
    except OSError as error:
        raise _unwritable(output, error) from None
    return staged


def staging_path(output: Path, entry_id: str) -> Path:
    return output / ".staging" / entry_id


def publish(staged: Path, final: Path) -> None:
    """Move a staged bundle to its place; `_SUCCESS` last. If another driver of this release was first, its bundle stands."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        if not final.exists():
            try:
                os.rename(staged, final)
            except OSError:
                if not final.exists():
                    raise
        for draft in staged.parent.glob(f"{staged.name}*"):  # what a crash or another driver left: draws no one saw
            shutil.rmtree(draft, ignore_errors=True)
        os.chmod(final, 0o755)
        _fsync(final.parent)
        (final / SUCCESS).touch()
        _fsync(final / SUCCESS)
        _fsync(final)
    except OSError as error:
        raise _unwritable(final, error) from None


def check_writable(output: Path) -> None:
    probe = output / ".staging" / f"probe.{uuid.uuid4().hex}"
    try:
        probe.mkdir(parents=True, mode=0o700)
        probe.rmdir()
        os.chmod(probe.parent, 0o700)
    except OSError as error:
        raise _unwritable(output, error) from None


def read_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest at a path, finished or not; None if there is none."""
    try:
        content = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        raise OutputError(f"{path}: its {MANIFEST} cannot be read.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise OutputError(f"{path}: its {MANIFEST} is not of a release that this version can read.")
    return content


def read_release(path: str | Path) -> Release:
    """Open a published release."""
    folder = Path(path)
    if not folder.is_dir():
        raise ConfError(f"release {str(path)!r}: no such directory. Give the one that holds {MANIFEST}.")
    manifest = read_manifest(folder)
    if manifest is None:
        raise ConfError(f"release {str(path)!r}: no {MANIFEST} in it. Give <output>/<name>/<version>.")
    if not (folder / SUCCESS).exists():
        raise OutputError(f"release {str(path)!r} is unfinished. Run its release job again.")
    try:
        with pq.ParquetFile(folder / SECOND_MOMENT) as file:  # pq.read_table would import much more
            table = file.read()
        return Release(folder, manifest, table)
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
        raise OutputError(f"release {str(path)!r} is damaged: {SECOND_MOMENT} and {MANIFEST} do not fit.") from None


class Release:
    """A published second-moment matrix. Everything computed from it is post-processing: no cost."""

    def __init__(self, path: Path, manifest: dict[str, Any], table: pa.Table):
        self.path = path
        self.manifest = manifest
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

    def regress(self, formula: str, level: float = 0.95) -> RegressionResult:
        """Least squares from the matrix alone."""
        blocks = {block.name: block.terms for block in self._domain.blocks}
        parsed = parse_formula(formula, self.terms, blocks)
        return RegressionResult(self._moments(), parsed, level, self._row_values, self._title())

    def _moments(self) -> Moments:
        return Moments.from_original(self.terms, self._matrix, *centre_and_scale(self._domain), self._noise)

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

    def _title(self) -> str:
        privacy, release = self.manifest["privacy"], self.manifest["release"]
        if privacy["rho"] is not None:
            cost = f"rho = {privacy['rho']:g}"
        else:
            cost = f"epsilon = {privacy['epsilon']:g}" + (f", delta = {privacy['delta']:g}" if privacy["delta"] else "")
        return f"Release {release['name']} {release['version']}: {cost}, {privacy['neighbours']}"

    @staticmethod
    def _labelled(values: np.ndarray, terms: tuple[str, ...]) -> Any:
        import pandas as pd

        return pd.DataFrame(values, index=list(terms), columns=list(terms))

    def __repr__(self) -> str:
        release = self.manifest["release"]
        return f"Release({release['name']} {release['version']}, {len(self.terms)} terms, {str(self.path)!r})"


def domain_to_manifest(domain: Domain) -> list[dict[str, Any]]:
    return [
        {"name": c.name, "lower": c.lower, "upper": c.upper}
        if isinstance(c, Numeric)
        else {"name": c.name, "categories": list(c.categories)}
        for c in domain.columns
    ]


def domain_from_manifest(manifest: dict[str, Any]) -> Domain:
    """The columns and the grid; row norm and null policy do not matter once the rows are gone."""
    columns = [
        Numeric(c["name"], float(c["lower"]), float(c["upper"]))
        if "lower" in c
        else Categorical(c["name"], tuple(c["categories"]))
        for c in manifest["columns"]
    ]
    return Domain(tuple(columns), bits=int(manifest["grid_bits"]))


def _second_moment_table(noisy: NoisyGram) -> pa.Table:
    matrix, noise_std = noisy.second_moment()
    terms = noisy.domain.terms
    rows = [term for term in terms for _ in terms]
    return pa.table([rows, list(terms) * len(terms), matrix.ravel(), noise_std.ravel()], schema=SECOND_MOMENT_SCHEMA)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"output {str(path)!r}: {error.strerror}. Choose another output.path or --out.")
