"""OpenDP: Gaussian noise on second moments that the caller sums, and its Theil-Sen line."""

import json
import math
import sys
import time
from importlib.metadata import version

import numpy as np
import opendp.prelude as dp
import pyarrow.parquet as pq
from opendp.extras.sklearn.linear_model import LinearRegression
from opendp.extras.sklearn.linear_model._make_private_theil_sen import pairwise_predict

CANDIDATES = 1001  # for each median; the default, 100, is a grid of 1/50 of the bounds


def read(path, columns):
    table = pq.read_table(path, columns=columns)
    return np.column_stack([table[name].to_numpy() for name in columns])


def noisy_sums(asked):
    """The row (1, z, products of z) of z in [-1, 1]^d has squared norm at most its length: an l2 sensitivity."""
    width = len(asked["regressors"]) + 2
    upper = np.triu_indices(width)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def make(scale):
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), delta=asked["delta"])

    budget = (asked["epsilon"], asked["delta"])
    scale = dp.binary_search_param(make, d_in=math.sqrt(len(upper[0])), d_out=budget, T=float)
    measurement = make(scale)

    def draw():
        rows = read(asked["people"], [*asked["regressors"], asked["response"]])
        rows = np.column_stack([np.ones(len(rows)), np.clip(rows, -1, 1)])
        return list(measurement((rows.T @ rows)[upper].tolist()))

    return draw


def theil_sen(asked):
    def make(scale):
        return LinearRegression(
            dp.max_divergence(), x_bounds=[(-1.0, 1.0)], y_bounds=(-1.0, 1.0), scale=scale, candidates_count=CANDIDATES
        ).measurement

    measurement = make(dp.binary_search_param(make, d_in=1, d_out=asked["epsilon"], T=float))

    def draw():
        slope, _ = measurement(read(asked["line"], [asked["x"], asked["y"]]))
        return [float(slope)]

    return draw


def odd_rows():
    """opendp#2950: of three rows the last is dropped, so that without the first both rows of the pair change."""
    rows, cuts = np.array([[-0.5, -0.5], [0.0, 0.1], [0.5, 0.2]]), np.array([-0.5, 0.5])

    def lines(data):
        return {tuple(np.round(line, 9).tolist()) for line in pairwise_predict(data, cuts)}

    changed = len(lines(rows) ^ lines(rows[1:]))
    return f"Theil-Sen: one of three rows removed changed {changed} pairs; its stability map says 1 (opendp#2950)"


def repeat(draw, times):
    answers, seconds = [], []
    for _ in range(times):
        start = time.perf_counter()
        answers.append(draw())
        seconds.append(time.perf_counter() - start)
    return answers, seconds


def main():
    asked = json.loads(sys.argv[1])
    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    draw_sums, draw_line = noisy_sums(asked), theil_sen(asked)
    startup = time.time() - asked["started"]
    sums, seconds = repeat(draw_sums, asked["draws"])
    lines, line_seconds = repeat(draw_line, asked["draws"])
    answers = {
        "slopes": {"sums": sums, "seconds": seconds},
        "line": {"slopes": lines, "seconds": line_seconds},
    }
    found = {"version": version("opendp"), "startup_seconds": startup, "answers": answers, "shown": [odd_rows()]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
