"""Columns that a conf's formulas ask for, end to end on Spark: against least squares on the bounded rows."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.ledger.ledger import Ledger
from dpspark.verifying.verification import verify

formulaic = pytest.importorskip("formulaic")
FORMULAS = [
    "log1p(income) ~ age + I(age**2) + C(sex)*educ",
    "income ~ age*educ + sqrt(educ)",
    'income ~ C(sex, Treatment("M")):age + educ - 1',
]


def _asking(conf: dict[str, Any], version: str, formulas: list[str], **changes: Any) -> dict[str, Any]:
    made = {**deepcopy(conf), "privacy": {"epsilon": 1e6, "delta": 1e-4}, **changes}
    made["release"] |= {"version": version, "regressions": formulas}
    made["ledger"]["dataset"] = "rich"
    Ledger(made["ledger"]["url"]).grant("rich", epsilon=1e8, delta=1e-2)
    return made


def _bounded(people: Path) -> Any:
    table = pq.read_table(people).to_pandas()
    for name, bounds in {"age": (18, 99), "educ": (1, 16), "income": (0, 200000)}.items():
        table[name] = np.clip(table[name].astype(float), *bounds)
    return table.dropna(subset=["age", "educ", "income", "sex"])


def test_least_squares_of_formulas(spark: Any, conf: dict[str, Any], people: Path) -> None:
    """Kills: products of values beyond their bounds, a term under another's name, a category too few."""
    rel = dpspark.release(_asking(conf, "1", FORMULAS), spark=spark)
    assert {"log1p(income)", "I(age**2)", "sex[M]:educ", "age:educ", "sqrt(educ)", "sex[F]:age"} <= set(rel.terms)
    assert verify(rel.path, conf["ledger"]["url"]).passed
    frame = _bounded(people)
    for text in FORMULAS:
        context = {name: getattr(np, name) for name in ("log1p", "sqrt")}
        design = formulaic.model_matrix(text, frame, context=context)
        y, x = (np.asarray(part, dtype=float) for part in (design.lhs, design.rhs))
        wanted = np.sort(np.linalg.lstsq(x, y[:, 0], rcond=None)[0])
        fit = rel.regress(text)
        found, order = np.array(list(fit.params.values())), np.argsort(list(fit.params.values()))
        noise = np.sqrt(np.diag(fit._solution.privacy))
        assert (noise < 0.05 * np.array(list(fit.std_errors.values()))).all(), text
        # Six standard deviations of the noise that is left: a false alarm in 10^7 runs.
        assert (np.abs(found[order] - wanted) < 6 * noise[order]).all(), text
    fit = rel.regress(FORMULAS[0])
    new = {"age": [30.0], "educ": [10.0], "sex": ["M"]}
    p = fit.params
    by_hand = (
        p["(intercept)"] + 30 * p["age"] + 900 * p["I(age**2)"] + p["sex[M]"] + 10 * (p["educ"] + p["sex[M]:educ"])
    )
    assert fit.predict(new)[0] == pytest.approx(by_hand)


def test_robust_errors_of_formulas(spark: Any, conf: dict[str, Any]) -> None:
    """Kills: meats of columns that only a formula has."""
    made = _asking(conf, "2", [FORMULAS[1]])
    made["release"]["errors"] = "hc1"
    rel = dpspark.release(made, spark=spark)
    assert rel.regress(FORMULAS[1]).errors == "hc1"
    assert verify(rel.path, conf["ledger"]["url"]).passed
