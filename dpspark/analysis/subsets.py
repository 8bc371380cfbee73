"""Every regression of one response at once, ranked. Post-processing of a release: no cost.

The criterion is BIC for a noisy matrix. With RSS the residual sum of squares of the noisy matrix, H the inverse of the
regressors' matrix and Ω the covariance of the noise in the normal equations, a regressor that explains nothing lowers RSS
by a chi-squared variable times σ²(1 + r), not σ²: r is its share of tr(HΩ)/σ². A penalty of ln(n)·(1 + r) for it keeps the
probability of taking it in at BIC's own P(χ² > ln n), so that p becomes p + tr(HΩ)/σ² (as in Takeuchi's criterion):

    n·ln(RSS/n) + ln(n)·(p + tr(HΩ)/σ²)   ≈   n·ln(σ²) + ln(n)·p + (ln(n) − 1)·tr(HΩ)/σ²,   σ² = (RSS + tr(HΩ)) / n

The right side is used: RSS itself may be negative, after noise. Subsets that `regress` would call NOT_IDENTIFIED are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.ols import Moments
from dpspark.analysis.remarks import definition_lines
from dpspark.analysis.result import Answer
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.identification import ENOUGH, kappa_w_of_all
from dpspark.show.progress import Loop, tell
from dpspark.show.tables import Grid, Part

if TYPE_CHECKING:
    import pandas as pd

MOST_SUBSETS = 1 << 20
CHUNK = 1 << 13
SINGULAR = 1e-12  # of the largest eigenvalue


@dataclass(frozen=True)
class Subset:
    columns: tuple[str, ...]
    coefficients: int
    criterion: float
    difference: float  # from the best
    r_squared: float
    kappa: float
    kappa_w: float


@dataclass(frozen=True)
class Ranking(Answer):
    """The best subsets, best first."""

    response: str
    subsets: tuple[Subset, ...]
    tried: int
    identified: int
    assumptions: tuple[str, ...] = ()
    definitions: Mapping[str, str] = field(default_factory=dict)

    def formula(self, place: int = 0) -> str:
        """The subset at a place as a formula, for `regress`."""
        quoted = [f"`{name}`" for name in self.subsets[place].columns]
        return f"`{self.response}` ~ {' + '.join(quoted) or '1'}"

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(self.to_dict()["subsets"])

    def to_dict(self) -> dict[str, Any]:
        return {
            "response": self.response,
            "criterion": "BIC for a noisy matrix",
            "tried": self.tried,
            "identified": self.identified,
            "subsets": [
                {**subset.__dict__, "columns": list(subset.columns), "r_squared": _number(subset.r_squared)}
                for subset in self.subsets
            ],
            "definitions": dict(self.definitions),
            "assumptions": list(self.assumptions),
        }

    def parts(self) -> list[Part]:
        head = f"{self.response}: {self.tried:,} subsets of the columns, {self.identified:,} identified after noise"
        if not self.subsets:
            return [head, "", "NOT IDENTIFIED: the noise drowns every one, even the intercept alone."]
        cells = [["", "BIC", "worse by", "R-squared", "kappa_w", "regressors"]]
        for place, subset in enumerate(self.subsets, 1):
            numbers = [f"{subset.criterion:.1f}", f"{subset.difference:.1f}", f"{subset.r_squared:.4f}"]
            cells.append([str(place), *numbers, f"{subset.kappa_w:.3g}", " + ".join(subset.columns) or "1"])
        note = "BIC with the privacy noise in its penalty. Intervals of a chosen subset do not know that it was chosen."
        return [head, "", Grid(cells, frozenset({5})), "", note, *self.assumptions, *definition_lines(self.definitions)]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def rank_subsets(
    moments: Moments, response: str, blocks: dict[str, tuple[str, ...]], max_terms: int | None, top: int
) -> Ranking:
    """Fit every subset of `blocks`, the candidate columns, each with the terms that it stands for; keep the best."""
    most = len(blocks) if max_terms is None else min(max_terms, len(blocks))
    tried = sum(math.comb(len(blocks), size) for size in range(most + 1))
    if tried > MOST_SUBSETS:
        raise ConfError(
            f"all subsets: {len(blocks)} columns have {tried:,} subsets; at most {MOST_SUBSETS:,} are tried.\n"
            "Set --max-terms (max_terms), or name fewer columns (columns=[...])."
        )
    names, y = list(blocks), moments.terms.index(response)
    found: list[tuple[float, float, float, float, tuple[int, ...], int]] = []
    seen, identified, total = 0, 0, math.nan
    for chosen, at in _groups(moments, blocks, most):
        fits = _fit_many(moments, at, y)
        if not chosen[0]:
            total = float(fits["sigma2"][0]) if fits["ok"][0] else math.nan
        ok = np.flatnonzero(fits["ok"])
        identified += len(ok)
        seen += len(chosen)
        tell(Loop("subsets", seen, tried))
        for i in ok[np.argsort(fits["bic"][ok])[:top]]:
            numbers = (fits[name][i] for name in ("bic", "sigma2", "kappa", "kappa_w"))
            found.append((*numbers, chosen[i], at.shape[1]))
    found.sort(key=lambda fit: fit[0])
    best = [
        Subset(
            tuple(names[i] for i in columns),
            count,
            float(bic),
            float(bic - found[0][0]),
            float(1 - sigma2 / total),
            float(kappa),
            float(kappa_w),
        )
        for bic, sigma2, kappa, kappa_w, columns, count in found[:top]
    ]
    return Ranking(response, tuple(best), tried, identified)


def _groups(
    moments: Moments, blocks: dict[str, tuple[str, ...]], most: int
) -> Iterator[tuple[list[tuple[int, ...]], np.ndarray]]:
    """Subsets with the same number of coefficients, some at a time: their columns, and their places in the matrix."""
    places = [tuple(moments.terms.index(term) for term in terms) for terms in blocks.values()]
    for size in range(most + 1):
        by_width: dict[int, list[tuple[int, ...]]] = {}
        for columns in combinations(range(len(places)), size):
            by_width.setdefault(sum(len(places[i]) for i in columns), []).append(columns)
        for group in by_width.values():
            for start in range(0, len(group), CHUNK):
                chosen = group[start : start + CHUNK]
                yield chosen, np.array([[0, *(at for i in columns for at in places[i])] for columns in chosen])


def _fit_many(moments: Moments, at: np.ndarray, y: int) -> dict[str, np.ndarray]:
    """Do what `ols.solve` does, for many regressions with an intercept and equally many coefficients at once."""
    count, scaled = at.shape[1], moments.scaled
    matrix, right = scaled[at[:, :, None], at[:, None, :]], scaled[at, y]
    values = np.linalg.eigvalsh(matrix)
    least = values[:, 0]
    kappa = least / moments.noise.size(count, least)
    ok = (least > SINGULAR * values[:, -1]) & (moments.rows - count >= 1)
    matrix[~ok] = np.eye(count)  # not looked at
    inverse = np.linalg.inv(matrix)
    kappa_w = np.where(ok, kappa_w_of_all(scaled, at, inverse, moments.noise), 0.0)
    ok &= kappa_w >= ENOUGH
    gamma = np.einsum("sij,sj->si", inverse, right)
    bias = moments.noise.traces(scaled, at, y, inverse, gamma)
    residual = scaled[y, y] - np.einsum("si,si->s", right, gamma) + bias
    ok &= residual > 0
    rows = moments.rows
    sigma2 = np.where(ok, residual, 1.0) / rows
    bic = rows * np.log(sigma2) + np.log(rows) * count + (np.log(rows) - 1) * bias / sigma2 if rows > 0 else sigma2
    return {"ok": ok, "bic": bic, "sigma2": sigma2, "kappa": kappa, "kappa_w": kappa_w}


def candidate_blocks(
    response: str, columns: Sequence[tuple[str, tuple[str, ...]]], wanted: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """The columns that can explain a response; a categorical one as its terms less the first."""
    own = next((name for name, terms in columns if response in terms), None)
    if own is None:
        known = [term for _, terms in columns for term in terms]
        meant = did_you_mean(response, known)
        raise ConfError(f"all subsets: no column {response!r} in this release.{meant}\nIt has: {', '.join(known)}")
    # A single category is named by its term, as in a formula.
    others = {
        terms[0] if len(terms) == 1 else name: terms[-1:] if len(terms) == 1 else terms[1:]
        for name, terms in columns
        if name != own
    }
    if wanted is None:
        return others
    unknown = [name for name in wanted if name not in others]
    if unknown:
        raise ConfError(
            f"all subsets: no column {unknown[0]!r} to explain {response} with; there are {', '.join(others)}."
        )
    return {name: others[name] for name in wanted}
