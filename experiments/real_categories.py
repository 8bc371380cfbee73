"""Regressions on categorical columns: income by age, education, sex, race, marital status and state.

Releases of the product's defaults: gaussian, epsilon = 1, delta = 1e-9, one record added or removed, income in [0, 300000]. The
whole survey with all columns, 100 releases; and samples of 5,000, 10,000 and 20,000 adults with sex and marital status alone,
40 samples of each and 25 releases of each sample. The truth is least squares on the same bounded rows without noise: what is
measured is the privacy part alone. "As released" is the same matrix without what is known of it, by the rule of 0.2.0: an
answer where kappa, the least eigenvalue over the noise, is 2 or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.least_squares import RegressionResult
from dpspark.analysis.ols import Moments, directions, fit_scaled, identification
from dpspark.core.domain import Domain, Numeric
from dpspark.mechanisms.gram.sampling import scaled_matrix
from experiments.acs import People, columns_of, file_of, people
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise
from experiments.releases import Releases

if TYPE_CHECKING:
    import pandas as pd

WHOLE = ("age", "educ", "sex", "race", "marital", "state")
FEW = ("age", "educ", "sex", "marital")
PRIVACY = {"epsilon": 1.0, "delta": 1e-9}
KNOWN, RELEASED = "what is known used", "as released"
NORMAL = 1.959964
OLD_RULE = 2.0  # of kappa
BLOCK = 200_000


def cells(setting: Setting) -> list[Cell]:
    file, rows = file_of(setting), 400_000
    whole = {"part": "whole", "rows": rows, "draws": setting.trials(100, 4), **file}
    few = [
        {"part": "few", "rows": rows, "sample": sample, "number": number, "draws": setting.trials(25, 4), **file}
        for sample in (5_000, 10_000, 20_000)
        for number in range(setting.trials(40, 1))
    ]
    return [whole, *few]


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    rows = people(cell.get("file"), cell["rows"], random)
    names = WHOLE if cell["part"] == "whole" else FEW
    categories = {name: np.unique(rows[name]).tolist() for name in names if name not in ("age", "educ")}
    if cell["part"] == "few":
        at = random.choice(len(rows["age"]), cell["sample"], replace=False)
        rows = {name: values[at] for name, values in rows.items()}
    releases = Releases(rows, {"columns": columns_of((*names, "income"), categories), "privacy": PRIVACY})
    noise, found = ExperimentNoise(random), []
    truth: Truth | None = None
    for draw in range(cell["draws"]):
        release = releases.draw(noise)
        fit = release.regress(f"income ~ {' + '.join(names)}")
        noisy = release.content.noisy_moments
        if truth is None:
            truth = Truth(scaled_matrix(releases.exact), noisy, fit, rows)
        found += [{"draw": draw, **row} for row in truth.rows_of(fit, noisy)]
    return found


class Truth:
    """Least squares on the bounded rows themselves, with the standard errors that hold when variances differ."""

    def __init__(self, exact: np.ndarray, noisy: Moments, fit: RegressionResult, rows: People):
        self.x, self.y, self.to_original, self.shift = directions(noisy, fit.formula)
        inverse = np.linalg.inv(self.x.T @ exact @ self.x)
        w = self.y - self.x @ (inverse @ (self.x.T @ exact @ self.y))
        self.estimates = self.to_original @ (inverse @ (self.x.T @ exact @ self.y)) + self.shift
        assert fit.domain is not None
        meat = np.zeros(inverse.shape)
        for first in range(0, len(rows["age"]), BLOCK):
            z = bounded(fit.domain, {name: values[first : first + BLOCK] for name, values in rows.items()})
            meat += (z @ self.x).T @ ((z @ self.x) * np.square(z @ w)[:, None])
        self.errors = np.sqrt(np.diag(self.to_original @ inverse @ meat @ inverse @ self.to_original.T))

    def rows_of(self, fit: RegressionResult, noisy: Moments) -> list[Row]:
        """A row for each column: errors in standard errors, and whether the privacy part's interval holds the truth."""
        raw = self.to_original @ fit_scaled(noisy, self.x, self.y)[0] + self.shift
        old = identification(noisy, self.x).kappa >= OLD_RULE
        answered = fit.status == "OK"
        params, privacy = np.array(list(fit.params.values())), np.array(list(fit.privacy_std_errors.values()))
        methods = (
            (
                KNOWN,
                answered,
                (params - self.estimates) / self.errors,
                np.abs(params - self.estimates) <= NORMAL * privacy,
            ),
            (RELEASED, old, (raw - self.estimates) / self.errors, np.full(len(raw), np.nan)),
        )
        columns = [term.split("[")[0] for term in fit.terms]
        return [
            {
                "method": method,
                "answered": bool(ok),
                "kappa": fit.kappa,
                "kappa_w": fit.kappa_w,
                "column": column,
                "typical": float(np.median(np.abs(error[at]))),
                "square": float(np.square(error[at]).mean()),
                "covered": float(np.mean(hit[at])) if ok else np.nan,
            }
            for method, ok, error, hit in methods
            for column in dict.fromkeys(columns[1:])
            for at in [[i for i, own in enumerate(columns) if own == column]]
        ]


def bounded(domain: Domain, rows: People) -> np.ndarray:
    """The rows in scaled coordinates, an intercept first."""
    parts = [np.ones(len(rows["age"]))]
    for column in domain.columns:
        values = rows[column.name]
        if isinstance(column, Numeric):
            parts.append((np.clip(values, column.lower, column.upper) - column.middle) / column.half)
        else:
            parts += [(values == category).astype(float) for category in column.categories]
    return np.column_stack(parts)


def plots(table: pd.DataFrame) -> dict[str, Any]:
    return {}


def findings(table: pd.DataFrame) -> str:
    whole, few = table[table.part == "whole"], table[table.part == "few"]
    lines = ["| error / SE | " + " | ".join(whole.column.unique()) + " | NOT IDENTIFIED |", "|---|" + "---|" * 7]
    for method in (RELEASED, KNOWN):
        mine = whole[whole.method == method]
        shown = [_error_text(one) for _, one in mine.groupby("column", sort=False)]
        lines.append(f"| {method} | {' | '.join(shown)} | {1 - mine.answered.mean():.0%} |")
    known = few[few.method == KNOWN]
    lines += [
        "",
        "| rows, sex and marital status | kappa | kappa_w | answered | covered, of 95% | by column |",
        "|---|---|---|---|---|---|",
    ]
    for size, one in known.groupby("sample"):
        by_column = one.groupby("column", sort=False).covered.mean()
        columns = ", ".join(f"{name} {100 * share:.1f}" for name, share in by_column.items())
        lines.append(
            f"| {size:,.0f} | {one.kappa.median():.2f} | {one.kappa_w.median():.1f} | {one.answered.mean():.0%} | "
            f"{100 * one.covered.mean():.1f}% | {columns} |"
        )
    covered = whole[whole.method == KNOWN].covered.mean()
    return (
        "Typical (median) errors of a column's coefficients, in brackets their root mean square, in standard errors:\n\n"
        + "\n".join(lines)
        + f"\n\nOn the whole survey {100 * covered:.1f}% of the privacy part's 95% intervals hold the truth."
    )


def _error_text(one: pd.DataFrame) -> str:
    return f"{one.typical.median():.2f} ({np.sqrt(one.square.mean()):.2f})"


EXPERIMENT = Experiment(
    name="real-categories",
    paper="",
    figures="",
    title="Categorical columns",
    claim="""How much less noise is in coefficients of categorical columns once what is known of them is used, and is
    there an answer where a category is rare?""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
