"""`dpspark series`: one regression through releases, in order, with bands and tests of no change."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import dpspark
from dpspark.errors import ConfError
from tests.commands import run
from tests.pools import FORMULA, people, released

VERSIONS = ("2026-09", "2026-10", "2026-12")


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three months out of four, of different people and one law."""
    output = tmp_path_factory.mktemp("months")
    for seed, version in enumerate(reversed(VERSIONS), 1):
        released(output, people(seed, 4000), seed, {"release/version": version})
    return output / "income"


def test_a_directory_of_versions_is_a_series(months: Path) -> None:
    """Kills: versions in another order; a release's numbers under another version; a gap that is not said."""
    found = dpspark.series([months], FORMULA, level=0.9)
    assert tuple(found.fits) == VERSIONS
    assert found.missing == ["2026-11"]
    for row in found.rows():
        fit = dpspark.read_release(months / row["version"]).regress(FORMULA, 0.9)
        assert row["estimate"] == fit.params[row["term"]]
        assert (row["ci_low"], row["ci_high"]) == fit.conf_int()[row["term"]]
    assert "Versions that are not there: 2026-11." in str(found)


def test_no_change_is_told_from_a_change(months: Path, tmp_path: Path) -> None:
    """Kills: a statistic that is always, or never, small. One law has p < 1e-6 once in a million."""
    tests = {row["term"]: row for row in dpspark.series([months], FORMULA).tests()}
    assert all(row["p_value"] > 1e-6 for row in tests.values())
    assert (tests["age"]["df"], tests["all but the intercept"]["df"]) == (2, 4)
    other = people(7, 4000)
    other["income"] = other["income"] + 1000 * (other["age"] - 50)
    place = released(tmp_path, other, 7, {"release/version": "2027-01"})
    changed = {row["term"]: row for row in dpspark.series([months, place], FORMULA).tests()}
    assert changed["age"]["p_value"] < 1e-6
    assert dpspark.series([months, place], FORMULA, overlap="unknown").tests() == []


def test_the_statistic_is_that_of_least_squares(months: Path) -> None:
    """Kills: weights that are not the inverse variances."""
    fits = list(dpspark.series([months], FORMULA).fits.values())
    values = np.array([fit.params["age"] for fit in fits])
    weights = np.array([fit.std_errors["age"] ** -2 for fit in fits])
    expected = (weights * (values - np.average(values, weights=weights)) ** 2).sum()
    found = {row["term"]: row["statistic"] for row in dpspark.series([months], FORMULA).tests()}
    assert found["age"] == pytest.approx(expected)


def test_the_command_prints_and_draws(months: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, "series", str(months), FORMULA, "--json", "-o", str(tmp_path / "a.svg"))
    assert code == 0
    assert json.loads(printed) == dpspark.series([months], FORMULA).to_dict()
    assert "2026-12" in (tmp_path / "a.svg").read_text() or "svg" in (tmp_path / "a.svg").read_text()
    assert run(capsys, "series", str(months), FORMULA, "-o", str(tmp_path / "a.csv"))[0] == 0
    with (tmp_path / "a.csv").open() as file:
        assert [row["version"] for row in csv.DictReader(file)] == list(VERSIONS) * 3
    assert run(capsys, "series", str(months), FORMULA, "-o", str(tmp_path / "a.csv"))[0] == 4
    assert run(capsys, "series", str(months), FORMULA, "-o", str(tmp_path / "a.txt"))[0] == 2


def test_a_copy_under_another_version_is_refused(months: Path, tmp_path: Path) -> None:
    """Kills: noise that is compared with itself, by which nothing ever changed."""
    copy = Path(shutil.copytree(months / "2026-09", tmp_path / "2027-01"))
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["release"]["version"] = "2027-01"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ConfError, match="2026-09 and 2027-01 are the same release"):
        dpspark.series([months, copy], FORMULA)


def test_what_is_unlike_is_said_or_refused(months: Path, tmp_path: Path) -> None:
    other = {"columns/income": {"lower": 0, "upper": 150_000}, "release/version": "2027-01"}
    clipped = released(tmp_path / "a", people(8, 4000), 8, other)
    lacking = released(tmp_path / "b", people(9, 400), 9, {"columns/sex": None, "release/version": "2027-02"})
    found = dpspark.series([months, clipped, lacking], FORMULA)
    assert list(found.left_out) == ["2027-02"]
    assert "income was bounded by 0 to 200,000 in 2026-09, 2026-10, 2026-12; 0 to 150,000 in 2027-01" in str(found)
    assert "income was bounded by" in str(dpspark.compare(months / "2026-09", clipped, FORMULA))
    assert "bounded by" not in str(dpspark.compare(months / "2026-09", months / "2026-10", FORMULA))
    for wrong in ([months, months / "2026-09"], [months / "2026-09"]):
        with pytest.raises(ConfError, match=r"twice|two releases"):
            dpspark.series(wrong, FORMULA)
    with pytest.raises(ConfError, match="none of the releases"):
        dpspark.series([months], "income ~ educ")
