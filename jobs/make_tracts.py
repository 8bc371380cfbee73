"""Write tract-like microdata and its public list of tracts: python jobs/make_tracts.py --tracts 70000 --out DIR."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dpspark.demo.tracts import write_tracts
from dpspark.errors import DpsparkError


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
