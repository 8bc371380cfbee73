"""Standard errors by clusters, end to end on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.errors import ConfError, SourceError
from dpspark.verifying.verification import verify
from tests.releasing.test_errors_release import Repeated, asking, rich

pytestmark = pytest.mark.spark35
FORMULA = "y ~ x + s"
COLUMNS = {
    "x": {"lower": -4, "upper": 4},
    "s": {"categories": ["a", "b"]},
    "y": {"lower": -8, "upper": 8},
}
GRAM = {"kind": "gram", "errors": {"cluster": "town"}, "regressions": [FORMULA, "x ~ 1"]}
ONE = {"kind": "regression", "response": "y", "errors": {"cluster": "town"}}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3000 rows of 150 towns that differ, a few rows without a town; each person has rows in several towns."""
    rng = np.random.default_rng(1)
    town = (rng.random(3000) ** 1.5 * 150).astype(int)
    x = 0.7 * rng.normal(size=150)[town] + 0.7 * rng.normal(size=3000)
    y = 0.5 * x + rng.normal(size=150)[town] + rng.normal(size=3000)
    table = pa.table(
        {
            "x": x,
            "s": np.array(["a", "b"])[rng.integers(2, size=3000)],
            "y": pa.array(y, mask=rng.random(3000) < 0.01),
            "town": pa.array(town, mask=rng.random(3000) < 0.02),
            "person": rng.integers(1500, size=3000),
            "weight": rng.random(3000),
        }
    )
    path = tmp_path_factory.mktemp("towns")
    for part in range(3):
        pq.write_table(table.slice(1000 * part, 1000), path / f"{part}.parquet", row_group_size=300)
    return path


@pytest.fixture
def towns(conf: dict[str, Any], rows: Path) -> dict[str, Any]:
    return {**conf, "source": {"parquet": str(rows)}, "columns": COLUMNS}


def liang_zeger(rows: Path) -> tuple[np.ndarray, int]:
    """Errors by clusters of the kept rows, and how many clusters there are: a row without a town is one."""
    table = pq.read_table(rows).to_pandas()
    table = table[table["y"].notna()].reset_index(drop=True)
    x = np.column_stack([np.ones(len(table)), np.clip(table["x"], -4, 4), table["s"] == "b"]).astype(float)
    y, n = np.clip(table["y"], -8, 8).to_numpy(), len(table)
    bread = np.linalg.inv(x.T @ x)
    r = y - x @ (bread @ (x.T @ y))
    codes = np.where(table["town"].isna(), 1000 + np.arange(n), table["town"].fillna(0)).astype(int)
    found, codes = np.unique(codes, return_inverse=True)
    sums = np.zeros((len(found), 3))
    np.add.at(sums, codes, x * r[:, None])
    g = len(found)
    covariance = bread @ sums.T @ sums @ bread * g / (g - 1) * (n - 1) / (n - 3)
    return np.sqrt(np.diag(covariance)), g


@pytest.mark.parametrize("release", [GRAM, ONE], ids=["gram", "regression"])
def test_without_much_noise_they_are_those_of_liang_and_zeger(
    spark: Any, towns: dict[str, Any], rows: Path, release: dict[str, Any]
) -> None:
    """Kills: a cluster that is cut, merged or counted twice; rows without a key in one cluster; a wrong factor or unit."""
    rel = dpspark.release(rich(towns, "1", release), spark=spark)
    fit, plain = (rel.regress(FORMULA, errors=errors) for errors in (None, "classical"))
    expected, count = liang_zeger(rows)
    assert (fit.errors, plain.errors) == ("cluster", "classical")
    # The largest residuals and clusters are cut, a few of each.
    assert np.array(list(fit.std_errors.values())) == pytest.approx(expected, rel=0.02)
    assert fit.std_errors["(intercept)"] > 2 * plain.std_errors["(intercept)"]
    assert f"clustered by town, about {count} clusters" in fit.summary()
    assert fit.to_dict()["clusters"] == {"by": "town", "count": pytest.approx(count, abs=0.01)}
    assert all(df < count for df in fit._dfs)
    if release is GRAM:
        test = fit.f_test(["x"])
        assert test.df_denom == pytest.approx(fit._dfs[1])  # not of the rows
    else:
        assert rel.tables["coefficients"]["errors"].to_pylist() == ["cluster"] * 3
    with pytest.raises(ConfError, match="no such meat"):
        rel.regress(FORMULA, errors="hc1")
    assert verify(rel.path, towns["ledger"]["url"]).passed


def test_any_way_to_the_rows_gives_the_same(spark: Any, towns: dict[str, Any], rows: Path) -> None:
    """Kills: clusters that depend on the reader, on the partitions, or on the type of their key."""
    found = []
    for number, made in enumerate(
        (None, "town", "cast(town as string)", "date_add(date'2020-01-01', cast(town as int))")
    ):
        conf = asking(towns, str(number), GRAM)
        frame = None
        if made is not None:
            read = spark.read.parquet(str(rows)).repartition(2 + number)
            frame = read.selectExpr("x", "s", "y", f"{made} as town")
        rel = dpspark.release(conf, frame, spark=spark, noise=Repeated(1))
        found.append([rel.tables[name].to_pydict() for name in ("meat", "scaled_meat")])
    assert all(each == found[0] for each in found)
    assert verify(rel.path, towns["ledger"]["url"]).passed


@pytest.mark.parametrize("by", ["town", "person"])
def test_people_have_the_same_rows_by_any_way(spark: Any, towns: dict[str, Any], rows: Path, by: str) -> None:
    """Kills: a cap that keeps other rows where a person's rows differ in their cluster alone; a person who is no cluster."""
    found = []
    for number in range(2):
        conf = asking(towns, str(number), {**GRAM, "errors": {"cluster": by}})
        conf["privacy"] = {**conf["privacy"], "unit": {"column": "person", "max_rows": 1}}
        conf["columns"] = {name: COLUMNS[name] for name in ("x", "s")}
        conf["release"]["regressions"] = ["x ~ s"]
        conf["source"] = {"parquet": str(rows), **({"reader": "spark"} if number else {})}
        rel = dpspark.release(conf, spark=spark, noise=Repeated(1))
        found.append([rel.tables[name].to_pydict() for name in ("meat", "scaled_meat")])
        assert rel.manifest["mechanism"]["errors"]["clusters_are_people"] is (by == "person")
        assert verify(rel.path, towns["ledger"]["url"]).passed
    assert found[0] == found[1]


def test_few_clusters_are_a_limitation(spark: Any, towns: dict[str, Any]) -> None:
    rel = dpspark.release(rich(towns, "1", {**GRAM, "errors": {"cluster": "s"}}), spark=spark)
    assert any("There are about 2 clusters" in each for each in rel.manifest["limitations"])
    fit = rel.regress(FORMULA)
    assert (fit.errors, "fewer than about 30 clusters" in fit.errors_reason) == ("classical", True)


@pytest.mark.parametrize(("column", "message"), [("weight", "its type is double"), ("city", "no such column")])
def test_columns_that_tell_no_clusters_are_refused(
    spark: Any, towns: dict[str, Any], column: str, message: str
) -> None:
    with pytest.raises(SourceError, match=rf"release.errors.cluster='{column}'.*{message}"):
        dpspark.release(asking(towns, "1", {**GRAM, "errors": {"cluster": column}}), spark=spark)


def test_a_computed_column_may_be_the_cluster(spark: Any, towns: dict[str, Any], rows: Path) -> None:
    """Kills: a key that is looked for in the source though the conf computes it."""
    towns["columns"] = {**COLUMNS, "region": {"expr": "cast(town div 3 as string)", "categories": ["0"]}}
    rel = dpspark.release(
        rich(towns, "1", {**ONE, "regressors": ["x", "s"], "errors": {"cluster": "region"}}), spark=spark
    )
    fit = rel.regress()
    assert (fit.errors, 50 <= fit.clusters.count <= 130) == ("cluster", True)
