"""Least squares on a released matrix: numbers, tables, predictions. Post-processing: no cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpspark.analysis.beyond import new_values, warn_beyond
from dpspark.analysis.bootstrap import basic_interval, replicates
from dpspark.analysis.clipping import Beyond, as_dicts, spreads_of
from dpspark.analysis.computed import with_computed
from dpspark.analysis.ols import Moments, NotIdentified, Solution, Strength, coefficient_names, solve
from dpspark.analysis.options import check_level
from dpspark.analysis.regression import OK, ROWS, Regression
from dpspark.analysis.remarks import REPAIRED, stated_assumptions
from dpspark.analysis.repair import Repair, solve_repaired
from dpspark.analysis.result import without_nan
from dpspark.analysis.rows import expression_of, frame_columns
from dpspark.analysis.sandwich import NotRobust, ReleasedMeat, robust_solution
from dpspark.analysis.shares import r_squared_noise, share_interval, sigma2_noise, standardised, variance_inflation
from dpspark.core.domain import INTERCEPT, Domain
from dpspark.core.formula import Formula
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError
from dpspark.mechanisms.errors.asked import CLASSICAL
from dpspark.mechanisms.gram.identification import BOOTSTRAP_FROM
from dpspark.show.tables import Part

if TYPE_CHECKING:
    import pandas as pd

TOO_WIDE = f"bootstrap intervals are too wide below kappa_w = {BOOTSTRAP_FROM:g}: these are by the delta method"
NOT_IDENTIFIED = "NOT_IDENTIFIED"
INTERVALS = ("delta", "bootstrap")


@dataclass(frozen=True)
class FTest:
    statistic: float
    df_num: int
    df_denom: float
    p_value: float


class RegressionResult(Regression):
    """Least squares on a release. If the noise drowns the signal, `status` says so and every number is NaN.

    With a repair the estimates are predictions: they have no standard errors, and the intervals shown are those of the
    unrepaired least squares where it is well identified, else there are none. `interval_of` says which.
    """

    def __init__(
        self,
        moments: Moments,
        formula: Formula,
        level: float,
        row_values: Callable[[Any, str], np.ndarray],
        title: str,
        clipped: Sequence[Mapping[str, Any]] = (),
        repair: Repair = Repair("none"),  # noqa: B008 - frozen
        interval: str = "delta",
        seed: int = 0,
        domain: Domain | None = None,
        assumptions: Sequence[str] = (),
        definitions: Mapping[str, str] | None = None,
        meat: ReleasedMeat | None = None,
        errors_reason: str = "",
        beyond: Sequence[Beyond] = (),
    ):
        if interval not in INTERVALS:
            raise ConfError(f"interval={interval!r}; expected one of {', '.join(INTERVALS)}.")
        self.formula: Formula = formula
        self.response = formula.response
        self.level, self._title, self.interval = check_level(level), title, interval
        self.terms = coefficient_names(formula)
        self.n = moments.rows
        self.n_is_exact = moments.noise.count_is_exact
        if interval == "bootstrap" and moments.weighted:
            raise ConfError("interval bootstrap: not for weighted rows. Use delta.")
        self.weighted, self.effective_n = moments.weighted, moments.effective_rows
        self.n_is = "sum of weights" if moments.weighted else ROWS
        self.definitions = dict(definitions or {})
        self.clipped = [dict(row) for row in clipped]
        self.beyond = tuple(beyond)
        self._moments, self._row_values, self._seed = moments, row_values, seed
        self.domain = domain
        self.repair, self.interval_of, self.interval_note = repair.how, "estimates", ""
        self.weak_terms: tuple[str, ...] = ()  # those for which there is no answer
        self._plain = self._solve(lambda: solve(moments, formula))
        self.errors, self.errors_reason, self.clusters = CLASSICAL, errors_reason, None
        self._dfs = np.full(len(self.terms), self._plain.df)
        if meat is not None and self.status == OK:
            self._plain = self._made_robust(meat)
        self._solution = self._plain
        self.has_intervals = (
            not moments.weighted or (moments.has_intervals and self.status != OK) or self._plain.sigma2 > 0
        )
        self.repaired = repair.how != "none" and repair.matrix(moments) is not moments.scaled
        if self.repaired:
            self.interval_of = "unrepaired least squares" if self.status == OK else "none"
            self._solution = self._solve(lambda: solve_repaired(moments, formula, repair))
        elif self.status != OK:
            self.interval_of = "none"
        if not self.has_intervals:
            self.interval_of = "none"
        self.assumptions = stated_assumptions(assumptions, self) if self.interval_of != "none" else []
        if interval == "bootstrap" and self._plain.kappa_w < BOOTSTRAP_FROM:
            self.interval, self.interval_note = "delta", TOO_WIDE
        self._vcov = self._solution.sampling + self._solution.privacy
        self.sigma2, self.df = self._solution.sigma2, self._solution.df
        self.kappa, self.kappa_w = self._solution.strength.kappa, self._solution.strength.kappa_w
        self.rsquared = self._solution.r_squared

    def _solve(self, how: Callable[[], Solution]) -> Solution:
        self.status, self.reason, self.weak_terms, self.advice = OK, "", (), ""
        try:
            return how()
        except NotIdentified as error:
            self.status, self.reason = NOT_IDENTIFIED, str(error)
            if error.weak is not None:
                self.weak_terms, self.advice = error.weak.terms, str(error.weak)
            return _nothing(len(self.terms), self.effective_n - len(self.terms), error.strength)

    def _made_robust(self, meat: ReleasedMeat) -> Solution:
        try:
            found, self._dfs = robust_solution(self._moments, self.formula, meat, self._plain)
        except NotRobust as error:
            self.errors_reason = str(error)
            return self._plain
        self.errors, self.clusters = meat.kind, meat.clusters
        return found

    @cached_property
    def params(self) -> dict[str, float]:
        return self._named(self._solution.estimates)

    @cached_property
    def std_errors(self) -> dict[str, float]:
        """Sampling and privacy noise together."""
        return self._named(np.sqrt(np.diag(self._vcov)))

    @cached_property
    def privacy_std_errors(self) -> dict[str, float]:
        """The part of the standard errors that the privacy noise makes."""
        return self._named(np.sqrt(np.diag(self._solution.privacy)))

    def conf_int(self, level: float | None = None) -> dict[str, tuple[float, float]]:
        """An interval for each estimate; with a repair, for the unrepaired ones where `interval_of` says so, else NaN."""
        chosen = check_level(self.level if level is None else level)
        if self.interval_of == "none":
            return dict.fromkeys(self.terms, (math.nan, math.nan))
        centre = self._plain.estimates
        if self.interval == "bootstrap":
            bounds = basic_interval(centre, self._replicates, chosen)
        else:
            assert self._plain.inversion is not None
            reach = special.stdtrit(self._dfs, (1 + chosen) / 2)
            bounds = self._plain.inversion.intervals(centre, np.diag(self._plain.sampling), reach)
        return {term: (float(low), float(high)) for term, (low, high) in zip(self.terms, bounds, strict=True)}

    @cached_property
    def _replicates(self) -> np.ndarray:
        return replicates(self._moments, self.formula, self._seed)

    @property
    def rsquared_adj(self) -> float:
        """The adjusted R-squared, by effective rows where rows are weighted; NaN where these are not known."""
        return 1 - (1 - self.rsquared) * (self.df + len(self.terms) - (INTERCEPT in self.terms)) / self.df

    @property
    def no_intervals(self) -> str:
        """Why there are no standard errors; empty where there are."""
        if self.has_intervals:
            return ""
        if self._moments.has_intervals:
            return "the rows are weighted, and the noise drowns the moments of their squared weights"
        return "the rows are weighted, and the release holds no squared weights"

    @property
    def without_errors(self) -> str:
        if self.repaired:
            return REPAIRED.format(how=self.repair)
        return "" if self.has_intervals else f"No standard errors or intervals: {self.no_intervals}."

    def _covariance(self) -> np.ndarray:
        return self._vcov

    @property
    def _effective_rows(self) -> float:
        return self.effective_n

    @property
    def _spreads(self) -> dict[str, tuple[float, float]]:
        return spreads_of(self._moments.terms, self._moments.scaled)

    def sampling_covariance(self) -> np.ndarray:
        """The covariance of the estimates without the part that the privacy noise makes."""
        return self._solution.sampling

    def f_test(self, terms: Sequence[str] | None = None) -> FTest | None:
        """Are these coefficients all zero? A Wald test with the privacy noise in it; by default all slopes.

        A categorical column's name stands for all its terms in the regression.
        """
        if isinstance(terms, str):
            terms = [terms]
        chosen = [term for term in self.terms if term != INTERCEPT] if terms is None else self._terms_of(terms)
        if not chosen or self.status != OK or self.repaired or not self.has_intervals:
            return None
        at = [self.terms.index(term) for term in chosen]
        beta = self._solution.estimates[at]
        statistic = float(beta @ np.linalg.solve(self._vcov[np.ix_(at, at)], beta)) / len(at)
        df = self.df if self.clusters is None else float(np.min(self._dfs[at]))  # as few as the worst of the terms has
        return FTest(statistic, len(at), df, float(special.fdtrc(len(at), df, statistic)))

    def _terms_of(self, names: Sequence[str]) -> list[str]:
        """Terms, or categorical columns for all of theirs, each once."""
        blocks = {} if self.domain is None else self.domain.named_blocks
        found: list[str] = []
        for name in names:
            own = [name] if name in self.terms else [term for term in self.terms if term in blocks.get(name, ())]
            if not own:
                known = [*self.terms, *(block for block, of in blocks.items() if set(of) & set(self.terms))]
                raise ConfError(
                    f"f_test: no coefficient {name!r}; there are {', '.join(known)}.{did_you_mean(name, known)}"
                )
            found += own
        return list(dict.fromkeys(found))

    def _predicted(self, frame: Any) -> tuple[np.ndarray, np.ndarray]:
        if self.domain is not None:
            used = {one for term in self.terms for one in (term, *self.domain.factor_terms(term))}
            names = [column.name for column in self.domain.columns if used & set(column.terms)]
            others = [name for name in names if expression_of(self.domain, self.definitions, name) is None]
            frame = with_computed(frame, others, self.definitions)
        parts = [1.0 if term == INTERCEPT else self._row_values(frame, term) for term in self.terms]
        if self.domain is not None:
            columns = frame_columns(self.domain, self.definitions, self.terms, frame)
            warn_beyond(((column, new_values(column, frame)) for column in columns), stacklevel=4)
        design = np.column_stack(np.broadcast_arrays(np.ones(_length(frame)), *parts)[1:])
        return design, design @ self._solution.estimates

    def _sigma2_noise(self) -> float:
        return sigma2_noise(self._moments, self.formula, self.sigma2) if self.status == OK else math.nan

    @cached_property
    def rsquared_std_error(self) -> float:
        """The standard deviation that the privacy noise gives to R-squared."""
        usable = self.status == OK and not self.repaired and not math.isnan(self.rsquared)
        return r_squared_noise(self._moments, self.formula) if usable else math.nan

    def rsquared_interval(self, level: float | None = None) -> tuple[float, float]:
        """An interval for the R-squared that the bounded data have, without privacy noise."""
        return share_interval(self.rsquared, self.rsquared_std_error, self._level(level))

    def vif(self) -> pd.DataFrame:
        """The variance inflation factor of each regressor, 1/(1 − R²) on the others, and how far the noise moves it."""
        import pandas as pd

        known = variance_inflation(self._moments, self.formula) if self.status == OK else {}
        nothing = (math.nan, math.nan)
        rows = [(term, *known.get(term, nothing)) for term in self.terms if term != INTERCEPT]
        return pd.DataFrame(rows, columns=["term", "vif", "std_error"])

    def standardized(self, level: float | None = None) -> pd.DataFrame:
        """Coefficients in standard deviations of the response for one of the regressor: as `tidy()`, without the intercept."""
        import pandas as pd

        rows, chosen = [], self._level(level)
        known = {}
        if self.status == OK and not self.repaired:
            known = standardised(self._moments, self.formula, self._solution.estimates, self._solution.sampling)
        for at, term in enumerate(self.terms):
            if term != INTERCEPT:
                value, error = known.get(term, (math.nan, math.nan))
                t, df = value / error if error else math.nan, float(self._dfs[at])
                reach = float(special.stdtrit(df, (1 + chosen) / 2)) * error
                rows.append((term, value, error, t, 2 * special.stdtr(df, -abs(t)), value - reach, value + reach))
        keys = ["term", "estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high"]
        return pd.DataFrame(rows, columns=keys)

    def to_dict(self) -> dict[str, Any]:
        """All of it for machines: NaN as None."""
        test = self.f_test()
        content = {
            "response": self.response,
            "formula": str(self.formula),
            "n": self.n,
            "n_is": self.n_is,
            "n_is_exact": self.n_is_exact,
            "n_effective": self.effective_n,
            "level": self.level,
            "terms": self.rows(),
            "definitions": self.definitions,
            "assumptions": self.assumptions,
            "status": self.status,
            "reason": self.reason,
            "weak_terms": list(self.weak_terms),
            "advice": self.advice,
            "sigma2": self.sigma2,
            "residual_std_error": math.sqrt(self.sigma2) if self.sigma2 >= 0 else math.nan,
            "df": self.df,
            "r_squared": self.rsquared,
            "adj_r_squared": self.rsquared_adj,
            "r_squared_std_error": self.rsquared_std_error,
            "r_squared_interval": list(self.rsquared_interval()),
            "f": None if test is None else test.__dict__,
            "kappa": self.kappa,
            "kappa_w": self.kappa_w,
            "errors": self.errors,
            "errors_reason": self.errors_reason,
            **({} if self.clusters is None else {"clusters": {"by": self.clusters.by, "count": self.clusters.count}}),
            "intervals": "t" if self.has_intervals else "none: weighted",
            "no_intervals": self.no_intervals,
            "clipped": self.clipped,
            "moved_by_clipping": as_dicts(self.moved_by_clipping),
            "repair": self.repair,
            "estimates_are": "predictions" if self.repaired else "least squares",
            "interval": self.interval,
            "interval_of": self.interval_of,
            "interval_note": self.interval_note,
        }
        return without_nan(content)

    def parts(self) -> list[Part]:
        from dpspark.analysis.summary import summary_parts

        return summary_parts(self)


def _length(frame: Any) -> int:
    """The number of rows of a mapping or a DataFrame."""
    return len(frame) if hasattr(frame, "columns") else max((len(values) for values in frame.values()), default=0)


def _nothing(count: int, df: float, strength: Strength) -> Solution:
    nan = math.nan
    square = np.full((count, count), nan)
    return Solution(np.full(count, nan), square, square, nan, df, strength, nan)
