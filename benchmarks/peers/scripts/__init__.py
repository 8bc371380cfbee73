"""Peers of dpspark, one script each, for `python -m benchmarks peers`.

A script runs in the environment of its peer, which has no dpspark: `python -I SCRIPT.py PARAMETERS`. PARAMETERS is JSON:

    people, line     directories of Parquet files; every column is in [-1, 1]
    regressors, response, x, y     columns of people, and of line
    epsilon, delta, rho, draws
    started          when its process was started, in seconds since 1970

The last line it prints is JSON:

    version, startup_seconds
    answers          for "slopes" (response ~ regressors on people) and "line" (y ~ x on line), if it can:
                     seconds of each draw, from the path to the answer, and of each draw either `slopes` or `sums`, the
                     upper triangle of the second moments of (1, regressors, response), row by row
    shown            what this run showed of the peer's privacy, as sentences
"""
