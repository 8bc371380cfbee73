"""`dpspark convert`: the tables of a release and its manifest, as other tools read them. Post-processing: no cost."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpspark.bundle.files import MANIFEST
from dpspark.core.domain import category_label
from dpspark.errors import OutputError
from dpspark.published.gram import GramRelease
from dpspark.published.reading import read_release
from dpspark.published.release import Release


def convert_release(release: str, form: str, out: str, report: Callable[[str], None]) -> list[str]:
    """Write the files; their paths."""
    report("reading the release")
    found = read_release(release)
    report("converting")
    try:
        files = {"csv": _as_csv, "json": _as_json, "r": _as_rds}[form](found)
    except (ValueError, OverflowError):  # of a stranger's bundle: text that is no Unicode, numbers that are no doubles
        raise OutputError(f"{release!r} has text or numbers that {form} cannot hold. Nothing was written.") from None
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"--out {out!r}: {error.strerror}. Choose another directory.") from None
    for name in files:
        if (folder / name).exists():
            raise OutputError(f"{str(folder / name)!r} is there already. Choose another --out, or remove it.")
    for name, content in files.items():
        try:
            with (folder / name).open("xb") as file:
                file.write(content)
        except OSError as error:
            raise OutputError(f"{str(folder / name)!r}: {error.strerror}. Choose another --out.") from None
    return [str(folder / name) for name in files]


def _as_csv(release: Release) -> dict[str, bytes]:
    tables = {f"{name}.csv": _csv(table).encode("utf-8") for name, table in release.tables.items()}
    return {**tables, MANIFEST: _json(release.manifest, indent=2)}


def _csv(table: pa.Table) -> str:
    """Numbers with the digits that give the same double again; no value: an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*(map(_field, column.to_pylist()) for column in table.columns), strict=True))
    return text.getvalue()


def _field(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"  # as R and DuckDB read them
    return "" if value is None else repr(value) if isinstance(value, float) else category_label(value)


def _as_json(release: Release) -> dict[str, bytes]:
    """Tables by rows. JSON has no NaN: it is null."""
    tables = {name: [_plain(row) for row in table.to_pylist()] for name, table in release.tables.items()}
    return {f"{_name(release)}.json": _json({"manifest": release.manifest, "tables": tables})}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}


def _as_rds(release: Release) -> dict[str, bytes]:
    """A list of the manifest and the tables; of a matrix, also the matrix itself with the names of its terms."""
    from dpspark.interop.rds import Matrix, rds

    content: dict[str, Any] = {"manifest": release.manifest, "tables": release.tables}
    if isinstance(release, GramRelease):
        terms = release.terms
        content["second_moment"] = Matrix(release.second_moment("none").to_numpy(), terms, terms)
        content["noise_std"] = Matrix(release.noise_std().to_numpy(), terms, terms)
    return {f"{_name(release)}.rds": rds(content)}


def _name(release: Release) -> str:
    named = release.manifest["release"]
    return f"{named['name']}-{named['version']}"


def _json(content: Any, indent: int | None = None) -> bytes:
    return (json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
