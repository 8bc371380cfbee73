"""Smoothed lines of small groups, against their raw lines: errors, and what 95% intervals hold.

Three sets of groups. Invented tracts (jobs/make_tracts.py), whose true lines are known. With --data, groups of 100 adults of
the American Community Survey, by state, age and sex: the rank of income along years of school, whose truth is the line of all
adults of the group; age and sex are the covariates. And Opportunity Insights' cells, of which the truth is the pooled line. A
tenth of epsilon pays for the counts. An own truth is the line that the mechanism itself finds in all adults without noise.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

from dpspark.exact.histogram import ExactHistogram
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.privacy.keyed import KeyedRandom
from dpspark.smoothing.line_values import line_areas
from dpspark.smoothing.model import Areas, Smoothed, smooth
from dpspark.smoothing.problem import RowsOfGroups
from dpspark.smoothing.release import DEGREES
from dpspark.smoothing.rows_law import RowsLaw
from dpspark.spark.group_counts import row_cells, scaled_lines
from dpspark.spec.choose import choose_lines
from dpspark.spec.extras import counted_groups
from dpspark.spec.spec import Spec, load_spec
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise
from experiments.style import label, panels
from jobs.make_tracts import tract_batch

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = (1.0, 2.0, 4.0)
TRACTS, ACS, CELLS = "invented tracts", "acs2024_adults", "oi_cells"
CUTS = (0.25, 0.75)
ADULTS, FEWEST = 100, 350  # of a group that is sampled, and of one that is used at all
AGES = (25, 35, 45, 55, 65, 75, 85)
CALM = 1e4  # times less noise


class Groups(NamedTuple):
    """Rows of each group, the true values at the cuts, all rows of each group if there are more, and covariates."""

    rows: list[tuple[np.ndarray, np.ndarray]]
    truth: np.ndarray
    all_rows: list[tuple[np.ndarray, np.ndarray]] | None
    design: np.ndarray


def cells(setting: Setting) -> list[Cell]:
    """One for each set, epsilon and repetition."""
    found: list[Cell] = [{"data": TRACTS, "groups": setting.trials(2000, 60)}]
    for name in (ACS, CELLS):
        if setting.data is not None and (path := setting.data / f"{name}.parquet").exists():
            found.append({"data": name, "groups": setting.trials(10**6, 60), "file": str(path)})
    epsilons, again = (EPSILONS[-1:], 1) if setting.quick else (EPSILONS, 2)
    draws = setting.trials(400, 60)
    return [
        {**one, "epsilon": epsilon, "again": number, "draws": draws}
        for one in found
        for epsilon in epsilons
        for number in range(again)
    ]


@lru_cache(maxsize=2)
def groups_of(name: str, count: int, again: int, file: str | None) -> Groups:
    if name == TRACTS:
        return _tracts(count, again)
    assert file is not None
    return _adults(file, count, again) if name == ACS else _oi_cells(file, count)


def _tracts(count: int, again: int) -> Groups:
    seed = 2000 + again
    table = tract_batch(0, count, seed)
    names, x, y = (table[name].to_numpy() for name in table.column_names)
    rng = np.random.default_rng([seed, 0])  # as tract_batch draws: first the rows, then levels and slopes
    rows = rng.integers(20, 201, count)
    level, slope = rng.normal(0.45, 0.05, count), rng.normal(0.35, 0.12, count)
    ends = np.append(0, np.cumsum(rows))
    assert len(names) == ends[-1]
    parts = [(x[a:b], y[a:b]) for a, b in itertools.pairwise(ends)]
    return Groups(parts, np.stack([level + slope * (cut - 0.5) for cut in CUTS], axis=1), None, np.ones((count, 1)))


def _adults(file: str, count: int, again: int) -> Groups:
    table = pq.read_table(file, columns=["STATE", "AGEP", "SEX", "SCHL", "PINCP"])
    state, age, sex, school, income = (table[name].to_numpy().astype(np.int64) for name in table.column_names)
    x, y = np.clip((school - 10) / 14, 0, 1), _ranks(income)
    key = (state * 10 + np.digitize(age, AGES)) * 10 + sex
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    rng = np.random.default_rng(again)
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    full: list[tuple[np.ndarray, np.ndarray]] = []
    labels: list[int] = []
    for at in np.split(order, starts[1:]):
        if len(at) >= FEWEST and len(rows) < count:
            chosen = rng.choice(at, ADULTS, replace=False)
            rows.append((x[chosen], y[chosen]))
            full.append((x[at], y[at]))
            labels.append(key[at[0]] % 100)
    kinds = np.unique(labels)
    design = (np.array(labels)[:, None] == kinds).astype(float)
    design[:, 0] = 1.0
    return Groups(rows, np.array([_least_squares(*each) for each in full]), full, design)


def _oi_cells(file: str, count: int) -> Groups:
    table = pq.read_table(file)
    place, x, y = (table[name].to_numpy().astype(float) for name in ("cell", "parent_rank", "kid_rank"))
    rows = [(x[place == each], y[place == each]) for each in np.unique(place)][:count]
    return Groups(rows, np.tile(_least_squares(x, y), (len(rows), 1)), None, np.ones((len(rows), 1)))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    return ((np.cumsum(counts) - counts / 2) / counts.sum())[at]


def _least_squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    slope = np.cov(x, y)[0, 1] / x.var(ddof=1)
    return np.array([y.mean() + slope * (cut - x.mean()) for cut in CUTS])


def spec_of(epsilon: float, groups: int, counts: bool = True) -> Spec:
    release = {"name": "groups", "version": "1", "kind": "theil_sen", "x": "x", "y": "y", "target": "mean"}
    by = {"group_by": ["g"], "groups": [str(i) for i in range(groups)], "expected_rows": 100}
    return load_spec(
        {
            "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
            "privacy": {"epsilon": epsilon},
            "release": {**release, **by, **({"group_counts": {}} if counts else {})},
            "ledger": {"dataset": "groups"},
        }
    )


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    groups = groups_of(cell["data"], cell["groups"], cell["again"], cell.get("file"))
    count, secret = len(groups.rows), KeyedRandom(random.bytes(32))
    whole = choose_lines(spec_of(cell["epsilon"], count, counts=False))
    alone = np.array([whole.line.fit(x, y, secret, "alone", i).estimate for i, (x, y) in enumerate(groups.rows)])
    spec = spec_of(cell["epsilon"], count)
    mechanism = choose_lines(spec)
    raw, found = released(spec, mechanism, groups, secret, random, cell["draws"])
    std = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    half = std * stats.t.isf(0.025, DEGREES)
    own = groups.truth
    if groups.all_rows is not None:
        calm = mechanism.line.quieter(CALM)
        own = np.array([calm.fit(x, y, secret, "own", i).estimate for i, (x, y) in enumerate(groups.all_rows)])
    rows: list[Row] = []
    for at, cut in enumerate(CUTS):
        errors = {
            "alone": alone[:, at] - groups.truth[:, at],
            "raw": raw[:, at] - groups.truth[:, at],
            "smoothed": found.values[:, at] - groups.truth[:, at],
        }
        rows.append(
            {
                "cut": cut,
                "count": count,
                **{name: float((error**2).mean()) for name, error in errors.items()},
                "own": float(((found.values[:, at] - own[:, at]) ** 2).mean()),
                "held": float((abs(errors["smoothed"]) <= half[:, at]).mean()),
                "held_own": float((abs(found.values[:, at] - own[:, at]) <= half[:, at]).mean()),
                "differ": found.differ,
            }
        )
    return rows


def released(
    spec: Spec,
    mechanism: LineMechanism,
    groups: Groups,
    secret: KeyedRandom,
    random: np.random.Generator,
    draws: int,
) -> tuple[np.ndarray, Smoothed]:
    """Release lines and counts as a job does, and smooth them as an analyst does."""
    raw, areas, _ = released_areas(spec, mechanism, groups, secret, random, draws)
    return raw, smooth(areas)


def released_areas(
    spec: Spec,
    mechanism: LineMechanism,
    groups: Groups,
    secret: KeyedRandom,
    random: np.random.Generator,
    draws: int,
    offsets: bool = False,
) -> tuple[np.ndarray, Areas, RowsOfGroups]:
    """Release lines and counts, and simulate their noise; `offsets` are for means of many groups."""
    fits = [mechanism.line.fit(x, y, secret, "lines", i) for i, (x, y) in enumerate(groups.rows)]
    counted, plane = counted_groups(spec), mechanism.plane
    code = np.repeat(np.arange(len(fits)), [len(x) for x, _ in groups.rows])
    x, y = (np.concatenate(part) for part in zip(*groups.rows, strict=True))
    at = row_cells(plane, counted.cells, scaled_lines(plane, fits), code, x, y)
    exact = [np.bincount(code, minlength=len(fits)), np.bincount(at, minlength=counted.cells.count)]
    noisy = counted.release(ExactHistogram(counted.axes(len(fits)), exact), ExperimentNoise(random))
    cells = counted.cells
    law = RowsLaw.paid(cells.x_edges, cells.residual_edges, np.array(noisy.cells, float).reshape(cells.x_cells, -1))
    assert law is not None
    raw = np.array([fit.estimate for fit in fits])
    rows = np.array(noisy.rows, dtype=float)
    seed = random.bytes(32)
    known = line_areas(raw, rows, noisy.noise_std, groups.design, mechanism.line, plane, law, seed, 0.0, draws, offsets)
    return raw, *known


def plots(table: pd.DataFrame) -> dict[str, Any]:
    first = table[table.cut == CUTS[0]].groupby(["data", "epsilon"]).mean(numeric_only=True)
    figure, (axes,) = panels(1, wide=1, size=(9.0, 4.6))
    names = [f"{data}\nε = {epsilon:g}" for data, epsilon in first.index]
    for at, (column, name) in enumerate((("alone", "raw, with all of ε"), ("smoothed", "smoothed, counts paid for"))):
        axes.bar(np.arange(len(names)) + 0.35 * (at - 0.5), first[column] ** 0.5, 0.35, label=name)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=9)
    label(axes, "Error at the first quarter point", "", "root of the mean square")
    return {"": figure}


def tell(table: pd.DataFrame) -> str:
    lines = [
        "| groups | epsilon | x | raw, all of ε | raw | smoothed | 95% intervals hold the truth | the mechanism's own truth | "
        "groups differ |",
        "|---" * 9 + "|",
    ]
    for (data, epsilon, cut), part in table.groupby(["data", "epsilon", "cut"], sort=False):
        errors = " | ".join(f"{part[name].mean() ** 0.5:.4f}" for name in ("alone", "raw", "smoothed"))
        lines.append(
            f"| {part['count'].iloc[0]:,} {data} | {epsilon:g} | {cut:g} | {errors} | {100 * part.held.mean():.1f}% | "
            f"{100 * part.held_own.mean():.1f}% | {'yes' if part.differ.all() else 'not measurably'} |"
        )
    rest = (
        "Errors are roots of mean squares over all groups, to the true line; of adults, to least squares on all adults of the "
        "group, which the mechanism does not aim at."
    )
    return rest + "\n\n" + "\n".join(lines)


EXPERIMENT = Experiment(
    name="real-groups",
    paper="",
    figures="",
    title="Small groups that borrow strength",
    claim="""A group of a hundred people says little about itself. How much nearer to the truth is a line that borrows strength
    from the other groups, and do the intervals of all groups hold it?""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=tell,
)
