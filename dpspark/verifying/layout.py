"""Whether the tables hold what the spec asks for, and nothing else: every row of every listed group, once and in order.

The tables are a stranger's, too. Digests say that they are those of the manifest; this says that they are those of its spec.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.analysis.content.base import Content
from dpspark.bundle.files import WITHOUT_GROUPS
from dpspark.bundle.schemas import CLIP, LEAST_EIGENVALUE, RESIDUAL, START
from dpspark.core.domain import Domain, category_label
from dpspark.mechanisms.counts.clipped import SIDES
from dpspark.verifying.errors import meat_layout
from dpspark.verifying.levels import level_problems
from dpspark.verifying.numbers import CLOSE, cells_layout, follow, plane_of

Layout = dict[str, list[Any]]  # for each column that says what a row is, its values in one group


def problems(release: Content) -> list[str]:
    """Find what is wrong with the tables; nothing if they are as the spec has them."""
    manifest, domain = release.manifest, release.domain
    asked = manifest["spec"]["release"]
    group_by = list(asked.get("group_by") or ())
    listed = asked["groups"]["count"] if group_by else 1
    wrong = []
    for name, table in release.tables.items():
        groups, keys = (listed, group_by) if name not in WITHOUT_GROUPS else (1, [])
        layout = _layout(name, manifest, domain)
        rows = len(next(iter(layout.values()), [0]))
        if table.num_rows != rows * groups:
            each = f" in each of {groups:,} groups" if keys else ""
            wrong.append(f"{name} has {table.num_rows:,} rows; expected {rows:,}{each}")
        elif not _repeats(table, keys, rows):
            wrong.append(f"{name}: the rows of a group are not together, or not all there")
        elif keys and _digest(table, keys, rows) not in _digests(manifest, table, keys):
            wrong.append(f"{name}: its groups are not those of the spec, in their order")
        elif not all(_is_tiled(table[column], values) for column, values in layout.items()):
            wrong.append(f"{name}: its {' and '.join(layout)} are not those of the spec")
    return wrong or [*level_problems(release), *follow(release)]


def _digests(manifest: dict[str, Any], table: pa.Table, keys: list[str]) -> list[str]:
    """List the digests that the groups may have. Text is what the spec says.

    A list may write a whole number as 3.0: then a second one, beside the spec, is of the keys as they are in the tables.
    """
    found = [manifest["spec"]["release"]["groups"]["sha256"]]
    if not all(pa.types.is_string(table.schema.field(key).type) for key in keys):
        found.append(manifest["release"].get("groups_sha256"))
    return found


def _digest(table: pa.Table, keys: list[str], rows: int) -> str:
    """Hash the groups in their order, as text: the digest in the spec is of the same list."""
    first = table.take(pa.array(np.arange(0, table.num_rows, rows)))
    found = list(zip(*(map(_label, first[key].to_pylist()) for key in keys), strict=True))
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _label(value: Any) -> str:
    """Write a key as text, whatever type its column has."""
    return category_label(int(value) if isinstance(value, float) and value.is_integer() else value)


def _repeats(table: pa.Table, keys: list[str], rows: int) -> bool:
    """Check that each group's key is in all of its rows."""
    at = pa.array(np.arange(table.num_rows) // rows * rows)
    return all(pc.all(pc.equal(table[key], table[key].take(at))).as_py() for key in keys)


def _is_tiled(column: pa.ChunkedArray, values: list[Any]) -> bool:
    expected = pa.array(values, column.type).take(pa.array(np.arange(len(column)) % len(values)))
    if pa.types.is_floating(column.type):
        return bool(np.allclose(column.to_numpy(), expected.to_numpy(), rtol=CLOSE, atol=0.0))
    return bool(pc.all(pc.equal(column, expected)).as_py())


def _layout(name: str, manifest: dict[str, Any], domain: Domain) -> Layout:
    """List the rows of one group."""
    terms, asked = list(domain.terms), manifest["spec"]["release"]
    if name in ("second_moment", "scaled", "squared_weights"):
        return {"row": [term for term in terms for _ in terms], "col": terms * len(terms)}
    if name in ("meat", "scaled_meat"):
        return meat_layout(manifest, domain)
    if name == "coefficients":
        return {"term": terms[:-1]}
    if name == "statistics":
        return _statistics(terms, manifest)
    if name == "group_counts":
        return {}
    if name == "line_cells":
        return cells_layout(manifest)
    if name == "predictions":
        return {"x": list(plane_of(manifest, domain).wanted)}
    if name == "quantiles":
        probabilities = [float(each) for each in asked["probabilities"]]
        columns = [column.name for column in domain.numeric]
        return {
            "column": [column for column in columns for _ in probabilities],
            "probability": probabilities * len(columns),
        }
    columns = [column.name for column in domain.numeric]
    return {"column": [column for column in columns for _ in SIDES], "side": list(SIDES) * len(columns)}


def _statistics(terms: list[str], manifest: dict[str, Any]) -> Layout:
    *regressors, response = terms
    pairs = [(row, col) for row in regressors for col in terms]
    noise = manifest["mechanism"]["noise"]
    if noise["response_std"] is not None:
        pairs.append((response, response))
    if noise["least_eigenvalue_std"] is not None:
        pairs.append((LEAST_EIGENVALUE, LEAST_EIGENVALUE))
    if noise.get("residual_cross_std") is not None:
        pairs += [(START, term) for term in regressors]
        pairs += [(CLIP, CLIP), *((RESIDUAL, term) for term in regressors), (RESIDUAL, RESIDUAL)]
    return {"row": [row for row, _ in pairs], "col": [col for _, col in pairs]}
