"""release.group_counts, from the conf to the bundle and its verification."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.verifying.verification import verify
from tests.noises import FixedSecret, NoNoiseFixedSecret

GROUPS = [f"g{i}" for i in range(6)]
ROWS = [0, 3, 40, 60, 80, 100]


def asked(conf: dict[str, Any], tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """Six groups of 0 to 100 rows around 0.3 + 0.4·x, rows with nulls, and a group that is not listed."""
    rng = np.random.default_rng(8)
    code = np.repeat(np.arange(7), [*ROWS, 30])
    x = rng.uniform(0, 1, len(code))
    y = np.clip(0.3 + 0.4 * x + rng.normal(0, 0.15, len(code)), 0, 1)
    table = pa.table({"g": [f"g{c}" for c in code], "x": x, "y": y})
    nulls = pa.table({"g": ["g2"] * 5, "x": pa.array([None] * 5, pa.float64()), "y": [0.5] * 5})
    path = tmp_path / "groups.parquet"
    pq.write_table(pa.concat_tables([table, nulls]), path, row_group_size=50)
    release = {"kind": "theil_sen", "x": "x", "y": "y", "expected_rows": 50, "group_counts": {"epsilon_share": 0.5}}
    return {
        **conf,
        "source": {"parquet": str(path)},
        "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
        "privacy": {"epsilon": 10.0},
        "release": {**conf["release"], **release, "group_by": ["g"], "groups": GROUPS, **changes},
        "mechanism": {"name": "depth"},
    }


def test_groups_are_counted(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """Rows that lines were fitted to, and no others, whatever partition they are in. Kills: rows of no listed group."""
    made = asked(conf, tmp_path)
    frame = spark.read.parquet(made["source"]["parquet"]).repartition(3)
    rel = dpspark.release(made, frame, spark=spark, noise=NoNoiseFixedSecret())
    counts, cells = rel.tables["group_counts"], rel.tables["line_cells"]
    assert counts["rows"].to_pylist() == ROWS
    assert counts["g"].to_pylist() == GROUPS
    lines = rel.predictions().drop_duplicates("g").set_index("g")
    rows = pq.read_table(made["source"]["parquet"]).to_pandas().dropna()
    rows = rows[rows.g.isin(GROUPS)].join(lines[["slope", "intercept"]], on="g")
    residual = (rows.y - rows.intercept - rows.slope * rows.x).to_numpy()[:, None]
    here = (cells[name].to_numpy() for name in ("x_low", "x_high", "residual_low", "residual_high"))
    x_low, x_high, low, high = here
    x = rows.x.to_numpy()[:, None]
    inside = (x_low <= x) & (x < x_high) & (low <= residual) & (residual < high)
    assert abs(inside.sum(axis=0) - cells["rows"].to_numpy()).sum() <= 4  # two rows within rounding of an edge
    assert sum(cells["rows"].to_pylist()) == sum(ROWS)


def test_it_is_verified(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    made = {**asked(conf, tmp_path), "privacy": {"epsilon": 0.5}}
    rel = dpspark.release(made, spark=spark, noise=FixedSecret())
    assert [part["stage"] for part in rel.manifest["privacy"]["spending"]] == ["group_counts", "theil_sen"]
    counts = rel.tables["group_counts"]
    assert counts["rows"].to_pylist() != ROWS
    assert counts["noise_std"].to_numpy()[0] == pytest.approx(math.sqrt(2) / (0.25 * 0.9), rel=0.02)
    assert verify(rel.path).passed
