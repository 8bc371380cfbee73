"""Repeat the papers' experiments.

python jobs/evaluate.py [EXPERIMENT...] [--data DIR] [--quick] [--out DIR]     (or spark-submit, for those that run on Spark)
"""

import sys

from dpspark.cli.main import main

if __name__ == "__main__":
    main(["evaluate", *sys.argv[1:]])
