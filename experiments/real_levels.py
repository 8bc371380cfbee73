"""Levels of a geography: lines of counties and states from those of tracts, against a release of that level alone.

Invented tracts of 20 to 200 people in counties in states, which differ too. The truth of a county is the mean of the lines that
the mechanism itself finds in its tracts without noise, by rows. A release of a level alone spends all of epsilon on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy import stats

from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.privacy.keyed import KeyedRandom
from dpspark.smoothing.levels import groups_of_level, lines_of_level
from dpspark.smoothing.model import Smoothed, smooth
from dpspark.smoothing.problem import Problem
from dpspark.smoothing.release import degrees_of, with_shared
from dpspark.source.hierarchy import Hierarchy
from dpspark.spec.choose import choose_lines
from dpspark.spec.spec import load_spec
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.real_groups import CALM, CUTS, EPSILONS, Groups, released_areas, spec_of
from experiments.style import label, panels

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("state", "county", "tract")
MANY = 4000  # rows of a tract from which its true line is found


def cells(setting: Setting) -> list[Cell]:
    """One for each epsilon and repetition."""
    shape = (
        {"states": 6, "counties": 8, "tracts": 12} if not setting.quick else {"states": 3, "counties": 2, "tracts": 4}
    )
    return [
        {**shape, "epsilon": epsilon, "again": again, "draws": setting.trials(400, 60)}
        for epsilon in (EPSILONS if not setting.quick else EPSILONS[-1:])
        for again in range(setting.trials(8, 1))
    ]


def geography(cell: Cell) -> Hierarchy:
    """The public table of keys: as many counties in each state, and tracts in each county."""
    keys = []
    for tract in range(cell["states"] * cell["counties"] * cell["tracts"]):
        county = tract // cell["tracts"]
        keys.append((f"{county // cell['counties']:02d}", f"{county:05d}", f"{tract:011d}"))
    return Hierarchy(NAMES, tuple(keys))


def people(
    levels: Hierarchy, mechanism: LineMechanism, random: np.random.Generator, secret: KeyedRandom
) -> tuple[Groups, np.ndarray]:
    """Invent the people of every tract, and find the line that the mechanism aims at: the groups, and their rows."""
    count = len(levels.keys)
    rows, slope = random.integers(20, 201, count), random.normal(0.35, 0.1, count)
    spread, lean = random.uniform(0.15, 0.3, count), random.uniform(0.7, 1.6, (2, count))
    level = np.full(count, 0.45)
    for name, std in zip(NAMES, (0.02, 0.03, 0.04), strict=True):
        level += random.normal(0.0, std, len(levels.groups(name)))[levels.places(name)]

    def draw(at: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        x = random.beta(lean[0, at], lean[1, at], size)
        return x, np.clip(level[at] + slope[at] * (x - 0.5) + spread[at] * random.standard_normal(size), 0.0, 1.0)

    calm = mechanism.line.quieter(CALM)
    truth = np.array([calm.fit(*draw(at, MANY), secret, "truth", at).estimate for at in range(count)])
    return Groups([draw(at, size) for at, size in enumerate(rows)], truth, None, np.ones((count, 1))), rows


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    levels, secret = geography(cell), KeyedRandom(random.bytes(32))
    spec = spec_of(cell["epsilon"], len(levels.keys))
    mechanism = choose_lines(spec)
    groups, rows = people(levels, mechanism, random, secret)
    raw, areas, known = released_areas(spec, mechanism, groups, secret, random, cell["draws"], offsets=True)
    table = pa.table({name: [key[i] for key in levels.keys] for i, name in enumerate(NAMES)})
    finest = Problem(table, areas, raw, np.eye(2), 0.0, "x", list(CUTS), "mean", ("(intercept)",), {}, known)
    found = smooth(areas)
    results = [_row("tract", levels, finest, found, groups, rows, cell["epsilon"], secret)]
    for name in ("county", "state"):
        coarser = lines_of_level(finest, found, levels, groups_of_level(table, levels, name), name)
        smoothed = with_shared(smooth(coarser.areas), coarser)
        results.append(_row(name, levels, coarser, smoothed, groups, rows, cell["epsilon"], secret))
    return results


def _row(
    name: str,
    levels: Hierarchy,
    problem: Problem,
    found: Smoothed,
    groups: Groups,
    rows: np.ndarray,
    epsilon: float,
    secret: KeyedRandom,
) -> Row:
    """Errors of one level, and what its intervals hold."""
    places = levels.places(name)
    total = np.bincount(places, rows)
    truth = np.stack([np.bincount(places, rows * each) / total for each in groups.truth.T], axis=1)
    half = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2)) * stats.t.isf(0.025, degrees_of(problem)[:, None])
    return {
        "level": name,
        "count": len(total),
        "raw": float(((problem.raw - truth) ** 2).mean()),
        "smoothed": float(((found.values - truth) ** 2).mean()),
        "alone": float(((_alone(places, groups, epsilon, secret) - truth) ** 2).mean()),
        "held": float((abs(found.values - truth) <= half).mean()),
    }


def _alone(places: np.ndarray, groups: Groups, epsilon: float, secret: KeyedRandom) -> np.ndarray:
    """Release the lines of one level, with all of epsilon for it and the mechanism that suits its rows."""
    found = []
    members = [np.flatnonzero(places == at) for at in range(int(places.max()) + 1)]
    typical = int(np.median([sum(len(groups.rows[i][0]) for i in each) for each in members]))
    spec = spec_of(epsilon, len(members), counts=False)
    release = {**spec.release.model_dump(exclude_none=True), "expected_rows": typical}
    line = choose_lines(load_spec({**spec.model_dump(exclude_none=True), "release": release})).line
    for at, each in enumerate(members):
        x, y = (np.concatenate([groups.rows[i][part] for i in each]) for part in (0, 1))
        found.append(line.fit(x, y, secret, "alone", len(members), at).estimate)
    return np.array(found)


def plots(table: pd.DataFrame) -> dict[str, Any]:
    figure, (axes,) = panels(1, wide=1, size=(8.0, 4.2))
    mean = table.groupby(["epsilon", "level"], sort=False).mean(numeric_only=True)
    names = [f"{level}\nε = {epsilon:g}" for epsilon, level in mean.index]
    for at, (column, name) in enumerate((("smoothed", "all levels, from tracts"), ("alone", "that level alone"))):
        axes.bar(np.arange(len(names)) + 0.35 * (at - 0.5), mean[column] ** 0.5, 0.35, label=name)
    axes.set_xticks(range(len(names)), names, fontsize=8)
    label(axes, "Error of lines at the quarter points", "", "root of the mean square")
    return {"": figure}


def tell(table: pd.DataFrame) -> str:
    lines = [
        "| epsilon | level | groups | raw | smoothed | that level alone, all of ε | 95% intervals hold the truth |",
        "|---" * 7 + "|",
    ]
    for (epsilon, level), part in table.groupby(["epsilon", "level"], sort=False):
        errors = " | ".join(f"{part[name].mean() ** 0.5:.4f}" for name in ("raw", "smoothed", "alone"))
        lines.append(
            f"| {epsilon:g} | {level} | {part['count'].iloc[0]:,} | {errors} | {100 * part.held.mean():.1f}% |"
        )
    rest = (
        "Errors are roots of mean squares at both quarter points, to the mean of the tracts' lines by rows. A release of one "
        "level alone has one line of all its people, and nothing for the other levels."
    )
    return rest + "\n\n" + "\n".join(lines)


EXPERIMENT = Experiment(
    name="real-levels",
    paper="",
    figures="",
    title="Counties and states from tracts",
    claim="""Lines of counties and states that are made of those of tracts cost nothing. Do their intervals hold, and how much
    nearer to the truth is a release of one level alone, with all of the budget?""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=tell,
)
