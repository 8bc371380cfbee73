"""A published release as rows of the result tables."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from dpspark.bundle.files import group_by, manifest_digest
from dpspark.errors import OutputError
from dpspark.published.release import Release
from dpspark.source.group_keys import key_label
from dpspark.warehouse.shapes import GROUP_KEYS, NAMED, RELEASES, RESULTS, SHAPES


@dataclass(frozen=True)
class ReleaseRows:
    """What one (release, version) has in each result table, some of which have nothing of it."""

    release: str
    version: str
    digest: str  # of the manifest: which release this is, whatever it is called
    tables: dict[str, pa.Table]

    @property
    def results(self) -> dict[str, pa.Table]:
        return {name: table for name, table in self.tables.items() if name != RELEASES}


def rows_of(release: Release) -> ReleaseRows:
    """Make the rows, in the shapes of the tables."""
    manifest = release.manifest
    named = manifest["release"]
    digest = manifest_digest(release.path)
    if digest is None:
        raise OutputError(f"release {str(release.path)!r} is no longer there.")
    tables = {
        name: _result(name, release.tables.get(stem), named, group_by(manifest)) for name, stem in RESULTS.items()
    }
    tables[RELEASES] = pa.Table.from_pylist([_facts(release, digest)], schema=SHAPES[RELEASES])
    return ReleaseRows(named["name"], named["version"], digest, tables)


def _result(name: str, table: pa.Table | None, named: dict[str, Any], keys: list[str]) -> pa.Table:
    shape = SHAPES[name]
    if table is None:
        return shape.empty_table()
    rows = table.num_rows
    columns = {each: pa.repeat(pa.scalar(named[of]), rows) for each, of in zip(NAMED, ("name", "version"), strict=True)}
    columns["group_keys"] = _key_maps(table, keys)
    for field in list(shape)[len(columns) :]:
        there = field.name in table.column_names and field.name not in keys
        columns[field.name] = table[field.name] if there else pa.nulls(rows, field.type)  # older bundles lack some
    return pa.table(columns, schema=shape)


def _key_maps(table: pa.Table, keys: list[str]) -> pa.Array:
    """Write the groups' keys as text, by column; without groups, maps that are empty."""
    labels = [[key_label(value) for value in table[key].to_pylist()] for key in keys]
    pairs = zip(*labels, strict=True) if keys else ((),) * table.num_rows
    return pa.array([list(zip(keys, row, strict=True)) for row in pairs], GROUP_KEYS.type)


def _facts(release: Release, digest: str) -> dict[str, Any]:
    """What an operator wants to know of a release, from its manifest. Its group_keys are the columns' types."""
    manifest = release.manifest
    named, privacy, unit = manifest["release"], manifest["privacy"], manifest["privacy"].get("unit")
    types = named.get("group_types") or {}
    return {
        "release": named["name"],
        "version": named["version"],
        "group_keys": [(key, types.get(key, "string")) for key in group_by(manifest)],
        "kind": named["kind"],
        "mechanism": manifest["mechanism"]["name"],
        **{key: _number(privacy[key]) for key in ("epsilon", "delta", "rho")},
        "neighbours": privacy["neighbours"],
        "unit": str(unit["record"]) if isinstance(unit, dict) and "record" in unit else None,
        "judged_by": privacy.get("judged_by"),
        "guarantee": manifest["guarantee"],
        "dataset": manifest["ledger"]["dataset"],
        "ledger_id": manifest["ledger"]["id"],
        "spec_hash": manifest["spec_hash"],
        "manifest_sha256": digest,
        "path": str(release.path.absolute()),
        "dpspark_version": _dpspark_version(manifest),
        "created_at": _created_at(manifest),
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _dpspark_version(manifest: dict[str, Any]) -> str | None:
    versions = manifest.get("versions")
    found = versions.get("dpspark") if isinstance(versions, dict) else None
    return found if isinstance(found, str) else None


def _created_at(manifest: dict[str, Any]) -> datetime | None:
    """When it was made; nothing, if a stranger's manifest does not say so."""
    with suppress(KeyError, TypeError, ValueError):
        found = datetime.fromisoformat(manifest["created_at"])
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    return None
