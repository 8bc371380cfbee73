"""Releases of kind theil_sen, end to end on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.cli import main
from dpspark.data.groups import GroupList
from dpspark.errors import ConfError, SourceError
from dpspark.privacy.noise import OpenDPNoise
from dpspark.spec import load_spec
from dpspark.spec_mechanism import MECHANISMS

GROUPS = 40
PUBLIC_ROWS = ("all_pairs", "smooth_sensitivity")


class FixedSecret(OpenDPNoise):
    def secret(self) -> bytes:
        return b"s" * 32


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
    assert found[0]["digit"].tolist() == ["1", "1", "2", "2", "3", "3", "0", "0"]


def test_codes_of_groups() -> None:
    """Unlisted combinations of listed values, nulls and unknown values are no group."""
    groups = GroupList([("b", "1"), ("a", "2"), ("a", "1")])
    columns = [pa.array(["a", "a", "b", "b", "c", None]), pa.array(["1", "2", "1", "2", "1", "1"])]
    assert groups.codes(columns).tolist() == [2, 1, 0, -1, -1, -1]


def test_records_that_may_move_cost_more(conf: dict[str, Any], tracts: Path) -> None:
    """Kills: the spread of one group where a replaced record changes two."""
    from dpspark.mechanisms.lines import choose_lines

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

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        return int(caught.value.code or 0)

    assert run("regress", str(rel.path)) == 0
    assert "40 lines" in capsys.readouterr().out
    assert run("regress", str(rel.path), "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["predictions"]) == 2 * GROUPS
    assert run("regress", str(rel.path), "y ~ x") == 2
    assert "takes no formula" in capsys.readouterr().err
