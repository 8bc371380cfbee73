"""Write census-like microdata as Parquet: spark-submit jobs/make_microdata.py --rows 1000000 --out DIR."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dpspark.demo.microdata import check_request, write_microdata
from dpspark.errors import DpsparkError
from dpspark.spark.session import spark_session


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write census-like microdata as Parquet.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="people to invent (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty directory")
    parser.add_argument("--seed", type=int, default=2000, help="the same seed, the same people (default: %(default)s)")
    parser.add_argument("--files", type=int, help="Parquet files to write (default: one per 2 million rows)")
    args = parser.parse_args(argv)
    try:
        check_request(args.rows, args.seed, args.files)  # before Spark starts
        with spark_session("make microdata") as spark:
            write_microdata(spark, args.out, args.rows, args.seed, args.files)
    except DpsparkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"wrote {args.rows} rows of microdata to {args.out} (seed {args.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
