"""Intervals of the difference between two releases cover it as often as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpspark.analysis.compare import Comparison, compare_fits
from dpspark.analysis.options import Asked
from dpspark.analysis.regression import OK
from dpspark.spec.choose import Mechanism, choose
from dpspark.spec.spec import Spec, load_spec
from experiments.array_rows import release_arrays
from experiments.noise import ExperimentNoise

FORMULA = "y ~ x + sex"
SLOPES = (0.4, 0.7)  # of x, in the two populations
PAIRS, ROWS = 3200, (2500, 4000)


def spec_of(epsilon: float) -> Spec:
    columns = {
        "x": {"lower": -1, "upper": 1},
        "sex": {"categories": ["F", "M"]},
        "y": {"lower": -4, "upper": 4},
    }
    return load_spec(
        {
            "columns": columns,
            "source": {"dataframe": True},
            "privacy": {"epsilon": epsilon, "delta": 1e-6},
            "release": {"name": "a", "version": "1"},
            "ledger": {"dataset": "d"},
        }
    )


def fit_of(generator: np.random.Generator, spec: Spec, mechanism: Mechanism, rows: int, slope: float) -> Any:
    """Fit one release of new people: between two, the truth is in x alone."""
    sex, x = generator.integers(0, 2, rows), generator.uniform(-1, 1, rows)
    y = np.clip(slope * x + 0.5 * sex + generator.normal(0, 0.7, rows), -4, 4)
    columns = {"x": x, "sex": sex, "y": y}
    return release_arrays(spec, mechanism, columns, ExperimentNoise(generator)).regress(Asked(FORMULA))


@pytest.fixture(scope="module")
def pairs() -> list[Comparison]:
    generator, found = np.random.default_rng(20), []
    specs = [spec_of(epsilon) for epsilon in (2.0, 3.0)]
    given = list(zip(specs, map(choose, specs), ROWS, SLOPES, strict=True))
    for _ in range(PAIRS):
        first, second = (fit_of(generator, *one) for one in given)
        assert first.status == second.status == OK
        found.append(compare_fits(first, second, "none", 0.95))
    return found


def covered(found: list[Comparison], shrunk: float = 1.0) -> list[float]:
    """How often each coefficient's interval has the true difference in it, if it were so much shorter."""
    truth = {"(intercept)": 0.0, "x": SLOPES[1] - SLOPES[0], "sex[M]": 0.0}
    hits = []
    for comparison in found:
        rows = comparison.rows()
        half = [shrunk * (row["ci_high"] - row["ci_low"]) / 2 for row in rows]
        hits.append([abs(row["difference"] - truth[row["term"]]) < h for row, h in zip(rows, half, strict=True)])
    return np.mean(hits, axis=0).tolist()


def test_a_difference_is_covered_as_often_as_stated(pairs: list[Comparison]) -> None:
    """Kills: noise of one release alone, noise that is halved, errors that are added up instead of their squares.

    A share of 3,200 has a standard deviation of 0.385%, so that 2% are 5.2 of them: a false alarm in 4e-7, for two slopes.
    """
    shares = covered(pairs)[1:]
    assert len(shares) == 2
    assert all(0.93 <= share <= 0.97 for share in shares), shares


def test_a_difference_has_the_degrees_of_freedom_of_its_coefficients() -> None:
    """Kills: those of the rows, where errors are by few clusters: intervals of t with 5 would be 1.3 times too short."""
    generator, spec = np.random.default_rng(21), spec_of(2.0)
    first, second = (fit_of(generator, spec, choose(spec), ROWS[0], 0.4) for _ in range(2))
    first._dfs, second._dfs = np.array([900.0, 5.0, 900.0]), np.array([900.0, 7.0, 900.0])
    row = next(row for row in compare_fits(first, second, "none", 0.95).rows() if row["term"] == "x")
    squares = np.array([first.std_errors["x"], second.std_errors["x"]]) ** 2
    welch = squares.sum() ** 2 / (squares**2 / [5, 7]).sum()
    reach = stats.t.ppf(0.975, welch) * np.sqrt(squares.sum())
    assert welch < 12
    assert row["ci_high"] - row["difference"] == pytest.approx(reach, rel=1e-9)


def test_intervals_with_half_of_the_noise_would_not_cover(pairs: list[Comparison]) -> None:
    """The test above can fail: with half of the noise's standard deviation its intervals are too short."""
    fits = [fit for comparison in pairs[:20] for fit in (comparison.first, comparison.second)]
    noise = np.mean([fit.privacy_std_errors["x"] ** 2 / fit.std_errors["x"] ** 2 for fit in fits])
    assert noise > 0.4
    assert max(covered(pairs, float(np.sqrt(1 - 0.75 * noise)))) < 0.93
