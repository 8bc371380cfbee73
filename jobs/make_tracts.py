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
PER_COUNTY, PER_STATE, STATES = 1000, 700, 10
COUNTIES_DIFFER = 0.03  # the standard deviation of their levels, where their size is asked for


def tract_names(first: int, count: int, per_county: int = PER_COUNTY, per_state: int = PER_STATE) -> list[str]:
    """Invent names of eleven digits: state, county and tract of places that do not exist."""
    places = ((i // per_county, i % per_county) for i in range(first, first + count))
    return [f"{90 + county // per_state:02d}{county % per_state:03d}{tract:06d}" for county, tract in places]


def county_levels(names: Sequence[str], seed: int) -> np.ndarray:
    """Say how much higher or lower the people of each tract's county are, by the names of the tracts."""
    counties, at = np.unique([int(name[:5]) for name in names], return_inverse=True)
    return np.array([np.random.default_rng([seed, 1, county]).normal(0.0, COUNTIES_DIFFER) for county in counties])[at]


def tract_batch(
    first: int, count: int, seed: int, names: Sequence[str] | None = None, levels: np.ndarray | None = None
) -> pa.Table:
    """Invent 20 to 200 people a tract; slopes, levels and spreads vary from tract to tract. `levels` are added to theirs."""
    rng = np.random.default_rng([seed, first])
    place = np.repeat(np.arange(count), rng.integers(20, 201, count))
    level, slope = rng.normal(0.45, 0.05, count)[place], rng.normal(0.35, 0.12, count)[place]
    level = level if levels is None else level + levels[place]
    spread = rng.uniform(0.15, 0.3, count)[place]
    lean = rng.uniform(0.7, 1.6, (2, count))[:, place]
    parent = rng.beta(lean[0], lean[1])
    kid = np.clip(level + slope * (parent - 0.5) + spread * rng.standard_normal(len(place)), 0.0, 1.0)
    called = np.array(tract_names(first, count) if names is None else names)[place]
    return pa.table([pa.array(called), parent, kid], schema=ROWS_SCHEMA)


def write_tracts(
    out: str, tracts: int, seed: int = 2000, per_county: int | None = None, per_state: int | None = None
) -> None:
    """Write `people.parquet`, and `tracts.parquet` with the public list of tracts, their counties and states.

    Counties differ, too, where it is said how many tracts they have.
    """
    home, names = Path(out), tract_names(0, tracts, per_county or PER_COUNTY, per_state or PER_STATE)
    levels = None if per_county is None else county_levels(names, seed)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(home / "people.parquet", ROWS_SCHEMA) as writer:
            for first in range(0, tracts, TRACTS_AT_ONCE):
                part = slice(first, first + TRACTS_AT_ONCE)
                here = names[part]
                people = tract_batch(first, len(here), seed, here, None if levels is None else levels[part])
                writer.write_table(people, row_group_size=200_000)
        above = {"state": [name[:2] for name in names], "county": [name[:5] for name in names]}
        pq.write_table(pa.table({"tract": names, **above}), home / "tracts.parquet")
    except OSError as error:
        raise OutputError(f"--out {out!r}: {error.strerror}. Choose another directory.") from None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write tract-like microdata as Parquet.")
    parser.add_argument("--tracts", type=int, default=70_000, help="tracts to invent (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=2000, help="the same seed, the same people (default: %(default)s)")
    parser.add_argument(
        "--per-county", type=int, help=f"tracts in a county; then counties differ (default: {PER_COUNTY})"
    )
    parser.add_argument("--per-state", type=int, help=f"counties in a state (default: {PER_STATE})")
    args = parser.parse_args(argv)
    if not 0 < args.tracts <= 1_000_000:
        parser.error("--tracts: expected 1 to 1000000")
    for name, most in (("per_county", 1_000_000), ("per_state", 1000)):
        if getattr(args, name) is not None and not 0 < getattr(args, name) <= most:
            parser.error(f"--{name.replace('_', '-')}: expected 1 to {most}")
    if args.tracts > STATES * (args.per_county or PER_COUNTY) * (args.per_state or PER_STATE):
        parser.error(f"--tracts {args.tracts}: more than {STATES} states of such counties have")
    try:
        write_tracts(args.out, args.tracts, args.seed, args.per_county, args.per_state)
    except DpsparkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"wrote {args.tracts} tracts to {args.out} (seed {args.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
