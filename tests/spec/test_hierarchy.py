"""release.hierarchy: what a conf may ask for, and what is refused before anything is read or charged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.errors import ConfError
from dpspark.source.hierarchy import Hierarchy
from dpspark.spec.spec import load_spec
from tests.commands import exit_code
from tests.kinds_of_release import LINE, ONE, QUANTILES, TWO
from tests.report.bundles import conf_with

LEVELS = ["state", "county", "tract"]
KEYS = [("09", "09001", "a"), ("09", "09001", "b"), ("09", "09003", "c"), ("10", "10001", "d")]
TABLE = [dict(zip(LEVELS, key, strict=True)) for key in KEYS]
LOCAL = [{**row, "county": row["county"][2:]} for row in TABLE]  # 001 is in both states


def conf(**release: Any) -> dict[str, Any]:
    return conf_with(release={"hierarchy": LEVELS, "groups": TABLE, **release})


def test_groups_are_made_by_the_last_level(tmp_path: Path) -> None:
    """From a list, CSV or Parquet alike, with or without group_by. Kills: a table whose levels the hash does not cover."""
    found = load_spec(conf())
    assert found.release.group_by == ("tract",)
    assert found.release.group_keys == (("a",), ("b",), ("c",), ("d",))
    assert found.hash == load_spec(conf(group_by=["tract"])).hash
    lines = [",".join(["note", *LEVELS]), *(",".join(["x", *key]) for key in KEYS)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    pq.write_table(pa.Table.from_pylist(TABLE), tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert load_spec(conf(groups=str(tmp_path / name))).hash == found.hash
    moved = [*TABLE[:2], {**TABLE[2], "county": "09001"}, TABLE[3]]
    assert load_spec(conf(groups=moved)).hash != found.hash
    assert found.public()["release"]["hierarchy"] == LEVELS
    assert [column.name for column in found.source_columns if column.name in LEVELS] == ["tract"]  # no other is read


def test_the_hash_of_a_conf_without_levels_is_as_it_was() -> None:
    """Kills: a key in every spec. The hash is that of the version before, of this very conf."""
    plain = load_spec(conf_with(release={"group_by": ["tract"], "groups": ["a", "b", "c", "d"]}))
    assert not {"hierarchy", "levels"} & set(plain.public()["release"])
    assert set(plain.public()["release"]["groups"]) == {"count", "sha256"}
    assert plain.hash == "1366cb616b0e62c3aad22f86f02c5bb5945d87a92f5d06c1e75f63ecf02a99a2"


def test_levels() -> None:
    levels = load_spec(conf()).release.levels
    assert levels is not None
    assert levels.groups("state") == [("09",), ("10",)]
    assert levels.groups("county") == [("09", "09001"), ("09", "09003"), ("10", "10001")]
    assert levels.places("county").tolist() == [0, 0, 1, 2]
    assert levels.children("state") == [[0, 1], [2]]
    assert levels.children("county") == [[0, 1], [2], [3]]
    assert levels.sizes("state").tolist() == [3, 1]


def test_parts_of_a_group_need_not_be_together() -> None:
    """Kills: children by position."""
    levels = Hierarchy(("s", "c", "t"), (("1", "x", "a"), ("2", "y", "b"), ("1", "z", "c"), ("1", "x", "d")))
    assert levels.children("s") == [[0, 2], [1]]
    assert levels.children("c") == [[0, 3], [1], [2]]


def test_keys_that_are_unique_in_their_state_alone() -> None:
    """Kills: two counties 001 that are added up."""
    with pytest.raises(ConfError, match=r"county 001 is in two groups of state: 09 and 10\. .*write \[state, county\]"):
        load_spec(conf(groups=LOCAL)).hash  # noqa: B018
    spec = load_spec(conf(groups=LOCAL, hierarchy=["state", ["state", "county"], "tract"]))
    assert spec.release.levels is not None
    assert len(spec.release.levels.groups("county")) == 3
    assert spec.public()["release"]["hierarchy"] == ["state", ["state", "county"], "tract"]


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ({"groups": [{"state": "09", "tract": "a"}]}, "a group has no county"),
        ({"groups": ["a", "b"]}, "expected 3 values for each group, one for each of state, county, tract"),
        ({"groups": [*TABLE, TABLE[0]]}, "a group is listed twice"),
        ({"groups": [*TABLE, {**TABLE[0], "county": "09003"}]}, "tract a is in two groups of county"),
        (
            {"groups": [*TABLE, {"state": "10", "county": "09001", "tract": "e"}]},
            "county 09001 is in two groups of state",
        ),
        ({"groups": [*TABLE, {"state": 11, "county": "x", "tract": "e"}]}, "state has keys of several kinds"),
        ({"groups": None}, "hierarchy needs groups"),
        ({"group_by": ["county"]}, r"expected group_by: \[tract\]"),
        ({"group_by": ["county", "tract"]}, r"expected group_by: \[tract\]"),
        ({"hierarchy": ["tract"]}, "two or more distinct levels"),
        ({"hierarchy": ["state", "state", "tract"]}, "two or more distinct levels"),
        ({"hierarchy": ["state", [], "tract"]}, "empty list"),
        ({"hierarchy": ["state", "county", ["state", "county", "tract"]]}, "its last level"),
        (
            {"hierarchy": ["state", ["tract", "county"], "tract"]},
            r"expected county, or with all levels above \[state, county\]",
        ),
        ({"hierarchy": ["value", "county", "tract"]}, "'value' is a column of the release's own tables"),
        ({"hierarchy": ["sta/te", "county", "tract"]}, "names a file"),
        (ONE, "do not add up to those of the level above. Use kind gram"),
        (QUANTILES, "quantiles of groups do not give"),
    ],
)
def test_what_is_no_hierarchy_is_refused(release: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfError, match=said):
        load_spec(conf(**release)).hash  # noqa: B018


def test_lines_need_counts_and_matrices_a_sum() -> None:
    lines = {key: value for key, value in LINE.items() if key not in ("group_by", "groups")}
    with pytest.raises(ConfError, match=r"needs release\.group_counts"):
        load_spec({**conf(**lines), "columns": TWO})
    for name in ("johnson_lindenstrauss", "inverse_wishart"):
        with pytest.raises(ConfError, match=r"noise that grows with it.*Use gaussian, laplace or wishart"):
            load_spec({**conf(), "mechanism": {"name": name}})


def test_a_file_that_lacks_a_level(tmp_path: Path) -> None:
    pq.write_table(pa.table({"state": ["1"], "tract": ["a"]}), tmp_path / "t.parquet")
    with pytest.raises(ConfError, match="a CSV or Parquet file with state, county, tract"):
        load_spec(conf(groups=str(tmp_path / "t.parquet"))).hash  # noqa: B018


def test_check_and_plan_say_what_levels_get(tmp_path: Path, capsys: Any) -> None:
    """Kills: levels that the planner forgets; noise of a sum that is that of one."""
    place = tmp_path / "c.yaml"
    place.write_text(json.dumps({**conf(expected_rows=2000), "source": {"table": "people"}}))
    assert exit_code("check", str(place)) == 0
    assert "levels     2 of state, 3 of county, 4 of tract" in capsys.readouterr().out
    assert exit_code("check", str(place), "--json") == 0
    assert json.loads(capsys.readouterr().out)["levels"] == {"state": 2, "county": 3, "tract": 4}
    assert exit_code("plan", str(place), "--regress", "income ~ age", "--json") == 0
    state, county, tract = json.loads(capsys.readouterr().out)["levels"]
    assert (state["finest_groups"], state["rows"]) == ({"least": 1, "typical": 2, "most": 3}, 4000)
    assert state["noise_std"] == pytest.approx(tract["noise_std"] * 2**0.5)
    assert county["noise_std"] == tract["noise_std"]
    errors = [level["regressions"][0]["std_errors"]["age"] for level in (state, tract)]
    assert errors[0] == pytest.approx(errors[1] / 2**0.5, rel=0.02)  # twice the rows, twice the noise's variance
    assert exit_code("plan", str(place)) == 0
    assert "coarser ones are made of it at no cost" in capsys.readouterr().out
