"""The rule when to answer: coverage of the privacy part by kappa_w, on sixteen designs.

Numbers that are evenly spread, far from the middle of their bounds or nearly collinear; categories that are even, many or rare;
with noise of 30 rows on every entry, as of epsilon = 1, and as many rows as give kappa_w of 1.5 to 100 without noise, from some
hundred to millions. 2000 draws of the noise each (600 where there are more than 20 coefficients). The truth is least squares
without noise; a release is answered where the kappa_w of its own noisy matrix is 2 or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.ols import Moments, NotIdentified, directions, identification, solve
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.formula import Formula
from dpspark.mechanisms.gram.coordinates import centre_and_scale
from dpspark.mechanisms.gram.identification import ENOUGH
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from experiments.experiment import Cell, Experiment, Row, Setting

if TYPE_CHECKING:
    import pandas as pd

STD = 30.0
NORMAL = 1.959964
KAPPAS = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 100.0)
WIDE = 20  # coefficients
# Numbers: how many, what they have in common, their mean; and the shares of each block's categories.
DESIGNS: dict[str, tuple[int, float, float, Sequence[Sequence[float]]]] = {
    "one number": (1, 0.0, 0.0, ()),
    "nine numbers": (9, 0.0, 0.0, ()),
    "far from the middle": (3, 0.0, 0.7, ()),
    "nearly collinear": (3, 0.9, 0.0, ()),
    "sex and marital status": (1, 0.0, 0.0, ([49, 51], [53, 7, 11, 1.4, 27])),
    "a rare category": (1, 0.0, 0.0, ([70, 29.5, 0.5],)),
    "thirty even categories": (1, 0.0, 0.0, ([1] * 30,)),
    "forty uneven categories": (2, 0.0, 0.0, ([1, 1], [1 / (i + 1) for i in range(40)])),
    "categories alone": (0, 0.0, 0.0, ([6, 4], [2, 3, 5])),
    "two rare ones": (2, 0.0, 0.0, ([98, 2], [97, 3], [5, 5])),
    "far and rare": (2, 0.0, 0.8, ([9, 1],)),
    "a number and its square": (-1, 0.0, 0.0, ()),
    "one number, far": (1, 0.0, 0.9, ()),
    "two very collinear": (2, 0.97, 0.0, ()),
    "two categories": (0, 0.0, 0.0, ([1, 1],)),
    "one rare of ten": (0, 0.0, 0.0, ([10] * 9 + [1],)),
}


def cells(setting: Setting) -> list[Cell]:
    kappas = KAPPAS[1::3] if setting.quick else KAPPAS
    return [
        {"design": name, "target": kappa, "draws": setting.trials(2000, 20)} for name in DESIGNS for kappa in kappas
    ]


@lru_cache(maxsize=16)
def design(name: str) -> tuple[Domain, np.ndarray]:
    """The columns, and E[z zᵀ] of a row."""
    numbers, common, mean, blocks = DESIGNS[name]
    random, count = np.random.default_rng(1), 100_000
    shared = random.uniform(-1, 1, count)
    parts: list[np.ndarray] = [np.ones(count)]
    columns: list[Numeric | Categorical] = []
    if numbers < 0:
        parts += [shared, (1 + shared) ** 2 / 2 - 1]
    for _ in range(max(numbers, 0)):
        own = common * shared + (1 - common) * random.uniform(-1, 1, count)
        parts.append(mean + (1 - abs(mean)) * own)
    columns += [Numeric(f"x{i}", -1.0, 1.0) for i in range(len(parts) - 1)]
    for i, given in enumerate(blocks):
        code = random.choice(len(given), count, p=np.array(given) / sum(given))
        parts += [(code == category).astype(float) for category in range(len(given))]
        columns.append(Categorical(f"b{i}", tuple(range(len(given)))))
    explained = np.column_stack(parts) @ random.normal(0, 1, len(parts))
    y = 0.4 * explained / np.abs(explained).max() + random.uniform(-0.5, 0.5, count)
    rows = np.column_stack([*parts, y])
    return Domain((*columns, Numeric("y", -1.0, 1.0))), rows.T @ rows / count


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    domain, one = design(cell["design"])
    noise = AdditiveNoise(STD, STD)
    terms = [t for c in domain.columns[:-1] for t in (c.terms if len(c.terms) == 1 else c.terms[1:])]
    formula, scale = Formula("y", tuple(terms), True), centre_and_scale(domain)
    exact = Moments(domain.terms, one, *scale, noise.given(domain.known))
    x, y, _, _ = directions(exact, formula)
    rows = cell["target"] / identification(exact, x).kappa_w
    truth = np.linalg.solve(x.T @ one @ x, x.T @ one @ y)
    draws = cell["draws"] if len(truth) <= WIDE else -(-cell["draws"] * 3 // 10)
    found: list[dict[str, Any]] = []
    for _ in range(draws):
        noisy = rows * one + noise.draw(one, random, 1)[0]
        try:
            fit = solve(Moments(domain.terms, noisy, *scale, noise).given(domain.known), formula)
        except NotIdentified:
            found.append({"answered": False})
            continue
        assert fit.inversion is not None
        low, high = fit.inversion.intervals(fit.estimates, 0.0, NORMAL).T
        z = (fit.estimates - truth) / np.sqrt(np.diag(fit.privacy))
        hit, bounded = (low <= truth) & (truth <= high), np.isfinite(high)
        found.append({"answered": True, "z": z.tolist(), "hit": hit.tolist(), "bounded": bounded.tolist()})
    return [{"rows": rows, "coefficients": len(truth), **_summed(found)}]


def _summed(found: list[dict[str, Any]]) -> Row:
    """The share of draws that are answered, and of these the coverage: of all coefficients, and of the worst of them."""
    z = np.array([one["z"] for one in found if one["answered"]])
    if len(z) < 10:
        nothing = dict.fromkeys(("covered", "bounded", "least", "most", "bias"), np.nan)
        return {"answered": len(z) / len(found), **nothing}
    hits = np.mean([one["hit"] for one in found if one["answered"]], axis=0)
    return {
        "answered": len(z) / len(found),
        "covered": float(hits.mean()),
        "bounded": float(np.mean([one["bounded"] for one in found if one["answered"]])),
        "least": float(hits.min()),
        "most": float(hits.max()),
        "bias": float(np.abs(z.mean(axis=0)).max()),
    }


def plots(table: pd.DataFrame) -> dict[str, Any]:
    return {}


def findings(table: pd.DataFrame) -> str:
    shown = sorted(table.target.unique())
    lines = [
        "| design | " + " | ".join(f"kappa_w = {kappa:g}" for kappa in shown) + " |",
        "|---|" + "---|" * len(shown),
    ]
    for name, mine in table.groupby("design", sort=False):
        by_target = mine.set_index("target")
        cells = []
        for kappa in shown:
            one = by_target.loc[kappa]
            covered = "–" if np.isnan(one.covered) else f"{100 * one.covered:.1f}"
            cells.append(f"{covered} ({100 * one.answered:.0f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    answered = table[(table.target >= ENOUGH) & (table.answered > 0.2)]
    within = (answered.covered.between(0.93, 0.97)).mean()
    return (
        "Coverage in % of the privacy part's 95% intervals, all coefficients together, and in brackets how many % of the "
        "draws are answered, at the kappa_w that the design has without noise:\n\n"
        + "\n".join(lines)
        + f"\n\nFrom kappa_w = {ENOUGH:g} on, where a fifth of the draws or more are answered, {100 * within:.0f}% of the "
        f"cells are within 93–97%, from {100 * answered.covered.min():.1f} to {100 * answered.covered.max():.1f}%; the mean "
        f"of an estimate is off by {answered.bias.median():.2f} of its privacy error, typically, by "
        f"{answered.bias.max():.2f} at most. {100 * (1 - answered.bounded.mean()):.1f}% of these intervals have no bounds, "
        f"{100 * (1 - answered.bounded.min()):.0f}% at most."
    )


EXPERIMENT = Experiment(
    name="real-identification",
    paper="",
    figures="",
    title="When there is an answer",
    claim="""From which kappa_w on do intervals hold what they promise, whatever the design?""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
