"""What is said of clipping: released values alone, against the bias that least squares of the clipped rows really has."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspark.analysis.clipping import Beyond, moved_by_clipping, shares_beyond, spreads_of
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.fit import RegressionFit
from dpspark.core.domain import Domain, Numeric
from dpspark.mechanisms.registry import BOUNDS
from dpspark.spec.choose import choose_regression
from dpspark.spec.spec import load_spec
from experiments.rows import ArrayRows
from tests.manifests import conf_of, variant
from tests.noises import NoNoise, SeededNoise

ROWS = 40_000
LARGE = {"epsilon": 10.0, "delta": 1e-9}


def survey(tail: float, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Skewed incomes by age and education: log-normal, with a spread of the logarithm of `tail`. Seeded."""
    random = np.random.default_rng(21)
    age = random.integers(18, 90, rows).astype(float)
    educ = np.clip(np.round(random.normal(12, 3, rows)), 1, 20)
    return {"age": age, "educ": educ, "income": np.exp(10 + 0.06 * (educ - 12) + random.normal(0, tail, rows))}


def true_move(rows: dict[str, np.ndarray], column: str, upper: float) -> dict[str, float]:
    """How far clipping one column moves each slope, in standard errors of the clipped fit."""
    clipped = {**rows, column: np.minimum(rows[column], upper)}

    def fit(of: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        design = np.column_stack([np.ones(len(of["age"])), of["age"], of["educ"]])
        inverse = np.linalg.inv(design.T @ design)
        beta = inverse @ (design.T @ of["income"])
        return beta, np.sqrt(np.diag(inverse) * np.var(of["income"] - design @ beta))

    (whole, _), (cut, errors) = fit(rows), fit(clipped)
    return dict(zip(("age", "educ"), abs(cut - whole)[1:] / errors[1:], strict=True))


def said(rows: dict[str, np.ndarray], column: str, upper: float, share: float | None = None) -> dict[str, float]:
    """What the rule says from the values that a release without noise would hold."""
    clipped = {**rows, column: np.minimum(rows[column], upper)}
    share = float(np.mean(rows[column] > upper)) if share is None else share
    bounds = {"age": (18.0, 90.0), "educ": (1.0, 20.0), "income": (0.0, float(clipped["income"].max()))}
    bounds[column] = (bounds[column][0], upper)
    domain = Domain(tuple(Numeric(name, *ends) for name, ends in bounds.items()))
    z = np.column_stack(
        [
            np.ones(len(clipped["age"])),
            *((clipped[c.name] - c.middle) / c.half for c in domain.numeric),
        ]
    )
    design = np.column_stack([np.ones(len(z)), clipped["age"], clipped["educ"]])
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ (design.T @ clipped["income"])
    sigma2 = float(np.var(clipped["income"] - design @ beta))
    sampling = np.sqrt(sigma2 * np.diag(inverse))
    errors = {name: (float(beta[i]), float(sampling[i]), float(sampling[i])) for i, name in ((1, "age"), (2, "educ"))}
    beyond = [Beyond(column, "upper", share, True)]
    found = moved_by_clipping(
        beyond, domain, "income", errors, len(z), sigma2, spreads_of(("(intercept)", "age", "educ", "income"), z.T @ z)
    )
    return {one.term: one.std_errors for one in found}


@pytest.mark.parametrize(("tail", "quantile"), [(1.0, 0.95), (1.0, 0.98), (1.0, 0.99), (1.2, 0.99), (0.8, 0.95)])
def test_it_fires_where_the_response_is_cut_off(tail: float, quantile: float) -> None:
    """Within a factor of 3 of what really happens to the worst coefficient, which is more than 2 standard errors here."""
    rows = survey(tail)
    upper = float(np.quantile(rows["income"], quantile))
    really = max(true_move(rows, "income", upper).values())
    (found,) = said(rows, "income", upper).values()
    assert really > 2
    assert really / 3 < found < 3 * really


def test_it_fires_where_a_regressor_is_cut_off() -> None:
    rows = survey(0.5)
    really = true_move(rows, "educ", 13.0)["educ"]
    assert really > 3
    found = said(rows, "educ", 13.0)["educ"]
    assert really / 3 < found < 3 * really


@pytest.mark.parametrize(("tail", "beyond"), [(0.5, 3), (1.0, 1), (0.8, 2)])
def test_it_is_silent_where_few_rows_are_cut_off(tail: float, beyond: int) -> None:
    """So few rows move no coefficient by a standard error. Kills: a warning for whatever is clipped."""
    rows = survey(tail)
    upper = float(np.sort(rows["income"])[-1 - beyond])
    assert max(true_move(rows, "income", upper).values()) < 1
    assert said(rows, "income", upper) == {}


def test_counts_within_their_noise_are_not_believed() -> None:
    """Kills: noise that is taken for clipped values: beyond three standard deviations is 1 count in 741 by chance."""
    rows = [
        {"column": "income", "side": "upper", "clipped_share": 0.029, "noise_std": 0.01},
        {"column": "income", "side": "lower", "clipped_share": 0.031, "noise_std": 0.01},
        {"column": "age", "side": "lower", "clipped_share": math.nan, "noise_std": math.nan},
        {"column": "educ", "side": "lower", "clipped_share": -0.5, "noise_std": 0.1},
    ]
    assert shares_beyond({}, rows, 100.0) == [Beyond("income", "lower", 0.031, True)]


def released(method: dict[str, Any], **changes: Any) -> GramContent:
    """A release without noise of skewed incomes with private bounds, as an analyst holds it."""
    import pyarrow as pa

    from dpspark.exact.fixed_point import ExactGram, GramAccumulator
    from dpspark.exact.histogram import ExactHistogram
    from dpspark.releasing.manifest import build_manifest, gram_facts
    from dpspark.releasing.tables import scaled_table, second_moment_table
    from dpspark.spec.choose import choose_gram
    from dpspark.spec.extras import bounds_finder
    from dpspark.spec.spec import load_spec

    rows = survey(1.0)
    conf = {
        "columns": {
            "age": {"lower": 18, "upper": 90},
            "educ": {"lower": 1, "upper": 20},
            "income": {"lower": 0, "upper": "private", "search": [0, 10_000_000]},
        },
        "privacy": LARGE,
        "bounds": method,
        "release": {"name": "income", "version": "1"},
        "ledger": {"url": "sqlite://", "dataset": "people"},
    }
    spec = load_spec(variant(conf, **changes))
    (axis,) = spec.axes
    table = ExactHistogram([axis], [np.bincount(axis.cell_of(rows["income"]), minlength=axis.cells)])
    lower, upper = bounds_finder(spec).release(table, NoNoise())["income"]
    mechanism = choose_gram(spec)
    columns = tuple(
        replace(column, lower=lower, upper=upper) if column.name == "income" else column
        for column in mechanism.domain.numeric
    )
    mechanism = mechanism.for_domain(replace(mechanism.domain, columns=columns))
    added = GramAccumulator(mechanism.domain)
    added.add([pa.array(rows[column.name]) for column in columns], ROWS)
    noisy = mechanism.release(ExactGram.from_partials(mechanism.domain, [added.finish()]), NoNoise())
    tables = {"second_moment": second_moment_table(noisy), "scaled": scaled_table(noisy)}
    manifest = build_manifest(spec, mechanism, gram_facts(spec, noisy), "none", "none")
    return GramContent(Path("nowhere"), manifest, tables)


def test_private_bounds_say_what_they_leave_beyond() -> None:
    """A hundredth by percentile: it is said, with how to know. By rank, at a large epsilon, next to nothing: it is not."""
    from dpspark.analysis.options import Asked

    by_share = released({"method": "percentile"}).regress(Asked("income ~ age + educ"))
    (moved,) = by_share.moved_by_clipping
    assert (moved.column, moved.side, moved.counted, moved.share) == ("income", "upper", False, pytest.approx(0.01))
    assert moved.std_errors > 1
    assert any("may move" in note and "diagnostics with little noise would tell" in note for note in by_share.notes)
    assert by_share.to_dict()["moved_by_clipping"][0]["term"] == moved.term
    by_rank = released({}).regress(Asked("income ~ age + educ"))
    assert by_rank.moved_by_clipping == []
    assert by_rank.to_dict()["moved_by_clipping"] == []


def test_a_noisy_count_does_not_silence_what_is_expected() -> None:
    """Kills: diagnostics that cannot tell, and take the place of what the method is known to leave beyond."""
    manifest = released({"method": "percentile"}).manifest

    def count(share: float, std: float) -> list[dict[str, Any]]:
        return [{"column": "income", "side": "upper", "clipped_share": share, "noise_std": std}]

    (expected,) = shares_beyond(manifest, [], 1e6)
    assert shares_beyond(manifest, count(0.001, 0.01), 1e6) == [expected]
    assert shares_beyond(manifest, count(0.001, 0.001), 1e6) == []
    assert shares_beyond(manifest, count(0.02, 0.001), 1e6) == [Beyond("income", "upper", 0.02, True)]


def test_a_stranger_s_manifest_breaks_nothing() -> None:
    manifest = released({}).manifest
    (entry,) = (each for each in manifest["privacy"]["spending"] if each["stage"] == "bounds")
    known = shares_beyond(manifest, (), ROWS)
    assert known == [Beyond("income", "upper", pytest.approx(entry["rank"] / 1.35**3 / ROWS), False)]
    for key, value in (("rank", "many"), ("method", "guessing"), ("axes", None), ("headroom", "x")):
        garbled = copy.deepcopy(manifest)
        next(each for each in garbled["privacy"]["spending"] if each["stage"] == "bounds")[key] = value
        assert shares_beyond(garbled, (), ROWS) == []
    assert shares_beyond({}, (), ROWS) == shares_beyond(manifest, (), math.nan) == []
    assert set(BOUNDS) == {"rank", "percentile"}


def test_the_page_says_it(tmp_path: Path) -> None:
    """Kills: a report whose readers are told less than those of `regress`."""
    from dpspark.report.page import _moved

    content = released({"method": "percentile"})
    text = str(_moved(content, [content.parse("income ~ age + educ")]))
    assert "income ~ age + educ: Clipping at the upper bound of income" in text
    assert _moved(released({}), [content.parse("income ~ age + educ")]) is None
    assert _moved(content, []) is None


def test_one_regression_says_it_too() -> None:
    """A release of kind regression, from statistics without noise. Kills: kind gram alone."""
    from dpspark.analysis.fit import RegressionFit
    from dpspark.mechanisms.regression.gram_ridge import GramRidge
    from dpspark.spec.choose import choose_regression
    from dpspark.spec.spec import load_spec

    rows, upper = survey(1.0), 60_000.0
    conf = {
        "columns": {
            "age": {"lower": 18, "upper": 90},
            "educ": {"lower": 1, "upper": 20},
            "income": {"lower": 0, "upper": upper},
        },
        "privacy": LARGE,
        "release": {"name": "income", "version": "1", "kind": "regression", "response": "income"},
        "ledger": {"url": "sqlite://", "dataset": "people"},
    }
    import pyarrow as pa

    from dpspark.exact.fixed_point import ExactGram, GramAccumulator
    from dpspark.releasing.regression import OneGram

    mechanism = choose_regression(load_spec(conf))
    assert isinstance(mechanism, GramRidge)
    added = GramAccumulator(mechanism.domain)
    added.add([pa.array(rows[column.name]) for column in mechanism.domain.columns], ROWS)
    exact = OneGram(ExactGram.from_partials(mechanism.domain, [added.finish()]))
    noisy = mechanism.release(exact, NoNoise(), lambda step: None)
    share = float(np.mean(rows["income"] > upper))
    fit = RegressionFit(
        mechanism.domain,
        {"name": "gram_ridge", **mechanism.facts()},
        noisy.theta,
        noisy.statistics,
        1,
        beyond=[Beyond("income", "upper", share, True)],
    )
    (moved,) = fit.moved_by_clipping
    really = max(true_move(rows, "income", upper).values())
    assert really / 3 < moved.std_errors < 3 * really
    assert any(note.startswith("WARNING: clipping at the upper bound of income is likely") for note in fit.notes)


@pytest.mark.parametrize("spread", ["grows with x", "even, normal"])
def test_what_refined_says_of_the_residuals_that_it_clipped(spread: str) -> None:
    """Within a factor of 2.5 of what the clip really moves, and nothing of normal residuals. Seeded.

    Kills: intervals beside a bias that nobody is told of; a warning whatever the tail.
    """
    rng, rows = np.random.default_rng(31), 60_000
    x, z = rng.uniform(-1, 1, (2, rows))
    skewed = (1 + 0.8 * x) * (rng.lognormal(size=rows) - math.exp(0.5)) / 2.16
    y = 0.3 * x + 0.2 * (skewed if spread == "grows with x" else rng.normal(size=rows))
    conf = conf_of(
        {
            "columns": {"x": {"lower": -1, "upper": 1}, "z": {"lower": -1, "upper": 1}, "y": {"lower": -4, "upper": 4}},
            "release/kind": "regression",
            "release/response": "y",
            "mechanism": {"name": "refined"},
            "privacy": {"epsilon": 1.0, "delta": 1e-9},
        }
    )
    one = choose_regression(load_spec(conf))
    made = one.release(ArrayRows((x, z, y), rows), SeededNoise(7), lambda _: None)
    fit = RegressionFit(one.domain, {"name": "refined", **one.facts()}, made.theta, made.statistics, 1)
    assert fit.status == "OK"
    if spread != "grows with x":
        assert fit.moved_by_clipping == []
        return
    assert made.statistics is not None
    assert made.statistics.refinement is not None
    design, clip = np.column_stack([np.ones(rows), x, z]), 4 * made.statistics.refinement.clip
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    moved = np.linalg.lstsq(design, left.clip(-clip, clip) - left, rcond=None)[0][1]
    (told,) = fit.moved_by_clipping
    assert (told.term in ("x", "z"), told.side, told.counted) == (
        True,
        "residual",
        False,
    )  # which one, nothing released tells
    assert 0.4 < told.std_errors / (abs(moved) / fit.std_errors["x"]) < 2.5
    assert "Residuals of y beyond the clip, if they are on one side, may move " in fit.summary()


def test_a_few_losses_below_a_wide_range_are_no_reason_to_warn() -> None:
    """Losses below a bound of 0 are not half as long as the way to the largest income. Seeded.

    Kills: an excess that is in proportion to the width, whichever side it is on.
    """
    rows = survey(1.0, 200_000)
    rows["income"][::1000] = -3000.0
    domain = Domain((Numeric("age", 18, 90), Numeric("educ", 1, 20), Numeric("income", 0, 3_000_000)))
    z = np.column_stack([np.ones(len(rows["age"])), *((rows[c.name] - c.middle) / c.half for c in domain.numeric)])
    design = np.column_stack([np.ones(len(z)), rows["age"], rows["educ"]])
    fits = []
    for income in (rows["income"], np.maximum(rows["income"], 0)):
        beta = np.linalg.lstsq(design, income, rcond=None)[0]
        fits.append((beta, float(np.var(income - design @ beta))))
    (whole, _), (cut, sigma2) = fits
    sampling = np.sqrt(sigma2 * np.diag(np.linalg.inv(design.T @ design)))
    assert (np.abs(cut - whole) < 0.2 * sampling).all()
    errors = {name: (float(cut[i]), float(sampling[i]), float(sampling[i])) for i, name in ((1, "age"), (2, "educ"))}
    spreads = spreads_of(("(intercept)", "age", "educ", "income"), z.T @ z)
    beyond = [Beyond("income", "lower", 0.001, True)]
    assert moved_by_clipping(beyond, domain, "income", errors, len(z), sigma2, spreads) == []
    above = [replace(beyond[0], side="upper")]
    assert moved_by_clipping(above, domain, "income", errors, len(z), sigma2, spreads)[0].std_errors > 10


def test_a_regression_knows_the_mean_of_its_response() -> None:
    """Kills: clipping of a response whose mean is taken for the middle of its bounds, in kind regression."""
    rows = survey(0.5)
    conf = conf_of(
        {
            "columns": {"educ": {"lower": 1, "upper": 20}, "income": {"lower": 0, "upper": 3_000_000}},
            "release/kind": "regression",
            "release/response": "income",
        }
    )
    one = choose_regression(load_spec(conf))
    columns = (rows["educ"], rows["income"])
    made = one.release(ArrayRows(columns, ROWS), NoNoise(), lambda _: None)
    fit = RegressionFit(one.domain, {"name": "gram_ridge", **one.facts()}, made.theta, made.statistics, 1)
    assert fit._spreads["income"][0] == pytest.approx(float(rows["income"].mean()) / 1.5e6 - 1, abs=1e-3)
