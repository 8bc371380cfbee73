"""Linear hypotheses about coefficients, such as `educ = 2*exper, sex[F] = 0`, and contrasts. Post-processing: no cost."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import special

from dpspark.analysis.result import Answer, without_nan
from dpspark.core.domain import INTERCEPT
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError
from dpspark.show.tables import Part

_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<intercept>\(intercept\))|(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[^\W\d][\w.]*(?:\[[^\]]*\])?)|(?P<sign>[-+*/=,]))"
)
EXAMPLE = "e.g. 'educ = 2*exper, sex[F] = 0'"


@dataclass(frozen=True)
class WaldTest(Answer):
    """A test of linear hypotheses with the privacy noise in it: an F statistic and its p-value; NaN where there is none."""

    hypothesis: str
    statistic: float
    df_num: int
    df_denom: float
    p_value: float

    def to_dict(self) -> dict[str, Any]:
        return without_nan(asdict(self))

    def parts(self) -> list[Part]:
        numbers = f"F = {self.statistic:.5g} on {self.df_num} and {self.df_denom:,.0f} df, {p_words(self.p_value)}"
        return [f"{self.hypothesis}: {numbers} (Wald test, privacy noise included)"]


@dataclass(frozen=True)
class Contrast(Answer):
    """A sum of coefficients, each so many times: its estimate, standard error, test against zero and interval."""

    weights: dict[str, float]
    estimate: float
    std_error: float
    statistic: float
    p_value: float
    ci_low: float
    ci_high: float
    level: float

    def to_dict(self) -> dict[str, Any]:
        return without_nan(asdict(self))

    def parts(self) -> list[Part]:
        what = " + ".join(f"{weight:g}*{term}" for term, weight in self.weights.items()).replace("+ -", "- ")
        interval = f"{100 * self.level:g}% interval {self.ci_low:.5g} to {self.ci_high:.5g}"
        return [f"{what}: {self.estimate:.5g}, std. error {self.std_error:.3g}, {p_words(self.p_value)}, {interval}"]


def p_words(value: float) -> str:
    return "p < 2e-16" if value < 2e-16 else f"p = {value:.3g}"


def parse_hypotheses(text: str, terms: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read equations, commas between them, as R and q with R·beta = q. An expression without `=` is one that is zero."""
    rows, constants = [], []
    for equation in _split(_tokens(text, terms), ","):
        sides = _split(equation, "=")
        if len(sides) > 2 or not all(sides):
            raise ConfError(f"test {text!r}: expected equations with commas between them, {EXAMPLE}.")
        row, constant = _sum(sides[0], terms, text)
        if len(sides) == 2:
            other, right = _sum(sides[1], terms, text)
            row, constant = row - other, constant - right
        if not row.any():
            raise ConfError(f"test {text!r}: an equation has no coefficient in it, {EXAMPLE}.")
        rows.append(row)
        constants.append(-constant)
    restrictions = np.array(rows)
    if np.linalg.matrix_rank(restrictions) < len(rows):
        raise ConfError(f"test {text!r}: the equations repeat or contradict one another. Leave some out.")
    return restrictions, np.array(constants)


def wald_test(
    hypothesis: str, estimates: np.ndarray, covariance: np.ndarray, df: float, restrictions: np.ndarray, q: np.ndarray
) -> WaldTest:
    """Test R·beta = q: the distance of the estimates from it, in their own covariance."""
    off, number = restrictions @ estimates - q, len(q)
    spread = restrictions @ covariance @ restrictions.T
    if not np.isfinite(off).all() or not np.isfinite(spread).all():
        return WaldTest(hypothesis, math.nan, number, df, math.nan)
    statistic = float(off @ np.linalg.solve(spread, off)) / number
    return WaldTest(hypothesis, statistic, number, df, float(special.fdtrc(number, df, statistic)))


def contrast_of(
    weights: Mapping[str, float],
    terms: Sequence[str],
    estimates: np.ndarray,
    covariance: np.ndarray,
    df: float,
    level: float,
) -> Contrast:
    """Estimate Σ weight·coefficient."""
    return combination(terms, weights_of(weights, terms), estimates, covariance, df, level, weights)


def weights_of(weights: Mapping[str, float], terms: Sequence[str]) -> np.ndarray:
    """Put the weights of a contrast into the order of the coefficients."""
    row = np.zeros(len(terms))
    for term, weight in weights.items():
        row[_place(term, terms, "contrast")] = float(weight)
    if not row.any():
        raise ConfError("contrast: give a weight other than zero to at least one coefficient.")
    return row


def combination(
    terms: Sequence[str],
    row: np.ndarray,
    estimates: np.ndarray,
    covariance: np.ndarray,
    df: float,
    level: float,
    weights: Mapping[str, float] | None = None,
) -> Contrast:
    """Estimate row·coefficients; `weights` say it by name, as it was asked."""
    weights = {t: float(w) for t, w in zip(terms, row, strict=True) if w} if weights is None else weights
    estimate, error = float(row @ estimates), math.sqrt(max(0.0, float(row @ covariance @ row)))
    if not math.isfinite(float(row @ covariance @ row)):
        error = math.nan
    statistic = estimate / error if error else math.nan
    reach = float(special.stdtrit(df, (1 + level) / 2)) * error
    p_value = float(2 * special.stdtr(df, -abs(statistic)))
    return Contrast(dict(weights), estimate, error, statistic, p_value, estimate - reach, estimate + reach, level)


def _tokens(text: str, terms: Sequence[str]) -> list[tuple[str, str]]:
    """Cut a text. Coefficients that are products or functions, such as `I(age**2)`, may be written as the table has them."""
    written = sorted((term for term in terms if (":" in term or "(" in term) and term != INTERCEPT), key=len)
    tokens, at = [], 0
    stripped = text.rstrip()
    while at < len(stripped):
        start = at + len(stripped[at:]) - len(stripped[at:].lstrip())
        whole = [term for term in written if re.match(rf"{re.escape(term)}(?![\w:(\[])", stripped[start:])]
        if whole:
            tokens.append(("name", whole[-1]))
            at = start + len(whole[-1])
            continue
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise ConfError(
                f"test {text!r}: cannot read it from {stripped[at:][:20]!r} on. Put odd names in backticks."
            )
        kind = str(match.lastgroup)
        tokens.append(("name" if kind in ("quoted", "intercept") else kind, match[kind]))
        at = match.end()
    return tokens


def _split(tokens: list[tuple[str, str]], sign: str) -> list[list[tuple[str, str]]]:
    parts: list[list[tuple[str, str]]] = [[]]
    for token in tokens:
        if token == ("sign", sign):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _sum(tokens: list[tuple[str, str]], terms: Sequence[str], text: str) -> tuple[np.ndarray, float]:
    """Read a sum of products: weights of the coefficients, and a constant."""
    row, constant, at = np.zeros(len(terms)), 0.0, 0
    if not tokens:
        raise ConfError(f"test {text!r}: an equation is empty, {EXAMPLE}.")
    while at < len(tokens):
        sign = 1.0
        signs = 0
        while at < len(tokens) and tokens[at] in (("sign", "+"), ("sign", "-")):
            sign, at, signs = (-sign if tokens[at][1] == "-" else sign), at + 1, signs + 1
        if at >= len(tokens) or tokens[at][0] == "sign" or (signs == 0 and (row.any() or constant)):
            raise ConfError(f"test {text!r}: a term is missing, or a sign between two. Write sums of terms, {EXAMPLE}.")
        weight, name, at = _product(tokens, at, text)
        if name is None:
            constant += sign * weight
        else:
            row[_place(name, terms, f"test {text!r}")] += sign * weight
    return row, constant


def _product(tokens: list[tuple[str, str]], at: int, text: str) -> tuple[float, str | None, int]:
    """Read factors: numbers, and one coefficient at most, which is not divided by."""
    weight, name, divide = 1.0, None, False
    while True:
        if at >= len(tokens) or tokens[at][0] == "sign":
            raise ConfError(f"test {text!r}: a factor is missing, {EXAMPLE}.")
        kind, value = tokens[at]
        if kind == "number":
            factor = float(value)
            if divide and not factor:
                raise ConfError(f"test {text!r}: a division by zero.")
            weight = weight / factor if divide else weight * factor
        elif name is not None or divide:
            raise ConfError(f"test {text!r}: hypotheses are linear: no products or ratios of coefficients.")
        else:
            name = value
        at += 1
        if at < len(tokens) and tokens[at] in (("sign", "*"), ("sign", "/")):
            divide, at = tokens[at][1] == "/", at + 1
            continue
        return weight, name, at


def _place(name: str, terms: Sequence[str], where: str) -> int:
    if name in terms:
        return terms.index(name)
    if name.lower() in ("intercept", "const") and INTERCEPT in terms:
        return terms.index(INTERCEPT)
    raise ConfError(f"{where}: no coefficient {name!r}; there are {', '.join(terms)}.{did_you_mean(name, terms)}")
