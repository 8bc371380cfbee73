"""Sheffet, figure 1, with real rows: 2^24 of them made and read on Spark.

Parameters: see sheffet.py; n = 2^24, 2^18 with --quick. Spark's tasks write the 40 columns as Parquet (32-bit floats, 2.7 GB,
in a temporary directory); dpspark's own reader bounds the rows and adds up the exact matrix, once with the paper's clipping
to B² = 700 and once with dpspark's bounds. Beside it, with the same β, AᵀA from its Wishart law, where no row is clipped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.source.parquet import open_parquet
from dpspark.spark.exact_sums import exact_gram
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import load_spec
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise
from experiments.releases import COMMON, Releases
from experiments.sheffet import (
    BOUNDS,
    CONF,
    EXTRA,
    PAPER,
    SIX,
    SQUARED_NORM,
    covariance,
    dpspark_errors,
    draw_betas,
    draw_gram,
    error,
    paper_matrices,
    solve,
    summary,
    to_scaled,
)
from experiments.style import label, log_axis, panels

if TYPE_CHECKING:
    import pandas as pd

PART_ROWS = 1 << 17  # of a file: 21 MB
SPARK, LAW = "rows on Spark", "Wishart law"
DPSPARK = "dpspark"
# Marks of the two sources, in greys: colours are for estimators.
SOURCES: dict[str, dict[str, Any]] = {LAW: {"color": "0.55", "marker": "D"}, SPARK: {"color": "0.0", "marker": "o"}}
TICKS = tuple(digit * 10.0**power for power in range(-4, 3) for digit in (1, 2, 5))
# The paper's bound as a conf: no column is longer than B, and rows are shortened to it.
LONGEST = SQUARED_NORM**0.5
PAPER_CONF = {
    **CONF,
    "columns": {name: {"lower": -LONGEST, "upper": LONGEST} for name in BOUNDS},
    "row_norm": {"mode": "cap", "radius": 1},
}


def cells(setting: Setting) -> list[Cell]:
    return [{"log2_rows": 18 if setting.quick else 24, "draws": setting.trials(100, 20)}]


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    rows, noise = 2 ** cell["log2_rows"], ExperimentNoise(random)
    betas = draw_betas(random)
    with tempfile.TemporaryDirectory(prefix="dpspark-") as folder:
        clipped, bounded = read_on_spark(Path(folder), betas, rows, int(random.integers(2**32)))
    law = draw_gram(betas, rows, random)
    found: list[Row] = []
    for source, gram, releases in (
        (SPARK, scaled_matrix(clipped)[1:, 1:] * SQUARED_NORM, Releases(bounded, CONF)),
        (LAW, law, Releases(to_scaled(law, rows), CONF)),
    ):
        found += [{"source": source, **row} for row in _errors(gram, rows, releases, betas, noise, cell["draws"])]
    return found


def _errors(
    gram: np.ndarray, rows: int, releases: Releases, betas: np.ndarray, noise: ExperimentNoise, draws: int
) -> list[Row]:
    errors: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(draws):
        for constants in ("paper", "exact"):
            for name, matrix in paper_matrices(gram, rows, constants, noise).items():
                for extra in EXTRA:
                    errors.setdefault((constants, name, extra), []).append(error(solve(matrix, extra), betas, extra))
        for extra, value in dpspark_errors(releases, betas, noise).items():
            errors.setdefault(("", DPSPARK, extra), []).append(value)
    return [
        {"constants": constants, "estimator": name, "extra": extra, **summary(values)}
        for (constants, name, extra), values in errors.items()
    ]


def read_on_spark(folder: Path, betas: np.ndarray, rows: int, seed: int) -> tuple[ExactGram, ExactGram]:
    """The exact matrix of the same rows by the paper's bound and by dpspark's."""
    from dpspark.spark.session import spark_session

    with spark_session("dpspark-evaluate") as spark:
        parts = max(1, rows // PART_ROWS)
        writer = write_rows(str(folder), np.linalg.cholesky(covariance(betas)), rows // parts, seed)
        spark.range(0, parts, 1, parts).mapInArrow(writer, "part long").count()
        exact = []
        for conf in (PAPER_CONF, CONF):
            domain = choose_gram(load_spec({**COMMON, **conf})).domain
            exact.append(exact_gram(spark, open_parquet(str(folder), domain.read_columns), domain))
    return exact[0], exact[1]


def write_rows(folder: str, root: np.ndarray, rows: int, seed: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does: a file for each part, whose rows depend on seed and part alone."""
    names = list(BOUNDS)

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for batch in batches:
            for part in batch.column(0).to_pylist():
                random = np.random.default_rng([seed, part])
                drawn = root @ random.standard_normal((len(names), rows), dtype=np.float32)
                columns = {name: values.astype(np.float32) for name, values in zip(names, drawn, strict=True)}
                pq.write_table(
                    pa.table(columns), f"{folder}/part-{part:05}.parquet", compression="none", use_dictionary=False
                )
            yield pa.record_batch([batch.column(0)], names=["part"])

    return write


def plots(table: pd.DataFrame) -> dict[str, Any]:
    figure, axes = panels(2, wide=1, size=(9.5, 4.4))
    order = [("paper", name) for name in SIX] + [("exact", name) for name in SIX[:2]] + [("", DPSPARK)]
    names = [f"{name}, exact" if constants == "exact" else name for constants, name in order]
    for at, extra in zip(axes, (0, 5), strict=True):
        ends = []
        for index, (source, mark) in enumerate(SOURCES.items()):
            shown = table[(table.source == source) & (table.extra == extra)]
            shown = shown.set_index(["constants", "estimator"]).loc[order]
            spread = [shown["median"] - shown.low, shown.high - shown["median"]]
            beside = np.arange(len(order)) + 0.2 * (index - 0.5)
            at.errorbar(beside, shown["median"], spread, capsize=4, label=source, ls="none", ms=6, **mark)
            ends += [shown.low.min(), shown.high.max()]
        at.set_xticks(range(len(order)), [name.replace("Analyze ", "Analyze\n").replace(", ", ",\n") for name in names])
        low, high = min(ends) / 1.3, max(ends) * 1.3
        log_axis(at, "y", [tick for tick in TICKS if low <= tick <= high])
        at.set_ylim(low, high)
        label(at, f"m = {extra}", "estimator", "relative error of β")
        at.tick_params(axis="x", labelsize=9)
    size = int(table.log2_rows.iloc[0])
    figure.suptitle(f"n = 2^{size}: median and quartiles over draws of the noise", fontsize=14)
    return {"": figure}


def findings(table: pd.DataFrame) -> str:
    wide = table.pivot(index=["constants", "estimator", "extra"], columns="source", values="median")
    ratio = wide[SPARK] / wide[LAW]
    ours = wide.loc["", DPSPARK]
    size = int(table.log2_rows.iloc[0])
    shown = ", ".join(f"{ours[SPARK][m]:.2g} ({ours[LAW][m]:.2g}) at m = {m}" for m in EXTRA)
    best = wide.loc["paper"].loc[list(SIX)].groupby("extra").min()[SPARK]
    gain = best / ours[SPARK]
    return (
        f"n = 2^{size} rows, read twice. The median errors of all estimators and m are {ratio.min():.2f} to "
        f"{ratio.max():.2f} times (the middle one {ratio.median():.2f}) those with a matrix from the Wishart law, "
        f"of other rows with the same β. dpspark on Spark (by the law): {shown}. The best of the six with the "
        f"paper's constants has {gain.min():.1f} to {gain.max():.1f} times that error on Spark. Real rows are "
        "clipped and rounded to the grid, the law's are not."
    )


EXPERIMENT = Experiment(
    name="sheffet-spark",
    paper=PAPER,
    figures="figure 1, one n",
    title="Six private second-moment matrices, on Spark",
    claim="""The paper's largest tables have 2^27 rows of 40 columns.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
    on_spark=True,
)
