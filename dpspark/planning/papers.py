"""The papers' own bounds on a regression's coefficients, where they apply: Sheffet, Theorems 3.2 and 4.2.

They are about the papers' estimators, which keep the ridge or the mean of the noise that dpspark takes off again, and about
‖·‖ of all scaled coefficients together. They are shown beside the prediction, not in its place.
"""

from __future__ import annotations

import math

import numpy as np

from dpspark.analysis.formula import Formula
from dpspark.mechanisms.gram.projection import ProjectedGram
from dpspark.mechanisms.gram.wishart import WishartGram
from dpspark.spec.choose import GramMechanism

LEAST_C = 2.0


def paper_lines(
    mechanism: GramMechanism, terms: tuple[str, ...], scaled: np.ndarray, formula: Formula, nu: float
) -> list[str]:
    """What the theorems say of this regression; nothing for other mechanisms."""
    if not formula.intercept:
        return []
    at = [0, *(terms.index(term) for term in (*formula.regressors, formula.response))]
    matrix = scaled[np.ix_(at, at)]
    if isinstance(mechanism, WishartGram):
        return [_theorem_4_2(mechanism, matrix, nu)]
    if isinstance(mechanism, ProjectedGram) and mechanism.law == "johnson_lindenstrauss":
        return [_theorem_3_2(mechanism, matrix, nu)]
    return []


def wishart_bound(matrix: np.ndarray, degrees: float, scale: float, nu: float) -> tuple[float, float]:
    """Theorem 4.2: C, and the bound on ‖β̃ − β̂‖ that holds with probability 1 − nu if C >= 2 (else infinite).

    β̃ = (XᵀX + N)⁻¹(Xᵀy + n) with (N, n) the blocks of a Wishart(scale·I, degrees); `matrix` is of (X, y).
    """
    p = len(matrix) - 1
    squares, cross = matrix[:-1, :-1], matrix[:-1, -1]
    least = float(np.linalg.eigvalsh(squares)[0])
    widest = (math.sqrt(degrees) + math.sqrt(p) + math.sqrt(2 * math.log(4 / nu))) ** 2
    c = least / (scale * widest)
    if c < LEAST_C:
        return c, math.inf
    usual = float(np.linalg.norm(np.linalg.solve(squares, cross)))
    right = min(2 * math.sqrt(2 * degrees * p * math.log(4 * p / nu)), widest)
    return c, usual / (c - 1) + scale * (c - 2) / ((c - 1) * least) * right


def _theorem_4_2(mechanism: WishartGram, matrix: np.ndarray, nu: float) -> str:
    c, bound = wishart_bound(matrix, mechanism.degrees, mechanism.scale, nu)
    name = "Sheffet, Theorem 4.2 (the noise's mean kept)"
    if c < LEAST_C:
        return f"{name}: does not apply, as its C is {c:.2g} and must be 2; that takes {LEAST_C / c:.1f} times the rows"
    usual = np.linalg.norm(np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1]))
    return f"{name}: scaled coefficients within {bound:.3g} of least squares', whose norm is {usual:.3g}"


def projection_bound(matrix: np.ndarray, rows: float, ridge: float, nu: float) -> float:
    """Theorem 3.2: η/√(w² + σ_min(AᵀA))·√f(β^R), r = d·ln(d)·ln(1/nu)/η² with the constant of its O(·) taken as 1.

    The root is missing in print: after Sarlós (2006), Theorem 12, the residual norm counts, not its square.
    """
    d = len(matrix)
    around = matrix + ridge * np.eye(d)
    ridged = np.linalg.solve(around[:-1, :-1], matrix[:-1, -1])
    lengths = np.append(ridged, -1.0)
    f = float(lengths @ around @ lengths)
    eta = math.sqrt(d * math.log(d) * math.log(1 / nu) / rows)
    return eta / math.sqrt(ridge + max(0.0, float(np.linalg.eigvalsh(matrix)[0]))) * math.sqrt(f)


def _theorem_3_2(mechanism: ProjectedGram, matrix: np.ndarray, nu: float) -> str:
    if not nu < 0.5:
        return "Sheffet, Theorem 3.2: for beta below 1/2"
    bound = projection_bound(matrix, mechanism.degrees, mechanism.ridge, nu)
    squares, cross = matrix[:-1, :-1], matrix[:-1, -1]
    ridged = np.linalg.solve(squares + mechanism.ridge * np.eye(len(cross)), cross)
    away = float(np.linalg.norm(ridged - np.linalg.solve(squares, cross)))
    return (
        f"Sheffet, Theorem 3.2 (the ridge kept; its O(·) taken as 1): scaled coefficients within {bound:.3g} of ridge "
        f"regression's, which is {away:.3g} from least squares"
    )
