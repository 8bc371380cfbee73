"""Alabi, McMillan, Sarathy, Smith & Vadhan, *Differentially Private Linear Regression* (slides): what is shared.

Each of their mechanisms is dpspark's kernel of it. As printed means, in the slides or in the code of their paper:

    DPExpTheilSen, DPWideTheilSen   p25 and p75 each with the whole epsilon
    DPSSTheilSen                    likewise, and a smooth sensitivity that leaves terms of its maximum out
    DPSuffStats                     noise in the slope alone: the means are exact
    DPGradDescent                   epsilon stands for epsilon²/2-zCDP, which promises less

Corrected: epsilon for both values together and all noise that is needed; pure, but for Gaussian noise, where delta = 10^-6. A
record is replaced and n is public, as in the slides: dpspark under that relation is what is compared. dpspark's default is for
records that are added or removed. It hides n too, but its epsilon is the weaker promise here: 2·epsilon at most for a replaced
record. It is shown beside, as what it is. Their lines are looked for in [-0.5, 1.5], as in their code; dpspark's within the
bounds of y, [0, 1], where DPExpTheilSen is tried too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspark.mechanisms.lines.auto import EVEN, AutoLines
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.defaults import ROWS
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spec.choose import choose_lines
from dpspark.spec.spec import load_spec
from experiments.alabi_printed import exact_means, short_maximum
from experiments.experiment import Row
from experiments.releases import COMMON

PAPER = "Alabi, McMillan, Sarathy, Smith & Vadhan"
AT = {"p25": 0.25, "p75": 0.75}
SHARES = {"c68": 0.68, "c95": 0.95}
DELTA = 1e-6  # of Gaussian noise; everything else is pure
THEIRS = (-0.5, 1.5)  # where their code looks for lines
ANYWHERE = (-1e5, 1e5)
BOUNDS = {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}}
REPLACED, ADDED = "dpspark, replace-one", "dpspark, add/remove"
NARROW = "DPExpTheilSen in [0, 1], corrected"
TERMS = f"""The mechanisms of the paper are for one record replaced, with n public, and so is *{REPLACED}*: these are
compared. *{ADDED}*, dpspark's default, hides n too, but is not at the same guarantee: epsilon for a record added or removed is
up to 2·epsilon for one that is replaced. Lines of the paper's are looked for in [-0.5, 1.5], as in its code (DPSuffStats as
printed: anywhere), and dpspark's in [0, 1], the bounds of y."""

Privacy = Callable[[float], dict[str, float]]


def _in_full(epsilon: float) -> dict[str, float]:
    return {"epsilon": epsilon}


def _each(epsilon: float) -> dict[str, float]:
    """What p25 and p75 spend together."""
    return {"epsilon": 2 * epsilon}


def _with_delta(epsilon: float) -> dict[str, float]:
    return {"epsilon": epsilon, "delta": DELTA}


@dataclass(frozen=True)
class Method:
    mechanism: str
    candidates: tuple[float, float] | None = THEIRS
    privacy: Privacy = _in_full
    options: tuple[tuple[str, float], ...] = ()
    printed: Callable[[Kernel], Kernel] | None = None  # the kernel with the error that was printed
    public: bool = True  # a record is replaced and n is public; else it is added or removed


FAINT = 2.0  # of epsilon·n·var(x)
_WIDTH = (("width", 0.01 / (THEIRS[1] - THEIRS[0])),)  # 0.01 of y
AUTO = AutoLines.name
METHODS = {
    "DPExpTheilSen, as printed": Method("exponential", privacy=_each),
    "DPExpTheilSen, corrected": Method("exponential"),
    NARROW: Method("exponential", None),
    "DPExpTheilSen, all pairs, corrected": Method("all_pairs"),
    "DPWideTheilSen, as printed": Method("widened", privacy=_each, options=_WIDTH),
    "DPWideTheilSen, corrected": Method("widened", options=_WIDTH),
    "DPSSTheilSen, as printed": Method("smooth_sensitivity", privacy=_each, printed=short_maximum),
    "DPSSTheilSen, corrected": Method("smooth_sensitivity"),
    "DPSuffStats, as printed": Method("sufficient_statistics", ANYWHERE, printed=exact_means),
    "DPSuffStats, corrected": Method("sufficient_statistics"),
    "DPGradDescent, as printed": Method("gradient_descent", None, lambda epsilon: {"rho": epsilon**2 / 2}),
    "DPGradDescent, corrected": Method("gradient_descent", None, _with_delta),
    "Gaussian matrix": Method("gram", privacy=_with_delta),
    "regression depth": Method("depth", None),
    REPLACED: Method(AUTO, None),
    ADDED: Method(AUTO, None, public=False),
}


def relation(method: str) -> str:
    return "replace-one" if METHODS[method].public else "add/remove"


def told_rows(method: str, rows: int) -> int:
    """Where n is public, n. Else it is private, and a guess is told: the nearest power of ten."""
    return rows if METHODS[method].public else 10 ** round(math.log10(rows))


def lines_of(method: str, epsilon: float, **guesses: float) -> LineMechanism:
    """By the conf of a release with a line for each group; `guesses` are public: expected_rows, x_variance."""
    chosen = METHODS[method]
    fixed = {"neighbours": "replace_one", "fixed": ["place"]} if chosen.public else {"neighbours": "add_remove"}
    release = {"kind": "theil_sen", "x": "x", "y": "y", "group_by": ["place"], "groups": "places", **guesses}
    name = chosen.mechanism
    if name == AUTO:
        # Of means: errors are distances from least squares, to which the depth is nearer where all is noise.
        strength = epsilon * guesses.get("expected_rows", ROWS) * guesses.get("x_variance", EVEN)
        name = "depth" if strength * (1 if chosen.public else 2) < FAINT else AUTO
        release |= {"target": "mean"} if name == AUTO else {}
    if chosen.candidates:
        release["candidates"] = list(chosen.candidates)
    conf: dict[str, Any] = {
        **COMMON,
        "columns": BOUNDS,
        "privacy": {**chosen.privacy(epsilon), **fixed},
        "release": {**COMMON["release"], **release},
        "mechanism": {"name": name, **dict(chosen.options)},
    }
    return choose_lines(load_spec(conf))


def kernel_of(method: str, epsilon: float, **guesses: float) -> Kernel:
    kernel, printed = lines_of(method, epsilon, **guesses).kernel, METHODS[method].printed
    return printed(kernel) if printed else kernel


@dataclass(frozen=True)
class Truth:
    """Least squares without privacy: values and standard errors of p25 and p75, and of the slope."""

    values: dict[str, float]
    std_errors: dict[str, float]
    nvar: float


def least_squares(x: np.ndarray, y: np.ndarray) -> Truth:
    n, away = len(x), x - x.mean()
    nvar = float(away @ away)
    slope = float(away @ y) / nvar
    level = float(y.mean())
    residual = y - level - slope * away
    s2 = float(residual @ residual) / (n - 2)
    values = {name: level + slope * (at - float(x.mean())) for name, at in AT.items()} | {"slope": slope}
    spreads = {name: 1 / n + (at - float(x.mean())) ** 2 / nvar for name, at in AT.items()} | {"slope": 1 / nvar}
    return Truth(values, {name: math.sqrt(s2 * spread) for name, spread in spreads.items()}, nvar)


def drawn_errors(kernel: Kernel, x: np.ndarray, y: np.ndarray, draws: int, random: KeyedRandom, *labels: int) -> Any:
    """|private − without privacy| of each draw, by target; infinite where there is no line."""
    truth = least_squares(x, y)
    fits = [kernel.fit(x, y, random, *labels, draw) for draw in range(draws)]
    found = np.array([[*fit.estimate, fit.slope] for fit in fits])
    errors = np.abs(found - np.array([truth.values[name] for name in (*AT, "slope")]))
    return dict(zip((*AT, "slope"), np.where(np.isnan(errors), np.inf, errors).T, strict=True)), truth


def within(errors: Sequence[float] | np.ndarray, share: float) -> float:
    """Their Ĉ(q): the least c such that a share q of the trials has an error of at most c."""
    ordered = np.sort(errors)
    return float(ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)])


def error_rows(errors: dict[str, np.ndarray], truth: Truth) -> list[Row]:
    """Ĉ(0.68) and Ĉ(0.95) of each target, in standard errors."""
    return [
        {
            "target": target,
            **{name: within(drawn, share) / truth.std_errors[target] for name, share in SHARES.items()},
            "std_error": truth.std_errors[target],
            "nvar": truth.nvar,
            "answered": float(np.isfinite(drawn).mean()),
        }
        for target, drawn in errors.items()
    ]


def quantile(values: Any, level: float) -> float:
    """As usual, but infinite values are values: halfway between two neighbours if it falls between them."""
    ordered = np.sort(np.asarray(values, float))
    at = level * (len(ordered) - 1)
    return float((ordered[math.floor(at)] + ordered[math.ceil(at)]) / 2)


def shown(value: float) -> str:
    """For a table: two digits, or that there is no line."""
    if not math.isfinite(value):
        return "no line"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
