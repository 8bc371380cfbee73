"""Invented tracts: ranks of parents and children in [0, 1], a line of its own in each. For demos, tests and benchmarks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.errors import OutputError

ROWS_SCHEMA = pa.schema([("tract", pa.string()), ("parent_rank", pa.float64()), ("kid_rank", pa.float64())])
TRACTS_AT_ONCE = 10_000


def tract_names(first: int, count: int) -> list[str]:
    """Name tracts with eleven digits: state, county and tract of places that do not exist."""
    return [f"{90 + i // 700_000:02d}{i // 1000 % 700:03d}{i % 1000:06d}" for i in range(first, first + count)]


def tract_batch(first: int, count: int, seed: int) -> pa.Table:
    """Make 20 to 200 people a tract; slopes, levels and spreads vary from tract to tract."""
    rng = np.random.default_rng([seed, first])
    place = np.repeat(np.arange(count), rng.integers(20, 201, count))
    level, slope = rng.normal(0.45, 0.05, count)[place], rng.normal(0.35, 0.12, count)[place]
    spread = rng.uniform(0.15, 0.3, count)[place]
    lean = rng.uniform(0.7, 1.6, (2, count))[:, place]
    parent = rng.beta(lean[0], lean[1])
    kid = np.clip(level + slope * (parent - 0.5) + spread * rng.standard_normal(len(place)), 0.0, 1.0)
    names = np.array(tract_names(first, count))[place]
    return pa.table([pa.array(names), parent, kid], schema=ROWS_SCHEMA)


def write_tracts(out: str, tracts: int, seed: int = 2000) -> None:
    """Write `people.parquet`, and `tracts.parquet` with the public list of tracts."""
    home = Path(out)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(home / "people.parquet", ROWS_SCHEMA) as writer:
            for first in range(0, tracts, TRACTS_AT_ONCE):
                writer.write_table(
                    tract_batch(first, min(TRACTS_AT_ONCE, tracts - first), seed), row_group_size=200_000
                )
        pq.write_table(pa.table({"tract": tract_names(0, tracts)}), home / "tracts.parquet")
    except OSError as error:
        raise OutputError(f"--out {out!r}: {error.strerror}. Choose another directory.") from None
