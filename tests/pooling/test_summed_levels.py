"""Matrices of coarser levels: sums of those of groups, with the noise of sums. Without Spark."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dpspark.analysis.content.gram import GramContent
from dpspark.errors import ConfError
from dpspark.pooling.levels import LevelContent
from dpspark.published.reading import read_release
from dpspark.source.hierarchy import Hierarchy
from dpspark.spec.release import digest_of_groups
from dpspark.verifying.verification import verify
from tests.commands import exit_code
from tests.kinds_of_release import TWO
from tests.report.bundles import conf_with, people, published

LEVELS = ["state", "county", "tract"]
FORMULA = "income ~ age"
# State 08 has one county with one tract; the tracts of 09001 are not together.
KEYS = [
    ("08", "08001", "a"),
    ("09", "09001", "b"),
    ("10", "10001", "c"),
    ("09", "09001", "d"),
    ("09", "09003", "e"),
    ("10", "10001", "f"),
    ("09", "09001", "g"),
]
TABLE = [dict(zip(LEVELS, key, strict=True)) for key in KEYS]


def conf(table: list[dict[str, Any]] = TABLE, **changes: Any) -> dict[str, Any]:
    release = {"hierarchy": LEVELS, "groups": table}
    return conf_with(**{"columns": TWO, "release": release, "privacy": {"epsilon": 4.0}, **changes})


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("levels"), conf())


def matrices(content: Any) -> dict[tuple[str, ...], GramContent]:
    return dict(content.each())


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "wishart"])
def test_totals_agree_to_the_last_digit(tmp_path: Path, mechanism: str) -> None:
    """Kills: a level that is rounded on its own; tracts by position, not by key; one that is left out."""
    privacy = {"epsilon": 4.0, "delta": None if mechanism == "laplace" else 1e-9}
    rel = read_release(published(tmp_path, conf(mechanism={"name": mechanism}, privacy=privacy)))
    finest, county, state = (matrices(c) for c in (rel.content, *(rel.level(x).content for x in ("county", "state"))))
    assert list(county) == [("08", "08001"), ("09", "09001"), ("10", "10001"), ("09", "09003")]
    tracts = {key: [finest[(row[2],)] for row in KEYS if row[:2] == key] for key in county}
    counties = {key: [county[each] for each in county if each[:1] == key] for key in state}
    for whole, parts in ((county, tracts), (state, counties)):
        for key, one in whole.items():
            for name in ("matrix", "scaled"):
                stack = np.array([getattr(part, name) for part in parts[key]])
                expected = [[math.fsum(stack[:, i, j]) for j in range(3)] for i in range(3)]
                assert getattr(one, name).tolist() == expected
    assert county[("08", "08001")].matrix.tolist() == finest[("a",)].matrix.tolist()


def test_the_noise_is_that_of_all_parts(tmp_path: Path) -> None:
    """1,200 groups without rows are noise alone, four in a county. False alarm: 1e-6.

    Kills: the noise of one part for that of the sum; of three of four.
    """
    table = [{"state": f"{i // 400}", "county": f"{i // 4}", "tract": f"{i}"} for i in range(1200)]
    nothing = {name: values[:0] for name, values in people(1).items()}
    rel = read_release(published(tmp_path, conf(table), nothing))
    level, at = rel.level("county").content, np.triu_indices(3)
    squares, forgetful = [], []
    for one in matrices(level).values():
        std = np.where(at[0] == at[1], one.noise.diagonal_std, one.noise.off_diagonal_std)
        squares.append((one.scaled[at] / std) ** 2)
        forgetful.append(squares[-1] * 4 / 3)
    count = np.size(squares)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], count)
    assert count == 1800
    assert low < np.sum(squares) < high
    assert not low < np.sum(forgetful) < high
    table = level.tables["second_moment"]
    rows = (table["value"].to_numpy() / table["noise_std"].to_numpy()).reshape(-1, 9)[:, 0]
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], len(rows))
    assert low < np.square(rows).sum() < high


def test_regressions_of_every_level(release: Path, capsys: Any) -> None:
    """By keys that say the level, or from the level. Kills: `--group state=09` that finds a tract's noise."""
    rel = read_release(release)
    one = rel.regress(FORMULA, group={"state": "09"})
    for other in (rel.group(state="09").regress(FORMULA), rel.level("state").regress(FORMULA, group={"state": "09"})):
        assert dict(other.params) == dict(one.params)
        assert dict(other.std_errors) == dict(one.std_errors)
    noise = rel.group(tract="a").noise
    assert rel.group(state="09").noise.diagonal_std == pytest.approx(2 * noise.diagonal_std)  # of four tracts
    assert rel.group(county="09001", state="09").noise.diagonal_std == pytest.approx(3**0.5 * noise.diagonal_std)
    assert rel.group(county="08001").noise.diagonal_std == noise.diagonal_std
    assert exit_code("regress", str(release), FORMULA, "--group", "state=09", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert {term["term"]: term["estimate"] for term in told["terms"]} == pytest.approx(dict(one.params))
    assert exit_code("regress", str(release), FORMULA, "--group", "county=09003") == 0
    assert "state=09, county=09003" in capsys.readouterr().out
    assert exit_code("regress", str(release), FORMULA, "--group", "tract=e") == 0
    assert "tract=e" in capsys.readouterr().out
    assert one.params["age"] == pytest.approx(400, rel=0.2)


def test_what_is_no_group_is_refused(release: Path, tmp_path: Path) -> None:
    rel = read_release(release)
    for keys, said in (
        ({"state": "9"}, "is not among the groups"),
        ({"state": "10", "county": "09001"}, "is not among the groups"),
        ({"state": "10", "tract": "a"}, "expected tract"),
        ({"place": "x"}, "expected tract"),
    ):
        with pytest.raises(ConfError, match=said):
            rel.group(**keys)
    with pytest.raises(ConfError, match="expected state"):
        rel.level("state").group(county="09001")
    with pytest.raises(ConfError, match="expected one of state, county"):
        rel.level("tract")
    plain = read_release(published(tmp_path, conf_with(release={"group_by": ["tract"], "groups": ["a", "b"]})))
    with pytest.raises(ConfError, match="no levels"):
        plain.level("state")
    with pytest.raises(ConfError, match="not a release by group"):
        read_release(published(tmp_path / "one", conf_with())).regress(FORMULA, group={"state": "09"})


def test_keys_that_are_unique_in_their_state_alone(tmp_path: Path) -> None:
    """Kills: two counties 001 that are added up."""
    local = [{**row, "county": row["county"][2:]} for row in TABLE]
    asked = {"hierarchy": ["state", ["state", "county"], "tract"], "groups": local}
    path = published(tmp_path, conf(release=asked))
    rel = read_release(path)
    assert len(rel.level("county").groups()) == 4
    assert rel.group(county="003").regress(FORMULA).n > 0
    with pytest.raises(ConfError, match=r"3 groups have county='001'\. Give state too"):
        rel.group(county="001")
    assert rel.group(state="08", county="001").content.matrix.tolist() == rel.group(tract="a").content.matrix.tolist()
    assert verify(path).passed


def test_it_is_verified(release: Path, tmp_path: Path) -> None:
    """Kills: a table of levels that somebody else wrote, or that nothing asks for; a digest beside the spec, believed."""
    found = verify(release)
    assert found.passed
    assert "hierarchy.parquet" in found.manifest["files"]
    table = pq.read_table(release / "hierarchy.parquet")
    assert [tuple(row.values()) for row in table.to_pylist()] == KEYS
    moved = table.set_column(0, "state", pa.array(["09", *table["state"].to_pylist()[1:]]))
    swapped = table.take([1, 0, 2, 3, 4, 5, 6])
    turned = table.set_column(
        0, "state", pa.array([f"{key}0" for key in table["state"].to_pylist()])
    )  # one parent each
    for name, other in {"moved": moved, "swapped": swapped, "turned": turned, "without": None}.items():
        checks = {check.name: check for check in verify(_changed(release, tmp_path / name, other)).checks}
        assert checks["tables"].result == "failed", name
        assert "hierarchy" in checks["tables"].detail


def test_levels_nobody_asked_for(tmp_path: Path) -> None:
    plain = published(tmp_path / "p", conf_with(release={"group_by": ["tract"], "groups": ["a", "b"]}))
    manifest = json.loads((plain / "manifest.json").read_text())
    manifest["files"]["hierarchy.parquet"] = manifest["files"]["scaled.parquet"]
    (plain / "manifest.json").write_text(json.dumps(manifest))
    shutil.copy(plain / "scaled.parquet", plain / "hierarchy.parquet")
    with pytest.raises(Exception, match="do not fit"):
        verify(plain)


def _changed(release: Path, place: Path, table: pa.Table | None) -> Path:
    """A copy with another table of levels, whose hash and digest the manifest has; the spec is as it was."""
    shutil.copytree(release, place)
    manifest, file = json.loads((place / "manifest.json").read_text()), place / "hierarchy.parquet"
    file.unlink()
    del manifest["files"]["hierarchy.parquet"]
    if table is not None:
        pq.write_table(table, file)
        manifest["release"]["levels_sha256"] = digest_of_groups(Hierarchy.of_table(table).texts)
        manifest["files"]["hierarchy.parquet"] = {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    (place / "manifest.json").write_text(json.dumps(manifest))
    return place


def test_smoothed_levels_of_matrices(release: Path, tmp_path: Path) -> None:
    """Each level has its own table, raw values those of its own matrices; they are written, too."""
    rel = read_release(release)
    found = rel.smooth(formula=FORMULA)
    assert list(found.levels) == ["county", "state"]
    county = found.levels["county"].to_frame()
    assert county.columns[:3].tolist() == ["state", "county", "term"]
    here = county[county.county == "09001"].set_index("term")
    assert here.raw.to_dict() == pytest.approx(dict(rel.group(county="09001").regress(FORMULA).params))
    assert isinstance(rel.level("county").content, LevelContent)
    assert (here.std_error <= here.noise_std * 1.2).all()
    found.write(tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["levels"]["state"]["noise"]["formula"] == FORMULA


def test_a_level_against_a_release_of_it_alone(tmp_path: Path) -> None:
    """At the same budget a sum of k matrices has √k times the noise of one of all their rows: that is the price of tracts."""
    tracts = read_release(published(tmp_path / "t", conf()))
    alone = conf(release={"group_by": ["state"], "groups": ["08", "09", "10"]})
    states = read_release(published(tmp_path / "s", alone))
    for state, parts in (("08", 1), ("09", 4), ("10", 2)):
        both = [rel.group(state=state).noise.diagonal_std for rel in (tracts, states)]
        assert both[0] == pytest.approx(both[1] * parts**0.5)
