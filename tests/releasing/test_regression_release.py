"""Releases of kind regression, end to end on Spark."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.bundle.schemas import COEFFICIENTS_SCHEMA
from dpspark.errors import BeyondBounds, ConfError
from dpspark.spec.spec import load_spec
from tests.commands import exit_code
from tests.noises import SeededDraws
from tests.registered import MECHANISMS

pytestmark = pytest.mark.spark35


def regression(conf: dict[str, Any], name: str | None = None, **changes: Any) -> dict[str, Any]:
    made = deepcopy(conf)
    made["release"] |= {"kind": "regression", "response": "income", "version": f"{name}-{len(changes)}"}
    made["mechanism"] = {"name": name} if name else {}
    for key, value in changes.items():
        made[key] = value
    return made


def least_squares(path: Path, weighted: bool) -> np.ndarray:
    """What a release without noise should give: clipped rows, weights as the row norm makes them."""
    table = pq.read_table(path).to_pandas()
    age, educ = np.clip(table["age"], 18, 99), np.clip(table["educ"], 1, 16)
    income, male = np.clip(table["income"], 0, 200000), (table["sex"] == "M").astype(float)
    z = np.column_stack([np.ones(len(table)), (age - 58.5) / 40.5, (educ - 8.5) / 7.5, male])
    weight = np.minimum(1, np.sqrt(1 + 2 / 3 + 1) / np.linalg.norm(z, axis=1)) if weighted else np.ones(len(table))
    x = np.column_stack([np.ones(len(table)), age, educ, male])
    return np.linalg.lstsq(x * weight[:, None], income * weight, rcond=None)[0]


@pytest.mark.parametrize("name", ["gram_ridge", "adassp", "ssp"])
@pytest.mark.parametrize("norm", [None, {"mode": "cap", "radius": (5 / 3) ** 0.5, "include_response": True}])
def test_without_much_noise_it_is_least_squares(
    spark: Any, conf: dict[str, Any], people: Path, name: str, norm: dict[str, Any] | None
) -> None:
    made = regression(conf, name, privacy={"epsilon": 5e7, "delta": 1e-4}, **({"row_norm": norm} if norm else {}))
    made["ledger"]["dataset"] = "rich"
    from dpspark.ledger.ledger import Ledger

    Ledger(made["ledger"]["url"]).grant("rich", epsilon=1e9, delta=1e-3)
    fit = dpspark.release(made, spark=spark).regress()
    truth = least_squares(people, weighted=norm is not None)
    assert fit.status == "OK"
    assert fit.terms == ("(intercept)", "age", "educ", "sex[M]")
    assert np.array(list(fit.params.values())) == pytest.approx(truth, rel=2e-4)
    with pytest.warns(BeyondBounds, match=r"age \(1 of 2 beyond 18 to 99\)"):
        predicted = fit.predict({"age": [30, 500], "educ": [9, 9], "sex": ["F", "M"]})
    assert predicted == pytest.approx([truth @ [1, 30, 9, 0], truth @ [1, 99, 9, 1]], rel=1e-3)
    with pytest.raises(ConfError, match=r"column 'sex' has a null, or a value .* categories: 'F', 'M'\."):
        fit.predict({"age": [30], "educ": [9], "sex": ["X"]})


@pytest.mark.parametrize("name", MECHANISMS["regression"])
def test_every_mechanism_works_with_its_name_alone(spark: Any, conf: dict[str, Any], name: str) -> None:
    rel = dpspark.release(regression(conf, name), spark=spark)
    fit = rel.regress()
    assert np.isfinite(list(fit.params.values())).all()
    assert rel.manifest["mechanism"]["name"] == name
    table = pq.read_table(rel.path / "coefficients.parquet")
    assert table.schema.equals(COEFFICIENTS_SCHEMA)
    assert table["estimate"].to_pylist() == pytest.approx(list(fit.params.values()), rel=1e-9)
    if fit.status == "OK":
        assert table["ci_low"].to_pylist() == pytest.approx([low for low, _ in fit.conf_int().values()], rel=1e-6)
    again = dpspark.read_release(rel.path).regress(level=0.9 if fit.may_have_intervals else None)
    assert list(again.params.values()) == pytest.approx(list(fit.params.values()), rel=1e-9)
    assert fit.summary().startswith("income ~ age + educ + sex[M]")
    json.dumps(fit.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["gram_ridge", "gradient_descent", "refined"])
def test_a_dataframe_gives_the_same(spark: Any, conf: dict[str, Any], people: Path, name: str) -> None:
    """With the same noise, both readers and any partitioning give the same numbers. Kills: sums that depend on either."""

    found = []
    for number, partitions in enumerate((None, 1, 7)):
        made = regression(conf, name)
        made["release"]["version"] = f"{name}-{number}"
        if name == "gradient_descent":
            made["mechanism"]["steps"] = 4
        frame = None if partitions is None else spark.read.parquet(str(people)).repartition(partitions)
        rel = dpspark.release(made, frame, spark=spark, noise=SeededDraws(1))
        found.append(list(rel.regress().params.values()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("privacy", [{"rho": 0.1}, {"epsilon": 1.0}])
def test_gradient_descent_takes_every_currency(spark: Any, conf: dict[str, Any], privacy: dict[str, float]) -> None:
    made = regression(conf, "gradient_descent", privacy=privacy)
    made["mechanism"]["steps"] = 3
    rel = dpspark.release(made, spark=spark)
    assert rel.manifest["mechanism"]["calibration"] == ("zcdp" if "rho" in privacy else "pure")
    assert rel.regress().status == "NO_INTERVAL"


def test_replaced_records_and_public_counts(spark: Any, conf: dict[str, Any]) -> None:
    """The count is published only where every row has weight 1."""
    plain = dpspark.release(
        regression(
            conf,
            "gram_ridge",
            privacy={"epsilon": 1, "delta": 1e-9, "neighbours": "replace_one"},
        ),
        spark=spark,
    )
    assert plain.manifest["privacy"]["count_is_exact"]
    assert plain.regress().n == 40_000
    weighted = regression(conf, "gram_ridge", privacy={"epsilon": 1, "delta": 1e-9, "neighbours": "replace_one"})
    weighted["row_norm"] = {"mode": "cap", "radius": 1.0, "include_response": True}
    weighted["release"]["version"] = "weighted"
    assert not dpspark.release(weighted, spark=spark).manifest["privacy"]["count_is_exact"]


def test_the_command_line(spark: Any, conf: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rel = dpspark.release(regression(conf), spark=spark)

    assert exit_code("regress", str(rel.path)) == 0
    assert "income ~ age + educ + sex[M]" in capsys.readouterr().out
    assert exit_code("regress", str(rel.path), "income ~ sex + educ + age", "--json") == 0
    assert json.loads(capsys.readouterr().out)["mechanism"] == "gram_ridge"
    assert exit_code("regress", str(rel.path), "income ~ age") == 2
    assert "holds one regression" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("release", "mechanism", "message"),
    [
        ({"response": "wage"}, {}, "'wage' is not among the columns"),
        ({"response": "sex"}, {}, "has categories"),
        ({"regressors": ["age", "income"]}, {}, "is among the regressors"),
        ({"regressors": []}, {}, "one or more columns"),
        ({"regressors": ["age", "age"]}, {}, "each once"),
        ({"response": None}, {}, "needs release.response"),
        ({}, {"name": "gaussian"}, "for kind regression expected one of"),
        ({}, {"name": "gram_ridge", "radius": 1}, "not an option"),
        ({"kind": "gram"}, {}, "for kind regression"),
    ],
)
def test_refused(conf: dict[str, Any], release: dict[str, Any], mechanism: dict[str, Any], message: str) -> None:
    made = regression(conf)
    made["release"] |= release
    if made["release"]["response"] is None:
        del made["release"]["response"]
    made["mechanism"] = mechanism
    with pytest.raises(ConfError, match=message):
        load_spec(made)


@pytest.mark.parametrize(
    ("privacy", "mechanism", "message"),
    [
        ({"epsilon": 1}, {"name": "gram_ridge"}, "gradient_descent"),
        ({"rho": 0.1}, {"name": "objective"}, "needs privacy.epsilon and privacy.delta"),
        ({"rho": 0.1}, {"name": "adassp", "constants": "wang"}, "needs privacy.epsilon and privacy.delta"),
    ],
)
def test_currencies(conf: dict[str, Any], privacy: dict[str, Any], mechanism: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfError, match=message):
        load_spec(regression(conf, privacy=privacy) | {"mechanism": mechanism})


def test_only_some_columns_are_read(spark: Any, conf: dict[str, Any]) -> None:
    made = regression(conf)
    made["release"]["regressors"] = ["educ"]
    made["columns"]["not_there"] = {"lower": 0, "upper": 1}
    assert dpspark.release(made, spark=spark).regress().terms == ("(intercept)", "educ")


def test_clipped_shares_are_of_rows_and_not_of_their_weights(spark: Any, conf: dict[str, Any], people: Path) -> None:
    """Kills: the sum of squared factors taken for the number of rows."""
    made = regression(conf, "gram_ridge", diagnostics={"epsilon_share": 0.5}, privacy={"epsilon": 50, "delta": 1e-6})
    made["columns"]["income"]["upper"] = 60000
    made["row_norm"] = {"mode": "cap", "radius": 0.3, "include_response": True}
    rel = dpspark.release(made, spark=spark)
    shares = {(row["column"], row["side"]): row["clipped_share"] for row in rel.tables["diagnostics"].to_pylist()}
    truth = (pq.read_table(people)["income"].to_numpy() > 60000).mean()
    assert shares["income", "upper"] == pytest.approx(truth, abs=0.01)
    summary = rel.regress().summary()
    assert "Weighted least squares" in summary
    assert "by weight" in summary


@pytest.mark.parametrize(
    "norm", [{"mode": "cap", "radius": 0.8}, {"mode": "project", "radius": 1.0, "include_response": True}]
)
def test_row_norms_that_bias_have_no_intervals(spark: Any, conf: dict[str, Any], norm: dict[str, Any]) -> None:
    fit = dpspark.release(regression(conf, row_norm=norm), spark=spark).regress()
    assert fit.status == "NO_INTERVAL"
    assert "biases least squares" in fit.summary()
    assert "(row_norm)" in fit.summary()


def test_objective_at_its_radius_has_no_intervals(spark: Any, conf: dict[str, Any]) -> None:
    """Kills: tight intervals around coefficients that the ball has cut short."""
    made = regression(conf, "objective", privacy={"epsilon": 20, "delta": 1e-6})
    made["mechanism"]["radius"] = 0.05
    fit = dpspark.release(made, spark=spark).regress()
    assert fit.status == "AT_RADIUS"
    assert "larger mechanism.radius" in fit.summary()
