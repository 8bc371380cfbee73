"""Write tract-like microdata and its public list of tracts: python jobs/make_tracts.py --tracts 70000 --out DIR.

Ranks of parents and children are in [0, 1], with a line of its own in each tract. The benchmarks and experiments use them too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.errors import DpsparkError, OutputError

ROWS_SCHEMA = pa.schema([("tract", pa.string()), ("parent_rank", pa.float64()), ("kid_rank", pa.float64())])
TRACTS_AT_ONCE = 10_000


def tract_names(first: int, count: int) -> list[str]:
    """Invent names of eleven digits: state, county and tract of places that do not exist."""
    return [f"{90 + i // 700_000:02d}{i // 1000 % 700:03d}{i % 1000:06d}" for i in range(first, first + count)]


def tract_batch(first: int, count: int, seed: int) -> pa.Table:
    """Invent 20 to 200 people a tract; slopes, levels and spreads vary from tract to tract."""
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


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write tract-like microdata as Parquet.")
    parser.add_argument("--tracts", type=int, default=70_000, help="tracts to invent (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=2000, help="the same seed, the same people (default: %(default)s)")
    args = parser.parse_args(argv)
    if not 0 < args.tracts <= 1_000_000:
        parser.error("--tracts: expected 1 to 1000000")
    try:
        write_tracts(args.out, args.tracts, args.seed)
    except DpsparkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"wrote {args.tracts} tracts to {args.out} (seed {args.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
