"""Kalaja's experiments: folds, draws, tables and plots, which are alike in all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.core.domain import Domain
from dpspark.mechanisms.gram.sampling import scaled_matrix
from experiments.experiment import Cell, Row, Setting
from experiments.kalaja import SIZES, Method, Problem, Table, load_table
from experiments.noise import ExperimentNoise
from experiments.style import TRUTH, curve, label, log_axis, panels

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = (0.1, 0.3, 1.0, 3.0)
FOLDS = 10
NOT_PRIVATE = "least squares, not private"
THESIS_RIDGE = "the thesis's ridge of 1, not private"
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


def measure_methods(
    cell: Cell, methods: Mapping[str, Method], random: np.random.Generator, ridge_of: str | None = None
) -> list[Row]:
    """The median and quartiles, over folds and draws, of each method's relative error; and those of least squares.

    `ridge_of`: also the thesis's own solution without noise, on the rows as this method maps them.
    """
    table = load_table(cell["set"], cell.get("file"), cell.get("offset", 0.0))
    noise = ExperimentNoise(random)
    errors: dict[tuple[str, float], list[float]] = {}
    for train, test in folds_of(len(table.y), cell["folds"], random):
        plain = relative(table, least_squares(table, train, test), test)
        for name, method in methods.items():
            problem = method(table, train, test)
            for epsilon in EPSILONS[:: cell["every"]]:
                mechanism = problem.mechanism(epsilon)
                for _ in range(cell["draws"]):
                    theta = mechanism.release(problem, noise, lambda step: None).theta
                    errors.setdefault((name, epsilon), []).append(relative(table, problem.predict(theta), test))
                if name == ridge_of:
                    ridge = problem.predict(thesis_ridge(problem, mechanism.domain))
                    errors.setdefault((THESIS_RIDGE, epsilon), []).append(relative(table, ridge, test))
        for epsilon in EPSILONS[:: cell["every"]]:
            errors.setdefault((NOT_PRIVATE, epsilon), []).append(plain)
    return [{"method": name, "epsilon": epsilon, **_spread(found)} for (name, epsilon), found in errors.items()]


def least_squares(table: Table, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Predictions of the test rows: an intercept and the regressors within their public bounds, no noise, no ridge."""
    x = np.column_stack([np.ones(len(table.x)), np.clip(table.x, *table.bounds[:-1].T)])
    return np.asarray(x[test] @ np.linalg.lstsq(x[train], table.y[train], rcond=None)[0])


def thesis_ridge(problem: Problem, domain: Domain) -> np.ndarray:
    """Ridge regression with λ = 1 on the rows as they are mapped, without an intercept."""
    products = scaled_matrix(problem.gram(domain))
    return np.linalg.solve(products[:-1, :-1] + np.eye(len(products) - 1), products[:-1, -1])


def relative(table: Table, predicted: np.ndarray, test: np.ndarray) -> float:
    return float(np.mean((table.y[test] - predicted) ** 2) / table.variance)


def _spread(found: list[float]) -> dict[str, float]:
    low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
    return {"low": float(low), "median": float(middle), "high": float(high)}


def set_ratios(table: pd.DataFrame, base: str) -> pd.DataFrame:
    """Of the median errors to those of one method, by epsilon and set, and by method."""
    wide = table.pivot(index=["epsilon", "set"], columns="method", values="median")
    return wide.div(wide[base], axis=0)


def ratios(table: pd.DataFrame, base: str) -> pd.DataFrame:
    """Their geometric means over the sets, by epsilon and method."""
    return np.exp(np.log(set_ratios(table, base)).groupby("epsilon").mean())


def verdict(table: pd.DataFrame, method: str, base: str) -> str:
    """How a method does against another, also where it loses."""
    mean, each = ratios(table, base)[method], set_ratios(table, base)[method]
    worse = [f"{epsilon:g}" for epsilon in mean.index if mean[epsilon] > 1]
    lost = f"; worse on average at epsilon = {', '.join(worse)}" if worse else ""
    wins = f"smaller in {int((each < 1).sum())} of {len(each)} settings"
    low, high = f"{mean.min():.2f}", f"{mean.max():.2f}"
    return f"{low if low == high else f'{low} to {high}'} times ({wins}{lost})"


def ratio_lines(table: pd.DataFrame, base: str, methods: Sequence[str]) -> str:
    """A Markdown table of them."""
    found = ratios(table, base)
    heads = [f"epsilon = {epsilon:g}" for epsilon in found.index]
    lines = [f"| error relative to: {base} | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    lines += [f"| {name} | {' | '.join(f'{value:.2f}' for value in found[name])} |" for name in methods]
    return "\n".join(lines)


def about_data(table: pd.DataFrame) -> str:
    """Which sets are files and which are not; ratios are over all of them."""
    kinds = {name: bool(made) for name, made in table.groupby("set").generated.first().items()}
    real, made = ([name for name in SIZES if kinds.get(name) is kind] for kind in (False, True))
    told = [f"UCI files: {', '.join(real)}."] if real else []
    told += [f"Generated, in the sizes of the UCI sets: {', '.join(made)}."] if made else []
    return f"{' '.join(told)} Public bounds are the 1% and 99% quantiles of the whole set, in the place of an expert's."


def figure_of(
    table: pd.DataFrame, looks: dict[str, int], title: str, top: float = 3.0, plain: Sequence[str] = (NOT_PRIVATE,)
) -> Any:
    """A panel for each set: error against epsilon. `looks` has the number of each method's colour, line and mark."""
    sets = [name for name in SIZES if name in set(table.set)]
    figure, axes = panels(len(sets), size=(5.6, 4.0))
    for at, name in zip(axes, sets, strict=True):
        set_panel(at, table[table.set == name], looks, top, plain)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=10)
    figure.suptitle(f"{title}: median and quartiles", fontsize=14)
    return figure


def set_panel(
    at: Any, shown: pd.DataFrame, looks: dict[str, int], top: float, plain: Sequence[str] = (NOT_PRIVATE,)
) -> None:
    for method, index in looks.items():
        line = shown[shown.method == method].sort_values("epsilon")
        curve(at, line.epsilon, line["median"], line.low, line.high, index, method)
    for method, style in zip(plain, ("--", "-."), strict=False):
        line = shown[shown.method == method].sort_values("epsilon")
        at.plot(line.epsilon, line["median"], color=TRUTH, lw=1.5, ls=style, label=method)
    at.axhline(1, color=TRUTH, lw=1, ls=":", label="the mean of y")
    log_axis(at, "x", sorted(shown.epsilon.unique()))
    bottom = 0.8 * min(shown[shown.method.isin([*looks, *plain])]["median"].min(), 1)
    highest = min(top, 1.3 * max(1.0, shown[shown.method.isin(looks)].high.max()))
    ticks = (*TICKS, *MORE_TICKS) if highest < 8 * bottom else TICKS
    log_axis(at, "y", [tick for tick in ticks if bottom <= tick <= highest])
    at.set_ylim(bottom, highest)
    name = str(shown.set.iloc[0])
    rows, width = SIZES[name]
    label(at, f"{name} ({rows:,} rows, {width} regressors)", "epsilon", "error / variance of y", legend=False)
