"""Releases of kind theil_sen, end to end on Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.errors import ConfError, SourceError
from dpspark.spark.groups import GroupList
from dpspark.spec.spec import load_spec
from tests.commands import exit_code
from tests.noises import FixedSecret
from tests.registered import MECHANISMS

GROUPS = 40
PUBLIC_ROWS = ("all_pairs", "smooth_sensitivity")


@pytest.fixture
def tracts(tmp_path: Path) -> Path:
    """Ranks in 40 tracts of 0 to 150 rows, with nulls; tracts 7 and 8 have none, and one tract is on no list."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(3, 150, GROUPS)
    sizes[7:9], sizes[9], sizes[10] = 0, 1, 2
    code = np.repeat(np.arange(GROUPS), sizes)
    x = rng.uniform(0, 1, len(code))
    y = np.clip(0.2 + 0.01 * code + 0.3 * x + rng.normal(0, 0.1, len(code)), -0.2, 1.2)
    x[::97] = np.nan
    names = [f"t{c:02d}" for c in code]
    table = pa.table({"tract": [*names, "elsewhere"], "x": [*x, 0.5], "y": [*y, 0.5]})
    pq.write_table(table, tmp_path / "tracts.parquet", row_group_size=500)
    return tmp_path / "tracts.parquet"


def lines(conf: dict[str, Any], tracts: Path, name: str = "exponential", **changes: Any) -> dict[str, Any]:
    privacy = {"epsilon": 8.0}
    if name in PUBLIC_ROWS:
        privacy |= {"neighbours": "replace_one", "fixed": ["tract"]}
    release = {
        **conf["release"],
        "kind": "theil_sen",
        "version": name,
        "x": "x",
        "y": "y",
        "group_by": ["tract"],
        "groups": [f"t{c:02d}" for c in range(GROUPS)],
        "expected_rows": 75,
    }
    return {
        **conf,
        "source": {"parquet": str(tracts)},
        "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
        "privacy": privacy,
        "release": release | changes,
        "mechanism": {"name": name},
    }


@pytest.mark.spark35
@pytest.mark.parametrize("name", MECHANISMS["theil_sen"])
def test_every_mechanism_works_with_its_name_alone(spark: Any, conf: dict[str, Any], tracts: Path, name: str) -> None:
    """Every listed group has its rows, the empty ones too; no other group has."""
    rel = dpspark.release(lines(conf, tracts, name), spark=spark)
    table = rel.predictions()
    assert table["tract"].tolist() == [f"t{c:02d}" for c in range(GROUPS) for _ in range(2)]
    assert table["x"].tolist() == [0.25, 0.75] * GROUPS
    assert set(table["status"]) <= {"ok", "weakly_identified", "not_identified"}
    assert rel.manifest["mechanism"]["composition"].startswith("parallel")
    assert ("chosen" in rel.manifest["mechanism"]) == (name == "auto")
    json.dumps(rel.to_dict(), allow_nan=False)
    assert "more rows in predictions.parquet" in rel.summary()
    assert len(rel.group(tract="t03")) == 2
    again = dpspark.read_release(rel.path)
    assert again.predictions().equals(table)


@pytest.mark.parametrize("name", ["exponential", "depth", "huber"])
def test_lines_are_near_the_true_ones(spark: Any, conf: dict[str, Any], tracts: Path, name: str) -> None:
    made = lines(conf, tracts, name)
    made["privacy"]["epsilon"] = 50.0
    table = dpspark.release(made, spark=spark).predictions()
    large = pq.read_table(tracts).to_pandas().dropna().groupby("tract").size() >= 60
    truth = {f"t{c:02d}": 0.2 + 0.01 * c for c in range(GROUPS)}
    errors = [
        abs(row.estimate - (truth[row.tract] + 0.3 * row.x))
        for row in table.itertuples()
        if large.get(row.tract, False)
    ]
    assert np.median(errors) < 0.03
    assert max(errors) < 0.15


@pytest.mark.spark35
def test_the_same_lines_for_any_partitioning(spark: Any, conf: dict[str, Any], tracts: Path) -> None:
    """Kills: draws that depend on the task or on the order of rows. One secret, 1, 4 and 32 partitions, shuffled."""
    found = []
    for number, partitions in enumerate((None, 1, 4, 32)):
        made = lines(conf, tracts, version=f"v{number}")
        frame = None
        if partitions is not None:
            frame = spark.read.parquet(str(tracts)).orderBy("y").repartition(partitions)
        found.append(dpspark.release(made, frame, spark=spark, noise=FixedSecret()).predictions())
    assert all(table.equals(found[0]) for table in found[1:])
    other = dpspark.release(lines(conf, tracts, version="other"), spark=spark).predictions()
    assert not other.equals(found[0])


def test_one_line_without_groups(spark: Any, conf: dict[str, Any], tracts: Path) -> None:
    made = lines(conf, tracts, "depth", group_by=None, groups=None, cuts=[0.1, 0.5, 0.9])
    made["release"] = {k: v for k, v in made["release"].items() if v is not None}
    table = dpspark.release(made, spark=spark).predictions()
    assert table.columns.tolist() == ["x", "estimate", "ci_low", "ci_high", "slope", "intercept", "status"]
    assert table["x"].tolist() == [0.1, 0.5, 0.9]
    assert table["slope"].iloc[0] == pytest.approx(0.3, abs=0.2)


def test_groups_from_files_and_two_columns(spark: Any, conf: dict[str, Any], tracts: Path, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(tracts)).where("tract <> 'elsewhere'")
    frame = frame.selectExpr("x", "y", "tract", "cast(substr(tract, 3) as int) as digit")
    keys = [("t01", 1), ("t12", 2), ("t12", 3), ("nowhere", 0)]
    (tmp_path / "g.csv").write_text("tract,digit\n" + "".join(f"{a},{b}\n" for a, b in keys))
    pq.write_table(pa.table({"tract": [a for a, _ in keys], "digit": [b for _, b in keys]}), tmp_path / "g.parquet")
    found = []
    for version, groups in (("a", keys), ("b", str(tmp_path / "g.csv")), ("c", str(tmp_path / "g.parquet"))):
        made = lines(conf, tracts, version=version, group_by=["tract", "digit"], groups=groups)
        rel = dpspark.release(made, frame, spark=spark, noise=FixedSecret())
        found.append(rel.predictions())
        assert rel.manifest["spec"]["release"]["groups"]["count"] == 4
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])
    assert found[0]["digit"].tolist() == [1, 1, 2, 2, 3, 3, 0, 0]


def test_codes_of_groups() -> None:
    """Unlisted combinations of listed values, nulls and unknown values are no group."""
    groups = GroupList([("b", "1"), ("a", "2"), ("a", "1")])
    columns = [pa.array(["a", "a", "b", "b", "c", None]), pa.array(["1", "2", "1", "2", "1", "1"])]
    assert groups.codes(columns).tolist() == [2, 1, 0, -1, -1, -1]


def test_records_that_may_move_cost_more(conf: dict[str, Any], tracts: Path) -> None:
    """Kills: the spread of one group where a replaced record changes two."""
    from dpspark.spec.choose import choose_lines

    def facts(privacy: dict[str, Any]) -> dict[str, Any]:
        return choose_lines(load_spec({**lines(conf, tracts), "privacy": {"epsilon": 1.0, **privacy}})).facts()

    fixed = facts({"neighbours": "replace_one", "fixed": ["tract"]})
    moving = facts({"neighbours": "replace_one"})
    assert moving["sensitivity"]["value"] > fixed["sensitivity"]["value"]
    assert "may move" in moving["composition"]
    assert "may move" not in fixed["composition"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": None}, "group_by and groups go together"),
        ({"x": "y"}, "two different columns"),
        ({"x": "z"}, "'z' is not among the columns"),
        ({"cuts": [0.5, 0.5]}, "distinct numbers"),
        ({"candidates": [1, 0]}, "first below the second"),
        ({"response": "y"}, "response is for kind regression"),
    ],
)
def test_refused(conf: dict[str, Any], tracts: Path, changes: dict[str, Any], message: str) -> None:
    made = lines(conf, tracts, **changes)
    made["release"] = {k: v for k, v in made["release"].items() if v is not None}
    with pytest.raises(ConfError, match=message):
        load_spec(made)


def test_groups_that_do_not_fit(spark: Any, conf: dict[str, Any], tracts: Path, tmp_path: Path) -> None:
    for groups, message in (
        (["t01", "t01"], "listed twice"),
        ([("t01", "x")], "expected 1 values"),
        (str(tmp_path / "none.csv"), "No such file"),
    ):
        with pytest.raises(ConfError, match=message):
            dpspark.release(lines(conf, tracts, groups=groups), spark=spark)
    with pytest.raises(ConfError, match="public"):
        dpspark.release({**lines(conf, tracts, "all_pairs"), "privacy": {"epsilon": 1.0}}, spark=spark)
    with pytest.raises(SourceError, match=r"release.group_by: nowhere: no such column"):
        dpspark.release(lines(conf, tracts, group_by=["nowhere"]), spark=spark)


def test_the_command_line(spark: Any, conf: dict[str, Any], tracts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rel = dpspark.release(lines(conf, tracts, "auto"), spark=spark)

    assert exit_code("regress", str(rel.path)) == 0
    assert "40 lines" in capsys.readouterr().out
    assert exit_code("regress", str(rel.path), "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["predictions"]) == 2 * GROUPS
    assert exit_code("regress", str(rel.path), "y ~ x") == 2
    assert "takes no formula" in capsys.readouterr().err
    key = next(iter(rel.group_by))
    first = rel.predictions()[key][0]
    assert exit_code("regress", str(rel.path), "--group", f"{key}={first}") == 0
    shown = capsys.readouterr().out
    assert f", {key}={first}:" in shown
    assert "1 line\n" in shown
    assert exit_code("regress", str(rel.path), "--group", f"{key}=nowhere") == 2
    assert "is not among the groups" in capsys.readouterr().err


@pytest.mark.spark35
def test_a_killed_task_repeats_its_draws(spark: Any, conf: dict[str, Any], tracts: Path, tmp_path: Path) -> None:
    """Kills: draws that a retry makes anew. A Python worker dies in the middle of its groups, once."""
    from dpspark.privacy.keyed import KeyedRandom
    from dpspark.spark.frames import select_columns
    from dpspark.spark.groups import fit_all_groups
    from dpspark.spec.choose import choose_lines

    spec = load_spec(lines(conf, tracts))
    mechanism = choose_lines(spec)
    source = select_columns(spark, spark.read.parquet(str(tracts)), mechanism.domain.read_columns, None)
    groups, random = GroupList(spec.release.group_keys), KeyedRandom(b"k" * 32)

    class Dies:
        """The kernel, but for one death."""

        def __init__(self, kernel: Any, mark: Path):
            self.kernel, self.mark = kernel, mark

        def fit(self, x: Any, y: Any, random: Any, *labels: Any) -> Any:
            if labels[-1] == 17 and not self.mark.exists():
                self.mark.touch()
                os._exit(1)
            return self.kernel.fit(x, y, random, *labels)

    def run(kernel: Any) -> Any:
        found = fit_all_groups(spark, source, mechanism.domain, groups, mechanism.plane.wanted, kernel, random)
        return {code: fit.estimate for code, fit in found.items()}

    mark = tmp_path / "died"
    assert run(Dies(mechanism.kernel, mark)) == run(mechanism.kernel)
    assert mark.exists()


@pytest.mark.parametrize("name", ["exponential", "widened", pytest.param("auto", marks=pytest.mark.spark35)])
def test_one_line_of_a_large_table(
    spark: Any, conf: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Secret buckets: the same histogram and the same line for 1, 4 and 32 partitions; near the truth."""
    monkeypatch.setattr("dpspark.mechanisms.lines.base.ROWS_PER_BUCKET", 3000)
    rng = np.random.default_rng(6)
    x = rng.uniform(0, 1, 20_000)
    table = pa.table({"x": x, "y": np.clip(0.3 + 0.4 * x + rng.normal(0, 0.1, len(x)), 0, 1)})
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=2000)
    made = lines(conf, tmp_path / "large.parquet", name, expected_rows=20_000, group_by=None, groups=None)
    made["release"] = {k: v for k, v in made["release"].items() if v is not None}
    made["privacy"] = {"epsilon": 2.0}
    found = []
    for number, partitions in enumerate((None, 1, 4, 32)):
        made["release"]["version"] = f"{name}{number}"
        frame = (
            None if partitions is None else spark.read.parquet(str(tmp_path / "large.parquet")).repartition(partitions)
        )
        rel = dpspark.release(made, frame, spark=spark, noise=FixedSecret())
        found.append(rel.predictions())
        assert rel.manifest["mechanism"]["buckets"] == 7
    assert all(table.equals(found[0]) for table in found[1:])
    assert found[0]["estimate"].tolist() == pytest.approx([0.4, 0.6], abs=0.03)
    with pytest.raises(ConfError, match="too many for one line"):
        dpspark.release({**made, "mechanism": {"name": "depth"}}, spark=spark)
    from dpspark.spec.choose import choose_lines

    added = choose_lines(load_spec(made)).facts()["sensitivity"]["value"]
    replaced = {**made, "privacy": {"epsilon": 2.0, "neighbours": "replace_one"}}
    assert choose_lines(load_spec(replaced)).facts()["sensitivity"]["value"] == 2 * added  # it may change buckets


def test_sip_hash_and_buckets() -> None:
    """The authors' test vectors; then rows of one value in one bucket, and buckets of even size."""
    from dpspark.spark.buckets import bucket_of, sip_hash

    key = bytes(range(16))
    first, second = (np.frombuffer(bytes(range(at, at + 8)), dtype="<u8") for at in (0, 8))
    assert sip_hash(key, [first])[0] == 0x93F5F5799A932462
    assert sip_hash(key, [first, second])[0] == 0x3F2ACC7F57C29BDB
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 1, 70_000), np.zeros(70_000)
    sizes = np.bincount(bucket_of(key, x, y, 7), minlength=7)
    assert abs(sizes - 10_000).max() < 500
    assert len(set(bucket_of(key, np.array([0.0, -0.0, 0.0]), np.zeros(3), 1000).tolist())) == 1
    other = bucket_of(bytes(16), x, y, 7)
    assert 0.1 < (other == bucket_of(key, x, y, 7)).mean() < 0.2


def facts_of(made: dict[str, Any]) -> dict[str, Any]:
    from dpspark.spec.choose import choose_lines

    return choose_lines(load_spec(made)).facts()


def test_guesses_and_rows_per_record_reach_the_kernel(conf: dict[str, Any], tracts: Path) -> None:
    """Kills: keys of the conf without an effect; a record of three rows protected as one."""
    plain, guessed = lines(conf, tracts, "huber"), lines(conf, tracts, "huber", y_spread=0.02, x_variance=0.2)
    assert facts_of(plain)["clip"] != facts_of(guessed)["clip"]
    frame = {"dataframe": True, "rows_per_record": 3}
    for name in ("exponential", "depth", "huber"):
        one, three = lines(conf, tracts, name), {**lines(conf, tracts, name), "source": frame}
        # Three rows, each of which may also turn up in another group.
        assert facts_of(three)["sensitivity"]["value"] == 3 * 2 * facts_of(one)["sensitivity"]["value"]


@pytest.mark.parametrize("name", ["sufficient_statistics", "gram"])
def test_noise_on_moments_doubles_where_records_move(conf: dict[str, Any], tracts: Path, name: str) -> None:
    """Kills: the whole budget for each of two groups that change. A query's row moves even if a record is only added."""
    made = lines(conf, tracts, name)
    moving = {
        **made,
        "source": {"sql": "select max(tract) as tract, 1 as x, 1 as y from t group by h", "rows_per_record": 1},
    }
    size = [(1 / f["epsilon_each"] if "epsilon_each" in f else f["scale"]) for f in (facts_of(made), facts_of(moving))]
    assert size[1] >= 1.99 * size[0]
    assert "two change" in facts_of(moving)["composition"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_by": ["status"]}, "column of the release's own tables"),
        ({"groups": [1.5]}, "groups"),
        ({"cuts": [0.5, 0.5 + 1e-18]}, "distinct"),
        ({"candidates": [0.5, 0.500001]}, "too close together"),
    ],
)
def test_what_could_not_be_used_is_refused_first(
    conf: dict[str, Any], tracts: Path, changes: dict[str, Any], message: str
) -> None:
    """Kills: a budget reserved for a release that cannot be made, or read."""
    with pytest.raises(ConfError, match=message):
        facts_of(lines(conf, tracts, "depth", **changes))
    with pytest.raises(ConfError, match="at most 2000"):
        facts_of({**lines(conf, tracts, "depth"), "mechanism": {"name": "depth", "cells": 30000}})


def test_too_many_combinations_of_keys() -> None:
    keys = [tuple(str(i) for _ in range(5)) for i in range(65_536)]
    with pytest.raises(ConfError, match="too many combinations"):
        GroupList(keys)


@pytest.mark.parametrize("nulls", ["drop_row", "midpoint"])
def test_nulls_of_lines(nulls: str) -> None:
    """Kills: rows with a null dropped where their number is public; a null taken for a bound."""
    from dpspark.core.domain import Domain, Numeric
    from dpspark.spark.groups import row_reader

    domain = Domain((Numeric("x", 0, 4), Numeric("y", -2, 6)), nulls)  # type: ignore[arg-type]
    batch = pa.record_batch([pa.array([1.0, None, 9.0]), pa.array([None, 0.5, float("inf")])], names=["x", "y"])
    (found,) = row_reader(domain, None)(iter([batch]))
    rows = list(zip(found["x"].to_pylist(), found["y"].to_pylist(), strict=True))
    assert rows == ([(4.0, 6.0)] if nulls == "drop_row" else [(1.0, 2.0), (2.0, 0.5), (4.0, 6.0)])


@pytest.mark.parametrize("levels", [2, 5])
def test_buckets_of_discrete_values(levels: int) -> None:
    """Kills: equal rows all in one bucket, where a value never meets another: more buckets than values, and pairs in each."""
    from dpspark.spark.buckets import bucket_of, rank_among_equals

    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, levels, 40_000) / (levels - 1) for _ in range(2))
    x, y, ranks = rank_among_equals(x, y)
    bucket = bucket_of(b"k" * 16, x, y, 40, ranks)
    assert abs(np.bincount(bucket, minlength=40) - 1000).max() < 200
    for number in range(40):
        assert np.ptp(x[bucket == number]) == 1.0
    shuffled = rng.permutation(len(x))
    again = rank_among_equals(x[shuffled], y[shuffled])
    assert (bucket_of(b"k" * 16, again[0], again[1], 40, again[2]) == bucket).all()  # whatever order they come in
