"""`dpspark convert`: the tables of a release and its manifest, as other tools read them. Post-processing: no cost."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpspark.cli.options import complete_directories, release_argument, report_step
from dpspark.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

    from dpspark.published.release import Release


@click.command()
@release_argument
@click.option(
    "--to",
    "form",
    type=click.Choice(["csv", "json", "r", "registry", "jsonld", "statement"]),
    required=True,
    help="csv: a file for each table; json: all in one; r: an .rds for readRDS(); registry: an entry of OpenDP's registry of "
    "deployments; jsonld: a description for catalogs; statement: a page in the order of NIST SP 800-226.",
)
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    required=True,
    help="Made if it is not there; no file in it is written over.",
    shell_complete=complete_directories,
)
def convert(release: str, form: str, out: str) -> None:
    """Write a release as CSV, JSON or for R, with all digits, or its facts for the public."""
    for path in convert_release(release, form, out, report_step):
        click.echo(path)


def convert_release(release: str, form: str, out: str, report: Callable[[str], None]) -> list[str]:
    """Write the files and give their paths."""
    from dpspark.published.reading import read_release

    report("reading the release")
    found = read_release(release)
    report("converting")
    try:
        files = WRITERS[form](found)
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
    from dpspark.bundle.files import MANIFEST

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
    from dpspark.core.domain import category_label

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
    """Put the manifest and the tables into a list; of a matrix, also the matrix itself with the names of its terms."""
    from dpspark.interop.rds import Matrix, rds
    from dpspark.published.gram import GramRelease

    content: dict[str, Any] = {"manifest": release.manifest, "tables": release.tables}
    if isinstance(release, GramRelease):
        terms = release.terms
        content["second_moment"] = Matrix(release.second_moment("none").to_numpy(), terms, terms)
        content["noise_std"] = Matrix(release.noise_std().to_numpy(), terms, terms)
    return {f"{_name(release)}.rds": rds(content)}


def _as_registry(release: Release) -> dict[str, bytes]:
    from dpspark.interop.deployment import deployment_of
    from dpspark.interop.registry import registry_entry

    return {f"{_name(release)}.yaml": registry_entry(deployment_of(release)).encode("utf-8")}


def _as_json_ld(release: Release) -> dict[str, bytes]:
    from dpspark.interop.deployment import deployment_of
    from dpspark.interop.json_ld import json_ld

    return {f"{_name(release)}.jsonld": _json(json_ld(deployment_of(release)), indent=2)}


def _as_statement(release: Release) -> dict[str, bytes]:
    from dpspark.interop.deployment import deployment_of
    from dpspark.interop.statement import statement

    return {f"{_name(release)}-statement.html": statement(deployment_of(release)).encode("utf-8")}


WRITERS: dict[str, Callable[[Release], dict[str, bytes]]] = {
    "csv": _as_csv,
    "json": _as_json,
    "r": _as_rds,
    "registry": _as_registry,
    "jsonld": _as_json_ld,
    "statement": _as_statement,
}


def _name(release: Release) -> str:
    named = release.manifest["release"]
    return f"{named['name']}-{named['version']}"


def _json(content: Any, indent: int | None = None) -> bytes:
    return (json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
