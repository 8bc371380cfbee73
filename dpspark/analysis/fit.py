"""One published regression: coefficients in original units, with what is known about their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dpspark.analysis.beyond import new_values, warn_beyond
from dpspark.analysis.clipping import Beyond, as_dicts, spreads_of
from dpspark.analysis.computed import with_computed
from dpspark.analysis.ols import Moments
from dpspark.analysis.options import check_level
from dpspark.analysis.regression import ROWS, Regression
from dpspark.analysis.remarks import stated_assumptions
from dpspark.analysis.result import without_nan
from dpspark.analysis.sandwich import Bread, NotRobust, ReleasedMeat, quiet_clip, sandwich
from dpspark.analysis.uncertainty import Spread, bootstrap, delta_method, residuals
from dpspark.core.domain import INTERCEPT, Domain
from dpspark.core.formula import formula_text
from dpspark.exact.bounds import grid_rows, settle_nulls
from dpspark.mechanisms.errors.asked import CLASSICAL
from dpspark.mechanisms.gram.coordinates import centre_and_scale
from dpspark.mechanisms.gram.identification import ENOUGH, is_enough
from dpspark.mechanisms.gram.identification import WEAK as DROWNED
from dpspark.mechanisms.gram.noisy import NoiseModel
from dpspark.mechanisms.registry import regression_named
from dpspark.mechanisms.regression.base import is_mapped
from dpspark.mechanisms.regression.ridge import kappa_of, kappa_w_of
from dpspark.mechanisms.regression.solver import AT_RADIUS, NO_INTERVAL, OK, SHRUNK, UNSTABLE
from dpspark.mechanisms.regression.statistics import NoisyStatistics
from dpspark.show.tables import Part

WEAK = DROWNED[0].upper() + DROWNED[1:] + ", less than {enough:g}: no interval would be valid. "
MAPPED = (
    "The row norm changes rows in a way that biases least squares, and no interval covers that bias. For intervals use "
    "row_norm: {mode: cap, radius: ..., include_response: true}, or none."
)
STATEMENTS = {
    AT_RADIUS: "The estimates lie at the edge of the ball that they are looked for in, and may be far too small: no "
    "interval is valid. Use a larger mechanism.radius, or gram_ridge.",
    SHRUNK: "The estimates are shrunk towards zero: use them to predict, not to explain.",
    UNSTABLE: "The estimates may be anything: ssp has no safeguard. Use gram_ridge.",
    NO_INTERVAL: "The estimates have no intervals.",
}


class RegressionFit(Regression):
    """The regression that a release of kind regression holds."""

    def __init__(
        self,
        domain: Domain,
        mechanism: dict[str, Any],
        theta: np.ndarray,
        statistics: NoisyStatistics | None,
        seed: int,
        title: str = "",
        level: float = 0.95,
        clipped: Sequence[Mapping[str, Any]] = (),
        assumptions: Sequence[str] = (),
        definitions: Mapping[str, str] | None = None,
        meat: ReleasedMeat | None = None,
        errors_reason: str = "",
        beyond: Sequence[Beyond] = (),
    ):
        self.level, self._title, self.method = check_level(level), title, str(mechanism["name"])
        self.domain: Domain = domain
        self.clipped = [dict(row) for row in clipped]
        self.beyond = tuple(beyond)
        self._squares = None if statistics is None else statistics.squares
        self.response = domain.terms[-1]
        self.terms = domain.terms[:-1]
        self.formula: str = formula_text(self.response, [term for term in self.terms if term != INTERCEPT])
        self._to_original, self._shift = to_original(domain)
        self._theta = theta
        self._estimates = self._to_original @ theta + self._shift
        self.n = float(statistics.squares[0, 0]) if statistics is not None else math.nan
        self.n_is_exact = statistics is not None and statistics.noise.count_is_exact
        statistics = None if statistics is None else statistics.given(domain)
        self.kappa = math.nan if statistics is None else kappa_of(statistics.squares, statistics.noise)
        self.kappa_w = math.nan if statistics is None else kappa_w_of(statistics)
        self._spread, self.status, self.reason = _spread(domain, mechanism, theta, statistics, seed, self.kappa_w)
        self.errors, self.errors_reason, self.clusters = CLASSICAL, errors_reason, None
        if meat is not None and statistics is not None and self._spread is not None:
            self._spread = self._made_robust(meat, statistics, self._spread)
        self.assumptions = stated_assumptions(assumptions, self) if self._spread else []
        self.definitions = dict(definitions or {})
        self.may_have_intervals = interval_method(domain, mechanism, statistics)[0] is not None
        scale = centre_and_scale(domain)[1][-1]
        self.sigma2 = self._spread.sigma2 * scale**2 if self._spread else math.nan
        self.df = self._spread.df if self._spread else math.nan
        if self._spread is not None and statistics is not None:
            solver = regression_named(mechanism["name"]).solver_of(mechanism)
            self._beyond_clip = (0.0, 0.0) if solver is None else solver.beyond_clip(statistics, self._spread.sigma2)
        self._noise = self._residual_noise(statistics) * scale**2 / self.df if self._spread and statistics else math.nan
        robust = None if self._spread is None else self._spread.dfs
        self._dfs = np.full(len(self.terms), self.df) if robust is None else robust

    def _residual_noise(self, statistics: NoisyStatistics) -> float:
        """The standard deviation that the noise gives to Σ r² = Σ y² − 2·θᵀ Σ x y + θᵀ Σ x xᵀ θ, scaled."""
        theta, noise = self._theta, statistics.noise
        squares = float(theta @ statistics.squares_noise.along(theta, statistics.squares) @ theta)
        return math.sqrt(squares + 4 * noise.cross_std**2 * float(theta @ theta) + (noise.response_std or 0.0) ** 2)

    def _sigma2_noise(self) -> float:
        return self._noise

    def _made_robust(self, meat: ReleasedMeat, statistics: NoisyStatistics, plain: Spread) -> Spread:
        """Give the estimates the sampling covariance of a meat, or say why not."""
        bread, moments = self._bread(statistics, plain)
        try:
            found = sandwich(bread, meat, moments, self.terms)
        except NotRobust as error:
            self.errors_reason = str(error)
            return plain
        self.errors, self.clusters = meat.kind, meat.clusters
        back = np.linalg.inv(self._to_original)
        return replace(plain, covariance=back @ found.covariance @ back.T + plain.privacy, dfs=found.df)

    def _bread(self, statistics: NoisyStatistics, plain: Spread) -> tuple[Bread, Moments]:
        """The parts that a sandwich is made with, and the matrix of the regressors with its noise."""
        squares, (middle, half) = statistics.squares, centre_and_scale(self.domain)
        moments = Moments(self.terms, squares, middle[:-1], half[:-1], statistics.squares_noise)
        inverse, to_original, rows = np.linalg.inv(squares), self._to_original, float(squares[0, 0])
        eye, residual = np.eye(len(squares)), plain.sigma2 * plain.df
        parts = (plain.covariance - plain.privacy, plain.privacy)
        variances = (np.diag(to_original @ part @ to_original.T) for part in parts)
        return Bread(inverse, eye, to_original, residual, rows, *variances), moments

    def quiet_clip(self, statistics: NoisyStatistics, meat: NoiseModel) -> float:
        """Find the clip of residuals up to which a meat's noise is small; 0 where there are no standard errors."""
        if self._spread is None:
            return 0.0
        bread, moments = self._bread(statistics.given(self.domain), self._spread)
        return quiet_clip(bread, np.eye(len(self.terms)), meat, moments)

    @property
    def params(self) -> dict[str, float]:
        return self._named(self._estimates)

    @property
    def std_errors(self) -> dict[str, float]:
        """Sampling and privacy noise together; NaN where no interval is valid."""
        return self._named(np.sqrt(np.diag(self._covariance())))

    @property
    def privacy_std_errors(self) -> dict[str, float]:
        spread = self._spread
        if spread is None:
            return self._named(np.full(len(self.terms), math.nan))
        part = self._to_original @ spread.privacy @ self._to_original.T
        return self._named(np.sqrt(np.maximum(np.diag(part), 0.0)))

    @property
    def statement(self) -> str:
        """The reason why there are no intervals, under its older name."""
        return self.reason

    def conf_int(self, level: float | None = None) -> dict[str, tuple[float, float]]:
        chosen = check_level(self.level if level is None else level)
        if self._spread is None:
            return dict.fromkeys(self.terms, (math.nan, math.nan))
        found = self._spread.intervals(self._estimates, self._to_original, chosen)
        return {term: (float(low), float(high)) for term, (low, high) in zip(self.terms, found, strict=True)}

    def _predicted(self, frame: Any) -> tuple[np.ndarray, np.ndarray]:
        middle, half = centre_and_scale(self.domain)
        columns = self.domain.regressors.columns
        frame = with_computed(frame, [column.name for column in columns], self.definitions)
        warn_beyond(((column, new_values(column, frame)) for column in columns), stacklevel=4)
        rows = self._map(frame)
        design = half[-1] * np.linalg.solve(self._to_original.T, rows).T  # in original units
        return design, middle[-1] + half[-1] * (self._theta @ rows)

    @property
    def bootstrapped(self) -> bool:
        return self._spread is not None and self._spread.replicates is not None

    def _map(self, frame: Any) -> np.ndarray:
        """New rows as the release saw them, in scaled coordinates. A weight would cancel out, so it is left out."""
        regressors = self.domain.regressors
        columns = [new_values(column, frame) for column in regressors.columns]
        norm = self.domain.row_norm
        weighted = norm is not None and norm.include_response
        plain = replace(regressors, nulls="midpoint", row_norm=None if weighted else norm)
        rows = np.empty((plain.width, len(columns[0])))
        grid_rows(plain, columns, rows)
        settle_nulls(plain, rows)
        return rows / plain.one

    def to_dict(self) -> dict[str, Any]:
        """All of it for machines: NaN as None."""
        content = {
            "response": self.response,
            "formula": self.formula,
            "mechanism": self.method,
            "n": self.n,
            "n_is": self.n_is,
            "n_is_exact": self.n_is_exact,
            "level": self.level,
            "terms": self.rows(),
            "definitions": self.definitions,
            "assumptions": self.assumptions,
            "status": self.status,
            "reason": self.reason,
            "sigma2": self.sigma2,
            "df": self.df,
            "kappa": self.kappa,
            "kappa_w": self.kappa_w,
            "errors": self.errors,
            "errors_reason": self.errors_reason,
            **({} if self.clusters is None else {"clusters": {"by": self.clusters.by, "count": self.clusters.count}}),
            "clipped": self.clipped,
            "moved_by_clipping": as_dicts(self.moved_by_clipping),
            "row_norm": None if self.domain.row_norm is None else asdict(self.domain.row_norm),
        }
        return without_nan(content)

    @property
    def n_is(self) -> str:  # type: ignore[override]
        """The meaning of `n`: rows, or, where a row norm weights them, the sum of their squared factors."""
        return ROWS if self.domain.first_entry_counts else "rows, by weight"

    def parts(self) -> list[Part]:
        from dpspark.analysis.summary import fit_parts

        return fit_parts(self)

    @property
    def _spreads(self) -> dict[str, tuple[float, float]]:
        squares = self._squares
        if squares is None or not squares[0, 0] > 0:
            return {}
        mean = float(
            self._theta @ squares[0] / squares[0, 0]
        )  # of the response: residuals add up to 0, but for the noise
        return {**spreads_of(self.terms, squares), self.response: (min(1.0, max(-1.0, mean)), 0.0)}

    def _covariance(self) -> np.ndarray:
        if self._spread is None:
            return np.full((len(self.terms), len(self.terms)), math.nan)
        return self._to_original @ self._spread.covariance @ self._to_original.T


def seed_of(spec_hash: str) -> int:
    """Make a seed for an analyst's simulations, so that they repeat. Nothing secret depends on it."""
    return int(spec_hash[:12], 16)


def to_original(domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """M and s with coefficients = M·theta + s: from z = (x − middle)/half to x."""
    middle, half = centre_and_scale(domain)
    slopes = half[-1] / half[1:-1]
    matrix = np.diag(np.concatenate([[half[-1]], slopes]))
    matrix[0, 1:] = -slopes * middle[1:-1]
    shift = np.zeros(len(matrix))
    shift[0] = middle[-1]
    return matrix, shift


def to_scaled(domain: Domain, estimates: np.ndarray) -> np.ndarray:
    matrix, shift = to_original(domain)
    return np.linalg.solve(matrix, estimates - shift)


def interval_method(
    domain: Domain, mechanism: dict[str, Any], statistics: NoisyStatistics | None
) -> tuple[str | None, str]:
    """Find how intervals are made of what a mechanism publishes: delta or bootstrap; or None, and why there are none."""
    of = regression_named(mechanism["name"])
    solver = of.solver_of(mechanism)
    if is_mapped(domain):
        return None, MAPPED
    if statistics is None or solver is None:
        return None, of.no_intervals
    if solver.equations(statistics).response is None:
        return None, "It holds no Σ y²: there is no residual variance to make an interval from."
    return "bootstrap" if solver.bootstrapped else "delta", ""


def _spread(
    domain: Domain,
    mechanism: dict[str, Any],
    theta: np.ndarray,
    statistics: NoisyStatistics | None,
    seed: int,
    kappa_w: float,
) -> tuple[Spread | None, str, str]:
    """Judge from released values alone how sure the estimates are: their spread, their status, and why no interval is valid."""
    of = regression_named(mechanism["name"])
    solver = of.solver_of(mechanism)
    solver = None if solver is None else solver.now()
    if is_mapped(domain):
        return None, NO_INTERVAL, MAPPED
    if solver is not None and solver.at_edge(theta):
        return None, AT_RADIUS, STATEMENTS[AT_RADIUS]
    if statistics is None or solver is None:
        return None, NO_INTERVAL, of.no_intervals
    few = solver.why_none(statistics)
    if few:
        return None, NO_INTERVAL, few
    equations = solver.equations(statistics)
    found = residuals(equations, solver.direction(statistics, theta), solver.step_ridge)
    if found is not None:
        if solver.bootstrapped:
            return bootstrap(statistics, found, theta, solver.again, seed), OK, ""
        return delta_method(found), OK, ""
    status = solver.status(statistics)
    if not is_enough(kappa_w):
        return None, status, WEAK.format(kappa_w=kappa_w, enough=ENOUGH) + STATEMENTS[status]
    what = "The release holds no Σ y²" if equations.response is None else "The residual sum of squares is not positive"
    return None, status, f"{what}: there is no residual variance to make an interval from. {STATEMENTS[status]}"
