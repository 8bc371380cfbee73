"""A fitted regression, whichever kind of release it is from."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpspark.analysis.clipping import Beyond, Moved, moved_by_clipping, moved_by_residuals
from dpspark.analysis.clusters import ReleasedClusters
from dpspark.analysis.remarks import definition_lines
from dpspark.analysis.result import Result
from dpspark.core.domain import INTERCEPT, Domain
from dpspark.core.formula import Formula
from dpspark.errors import ConfError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dpspark.analysis.effects import Effects
    from dpspark.analysis.hypotheses import Contrast, WaldTest

OK, ROWS = "OK", "rows"


class Regression(Result):
    """Coefficients in original units with their standard errors, tests and intervals; NaN where there are none."""

    formula: Formula | str
    response: str
    terms: tuple[str, ...]
    domain: Domain | None
    level: float
    n: float
    n_is: str  # rows, or what their weights add up to
    n_is_exact: bool
    sigma2: float
    df: float
    kappa: float
    kappa_w: float
    errors: str  # classical, hc1 or cluster
    clusters: ReleasedClusters | None  # that standard errors are by
    errors_reason: str  # why equal variances are assumed, where they are
    status: str
    reason: str
    assumptions: list[str]
    definitions: dict[str, str]
    clipped: list[dict[str, Any]]
    beyond: tuple[Beyond, ...] = ()
    record: str = ""  # whom the guarantee is for
    _beyond_clip: tuple[float, float] = (0.0, 0.0)  # of residuals: Solver.beyond_clip
    _title: str
    _dfs: np.ndarray  # degrees of freedom of each coefficient's t

    @property
    def title(self) -> str:
        return self._title

    @property
    def without_errors(self) -> str:
        """Why estimates have no standard errors, where there is an answer without any; else empty."""
        return ""

    @property
    def notes(self) -> list[str]:
        """Assumptions of the standard errors, values that the bounds cut off, and definitions of computed columns."""
        return [*self.assumptions, *self.cut_off, *definition_lines(self.definitions)]

    @property
    def cut_off(self) -> list[str]:
        """What the bounds cut off, and what that does to the coefficients."""
        from dpspark.analysis.summary import clipped_lines

        return [*clipped_lines(self.clipped), *map(str, self.moved_by_clipping)]

    @cached_property
    def moved_by_clipping(self) -> list[Moved]:
        """The bounds at which clipping is likely to move a coefficient by more than a standard error: analysis.clipping."""
        if self.domain is None:
            return []
        params, total, privacy = self.params, self.std_errors, self.privacy_std_errors
        errors = {
            term: (params[term], math.sqrt(max(0.0, total[term] ** 2 - privacy[term] ** 2)), total[term])
            for term in self.terms
            if term != INTERCEPT and math.isfinite(total[term])
        }
        rows = self._effective_rows
        found = moved_by_clipping(self.beyond, self.domain, self.response, errors, rows, self.sigma2, self._spreads)
        return [*found, *moved_by_residuals(self._beyond_clip, self.response, errors, rows)]

    @property
    def _effective_rows(self) -> float:
        """The number of rows; of weighted ones, as many of equal weight as say the same."""
        return self.n

    @property
    @abstractmethod
    def _spreads(self) -> dict[str, tuple[float, float]]:
        """Means and variances of the regressors, scaled to [−1, 1]."""

    @property
    @abstractmethod
    def params(self) -> Mapping[str, float]:
        """The estimates, by term."""

    @property
    @abstractmethod
    def std_errors(self) -> Mapping[str, float]:
        """Sampling and privacy noise together."""

    @property
    @abstractmethod
    def privacy_std_errors(self) -> Mapping[str, float]:
        """The part of the standard errors that the privacy noise makes."""

    @abstractmethod
    def conf_int(self, level: float | None = None) -> dict[str, tuple[float, float]]:
        """An interval for each coefficient, at the level of this regression or at another one."""

    @abstractmethod
    def _covariance(self) -> np.ndarray: ...

    def degrees_of_freedom(self) -> np.ndarray:
        """Those of each coefficient's t: fewer where the privacy noise is in the variance itself, or clusters are few."""
        return self._dfs

    @cached_property
    def tvalues(self) -> dict[str, float]:
        params = self.params
        return {term: params[term] / error if error else math.nan for term, error in self.std_errors.items()}

    @cached_property
    def pvalues(self) -> dict[str, float]:
        found = zip(self.tvalues.items(), self._dfs.tolist(), strict=True)
        return {term: float(2 * special.stdtr(df, -abs(t))) for (term, t), df in found}

    def vcov(self) -> pd.DataFrame:
        """The covariance of the estimates, as a labelled table."""
        import pandas as pd

        return pd.DataFrame(self._covariance(), index=list(self.terms), columns=list(self.terms))

    def rows(self) -> list[dict[str, Any]]:
        """All that is known of each coefficient."""
        intervals, params, errors, privacy = self.conf_int(), self.params, self.std_errors, self.privacy_std_errors
        return [
            {
                "term": term,
                "estimate": params[term],
                "std_error": errors[term],
                "ci_low": intervals[term][0],
                "ci_high": intervals[term][1],
                "t": self.tvalues[term],
                "p_value": self.pvalues[term],
                "privacy_std_error": privacy[term],
            }
            for term in self.terms
        ]

    def to_frame(self) -> pd.DataFrame:
        """A row for each coefficient, as a pandas table."""
        import pandas as pd

        return pd.DataFrame(self.rows()).set_index("term")

    def tidy(self) -> pd.DataFrame:
        """A row for each coefficient: term, estimate, std_error, statistic, p_value, ci_low, ci_high."""
        frame = self.to_frame().reset_index().rename(columns={"t": "statistic"})
        return frame[["term", "estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high"]]

    def glance(self) -> pd.DataFrame:
        """One row of what is known of the whole regression."""
        import pandas as pd

        sigma = math.sqrt(self.sigma2) if self.sigma2 >= 0 else math.nan
        r_squared = getattr(self, "rsquared", math.nan), getattr(self, "rsquared_adj", math.nan)
        content = {
            "response": self.response,
            "nobs": self.n,
            "nobs_is": self.n_is,
            "df_residual": self.df,
            "sigma": sigma,
            "r_squared": r_squared[0],
            "adj_r_squared": r_squared[1],
            "r_squared_std_error": getattr(self, "rsquared_std_error", math.nan),
            "errors": self.errors,
            "kappa_w": self.kappa_w,
            "status": self.status,
        }
        return pd.DataFrame([content])

    def augment(self, frame: Any) -> pd.DataFrame:
        """New rows (a mapping or DataFrame of columns) with their predictions, and residuals where they have the response."""
        import pandas as pd

        found = pd.DataFrame(frame).copy()
        found[".fitted"] = self.predict(found)
        if self.response in found:
            found[".resid"] = found[self.response] - found[".fitted"]
        return found

    def predict(self, frame: Any, interval: str | None = None, level: float | None = None) -> Any:
        """Predict for new rows (a mapping or DataFrame of columns), moved to the release's bounds where they are beyond.

        With an interval, a DataFrame of estimate, std_error, ci_low and ci_high: "confidence", of the mean response at such
        values, or "prediction", of one more response. Without, an array.

        A computed column that the rows lack is computed, if they have what it is made of. A null counts as the middle of its
        bounds. A warning (`dpspark.errors.BeyondBounds`) names the columns with values beyond their bounds, and says how many.
        A row norm of kind gram needs every column, the response too: it is left out.
        """
        from dpspark.analysis.predictions import check_interval, predictions

        if interval is None and level is not None:
            raise ConfError("predict: level goes with interval, which is confidence or prediction.")
        chosen = None if interval is None else (check_interval(interval), self._level(level))
        design, fitted = self._predicted(frame)
        return fitted if chosen is None else predictions(self, design, fitted, *chosen)

    @abstractmethod
    def _predicted(self, frame: Any) -> tuple[np.ndarray, np.ndarray]:
        """The terms of new rows, a row each, and the predictions."""

    @abstractmethod
    def _sigma2_noise(self) -> float:
        """The standard deviation that the privacy noise gives to sigma2."""

    def test(self, hypothesis: str) -> WaldTest:
        """Test linear hypotheses, such as "educ = 2*exper, sex[F] = 0", together, with the privacy noise in it.

        An expression without `=` is tested against zero. Odd names go in backticks.
        """
        from dpspark.analysis.hypotheses import parse_hypotheses, wald_test

        restrictions, q = parse_hypotheses(hypothesis, self.terms)
        return wald_test(hypothesis, *self._inference(), self._df_of(restrictions), restrictions, q)

    def contrast(self, weights: Mapping[str, float], level: float | None = None) -> Contrast:
        """Estimate a sum of coefficients, each so many times: {"educ": 4, "exper": -1}, with an interval."""
        from dpspark.analysis.hypotheses import contrast_of, weights_of

        df = self._df_of(weights_of(weights, self.terms))
        return contrast_of(weights, self.terms, *self._inference(), df, self._level(level))

    def margins(self, at: Mapping[str, Any] | None = None, level: float | None = None) -> Effects:
        """Estimate what one more of each column, or another category, adds to the prediction, with intervals.

        `at` states values, one or a list for each column: {"age": [30, 50]}. It must have those that an effect depends on:
        of columns in squares, logarithms and products.
        """
        from dpspark.analysis.effects import marginal_effects

        return marginal_effects(self, at or {}, self._level(level))

    def _level(self, level: float | None) -> float:
        from dpspark.analysis.options import check_level

        return check_level(self.level if level is None else level)

    def _df_of(self, restrictions: np.ndarray) -> float:
        """The degrees of freedom of a combination of coefficients: as few as the worst of them has."""
        used = np.atleast_2d(restrictions).any(axis=0)
        return float(np.min(self._dfs[used])) if used.any() else self.df

    def _inference(self) -> tuple[np.ndarray, np.ndarray]:
        """The estimates and their covariance, which is NaN where they have no intervals of their own."""
        estimates = np.array([self.params[term] for term in self.terms])
        has_intervals = all(math.isfinite(low) for low, _ in self.conf_int().values())
        if not has_intervals or getattr(self, "repaired", False):
            return estimates, np.full((len(self.terms), len(self.terms)), math.nan)
        return estimates, self._covariance()

    @property
    def __maketables_coef_table__(self) -> pd.DataFrame:
        """The coefficients as the package maketables reads them."""
        names = {"term": "Coefficient", "estimate": "b", "std_error": "se", "statistic": "t", "p_value": "p"}
        return self.tidy().rename(columns=names).set_index("Coefficient")[["b", "se", "t", "p"]]

    @property
    def __maketables_depvar__(self) -> str:
        return self.response

    @property
    def __maketables_vcov_info__(self) -> dict[str, Any]:
        return {"vcov_type": self.errors, "clustervar": None if self.clusters is None else self.clusters.by}

    @property
    def __maketables_default_stat_keys__(self) -> list[str]:
        return ["N", "r2", "se_type"]

    def __maketables_stat__(self, key: str) -> float | str | None:
        """One fact of the whole regression, by maketables' name for it; None where there is none."""
        names = {"N": "nobs", "r2": "r_squared", "adj_r2": "adj_r_squared", "rmse": "sigma", "se_type": "errors"}
        value: Any = self.glance().iloc[0][names[key]] if key in names else None
        if value is None or (isinstance(value, float) and math.isnan(value)) or (key == "N" and self.n_is != ROWS):
            return None
        return max(0, round(value)) if key == "N" else value

    def plot(self, ax: Axes | None = None) -> Axes:
        """The slopes with their intervals, as matplotlib Axes: what the privacy noise adds to each is told apart."""
        from dpspark.analysis.fit_plots import plot_fit

        return plot_fit(self, ax)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.formula}, {self.status})"

    def _named(self, values: np.ndarray) -> dict[str, float]:
        return {term: float(value) for term, value in zip(self.terms, values, strict=True)}
