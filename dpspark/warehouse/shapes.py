"""The columns of the result tables: whose rows they are, the keys of the group, then the columns of the bundle."""

from __future__ import annotations

import pyarrow as pa

from dpspark.bundle.schemas import SCHEMAS

RELEASES = "dpspark_releases"
LATEST = "dpspark_latest"
NAMED = ("release", "version")  # tables are partitioned by these
GROUP_KEYS = pa.field("group_keys", pa.map_(pa.string(), pa.string()))
# Each result table, and the table of a bundle that it holds.
RESULTS = {
    "dpspark_second_moments": "second_moment",
    "dpspark_coefficients": "coefficients",
    "dpspark_predictions": "predictions",
    "dpspark_quantiles": "quantiles",
}
RELEASE_FIELDS = [
    *((name, pa.string()) for name in ("kind", "mechanism")),
    *((name, pa.float64()) for name in ("epsilon", "delta", "rho")),
    *((name, pa.string()) for name in ("neighbours", "unit", "judged_by", "guarantee", "dataset", "ledger_id")),
    *((name, pa.string()) for name in ("spec_hash", "manifest_sha256", "path", "dpspark_version")),
    ("created_at", pa.timestamp("us", tz="UTC")),
]


def _shape(fields: list[pa.Field]) -> pa.Schema:
    return pa.schema([*((name, pa.string()) for name in NAMED), GROUP_KEYS, *fields])


# Nothing exact is in them: all of it is in the published bundle.
SHAPES: dict[str, pa.Schema] = {
    **{table: _shape(list(SCHEMAS[stem])) for table, stem in RESULTS.items()},
    RELEASES: _shape([pa.field(name, kind) for name, kind in RELEASE_FIELDS]),
}
SQL_TYPES = {pa.string(): "string", pa.float64(): "double", pa.timestamp("us", tz="UTC"): "timestamp"}


def sql_type(kind: pa.DataType) -> str:
    """Name a type as Spark's SQL does."""
    return "map<string,string>" if pa.types.is_map(kind) else SQL_TYPES[kind]


def text(value: str) -> str:
    """Write a value as a literal of standard SQL, which DataFusion reads."""
    return "'" + value.replace("'", "''") + "'"
