"""Robust standard errors: how often nominal 95% intervals hold the truth, with equal variances assumed and without.

Samples are drawn with replacement from people of whom all is known: the truth is least squares on all of them, bounded as the
release bounds them. Each sample is released by the product's own code, without Spark. epsilon = 1, delta = 1e-9, add_remove.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.options import Asked
from dpspark.core.domain import Categorical, Domain
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec, load_spec
from experiments.array_rows import found_bounds, release_arrays
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise
from experiments.robust_designs import DESIGNS, population
from experiments.style import label, panels

if TYPE_CHECKING:
    import pandas as pd

RUNS = 250  # in a cell
FILE = "acs2024_adults.parquet"
KINDS = ("hc1", "classical")


def cells(setting: Setting) -> list[Cell]:
    file = None if setting.data is None else setting.data / FILE
    found: list[Cell] = []
    for name, design in DESIGNS.items():
        if design.real and (file is None or not file.exists()):
            continue
        of: Cell = {"file": str(file)} if design.real else {}
        rows = 10_000 if setting.quick and not design.real else design.rows
        runs, parts = (12, 1) if setting.quick else (RUNS, 20 if design.real else 8)
        found += [{"design": name, **of, "rows": rows, "runs": runs, "part": part} for part in range(parts)]
    return found


@lru_cache(maxsize=4)
def spec_of(design: str) -> Spec:
    asked = DESIGNS[design]
    return load_spec(
        {
            "columns": asked.columns,
            "source": {"dataframe": True},
            "privacy": {"epsilon": 1.0, "delta": 1e-9, "neighbours": "add_remove"},
            "release": {"name": "errors", "version": "1", "errors": "hc1", "regressions": [asked.formula]},
            "ledger": {"dataset": "errors"},
        }
    )


@dataclass
class Truth:
    """Least squares on all people, for any bound of the response."""

    terms: tuple[str, ...]
    inverse: np.ndarray
    x: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, domain: Domain, people: Mapping[str, np.ndarray], response: str) -> Truth:
        terms, columns = ["(intercept)"], [np.ones(len(next(iter(people.values()))))]
        for column in domain.columns:
            if isinstance(column, Categorical):
                terms += list(column.terms[1:])
                columns += [(people[column.name] == code).astype(float) for code in range(1, len(column.terms))]
            elif column.name != response:
                terms.append(column.name)
                columns.append(np.clip(people[column.name], column.lower, column.upper))
        x = np.column_stack(columns)
        order = np.argsort(people[response])
        return cls(tuple(terms), np.linalg.inv(x.T @ x), x[order], people[response][order])

    def at(self, lower: float, upper: float) -> dict[str, float]:
        found = self.inverse @ (self.x.T @ np.clip(self.y, lower, upper))
        return dict(zip(self.terms, found.tolist(), strict=True))


@lru_cache(maxsize=1)
def _truth(design: str, file: str | None) -> Truth:
    domain, response = choose(spec_of(design)).domain, DESIGNS[design].formula.split(" ~ ")[0]
    return Truth.of(domain, population(design, file), response)


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    design, people = DESIGNS[cell["design"]], population(cell["design"], cell.get("file"))
    spec, truth, noise = spec_of(cell["design"]), _truth(cell["design"], cell.get("file")), ExperimentNoise(random)
    mechanism, size = choose(spec), len(next(iter(people.values())))
    response, held = design.formula.split(" ~ ")[0], {kind: {} for kind in KINDS}  # type: ignore[var-annotated]
    robust, known, unbounded = 0, None, truth.at(-np.inf, np.inf)
    total: dict[str, int] = {}
    for _ in range(cell["runs"]):
        drawn = random.integers(0, size, cell["rows"])
        columns = {column.name: people[column.name][drawn] for column in spec.domain.columns}
        bounded = found_bounds(spec, mechanism, columns, noise)
        if known is None or spec.axes:
            (own,) = (column for column in bounded.domain.numeric if column.name == response)
            known = truth.at(own.lower, own.upper)
        release = release_arrays(spec, bounded, columns, noise)
        for kind in KINDS:
            fit = release.regress(Asked(design.formula, errors=kind))
            robust += kind == "hc1" and fit.errors == "hc1"
            intervals = fit.conf_int()
            for term, value in known.items():
                low, high = intervals[term]
                held[kind][term] = held[kind].get(term, 0) + (low <= value <= high)
                if kind == "hc1":
                    total[term] = total.get(term, 0) + (low <= unbounded[term] <= high)
    return [
        {
            "term": term,
            "hc1": held["hc1"][term],
            "classical": held["classical"][term],
            "unbounded": total[term],
            "robust": robust,
        }
        for term in truth.terms
    ]


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """The share of intervals that hold the truth, for each design and coefficient."""
    found = table.groupby(["design", "term"], sort=False)[["runs", "hc1", "classical", "unbounded", "robust"]].sum()
    for name in ("hc1", "classical", "unbounded", "robust"):
        found[name] = found[name] / found.runs
    return found.reset_index()


def plots(table: pd.DataFrame) -> dict[str, Any]:
    found = coverage(table)
    figure, (axes,) = panels(1, size=(9.0, 5.0))
    shown = [f"{row.design}: {row.term}" for row in found.itertuples() if row.term == DESIGNS[row.design].shown]
    rows = found[[row.term == DESIGNS[row.design].shown for row in found.itertuples()]]
    places = np.arange(len(shown))
    for at, (name, text) in enumerate((("classical", "equal variances assumed"), ("hc1", "hc1"))):
        axes.plot(rows[name], places + 0.1 * at, "so"[at], label=text)
    axes.axvline(0.95, color="0.25", lw=1.5, ls="--")
    axes.set_yticks(places, shown, fontsize=9)
    label(axes, "Coverage of nominal 95% intervals", "share that holds the truth", "")
    return {"": figure}


def findings(table: pd.DataFrame) -> str:
    found, lines = coverage(table), ["Intervals that are not robust fell back to equal variances.", ""]
    lines.append(
        "| design | coefficient | samples | equal variances | hc1 | of them robust |\n|---|---|---|---|---|---|"
    )
    for row in found.itertuples():
        lines.append(
            f"| {row.design} | {row.term} | {row.runs:,} | {100 * row.classical:.1f}% | {100 * row.hc1:.1f}% | "
            f"{100 * row.robust:.0f}% |"
        )
    private = found[found.design.str.contains("private")]
    more = "".join(f" {row.design}, {row.term}: {100 * row.unbounded:.1f}%." for row in private.itertuples())
    told = (
        "Where a bound is private, the truth is that of people bounded alike; of people without a bound hc1 holds:"
        + more
        if len(private)
        else ""
    )
    return "\n".join(lines) + (f"\n\n{told}" if told else "")


EXPERIMENT = Experiment(
    name="real-errors",
    paper="",
    figures="",
    title="Standard errors where variances differ",
    claim="Do nominal 95% intervals hold the truth in 95% of samples where the spread of residuals depends on the regressors?",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
