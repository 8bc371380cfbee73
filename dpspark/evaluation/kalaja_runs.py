"""Kalaja's experiments: folds, draws, tables and plots, which are alike in all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.data.domain import Domain
from dpspark.evaluation.experiment import Cell, Row, Setting
from dpspark.evaluation.kalaja import SIZES, Method, Problem, Table, load_table
from dpspark.evaluation.noise import ExperimentNoise
from dpspark.evaluation.style import TRUTH, curve, label, log_axis, panels
from dpspark.mechanisms.sampling import scaled_matrix

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = (0.1, 0.3, 1.0, 3.0)
FOLDS = 10
NOT_PRIVATE = "ridge 1, not private"
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
MORE_TICKS = (0.07, 0.3, 0.4, 0.6, 0.7, 0.8, 1.5, 3)  # where the range is small


def sets_of(setting: Setting, names: Sequence[str]) -> Iterator[Cell]:
    """A cell's name of the set and, with --data, its file."""
    for name in names:
        file = None if setting.data is None else setting.data / "uci" / f"{name}.parquet"
        if file is None or not file.exists():
            yield {"set": name, "generated": True}
        else:
            yield {"set": name, "generated": False, "file": str(file)}


def folds_of(rows: int, folds: int, random: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`folds` of the ten: train and test rows."""
    order = random.permutation(rows)
    for fold in range(folds):
        held = np.zeros(rows, bool)
        held[order[fold::FOLDS]] = True
        yield np.flatnonzero(~held), np.flatnonzero(held)


def cells_of(setting: Setting, names: Sequence[str]) -> list[Cell]:
    often = {"folds": setting.trials(FOLDS, 2), "draws": setting.trials(12, 4)}
    return [{**cell, **often, "every": setting.trials(1, 2)} for cell in sets_of(setting, names)]


def measure_methods(cell: Cell, methods: Mapping[str, Method], random: np.random.Generator) -> list[Row]:
    """The median and quartiles, over folds and draws, of each method's relative error; and a ridge of 1 without noise."""
    table = load_table(cell["set"], cell.get("file"))
    noise = ExperimentNoise(random)
    errors: dict[tuple[str, float], list[float]] = {}
    for train, test in folds_of(len(table.y), cell["folds"], random):
        for position, (name, method) in enumerate(methods.items()):
            problem = method(table, train, test)
            for epsilon in EPSILONS[:: cell["every"]]:
                mechanism = problem.mechanism(epsilon)
                for _ in range(cell["draws"]):
                    theta = mechanism.release(problem, noise, lambda step: None).theta
                    errors.setdefault((name, epsilon), []).append(relative(table, problem.predict(theta), test))
                if position == 0:
                    plain = relative(table, problem.predict(not_private(problem, mechanism.domain)), test)
                    errors.setdefault((NOT_PRIVATE, epsilon), []).append(plain)
    return [{"method": name, "epsilon": epsilon, **_spread(found)} for (name, epsilon), found in errors.items()]


def not_private(problem: Problem, domain: Domain) -> np.ndarray:
    """Ridge regression with λ = 1 on the same rows, as in the thesis."""
    products = scaled_matrix(problem.gram(domain))
    return np.linalg.solve(products[:-1, :-1] + np.eye(len(products) - 1), products[:-1, -1])


def relative(table: Table, predicted: np.ndarray, test: np.ndarray) -> float:
    return float(np.mean((table.y[test] - predicted) ** 2) / table.variance)


def _spread(found: list[float]) -> dict[str, float]:
    low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
    return {"low": float(low), "median": float(middle), "high": float(high)}


def ratios(table: pd.DataFrame, base: str) -> pd.DataFrame:
    """Of the median errors to those of one method, by epsilon and method: the geometric mean over the sets."""
    wide = table.pivot(index=["epsilon", "set"], columns="method", values="median")
    return np.exp(np.log(wide.div(wide[base], axis=0)).groupby("epsilon").mean())


def ratio_lines(table: pd.DataFrame, base: str, methods: Sequence[str]) -> str:
    """A Markdown table of them."""
    found = ratios(table, base)
    heads = [f"epsilon = {epsilon:g}" for epsilon in found.index]
    lines = [f"| error relative to: {base} | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    lines += [f"| {name} | {' | '.join(f'{value:.2f}' for value in found[name])} |" for name in methods]
    return "\n".join(lines)


def about_data(table: pd.DataFrame) -> str:
    what = "Generated sets of the UCI sets' sizes." if table.generated.all() else "UCI sets."
    return f"{what} Public bounds are the 1% and 99% quantiles of the whole set, in the place of an expert's."


def figure_of(table: pd.DataFrame, looks: dict[str, int], title: str, top: float = 3.0) -> Any:
    """A panel for each set: error against epsilon. `looks` has the number of each method's colour, line and mark."""
    sets = [name for name in SIZES if name in set(table.set)]
    figure, axes = panels(len(sets), wide=4 if len(sets) > 4 else 2, size=(4.2, 3.6) if len(sets) > 4 else (5.6, 4.0))
    for at, name in zip(axes, sets, strict=True):
        shown = table[table.set == name]
        for method, index in looks.items():
            line = shown[shown.method == method].sort_values("epsilon")
            curve(at, line.epsilon, line["median"], line.low, line.high, index, method)
        line = shown[shown.method == NOT_PRIVATE].sort_values("epsilon")
        at.plot(line.epsilon, line["median"], color=TRUTH, lw=1.5, ls="--", label=NOT_PRIVATE)
        at.axhline(1, color=TRUTH, lw=1, ls=":", label="the mean of y")
        log_axis(at, "x", list(line.epsilon))
        bottom = 0.8 * min(shown[shown.method.isin([*looks, NOT_PRIVATE])]["median"].min(), 1)
        highest = min(top, 1.3 * max(1.0, shown[shown.method.isin(looks)].high.max()))
        ticks = (*TICKS, *MORE_TICKS) if highest < 5 * bottom else TICKS
        log_axis(at, "y", [tick for tick in ticks if bottom <= tick <= highest])
        at.set_ylim(bottom, highest)
        rows, width = SIZES[name]
        label(at, f"{name} ({rows:,} rows, {width} regressors)", "epsilon", "error / variance of y", legend=False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=10)
    figure.suptitle(f"{title}: median and quartiles", fontsize=14)
    return figure
