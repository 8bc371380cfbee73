"""Releases of kind gram by group: one matrix for each, from one pass."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.core.domain import Domain, GroupKey, Numeric
from dpspark.errors import ConfError
from dpspark.exact.bounds import grid_rows, plain_values, settle_nulls
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.privacy.sensitivity import moved_between_groups, moved_statistics, second_moment, second_moment_l1
from dpspark.spark.group_gram import GroupedGramAccumulator
from dpspark.spark.groups import GroupList
from dpspark.spec.choose import choose, choose_gram
from dpspark.spec.spec import load_spec
from tests.commands import exit_code
from tests.noises import NoGaussianNoise

pytestmark = pytest.mark.spark35

STATES = ["CA", "NY", "TX", "empty"]


@pytest.fixture
def states(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    n = 30_000
    state = rng.choice(["CA", "NY", "TX", "unlisted"], n)
    x = rng.uniform(-1, 12, n)
    y = {"CA": 1.0, "NY": 2.0, "TX": 3.0, "unlisted": 9.0}
    slope = np.array([y[s] for s in state])
    table = pa.table(
        {"state": state, "year": rng.integers(2020, 2022, n), "x": x, "y": slope * x + rng.normal(0, 1, n)}
    )
    pq.write_table(table, tmp_path / "states.parquet", row_group_size=4000)
    return tmp_path / "states.parquet"


def grouped(conf: dict[str, Any], states: Path, **release: Any) -> dict[str, Any]:
    columns = {"x": {"lower": 0, "upper": 10}, "y": {"lower": 0, "upper": 30}}
    made = {**conf["release"], "group_by": ["state"], "groups": STATES, **release}
    return {**conf, "source": {"parquet": str(states)}, "columns": columns, "release": made}


def test_each_group_is_what_a_release_of_its_rows_would_be(spark: Any, conf: dict[str, Any], states: Path) -> None:
    """Bit for bit, without noise; for any partitioning; empty groups are there, unlisted ones are not."""
    rel = dpspark.release(grouped(conf, states), spark=spark, noise=NoGaussianNoise())
    frame = spark.read.parquet(str(states)).repartition(9)
    again = dpspark.release(grouped(conf, states, version="2"), frame, noise=NoGaussianNoise())
    assert rel.groups()["state"].tolist() == STATES
    for state in STATES:
        one = {**grouped(conf, states), "where": f"state = '{state}'"}
        one["release"] = {**conf["release"], "version": f"one-{state}"}
        alone = dpspark.release(one, spark=spark, noise=NoGaussianNoise()).second_moment()
        assert rel.group(state=state).second_moment().equals(alone)
        assert again.group(state=state).second_moment().equals(alone)
    assert rel.group(state="empty").second_moment().to_numpy().sum() == 0


def test_regressions_by_group(
    spark: Any, conf: dict[str, Any], states: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = grouped(conf, states, group_by=["state", "year"], groups=[(s, y) for s in STATES for y in (2020, 2021)])
    made["privacy"] = {"epsilon": 20.0, "delta": 1e-6}
    rel = dpspark.release(made, spark=spark)
    for state, slope in (("CA", 1.0), ("NY", 2.0)):
        fit = rel.group(state=state, year=2021).regress("y ~ x")
        assert fit.params["x"] == pytest.approx(slope, abs=0.4)
    assert rel.group(state="empty", year=2020).regress("y ~ x").status == "NOT_IDENTIFIED"
    assert rel.manifest["mechanism"]["composition"].startswith("parallel")
    with pytest.raises(ConfError, match="choose one with group"):
        rel.regress("y ~ x")
    with pytest.raises(ConfError, match="expected state, year"):
        rel.group(state="CA")
    with pytest.raises(ConfError, match="not among the groups"):
        rel.group(state="CA", year=1999)

    def run(*arguments: str, what: tuple[str, ...] = ("regress", "y ~ x")) -> int:
        return exit_code(what[0], str(rel.path), *what[1:], *arguments)

    assert run("--group", "state=TX", "--group", "year=2020", "--json") == 0
    assert json.loads(capsys.readouterr().out)["status"] == "OK"
    assert run() == 2
    assert "--group" in capsys.readouterr().err
    assert run("--group", "state") == 2
    for command in ("covariance", "pca"):
        assert run("--group", "state=TX", "--group", "year=2020", what=(command,)) == 0
        capsys.readouterr()
        assert run(what=(command,)) == 2
        assert "--group state=CA --group year=2020" in capsys.readouterr().err


def test_the_accumulator_equals_one_for_each_group() -> None:
    rng = np.random.default_rng(0)
    n = 40_000
    domain = Domain((Numeric("x", 0, 1), Numeric("y", 0, 1)), keys=(GroupKey("g"),)).with_bits(20)
    values = [np.where(rng.uniform(size=n) < 0.01, np.nan, rng.uniform(-0.2, 1.2, n)) for _ in range(2)]
    names = rng.choice(["a", "b", "c", None], n).tolist()
    total = GroupedGramAccumulator(domain, GroupList([("c",), ("a",)]))
    for start, stop in ((0, 7), (7, 30_000), (30_000, n)):
        part = [pa.array(v[start:stop]) for v in values] + [pa.array(names[start:stop], pa.string())]
        total.add(part, stop - start)
    total.add([*(pa.array([0.5]) for _ in values), pa.array(["b"])], 1)  # no listed group at all
    (batch,) = total.finish()
    found = dict(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    for code, name in ((0, "c"), (1, "a")):
        keep = np.array([value == name for value in names])
        one = GramAccumulator(Domain(domain.columns).with_bits(20))
        one.add([pa.array(v[keep]) for v in values], int(keep.sum()))
        expected = ExactGram.from_partials(one.domain, [one.finish()]).reveal()
        assert ExactGram.from_partials(domain, [found[code]]).reveal() == expected


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_record_that_moves_changes_two_groups(conf: dict[str, Any], states: Path, count: int) -> None:
    """Kills: the sensitivity of one group. Every corner row leaves one group, every other enters another, or its own."""
    domain = Domain(tuple(Numeric(f"x{i}", -1, 1) for i in range(count)), "midpoint")
    claim = moved_between_groups(domain)
    corners = [list(map(float, np.where(np.array(list(f"{i:0{count}b}")) == "1", 1, -1))) for i in range(2**count)]
    block = np.empty((domain.width, len(corners)))
    grid_rows(
        domain,
        [plain_values(c, pa.array(v)) for c, v in zip(domain.columns, zip(*corners, strict=True), strict=True)],
        block,
    )
    settle_nulls(domain, block)
    rows = block.T / domain.one
    upper = np.triu(np.ones((domain.width, domain.width)))
    weights = upper if claim.shape == "spherical" else np.ones_like(upper)
    worst = 0.0
    for a in rows:
        for b in rows:
            one, other = np.outer(a, a), np.outer(b, b)
            moved = math.sqrt(((one**2 + other**2) * weights).sum())
            stayed = math.sqrt((((one - other) ** 2) * weights).sum())
            worst = max(worst, moved, stayed)
    assert worst <= claim.value
    assert worst >= 0.999 * claim.value
    fixed = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "replace_one", "fixed": ["state"]}
    moving = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "replace_one"}
    made = grouped(conf, states)
    assert not choose_gram(load_spec({**made, "privacy": moving})).count_is_public
    assert choose_gram(load_spec({**made, "privacy": fixed})).count_is_public
    one_row = second_moment(load_spec(made).domain, "added").value
    assert choose_gram(load_spec({**made, "privacy": moving})).facts()["sensitivity"]["value"] == pytest.approx(
        math.sqrt(2) * one_row
    )
    pure = {"privacy": {"epsilon": 1.0, "neighbours": "replace_one"}, "mechanism": {"name": "laplace"}}
    l1 = choose_gram(load_spec({**made, **pure})).facts()["sensitivity"]["value"]
    assert l1 == pytest.approx(2 * second_moment_l1(load_spec(made).domain, "added"))


def test_refused(conf: dict[str, Any], states: Path) -> None:
    for changes, message in (
        ({"diagnostics": {}}, "not for releases by group"),
        ({"weight": {"column": "w", "upper": 2}}, "not for releases by group"),
    ):
        with pytest.raises(ConfError, match=message):
            load_spec({**grouped(conf, states), **changes})


def test_one_regression_for_each_group(spark: Any, conf: dict[str, Any], states: Path) -> None:
    made = grouped(conf, states, kind="regression", response="y")
    made["privacy"] = {"epsilon": 20.0, "delta": 1e-6}
    rel = dpspark.release(made, spark=spark)
    for state, slope in (("CA", 1.0), ("NY", 2.0), ("TX", 3.0)):
        fit = rel.group(state=state).regress()
        assert fit.params["x"] == pytest.approx(slope, abs=0.4)
    assert rel.group(state="empty").regress().status != "OK"
    assert rel.groups()["state"].tolist() == STATES
    with pytest.raises(ConfError, match="not for regressions by group"):
        load_spec({**made, "mechanism": {"name": "gradient_descent"}})


@pytest.mark.parametrize("count", [1, 2, 4])
def test_statistics_of_a_record_that_moves(count: int) -> None:
    """Kills: the sensitivity of a record that stays. Every corner row leaves a group, every other enters another or stays."""
    columns = tuple(Numeric(f"x{i}", -1, 1) for i in range(count))
    domain = Domain((*columns, Numeric("y", -1, 1)), "midpoint", response="y")
    claim = moved_statistics(domain)
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * (count + 1))).reshape(count + 1, -1).T
    rows = np.column_stack([np.ones(len(corners)), corners])
    for a in rows:
        for b in rows:
            x, z = np.outer(a[:-1], a[:-1]), np.outer(b[:-1], b[:-1])
            assert math.sqrt((x**2 + z**2).sum()) <= claim.squares.value  # moves
            assert math.sqrt(((x - z) ** 2).sum()) <= claim.squares.value  # stays
            p, q = a[:-1] * a[-1], b[:-1] * b[-1]
            assert max(math.sqrt(p @ p + q @ q), float(np.linalg.norm(p - q))) <= claim.cross
            assert math.sqrt(a[-1] ** 4 + b[-1] ** 4) <= claim.response
    assert claim.cross == pytest.approx(2 * math.sqrt(count + 1))
    assert claim.least_eigenvalue == pytest.approx(math.sqrt(2) * (count + 1))
    assert claim.squares.value == pytest.approx(math.sqrt(2) * (count + 1))
    assert not claim.squares.count_is_public


def test_every_grouped_mechanism_knows_that_records_move(conf: dict[str, Any], states: Path) -> None:
    """Kills: two groups changed and one paid for, under replace_one and where a query's row changes its group."""
    query = {"sql": "select max(state) as state, 1 as x, 1 as y from t group by h", "rows_per_record": 1}
    for kind, name in (
        ("gram", "gaussian"),
        ("gram", "laplace"),
        ("regression", "gram_ridge"),
        ("regression", "adassp"),
    ):
        more = {"kind": kind, **({"response": "y"} if kind == "regression" else {})}
        made = {**grouped(conf, states, **more), "mechanism": {"name": name}}
        budget = {"epsilon": 1.0} if name == "laplace" else {"epsilon": 1.0, "delta": 1e-6}

        def facts(**changes: Any) -> Any:
            return choose(load_spec({**made, **changes})).facts()["sensitivity"]  # noqa: B023

        added = facts(privacy=budget)
        moving = facts(privacy={**budget, "neighbours": "replace_one"})
        joined = facts(privacy=budget, source=query)
        key = "value" if kind == "gram" else "cross"
        assert moving[key] >= 1.41 * added[key], name
        assert joined[key] >= 1.41 * added[key], name
        if kind == "regression":
            assert moving["response"] >= 1.41 * added["response"]
            assert joined["response"] >= 1.41 * added["response"]
    with pytest.raises(ConfError, match="adaptive is not for releases by group"):
        load_spec({**grouped(conf, states), "mechanism": {"name": "inverse_wishart", "adaptive": 0.1}})
    with pytest.raises(ConfError, match="fixed is for neighbours"):
        load_spec({**grouped(conf, states), "privacy": {"epsilon": 1, "delta": 1e-6, "fixed": ["state"]}})
