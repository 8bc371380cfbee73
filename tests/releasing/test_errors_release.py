"""Robust standard errors, end to end on Spark."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.bundle.schemas import COEFFICIENTS_SCHEMA, MEAT_SCHEMA
from dpspark.errors import ConfError
from dpspark.ledger.ledger import Ledger
from dpspark.verifying.verification import verify
from tests.noises import SeededNoise

pytestmark = pytest.mark.spark35
FORMULA = "income ~ age + educ + sex"
GRAM = {"errors": "hc1", "regressions": [FORMULA, "educ ~ age"]}
ONE = {"errors": "hc1", "kind": "regression", "response": "income"}


class Repeated(SeededNoise):
    """The same noise every time, and the middle of an exponential mechanism's law."""

    def below(self, limit: int) -> int:
        return limit // 2


def asking(conf: dict[str, Any], version: str, release: dict[str, Any], **changes: Any) -> dict[str, Any]:
    made = deepcopy(conf)
    made["release"] |= {**release, "version": version}
    return {**made, **changes}


def rich(conf: dict[str, Any], *of: Any) -> dict[str, Any]:
    """So large a budget that there is hardly any noise."""
    made = asking(conf, *of, privacy={"epsilon": 5e7, "delta": 1e-4})
    made["ledger"]["dataset"] = "rich"
    Ledger(made["ledger"]["url"]).grant("rich", epsilon=1e9, delta=1e-3)
    return made


def white(path: Path) -> np.ndarray:
    """HC1 of the bounded rows."""
    table = pq.read_table(path).to_pandas()
    x = np.column_stack(
        [np.ones(len(table)), np.clip(table["age"], 18, 99), np.clip(table["educ"], 1, 16), table["sex"] == "M"]
    ).astype(float)
    y = np.clip(table["income"], 0, 200000).to_numpy(dtype=float)
    bread = np.linalg.inv(x.T @ x)
    r = y - x @ (bread @ (x.T @ y))
    covariance = bread @ ((x * (r**2)[:, None]).T @ x) @ bread * len(y) / (len(y) - 4)
    return np.sqrt(np.diag(covariance))


@pytest.mark.parametrize("release", [GRAM, ONE], ids=["gram", "regression"])
def test_without_much_noise_they_are_those_of_white(
    spark: Any, conf: dict[str, Any], people: Path, release: dict[str, Any]
) -> None:
    """Kills: a wrong unit, a wrong half, H on one side alone, a residual of other coefficients. Clips cut off 2 rows or so."""
    rel = dpspark.release(rich(conf, "1", release), spark=spark)
    fit, plain = (rel.regress(FORMULA, errors=errors) for errors in (None, "classical"))
    assert (fit.errors, plain.errors, plain.errors_reason) == ("hc1", "classical", "asked for")
    assert np.array(list(fit.std_errors.values())) == pytest.approx(white(people), rel=5e-3)
    assert "HC1, which hold where variances differ" in fit.summary()
    assert "equal variances assumed" in plain.summary()
    assert rel.tables["meat"].schema.equals(MEAT_SCHEMA)
    if release is ONE:
        table = pq.read_table(rel.path / "coefficients.parquet")
        assert table.schema.equals(COEFFICIENTS_SCHEMA)
        assert table["errors"].to_pylist() == ["hc1"] * 4
        assert table["std_error"].to_pylist() == pytest.approx(list(fit.std_errors.values()), rel=1e-6)
    else:
        other = rel.regress("income ~ educ")
        assert (other.errors, "no meat" in other.errors_reason) == ("classical", True)
        assert other.to_dict()["errors"] == "classical"
        with pytest.raises(ConfError, match=r"no such meat of income ~ educ.*\n.*hc1 of income ~ age \+ educ \+ sex"):
            rel.regress("income ~ educ", errors="hc1")
        with pytest.raises(ConfError, match="bootstrap"):
            rel.regress(FORMULA, errors="hc1", interval="bootstrap")
        assert rel.regress(FORMULA, interval="bootstrap").errors == "classical"


def test_any_way_to_the_rows_gives_the_same(spark: Any, conf: dict[str, Any], people: Path) -> None:
    """Kills: residuals that depend on the reader or on the partitions. And what was published is what it says."""
    found = []
    for number, partitions in enumerate((None, 1, 5)):
        made = asking(conf, str(number), GRAM)
        frame = None if partitions is None else spark.read.parquet(str(people)).repartition(partitions)
        rel = dpspark.release(made, frame, spark=spark, noise=Repeated(1))
        found.append([rel.tables[name].to_pydict() for name in ("meat", "scaled_meat")])
    assert found[0] == found[1] == found[2]
    assert verify(rel.path, conf["ledger"]["url"]).passed


def test_a_person_has_the_same_rows_in_every_pass(spark: Any, conf: dict[str, Any]) -> None:
    """Kills: a second pass over other rows of a person than the first."""
    made = rich(conf, "1", {"errors": "hc1", "regressions": ["age ~ 1"]})
    made["privacy"]["unit"] = {"column": "educ", "max_rows": 2}
    rel = dpspark.release(made, spark=spark)
    rows, moment = rel.tables["meat"]["value"].to_numpy(), rel.second_moment()
    assert moment.iloc[0, 0] == pytest.approx(32, abs=1)  # 16 values of educ, two rows each
    fit = rel.regress("age ~ 1")
    # Σ r², of which the largest is clipped to about the next: of 32 even ages that is a few percent.
    assert rows[0] == pytest.approx(fit.sigma2 * fit.df, rel=0.25)


@pytest.mark.parametrize("epsilon", [0.03, 0.1, 0.3])
def test_what_is_said_of_them_is_what_they_are(spark: Any, conf: dict[str, Any], epsilon: float) -> None:
    """Whatever noise was drawn: robust, or equal variances and why. Kills: one that is shown as the other."""
    rel = dpspark.release(asking(conf, "1", GRAM, privacy={"epsilon": epsilon, "delta": 1e-9}), spark=spark)
    for text in GRAM["regressions"]:
        fit, plain = rel.regress(text), rel.regress(text, errors="classical")
        if fit.status != "OK":
            continue
        assert (fit.errors == "hc1") == (fit.errors_reason == "") == ("HC1" in fit.summary())
        assert (fit.errors == "classical") == ("Not robust: " in fit.summary()) == (fit.std_errors == plain.std_errors)
