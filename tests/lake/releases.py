"""Whole releases without noise, so that equal rows are equal releases, and the ways in which they read rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dpspark
from dpspark.releasing.opening import open_files, open_rows
from dpspark.spark.direct import DirectSource
from dpspark.spec.spec import load_spec
from dpspark.verifying.verification import verify
from tests.noises import NoNoiseFixedSecret

PLAIN = {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 200_000}}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "where": {
        "where": "age >= 30 and (sex = 'F' or educ is null or educ > 3)",
        "columns": {**PLAIN, "older": {"expr": "age * 2 + educ", "lower": 0, "upper": 300}},
    },
    "groups": {"columns": PLAIN, "release": {"group_by": ["sex"], "groups": ["F", "M", "X"]}},
    "persons": {
        "columns": PLAIN,
        "privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "person", "max_rows": 2}},
    },
    "bounds": {"columns": {"income": {"bounds": "private", "search": [0, 1e6]}, "age": {"lower": 18, "upper": 99}}},
}


def conf_of(conf: dict[str, Any], way: str, version: str, source: dict[str, Any]) -> dict[str, Any]:
    changes = WAYS[way]
    release = {**conf["release"], **changes.get("release", {}), "version": version}
    return {**conf, **changes, "source": source, "release": release}


def released(
    conf: dict[str, Any], spark: Any, way: str, version: str, report: Callable[[str], None] | None = None, **source: Any
) -> Any:
    """A release, read again from where it was published and verified."""
    made = dpspark.release(conf_of(conf, way, version, source), spark=spark, noise=NoNoiseFixedSecret(), report=report)
    assert verify(made.path).passed
    return dpspark.read_release(made.path)


def numbers(release: Any) -> str:
    """All tables of a release, as a text in which NaN is NaN."""
    return repr({name: table.to_pydict() for name, table in release.content.tables.items()})


def is_direct(conf: dict[str, Any], spark: Any, way: str, **source: Any) -> bool:
    """Whether tasks open the files themselves."""
    spec = load_spec(conf_of(conf, way, "1", source))
    return isinstance(open_rows(spec, spark, None, open_files(spec))[0], DirectSource)


def plain_file(path: Path, table: pa.Table) -> dict[str, Any]:
    """The same rows as one Parquet file, as a source."""
    pq.write_table(table, path, row_group_size=1500)
    return {"parquet": str(path)}


def before_passes(act: Callable[[], Any]) -> Callable[[str], None]:
    """Do something after the source was opened, each time before it is read."""
    return lambda step: act() if step.startswith(("finding bounds", "reading")) else None
