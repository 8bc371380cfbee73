"""How well robust standard errors will be known, before data: by the code that makes them from a release, on a guessed meat.

The clip is where the drawn residual of a guess would be, widened as a release widens it. Sizes of residuals are those of the
response around its mean, in proportion to what its regressors leave: log-normal, or with the guess's Pareto tail; normal where
nobody guessed. The guess has equal variances: the noise of a meat hardly depends on how they differ.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpspark.analysis.ols import Moments, NotIdentified, coefficient_names, directions, fit_scaled, solve
from dpspark.analysis.sandwich import NotRobust, ReleasedMeat, bread_of, quiet_clip, robust_solution
from dpspark.core.domain import Numeric
from dpspark.mechanisms.errors.asked import HC1, AskedErrors, AskedRegression
from dpspark.mechanisms.errors.clip import widened
from dpspark.mechanisms.errors.meat import Meats
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.turned_noise import turned
from dpspark.planning.predict import guessed_moments, take_off
from dpspark.planning.setting import Setting
from dpspark.planning.tails import Tail
from dpspark.spec.choose import choose_gram, choose_regression
from dpspark.spec.extras import residual_bounds

FINEST_SHARE, SHARES = 1e-9, 2000  # of residuals, that are looked at


@dataclass(frozen=True)
class RobustFit:
    """The robust standard errors of one regression: `error` is how far noise moves the worst known of them, as a part of it."""

    formula: str
    term: str
    error: float
    reason: str  # why equal variances are likely to be assumed instead; nothing where they are not

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        return f"noise moves that of {self.term}, the worst, by about {100 * self.error:.2g}% of it"


@dataclass(frozen=True)
class RobustPlan:
    """What robust standard errors cost the release, and what they will be worth."""

    kind: str  # hc1 or cluster
    by: str | None
    share: float
    times_noise: float  # of the release itself, with them over without
    fits: tuple[RobustFit, ...]  # none of clusters: a guess has none

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan_robust(setting: Setting) -> RobustPlan | None:
    """Plan the errors that a conf asks for; None where it asks for none."""
    spec, asked = setting.spec, setting.spec.asked_errors
    if asked is None:
        return None
    plain = spec.without_errors
    if spec.release.kind == "gram":
        mechanism: Any = setting.gram
        noise, before = mechanism.noise, choose_gram(plain).noise if spec.domain.terms == plain.domain.terms else None
    else:
        mechanism, other = setting.regression, choose_regression(plain).statistics_noise
        noise, before = mechanism.statistics_noise.squares, None if other is None else other.squares
    times = math.nan if before is None else noise.off_diagonal() / before.off_diagonal()
    meats = mechanism.paid_meats().for_domain(setting.domain)
    fits = (
        () if asked.by is not None else tuple(_fit(setting, asked, meats, noise, at) for at in range(len(asked.texts)))
    )
    return RobustPlan(asked.kind, asked.by, asked.share, times, fits)


def _fit(setting: Setting, asked: AskedErrors, meats: Meats, noise: NoiseModel, at: int) -> RobustFit:
    one = asked.regressions[at]
    moments = guessed_moments(noise, setting.domain, setting.guess, one.formula)
    names = coefficient_names(one.formula)
    try:
        regressors, response, _, _ = directions(moments, one.formula)
        _, inverse, omega, _ = fit_scaled(moments, regressors, response)
        take_off(moments, one.formula, float(np.trace(inverse @ omega)))
        plain = solve(moments, one.formula, guessed=True)
    except (NotIdentified, np.linalg.LinAlgError, ZeroDivisionError):
        return RobustFit(one.text, "", math.nan, "the regression is likely to be NOT IDENTIFIED")
    meat = _meat(setting, one, meats, at, moments)
    try:
        _, dfs = robust_solution(moments, one.formula, meat, plain)
    except NotRobust as error:
        return RobustFit(one.text, "", math.nan, str(error))
    worst = int(np.argmin(dfs))
    # A variance that is off by a part ρ has 1/(1/(n − p) + ρ²/2) degrees of freedom; its root is off by half of ρ.
    part = math.sqrt(max(0.0, 2 / float(dfs[worst]) - 2 / plain.df))
    return RobustFit(one.text, names[worst], part / 2, "")


def _meat(setting: Setting, one: AskedRegression, meats: Meats, at: int, moments: Moments) -> ReleasedMeat:
    bread = bread_of(moments, one.formula, solve(moments, one.formula, guessed=True))
    places = [moments.terms.index(term) for term in one.terms(setting.domain)]
    sigma = math.sqrt(max(bread.residual, 0.0) / bread.rows)
    sizes, shares = _sizes(setting, one.formula.response, sigma)
    rank = residual_bounds(setting.spec).draws.rank
    beyond = np.cumsum(shares[::-1])[::-1]
    drawn = float(sizes[min(int(np.searchsorted(-beyond, -rank / bread.rows)), len(sizes) - 1)])
    clip = widened(drawn, quiet_clip(bread, bread.regressors[places], meats.law_of(at), moments), rank)
    kept = float(np.sum(shares * np.minimum(sizes, clip) ** 2))
    regressors = one.regressors(setting.domain)
    law = turned(meats.noise(at, clip).given(regressors.known), regressors)
    matrix = (kept - clip**2 / 2) * moments.scaled[np.ix_(places, places)]
    return ReleasedMeat(HC1, one.text, one.formula, one.terms(setting.domain), matrix, law, clip)


def _sizes(setting: Setting, response: str, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of residuals, in half-ranges of the response, the smallest first, and the share of each."""
    edges = np.concatenate([[0.0], np.geomspace(FINEST_SHARE, 0.5, SHARES)])
    shares, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    column = next((c for c in setting.domain.numeric if c.name == response), None)
    if column is None or setting.guess.assumed:
        return sigma * -ndtri(middles[::-1]), 2 * shares[::-1]
    both = np.concatenate([middles, 1 - middles[::-1]])
    distances = _distances(setting, column, both)
    order, shares = np.argsort(distances), np.concatenate([shares, shares[::-1]])
    sizes, shares = distances[order], shares[order]
    return sizes * (sigma / math.sqrt(float(np.sum(shares * sizes**2)))), shares


def _distances(setting: Setting, column: Numeric, shares: np.ndarray) -> np.ndarray:
    """How far values are from their mean, by the share that is above each; within the bounds."""
    mean, sd = setting.guess.column(setting.domain, column.name)
    searched = next(c for c in setting.spec.domain.numeric if c.name == column.name)
    tail = Tail.of(searched, (searched.private_sides or ("upper",))[-1], mean, sd, setting.guess.tails.get(column.name))
    values = np.array([tail.value_at(float(share)) for share in shares])
    return np.abs(np.clip(values, column.lower, column.upper) - mean)
