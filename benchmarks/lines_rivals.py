"""What `python -m benchmarks lines` compares with: plain processes, and what one would write first with applyInPandas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from dpspark.mechanisms.lines.kernel import fit_groups
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.groups import LABEL, GroupList

MATCHINGS = 10
LINES = 201  # along each anchor of the naive depth, as dpspark's own grid


def plain_lines(
    kernel: Any, path: str, groups: GroupList, cores: int, random: KeyedRandom
) -> tuple[dict[int, tuple[float, ...]], float]:
    """The same kernel in processes without Spark: the lines, and the seconds of processors that the fits alone took."""
    table = pq.read_table(path)
    codes = groups.codes([table["tract"].combine_chunks()])
    order = np.argsort(codes, kind="stable")
    x, y = (table[name].to_numpy()[order] for name in ("parent_rank", "kid_rank"))
    codes = codes[order]
    cuts = [int(np.searchsorted(codes, codes[min(len(codes) - 1, len(codes) * i // cores)])) for i in range(cores)]
    parts = [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(codes)], strict=True)]
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_fit_slice, kernel, codes[p], x[p], y[p], random) for p in parts]
        results = [job.result() for job in jobs]
    return {code: line for lines, _ in results for code, line in lines}, sum(spent for _, spent in results)


def _fit_slice(
    kernel: Any, codes: np.ndarray, x: np.ndarray, y: np.ndarray, random: KeyedRandom
) -> tuple[list[Any], float]:
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    groups = codes[starts].tolist()
    started = time.process_time()
    lines = fit_groups(kernel, x, y, np.append(starts, len(codes)), [(LABEL, group) for group in groups], random)
    spent = time.process_time() - started
    return [(group, line.estimate) for group, line in zip(groups, lines, strict=True)], spent


def float_theil_sen(group: Any, epsilon: float) -> Any:
    """DPExpTheilSen in floats."""
    rng = np.random.default_rng()
    x, y = group["parent_rank"].to_numpy(), group["kid_rank"].to_numpy()
    drawn = []
    for at in (0.25, 0.75):
        values = np.concatenate(list(_pair_values(x, y, at, rng))) if len(x) > 1 else np.zeros(0)
        edges = np.concatenate([[0.0], np.sort(values), [1.0]])
        lengths = np.diff(edges)
        with np.errstate(divide="ignore"):
            weights = np.log(lengths) - epsilon / 8 / MATCHINGS * abs(2 * np.arange(len(lengths)) - len(values))
        run = int((weights + rng.gumbel(size=len(weights))).argmax())
        drawn.append(edges[run] + lengths[run] * rng.uniform())
    return _frame(group, *drawn)


def _pair_values(x: np.ndarray, y: np.ndarray, at: float, rng: np.random.Generator) -> Iterator[np.ndarray]:
    for _ in range(MATCHINGS):
        order = rng.permutation(len(x))
        a, b = order[: len(x) // 2], order[len(x) // 2 : 2 * (len(x) // 2)]
        apart = x[b] != x[a]
        slope = (y[b] - y[a])[apart] / (x[b] - x[a])[apart]
        yield np.clip(y[a][apart] + slope * (at - x[a][apart]), 0.0, 1.0)


def float_depth(group: Any, epsilon: float) -> Any:
    """The depth of every line of the grid by its definition: all residuals' signs, summed up from the left."""
    rng = np.random.default_rng()
    by_x = group.sort_values("parent_rank")
    x, y = by_x["parent_rank"].to_numpy(), by_x["kid_rank"].to_numpy()
    values = np.linspace(0.0, 1.0, LINES)
    first, second = np.meshgrid(values, values, indexing="ij")
    up, down = (np.zeros((len(x) + 1, LINES, LINES), dtype=np.int32) for _ in range(2))
    for i in range(len(x)):
        residual = y[i] - (first + (second - first) * (x[i] - 0.25) / 0.5)
        up[i + 1], down[i + 1] = up[i] + (residual >= 0), down[i] + (residual <= 0)
    depth = np.minimum(up + down[-1] - down, down + up[-1] - up).min(axis=0)
    best = int((epsilon * depth + rng.gumbel(size=depth.shape)).argmax())
    return _frame(group, values[best // LINES], values[best % LINES])


def _frame(group: Any, p25: float, p75: float) -> Any:
    import pandas as pd

    return pd.DataFrame({"tract": [group["tract"].iloc[0]], "p25": [p25], "p75": [p75]})
