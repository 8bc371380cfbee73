"""refined against gram_ridge: the noise of coefficients on seven UCI sets, and whether intervals cover.

Sets: near-collinear columns are left out until the correlations' least eigenvalue exceeds 0.01, bounds are the 1% and 99%
quantiles, rows are repeated to n; epsilon = 0.1 and 1, delta = 1e-6; 100 releases each. Noise is the root of the mean excess
risk, Σ (x·(θ − β))², β the least squares of the same rows. Coverage is of 95% intervals where there are some: for the sets, of
the privacy part, and of the whole interval if the sampling error is added as the model has it; for invented rows, with errors
of several laws, of new rows in each of 400 trials.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.fit import RegressionFit, to_original
from dpspark.spec.choose import choose_regression
from dpspark.spec.spec import load_spec
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.kalaja_runs import sets_of
from experiments.noise import ExperimentNoise
from experiments.refined_rows import LAWS, SETS, invented, repeated_set
from experiments.style import label, look, panels

if TYPE_CHECKING:
    import pandas as pd

    from dpspark.mechanisms.regression.base import NoisyRegression, RegressionMechanism

DELTA = 1e-6
NORMAL = 1.959964
BOTH = ("gram_ridge", "refined")


def cells(setting: Setting) -> list[Cell]:
    found: list[Cell] = []
    for one in sets_of(setting, SETS[:1] if setting.quick else SETS):
        for n in (100_000,) if setting.quick else (100_000, 1_000_000):
            for epsilon in (1.0,) if setting.quick else (0.1, 1.0):
                draws = setting.trials(100, 5)
                found.append({**one, "n": n, "epsilon": epsilon, "draws": draws})
    for law in LAWS[:1] if setting.quick else LAWS:
        for n in (60_000,) if setting.quick else (60_000, 200_000):
            found.append({"law": law, "n": n, "epsilon": 1.0, "draws": setting.trials(400, 5)})
    return found


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    return _measure_law(cell, random) if "law" in cell else _measure_set(cell, random)


def _measure_set(cell: Cell, random: np.random.Generator) -> list[Row]:
    data, noise, found = repeated_set(cell["set"], cell.get("file"), cell["n"]), ExperimentNoise(random), []
    root = np.linalg.cholesky(data.sigma2 * np.linalg.inv(data.squares))
    for name in BOTH:
        mechanism = data.mechanism(name, cell["epsilon"], DELTA)
        risks, parts, wholes = [], [], []
        for _ in range(cell["draws"]):
            made = mechanism.release(data.rows, noise, lambda step: None)
            off = made.theta - data.beta
            risks.append(float(off @ data.squares @ off))
            fit = _fit(mechanism, made)
            if fit.status == "OK":
                unit, sampled = to_original(mechanism.domain)[0], off + root @ random.standard_normal(len(off))
                parts.append(np.abs(unit @ off) <= NORMAL * np.array(list(fit.privacy_std_errors.values())))
                wholes.append(np.abs(unit @ sampled) <= NORMAL * np.array(list(fit.std_errors.values())))
        found.append(
            {
                "method": name,
                "regressors": len(data.beta) - 1,
                "noise": math.sqrt(np.mean(risks)),
                "answered": len(parts) / cell["draws"],
                "privacy_part": float(np.mean(parts)) if parts else math.nan,
                "covered": float(np.mean(wholes)) if wholes else math.nan,
                "least": float(np.mean(wholes, axis=0).min()) if wholes else math.nan,
            }
        )
    return found


def _measure_law(cell: Cell, random: np.random.Generator) -> list[Row]:
    noise, hits = ExperimentNoise(random), []
    for _ in range(cell["draws"]):
        conf, rows, truth = invented(cell["law"], cell["n"], random)
        mechanism = _mechanism(conf, cell["epsilon"])
        fit = _fit(mechanism, mechanism.release(rows, noise, lambda step: None))
        if fit.status == "OK":
            hits.append([low <= true <= high for (low, high), true in zip(fit.conf_int().values(), truth, strict=True)])
    covered = np.mean(hits, axis=0) if hits else np.array([math.nan])
    return [
        {
            "method": "refined",
            "answered": len(hits) / cell["draws"],
            "covered": float(covered.mean()),
            "least": float(covered.min()),
        }
    ]


def _mechanism(conf: dict[str, Any], epsilon: float) -> RegressionMechanism:
    privacy = {"epsilon": epsilon, "delta": DELTA}
    return choose_regression(load_spec({**conf, "privacy": privacy, "mechanism": {"name": "refined"}}))


def _fit(mechanism: RegressionMechanism, made: NoisyRegression) -> RegressionFit:
    facts = {"name": mechanism.name, **mechanism.facts()}
    return RegressionFit(mechanism.domain, facts, made.theta, made.statistics, 0)


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """How many times the noise of gram_ridge refined has, for each set."""
    wide = table[table["set"].notna()].pivot(index=["epsilon", "n", "set"], columns="method", values="noise")
    return (wide["refined"] / wide["gram_ridge"]).rename("ratio").reset_index()


def plots(table: pd.DataFrame) -> dict[str, Any]:
    found = ratios(table)
    figure, (axes,) = panels(1)
    for index, ((epsilon, n), mine) in enumerate(found.groupby(["epsilon", "n"])):
        style = look(index + 1, ls="")
        axes.plot(range(len(mine)), mine.ratio, label=f"epsilon = {epsilon:g}, n = {n:,}", **style)
        axes.set_xticks(range(len(mine)), mine["set"])
    axes.set_ylim(0, max(1.05, 1.05 * found.ratio.max()))
    label(axes, "Noise of refined over that of gram_ridge", "", "ratio")
    return {"": figure}


def findings(table: pd.DataFrame) -> str:
    found, sets = ratios(table), table[table["set"].notna()]
    lines = ["| epsilon | rows | " + " | ".join(dict.fromkeys(found["set"])) + " | all | the worst |"]
    lines.append("|" + "---|" * (found["set"].nunique() + 4))
    for (epsilon, n), mine in found.groupby(["epsilon", "n"]):
        mean = math.exp(np.log(mine.ratio).mean())
        cells = " | ".join(f"{ratio:.2f}" for ratio in mine.ratio)
        lines.append(f"| {epsilon:g} | {n:,} | {cells} | **{mean:.2f}** | {mine.ratio.max():.2f} |")
    answered = sets[(sets.method == "refined") & (sets.answered > 0.2)]
    laws = table[table["law"].notna()] if "law" in table else table.iloc[:0]
    source = "generated sets of the UCI sets' sizes" if sets["generated"].any() else "the UCI sets"
    text = (
        f"On {source}, how many times the noise of gram_ridge's coefficients refined's have; all: the geometric mean.\n\n"
        + "\n".join(lines)
        + f"\n\nWhere a fifth of the releases or more have intervals ({len(answered)} cells), 95% intervals of the privacy "
        f"part cover {_range(answered.privacy_part)}, the whole ones {_range(answered.covered)}."
    )
    if len(laws):
        rows = [
            "| errors | rows | answered | coverage | of the worst coefficient |",
            "|---|---|---|---|---|",
            *(
                f"| {one.law} | {one.n:,} | {100 * one.answered:.0f}% | {100 * one.covered:.1f}% | {100 * one.least:.1f}% |"
                for one in laws.itertuples()
            ),
        ]
        text += "\n\nInvented rows with three regressors, epsilon = 1, new rows in every trial:\n\n" + "\n".join(rows)
    return text


def _range(values: pd.Series) -> str:
    known = values.dropna()
    return f"{100 * known.min():.1f} to {100 * known.max():.1f}%" if len(known) else "–"


EXPERIMENT = Experiment(
    name="real-refined",
    paper="",
    figures="",
    title="A second step for one regression",
    claim="""How much less noise has refined than gram_ridge, which answers in one step, and do its intervals cover?""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
