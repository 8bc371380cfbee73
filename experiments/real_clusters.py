"""Errors by clusters: coverage of 95% intervals where rows of one cluster are alike, and how often there is an answer.

Rows of clusters with a random effect of half of the residuals' spread, which a regressor shares in, too; clusters of one size,
or of very unequal sizes (gamma with shape 2), small and large. y ~ x + z: x differs between clusters, z within them alone. The
truth is that of the model. Every release is made by the product's own code, with its defaults, at delta = 1e-9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.options import Asked
from dpspark.mechanisms.errors.asked import CLASSICAL, CLUSTER
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from experiments.array_rows import release_arrays
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise

if TYPE_CHECKING:
    import pandas as pd

FORMULA = "y ~ x + z"
TRUTH = {"x": 0.5, "z": -0.3}
KINDS = (CLUSTER, CLASSICAL)
# Clusters, rows, epsilon, whether sizes are unequal.
DESIGNS: dict[str, tuple[int, int, float, bool]] = {
    "5,000 clusters of 50": (5_000, 250_000, 1.0, False),
    "5,000 unequal clusters": (5_000, 250_000, 1.0, True),
    "20,000 unequal clusters of about 20": (20_000, 400_000, 1.0, True),
    "2,000 unequal clusters of about 50": (2_000, 100_000, 2.0, True),
    "1,000 unequal clusters of about 20": (1_000, 20_000, 8.0, True),
    "500 unequal clusters of about 100": (500, 50_000, 4.0, True),
    "100 unequal clusters of about 1,000": (100, 100_000, 4.0, True),
}


def cells(setting: Setting) -> list[Cell]:
    chosen = ["1,000 unequal clusters of about 20"] if setting.quick else DESIGNS
    return [{"design": name, "draws": setting.trials(300, 10)} for name in chosen]


def rows_of(clusters: int, rows: int, unequal: bool, random: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Generate rows, and the number of each row's cluster."""
    share = random.gamma(2.0, size=clusters) if unequal else np.ones(clusters)
    code = random.choice(clusters, rows, p=share / share.sum())
    x = np.sqrt(0.5) * random.normal(size=clusters)[code] + np.sqrt(0.5) * random.normal(size=rows)
    z, effect = random.normal(size=rows), 0.5 * random.normal(size=clusters)[code]
    y = 1 + TRUTH["x"] * x + TRUTH["z"] * z + effect + random.normal(size=rows)
    return {"x": x, "z": z, "y": y}, code


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    clusters, rows, epsilon, unequal = DESIGNS[cell["design"]]
    spec = load_spec(
        {
            "columns": {
                "x": {"lower": -5, "upper": 5},
                "z": {"lower": -5, "upper": 5},
                "y": {"lower": -7, "upper": 9},
            },
            "privacy": {"epsilon": epsilon, "delta": 1e-9},
            "release": {
                "name": "clusters",
                "version": "1",
                "regressions": [FORMULA],
                "errors": {"cluster": "town"},
            },
            "ledger": {"dataset": "experiment"},
        }
    )
    mechanism, noise = choose(spec), ExperimentNoise(random)
    hits: dict[tuple[str, str], list[bool]] = {(term, kind): [] for term in TRUTH for kind in KINDS}
    for _ in range(cell["draws"]):
        columns, code = rows_of(clusters, rows, unequal, random)
        release = release_arrays(spec, mechanism, columns, noise, code)
        for errors in (None, CLASSICAL):
            fit = release.regress(Asked(FORMULA, errors=errors))
            for term, (low, high) in fit.conf_int().items() if errors or fit.errors == CLUSTER else ():
                if term in TRUTH:
                    hits[term, fit.errors].append(low <= TRUTH[term] <= high)
    told = []
    for term in TRUTH:
        covered = {kind: float(np.mean(hits[term, kind])) if hits[term, kind] else np.nan for kind in KINDS}
        told.append({"term": term, "epsilon": epsilon, "answered": len(hits[term, CLUSTER]) / cell["draws"], **covered})
    return told


def plots(table: pd.DataFrame) -> dict[str, Any]:
    return {}


def findings(table: pd.DataFrame) -> str:
    lines = [
        "| design | epsilon | answered | x: by clusters | equal variances | z: by clusters | equal variances |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, mine in table.groupby("design", sort=False):
        shown = []
        for term in TRUTH:
            one = mine[mine.term == term].iloc[0]
            shown += ["–" if np.isnan(one[kind]) else f"{100 * one[kind]:.1f}" for kind in KINDS]
        first = mine.iloc[0]
        lines.append(f"| {name} | {first.epsilon:g} | {100 * first.answered:.0f} | {' | '.join(shown)} |")
    mostly = table[table.answered > 0.5]
    return (
        "Coverage in % of 95% intervals, and how many % of the releases have errors by clusters; the others say why not, and "
        "assume equal variances:\n\n"
        + "\n".join(lines)
        + f"\n\nWhere more than half are answered, errors by clusters cover {100 * mostly[CLUSTER].min():.1f} to "
        f"{100 * mostly[CLUSTER].max():.1f}%; equal variances cover {100 * table[CLASSICAL].min():.1f}% in the worst case."
    )


EXPERIMENT = Experiment(
    name="real-clusters",
    paper="",
    figures="",
    title="Rows that are alike within clusters",
    claim="""Do errors by clusters hold what they promise, and what would equal variances say?""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
