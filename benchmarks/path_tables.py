"""Tables of the benchmark's rows: Delta with deletion vectors, Iceberg, and a Parquet table of Spark's catalog."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq


def make_table(spark: Any, files: str) -> dict[str, Any]:
    """Make a table of the catalog that lies on the files."""
    spark.sql("drop table if exists bench_rows")
    spark.sql(f"create table bench_rows using parquet location '{files}'")
    return {"table": "bench_rows"}


def make_iceberg(home: str, files: str) -> dict[str, Any]:
    """Make an Iceberg table with the same rows, file by file."""
    warehouse = Path(home, "iceberg")
    warehouse.mkdir()
    settings = {"type": "sql", "uri": f"sqlite:///{warehouse}/catalog.db", "warehouse": f"file://{warehouse}"}
    for key, value in settings.items():
        os.environ[f"PYICEBERG_CATALOG__BENCH__{key.upper()}"] = value
    from pyiceberg.catalog import load_catalog  # it looks at the environment when it is imported

    catalog = load_catalog("bench", **settings)
    catalog.create_namespace("lake")
    parts = sorted(Path(files).glob("*.parquet"))
    same = {"write.parquet.compression-codec": "snappy"}  # as the plain files are written
    table = catalog.create_table("lake.rows", schema=pq.read_schema(parts[0]), properties=same)
    for part in parts:
        table.append(pq.read_table(part))
    return {"iceberg": "bench.lake.rows"}


def make_delta(home: str, files: str, share: float) -> dict[str, Any]:
    """Make a Delta table of the files, of whose rows a share is gone: marked in deletion vectors, and not rewritten."""
    from tests.lake_tables import delta_add, delta_field, delta_vector, write_delta  # delta-rs writes no vectors

    place = Path(home, "delta")
    place.mkdir()
    actions = []
    for number, part in enumerate(sorted(Path(files).glob("*.parquet"))):
        os.link(part, place / part.name)
        rows = pq.read_metadata(part).num_rows
        gone = np.flatnonzero(np.random.default_rng(number).random(rows) < share)
        vector = delta_vector(place, "u", gone.tolist())
        actions.append(delta_add(part.name, rows, deletionVector=vector))
        schema = pq.read_schema(part)
    kinds = {"double": "double", "int64": "long"}
    fields = [delta_field(field.name, kinds[str(field.type)]) for field in schema]
    write_delta(place, fields, actions, ["deletionVectors"])
    return {"delta": str(place)}
