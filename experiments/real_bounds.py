"""A private bound of income: total error of the slope of education, in standard errors, with the product's defaults.

income ~ age + educ at delta = 1e-9; the lower bound of income is 0 and public (of the survey with losses both are private),
the search range ends at 10 million. An error is the distance of the released slope from least squares on the same rows, none
of them clipped above, over its robust standard error. Beside the default: quantiles, the method of version 0.2; a cap of
300,000; and the best cap among many, which nobody can know.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.core.domain import Numeric
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.histogram import ExactHistogram
from dpspark.mechanisms.gram.coordinates import back_transform, centre_and_scale
from dpspark.spec.choose import GramMechanism, choose_gram
from dpspark.spec.extras import bounds_finder
from dpspark.spec.spec import load_spec
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise
from experiments.releases import COMMON
from experiments.style import label, panels
from experiments.surveys import ACS, EDUC, GENERATED, TWO_SIDED, Rows, survey

if TYPE_CHECKING:
    import pandas as pd

DELTA = 1e-9
DEFAULT, EARLIER, CAP, BEST = "default", "percentile", "cap 300,000", "best cap"
METHODS: dict[str, dict[str, Any]] = {DEFAULT: {}, EARLIER: {"method": "percentile"}}
CAPS = tuple(float(round(cap, -3)) for cap in np.geomspace(100_000, 4_000_000, 16))
HIGHEST = 10_000_000
ALL = 10**9  # rows: as many as there are
SIZES = ((ALL, 1.0), (500_000, 1.0), (100_000, 1.0), (ALL, 0.1), (100_000, 0.1))


def cells(setting: Setting) -> list[Cell]:
    """One for each survey, size, budget and method."""
    trials, samples = setting.trials(200, 4), setting.trials(4, 1)
    file = None if setting.data is None else setting.data / f"{ACS}.parquet"
    found: list[Cell] = []
    if file is not None and file.exists():
        for rows, epsilon in SIZES:
            again = 1 if rows == ALL else samples
            found += _cells(ACS, rows, epsilon, trials, again, {"file": str(file)})
    rows = 5_000 if setting.quick else 200_000
    for name in list(GENERATED)[:2] if setting.quick else GENERATED:
        found += _cells(name, rows, 40.0 if setting.quick else 1.0, trials, samples, {})
    return found


def _cells(name: str, rows: int, epsilon: float, trials: int, samples: int, more: Cell) -> list[Cell]:
    methods = [*METHODS, *([] if name in TWO_SIDED else [CAP, BEST])]
    same = {"data": name, "rows": rows, "epsilon": epsilon, "trials": trials, "samples": samples, **more}
    return [{**same, "method": method} for method in methods]


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    found = []
    for _ in range(cell["samples"]):
        people = survey(cell["data"], cell["rows"], random, cell.get("file"))
        if cell["data"] not in TWO_SIDED:
            people = {**people, "income": np.maximum(people["income"], 0.0)}  # the public bound is a definition
        of = Sums(people)
        trials = max(1, cell["trials"] // cell["samples"])
        if cell["method"] == BEST:
            few = max(2, trials // 5)
            tried = {cap: _capped(cell, of, cap, few, random) for cap in CAPS}
            best = min(tried, key=lambda cap: float(np.mean([row["error"] ** 2 for row in tried[cap]])))
            found += tried[best]
        elif cell["method"] == CAP:
            found += _capped(cell, of, 300_000.0, trials, random)
        else:
            found += _private(cell, of, trials, random)
    return found


class Sums:
    """The sums of products of some rows, with income clipped anywhere; and least squares of the rows as they are."""

    def __init__(self, people: Rows):
        self.income = people["income"]
        self.design = np.column_stack([np.ones(len(self.income)), people["age"], people["educ"]])
        self.squares = self.design.T @ self.design
        self.inverse = np.linalg.inv(self.squares)
        self.beta = self.inverse @ (self.design.T @ self.income)
        scores = self.design * (self.income - self.design @ self.beta)[:, None]
        self.errors = np.sqrt(np.diag(self.inverse @ (scores.T @ scores) @ self.inverse))  # HC

    def clipped(self, lower: float, upper: float) -> np.ndarray:
        income = np.clip(self.income, lower, upper)
        cross = self.design.T @ income
        return np.block([[self.squares, cross[:, None]], [cross[None, :], np.array([[income @ income]])]])

    def release(self, mechanism: GramMechanism, bounds: tuple[float, float], random: np.random.Generator) -> Row:
        """Release the moments once with these bounds of income, and compare its slope of education with that of the rows."""
        columns = tuple(
            replace(c, lower=bounds[0], upper=bounds[1]) if isinstance(c, Numeric) and c.name == "income" else c
            for c in mechanism.domain.columns
        )
        made = mechanism.for_domain(replace(mechanism.domain, columns=columns))
        there = np.linalg.inv(back_transform(*centre_and_scale(made.domain)))
        exact = self.clipped(*bounds)
        scaled = (there @ exact @ there.T)[np.triu_indices(made.domain.width)] * made.domain.steps_per_row
        noisy = made.release(
            ExactGram(made.domain, [round(entry) for entry in scaled.tolist()]), ExperimentNoise(random)
        )
        matrix, _ = noisy.second_moment()
        slope = np.linalg.solve(matrix[:3, :3], matrix[:3, 3])[2]
        biased = (self.inverse @ exact[:3, 3])[2]
        return {
            "n": len(self.income),
            "error": float((slope - self.beta[2]) / self.errors[2]),
            "bias": float((biased - self.beta[2]) / self.errors[2]),
            "upper": bounds[1],
            "beyond": int(((self.income < bounds[0]) | (self.income > bounds[1])).sum()),
        }


def _conf(cell: Cell, income: dict[str, Any], bounds: dict[str, Any] | None) -> dict[str, Any]:
    columns = {"age": {"lower": 18, "upper": 96}, "educ": {"lower": 1, "upper": EDUC["file" in cell]}, "income": income}
    asked = {} if bounds is None else {"bounds": bounds}
    return {**COMMON, "columns": columns, "privacy": {"epsilon": cell["epsilon"], "delta": DELTA}, **asked}


def _capped(cell: Cell, of: Sums, cap: float, trials: int, random: np.random.Generator) -> list[Row]:
    mechanism = choose_gram(load_spec(_conf(cell, {"lower": 0, "upper": cap}, None)))
    return [of.release(mechanism, (0.0, cap), random) for _ in range(trials)]


def _private(cell: Cell, of: Sums, trials: int, random: np.random.Generator) -> list[Row]:
    two = cell["data"] in TWO_SIDED
    income = (
        {"bounds": "private", "search": [-HIGHEST, HIGHEST]}
        if two
        else {"lower": 0, "upper": "private", "search": [0, HIGHEST]}
    )
    spec = load_spec(_conf(cell, income, METHODS[cell["method"]]))
    (axis,) = spec.axes
    table = ExactHistogram([axis], [np.bincount(axis.cell_of(of.income), minlength=axis.cells)])
    mechanism, finder, noise = choose_gram(spec), bounds_finder(spec), ExperimentNoise(random)
    return [of.release(mechanism, finder.release(table, noise)["income"], random) for _ in range(trials)]


def root_mean_square(table: pd.DataFrame) -> pd.Series:
    """The total error of each cell, in standard errors."""
    return (table.error**2).groupby([table.data, table.n, table.epsilon, table.method]).mean() ** 0.5


def plots(table: pd.DataFrame) -> dict[str, Any]:
    found = root_mean_square(table).unstack("method")
    figure, (axes,) = panels(1, wide=1, size=(9.0, 4.6))
    names = [f"{name}\nn = {n:,}, ε = {epsilon:g}" for name, n, epsilon in found.index]
    methods = [method for method in (DEFAULT, EARLIER, CAP, BEST) if method in found]
    for at, method in enumerate(methods):
        axes.bar(np.arange(len(names)) + 0.2 * (at - 1.5), found[method].fillna(0), 0.2, label=method)
    axes.set_yscale("log")
    axes.axhline(1, color="0.25", lw=1, ls="--")
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=9)
    label(axes, "Total error of the slope of education", "", "standard errors (HC)")
    return {"": figure}


def tell(table: pd.DataFrame) -> str:
    errors = root_mean_square(table)
    shown = table.groupby(["data", "n", "epsilon", "method"]).agg(
        bias=("bias", "mean"), upper=("upper", "median"), beyond=("beyond", "median")
    )
    methods = [method for method in (DEFAULT, EARLIER, CAP, BEST) if method in set(table.method)]
    lines = [
        f"| survey | rows | epsilon | {' | '.join(methods)} | bound found | rows beyond | bias |",
        "|---" * (len(methods) + 6) + "|",
    ]
    for name, n, epsilon in dict.fromkeys(zip(table.data, table.n, table.epsilon, strict=True)):
        own = [errors.get((name, n, epsilon, method)) for method in methods]
        cells = ["–" if value is None else f"{value:.2f}" for value in own]
        default = shown.loc[(name, n, epsilon, DEFAULT)]
        lines.append(
            f"| {name} | {n:,} | {epsilon:g} | {' | '.join(cells)} | {default['upper']:,.0f} | {default['beyond']:,.0f} | "
            f"{default['bias']:+.2f} |"
        )
    rest = "Total error (root of the mean square), in standard errors; the last three columns are of the default."
    return rest + "\n\n" + "\n".join(lines)


EXPERIMENT = Experiment(
    name="real-bounds",
    paper="",
    figures="",
    title="A private bound of income",
    claim="""Nobody knows a good upper bound of income. How far is the slope of education from what it would be without
    clipping and noise, if the bound is found in the data?""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=tell,
)
