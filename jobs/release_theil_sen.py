"""Release robust regression lines, one for each public group.

spark-submit jobs/release_theil_sen.py CONF [--out DIR] [--set path.to.key=value]... [--url URL] [--json]
"""

import sys

from dpspark.cli.main import main

if __name__ == "__main__":
    main(["release", *sys.argv[1:]])
