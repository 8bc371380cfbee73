"""Kalaja, *Adaptive algorithm in differential privacy* (a thesis on Wang's AdaSSP): what its experiments share.

Chapter 4: mean squared error of predictions for regressions on UCI sets, by cross-validation, against epsilon. The thesis has
airfoil, elevators, Buzz and one more; here four of the sets of --data, or generated ones of their size.

One scale for all: y is cut at its 1% and 99% quantiles over the whole set, which count as public, and an error is the mean
squared error over the variance of y: 1 is what predicting the mean has. As printed, columns are scaled by statistics of the
rows, which are handed out as they are: NOT PRIVATE, whatever the noise. Corrected: public bounds (those same quantiles stand
for what an expert would set), and rows of bounded norm. All noise is the product's own.

The UCI files have no mean in y, so the generated sets have none either: the printed methods have no intercept, and a mean would
count against them alone. What a mean does is kalaja-intercept's subject.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from dpspark.core.domain import Clip, Domain, Numeric
from dpspark.exact.bounds import grid_rows
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.exact.gradient import ExactGradient
from dpspark.mechanisms.regression.adassp import AdaSsp, AdaSspOptions
from dpspark.mechanisms.regression.base import NoisyRegression, RegressionMechanism, RidgeMechanism
from dpspark.mechanisms.regression.gram_ridge import GramRidge
from dpspark.mechanisms.regression.ssp import Ssp
from dpspark.privacy.budget import Budget
from dpspark.privacy.sensitivity import RegressionSensitivity, Sensitivity
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from experiments.releases import COMMON

PAPER = "Kalaja, Adaptive algorithm in differential privacy"
DELTA = 1e-6  # the thesis names none
# Rows and regressors of the UCI sets of Wang (2018) that --data may have.
SIZES = {
    "airfoil": (1503, 5),
    "bike": (17379, 17),
    "concrete": (1030, 8),
    "elevators": (16599, 18),
    "energy": (768, 8),
    "housing": (506, 13),
    "kin40k": (40000, 8),
    "parkinsons": (5875, 20),
    "pol": (15000, 26),
    "protein": (45730, 9),
    "solar": (1066, 10),
    "stock": (536, 11),
    "wine": (1599, 11),
}
FOUR = ("airfoil", "wine", "elevators", "pol")  # 5, 11, 18 and 26 regressors
DEFAULT, CAPPED = "dpspark default", "dpspark, cap with y"
WIDE = 0.01  # public bounds are the quantiles at this and at 1 less this


@dataclass(frozen=True)
class Table:
    """Regressors and response, the response cut at its public bounds."""

    x: np.ndarray
    y: np.ndarray
    bounds: np.ndarray  # public, of each regressor and last of y

    @property
    def variance(self) -> float:
        return float(self.y.var())


@lru_cache(maxsize=4)
def load_table(name: str, file: str | None, offset: float = 0.0) -> Table:
    """`offset`: so many standard deviations are added to y."""
    if file is None:
        x, y = _generated(name)
    else:
        import pandas as pd

        frame = pd.read_parquet(file)
        x, y = frame.drop(columns="y").to_numpy(float), frame["y"].to_numpy(float)
    y = y + offset * y.std()
    x = x[:, x.min(axis=0) < x.max(axis=0)]  # a constant column says nothing
    bounds = np.array([_public_bounds(column) for column in (*x.T, y)])
    return Table(x, np.clip(y, *bounds[-1]), bounds)


def _public_bounds(column: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(column, [WIDE, 1 - WIDE])
    return (float(low), float(high)) if low < high else (float(column.min()), float(column.max()))


def _generated(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Of the set's size: correlated columns, half of them skewed, and a response of mean 0 that is mostly linear."""
    rows, width = SIZES[name]
    random = np.random.default_rng(zlib.crc32(name.encode()))
    common = random.normal(size=(rows, 3)) @ random.normal(size=(3, width))
    x = 0.5 * common + random.normal(size=(rows, width))
    slopes = random.normal(size=width) / np.sqrt(width)
    signal = x @ slopes
    y = signal + 0.6 * signal.std() * random.normal(size=rows)
    x[:, ::2] = np.exp(x[:, ::2] / 2)
    return x, y - y.mean()


class Releasing(Protocol):
    """A regression's mechanism: the product's, or a paper's own."""

    @property
    def domain(self) -> Domain: ...

    def release(self, rows: Any, noise: Any, report: Callable[[str], None]) -> NoisyRegression: ...


@dataclass(frozen=True)
class Problem:
    """Rows as a mechanism sees them, and how its coefficients predict y of the test rows."""

    mechanism: Callable[[float], Releasing]  # by epsilon
    gram: Callable[[Domain], ExactGram]
    test: np.ndarray
    scale: float | np.ndarray = 1.0
    shift: float = 0.0

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        raise NotImplementedError("gradient descent has no part here")

    def predict(self, theta: np.ndarray) -> np.ndarray:
        return self.shift + self.scale * (self.test @ theta)


Method = Callable[[Table, np.ndarray, np.ndarray], Problem]  # of a table, its train rows and its test rows


# --- as printed


@dataclass(frozen=True)
class Printed:
    """Columns standardised by the data, mapped into the unit ball by row norms or by the largest; y over its largest.

    `before`: by statistics of all rows, train and test. `intercept`: a column of ones, `ball`: inside the unit ball with the
    rest; `after`: beside it, where a row's squared norm is 2. `clip`: cut above at mean + clip·sd first; `clip_test`: test rows
    too. `with_y`: row norms divide y too.
    """

    mapping: str = "row"  # row, max
    constants: str = "kalaja"
    before: bool = False
    intercept: str | None = None
    clip: float | None = None
    clip_test: bool = False
    with_y: bool = False

    def __call__(self, table: Table, train: np.ndarray, test: np.ndarray) -> Problem:
        x = table.x
        if self.clip is not None:
            tops = x[train].mean(axis=0) + self.clip * x[train].std(axis=0)
            cut = np.minimum(x, tops)
            cut[test] = cut[test] if self.clip_test else x[test]
            x = cut
        known = np.concatenate([train, test]) if self.before else train
        spread = x[known].std(axis=0)
        z = (x - x[known].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        norms = np.linalg.norm(z, axis=1)
        if self.intercept == "ball":
            z = np.column_stack([z, np.ones(len(z))])
            norms = np.linalg.norm(z, axis=1)
        lengths = np.where(norms > 0, norms, 1.0) if self.mapping == "row" else np.full(len(z), norms[known].max())
        z = z / lengths[:, None]
        if self.intercept == "after":
            z = np.column_stack([z, np.ones(len(z))])
        largest = np.abs(table.y[known]).max()
        t, scale = table.y / largest, np.full(len(z), largest)
        if self.with_y:
            t = t / lengths
            second = np.abs(t[known]).max()
            t, scale = t / second, scale * second * lengths
        squared = 2.0 if self.intercept == "after" else 1.0
        return Problem(
            lambda epsilon: unit_mechanism(self.constants, z.shape[1], squared, epsilon),
            _float_gram(np.column_stack([z[train], t[train]])),
            z[test],
            scale[test],
        )


def unit_mechanism(name: str, width: int, squared: float, epsilon: float) -> RidgeMechanism:
    """The product's mechanism for `width` regressors of squared norm `squared` in all, and a response in [-1, 1].

    Its domain has an intercept; here the first regressor stands in that place, as the papers have none.
    """
    columns = tuple(Numeric(f"z{i}", -1.0, 1.0) for i in range(width))  # z0: the second regressor; the last: y
    domain = Domain(columns, response=columns[-1].name)
    squares = Sensitivity(squared, "symmetric", False, "rows in a ball, added or removed")
    sensitivity = RegressionSensitivity(squares, squared**0.5, 1.0, squared, squared**0.5)
    budget = Budget(epsilon=epsilon, delta=DELTA)
    if name in ("wang", "kalaja", "joint"):
        return AdaSsp.for_sensitivity(domain, sensitivity, budget, AdaSspOptions(name))
    plain: dict[str, type[RidgeMechanism]] = {"ssp": Ssp, "gram_ridge": GramRidge}
    return plain[name].for_sensitivity(domain, sensitivity, budget)


def _float_gram(rows: np.ndarray) -> Callable[[Domain], ExactGram]:
    products = rows.T @ rows
    upper = products[np.triu_indices(len(products))]
    return lambda domain: ExactGram(domain, [round(value * domain.steps_per_row) for value in upper.tolist()])


# --- with public bounds


@dataclass(frozen=True)
class Public:
    """A conf of dpspark: public bounds, clipped on both sides. Without a mechanism and a row norm: the default."""

    mechanism: str | None = None
    constants: str | None = None
    mode: str | None = None
    include_response: bool = True
    radius: float | None = None  # by default that of evenly spread values
    bounds: Callable[[Table], np.ndarray] | None = None

    def __call__(self, table: Table, train: np.ndarray, test: np.ndarray) -> Problem:
        bounds = table.bounds if self.bounds is None else self.bounds(table)
        names = [f"x{i}" for i in range(table.x.shape[1])]
        columns = dict(zip(names, table.x.T, strict=True)) | {"y": table.y}
        conf = self.conf(dict(zip(columns, bounds.tolist(), strict=True)))
        made: dict[int, ExactGram] = {}

        def gram(domain: Domain) -> ExactGram:
            if domain.bits not in made:
                total = GramAccumulator(domain)
                total.add([columns[c.name][train] for c in domain.columns], len(train))
                made[domain.bits] = ExactGram.from_partials(domain, [total.finish()])
            return made[domain.bits]

        domain = load_spec(conf(1.0)).domain
        response = domain.numeric[-1]
        shown = mapped_rows(domain, {name: columns[name][test] for name in names})
        return Problem(lambda epsilon: _chosen(conf(epsilon)), gram, shown, response.half, response.middle)

    def conf(self, bounds: dict[str, Sequence[float]]) -> Callable[[float], dict[str, Any]]:
        norm = None
        if self.mode is not None:
            radius = ((len(bounds) - 1) / 3) ** 0.5 if self.radius is None else self.radius
            norm = {"mode": self.mode, "radius": radius, "include_response": self.include_response}
        given = {"name": self.mechanism, "constants": self.constants}
        mechanism = {key: value for key, value in given.items() if value is not None}
        return lambda epsilon: {
            **COMMON,
            "release": {**COMMON["release"], "kind": "regression", "response": "y"},
            "columns": {name: {"lower": low, "upper": high} for name, (low, high) in bounds.items()},
            "privacy": {"epsilon": epsilon, "delta": DELTA},
            **({"mechanism": mechanism} if mechanism else {}),
            **({} if norm is None else {"row_norm": norm}),
        }


def _chosen(conf: dict[str, Any]) -> RegressionMechanism:
    mechanism = choose(load_spec(conf))
    assert isinstance(mechanism, RegressionMechanism)
    return mechanism


def mapped_rows(domain: Domain, columns: dict[str, np.ndarray]) -> np.ndarray:
    """Test rows as a fit's `predict` maps them: a factor on the whole row would cancel out, so it is left out."""
    regressors, norm = domain.regressors, domain.row_norm
    plain = replace(regressors, row_norm=None if norm is not None and norm.include_response else norm)
    rows = np.empty((plain.width, len(columns[plain.columns[0].name])))
    grid_rows(plain, [columns[column.name] for column in plain.columns], rows)
    return rows.T / plain.one
