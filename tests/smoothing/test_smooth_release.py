"""`dpspark smooth` and `rel.smooth`: from a published release to the table of an office. Without Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.errors import ConfError, OutputError
from dpspark.exact.histogram import ExactHistogram
from dpspark.privacy.keyed import KeyedRandom
from dpspark.published.reading import read_release
from dpspark.releasing.manifest import build_manifest
from dpspark.releasing.tables import group_counts_table, hierarchy_table, line_cells_table, predictions_table
from dpspark.spark.group_counts import row_cells, scaled_lines
from dpspark.spec.choose import choose_lines
from dpspark.spec.extras import counted_groups
from dpspark.spec.spec import load_spec
from dpspark.verifying.verification import verify
from tests.commands import exit_code
from tests.kinds_of_release import ONE, QUANTILES, TWO
from tests.noises import SeededNoise
from tests.report.bundles import conf_with, groups_of, published, put

GROUPS = 60
COLUMNS = ["raw", "estimate", "std_error", "ci_low", "ci_high", "moe90", "cv", "shrinkage", "suppressed", "status"]
BY = {"group_by": ["tract"], "groups": [f"{i:02d}" for i in range(GROUPS)]}
LINE = {"kind": "theil_sen", "x": "age", "y": "income", "target": "mean", **BY}


def tracts(seed: int = 3) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Groups of 0 to 300 rows, and their true incomes at the ages of 38.25 and 78.75."""
    rng = np.random.default_rng(seed)
    rows = [0, 1, *rng.integers(40, 300, GROUPS - 2)]
    ends = np.array([60_000, 110_000]) + 5_000 * rng.standard_normal((GROUPS, 2))
    found = []
    for (low, high), count in zip(ends, rows, strict=True):
        age = rng.uniform(18, 99, count)
        found.append((age, low + (high - low) * (age - 38.25) / 40.5 + 25_000 * rng.standard_normal(count)))
    return found, ends


def lines(place: Path, counts: bool = True, epsilon: float = 40.0, **release: Any) -> Path:
    """Publish the lines of these groups, and their counts if they are paid for."""
    extra = {"group_counts": {}} if counts else {}
    conf = conf_with(
        columns=TWO,
        release={**LINE, **extra, **release},
        privacy={"epsilon": epsilon, "delta": None},
        mechanism={"name": "gram"},
    )
    spec, (groups, _) = load_spec(conf), tracts()
    mechanism, noise = choose_lines(spec), SeededNoise(np.random.default_rng(5))
    fits = [mechanism.kernel.fit(x, y, KeyedRandom(bytes(32)), i) for i, (x, y) in enumerate(groups)]
    listed = groups_of(spec)
    tables = {"predictions": predictions_table(listed, fits)}
    if counts:
        counted, plane = counted_groups(spec), mechanism.plane
        code = np.repeat(np.arange(GROUPS), [len(x) for x, _ in groups])
        x, y = (np.concatenate(part) for part in zip(*groups, strict=True))
        at = row_cells(plane, counted.cells, scaled_lines(plane, fits), code, x, np.clip(y, 0, 200_000))
        exact = [np.bincount(code, minlength=GROUPS), np.bincount(at, minlength=counted.cells.count)]
        noisy = counted.release(ExactHistogram(counted.axes(GROUPS), exact), noise)
        tables["group_counts"], tables["line_cells"] = (
            group_counts_table(listed, noisy),
            line_cells_table(counted.cells, noisy),
        )
    if spec.release.levels is not None:
        tables["hierarchy"] = hierarchy_table(spec.release.levels, listed)
    return put(place, build_manifest(spec, mechanism, {}, "entry", "none", listed), tables)


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate less: what is tested here does not depend on it."""
    monkeypatch.setattr("dpspark.smoothing.lines.DRAWS", 150)
    monkeypatch.setattr("dpspark.smoothing.simulation.SPREAD_DRAWS", 15)
    monkeypatch.setattr("dpspark.smoothing.simulation.CALM_DRAWS", 5)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lines(tmp_path_factory.mktemp("lines"))


def test_the_table_of_an_office(release: Path, tmp_path: Path, capsys: Any) -> None:
    """Files with the columns of the contract, every group, and intervals that hold. Kills: units of y forgotten."""
    assert exit_code("smooth", str(release), "-o", str(tmp_path / "out"), "--level", "0.9") == 0
    assert "60 groups, smoothed" in capsys.readouterr().out
    table = pq.read_table(tmp_path / "out" / "smoothed.parquet")
    assert table.column_names == ["tract", "x", *COLUMNS, "target", "expected", "noise_std"]
    assert table["suppressed"].type == pa.bool_()
    frame, truth = table.to_pandas(), tracts()[1]
    assert frame.tract.tolist() == [f"{i:02d}" for i in range(GROUPS) for _ in "ab"]
    assert set(frame.x) == {38.25, 78.75}
    assert frame.estimate.notna().all()
    errors = frame.estimate.to_numpy().reshape(-1, 2) - truth
    raw = frame.raw.to_numpy().reshape(-1, 2) - truth
    usable = np.isfinite(raw).all(axis=1)
    assert np.sqrt((errors[usable] ** 2).mean()) < np.sqrt((raw[usable] ** 2).mean())
    held = (abs(errors) <= (frame.ci_high - frame.estimate).to_numpy().reshape(-1, 2)).mean()
    assert 0.8 < held <= 1.0  # of 90% intervals; the seed is fixed
    assert (frame.shrinkage[:4] > 0.9).all()  # no rows, or one
    assert (frame.moe90 / frame.std_error).std() < 1e-9
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert model["groups_differ"] is True
    assert (model["level"], model["target"]) == (0.9, "mean")
    assert model["noise"]["rows"] == model["noise"]["law"] == "paid"
    assert [3_500 < each["std"] < 7_000 for each in model["between"]] == [True, True]
    assert pd.read_csv(tmp_path / "out" / "smoothed.csv").shape == frame.shape
    assert exit_code("smooth", str(release), "-o", str(tmp_path / "out")) == 4  # nothing is written over
    assert verify(release).passed


@pytest.mark.parametrize("table", ["group_counts", "line_cells"])
@pytest.mark.parametrize("added", [0.5, float("nan")])
def test_counts_that_no_noise_makes_do_not_verify(release: Path, tmp_path: Path, table: str, added: float) -> None:
    """Kills: a number of rows that is not whole, and passes."""
    place = shutil.copytree(release, tmp_path / "copy")
    found = pq.read_table(place / f"{table}.parquet")
    at = found.column_names.index("rows")
    pq.write_table(found.set_column(at, "rows", pa.array(found["rows"].to_numpy() + added)), place / f"{table}.parquet")
    assert "rows are not whole numbers" in str(verify(place))


def test_it_repeats_and_levels_count(release: Path) -> None:
    rel = read_release(release)
    first, wider = rel.smooth(), rel.smooth(level=0.99)
    assert first.to_frame().equals(rel.smooth().to_frame())
    assert (wider.to_frame().ci_high > first.to_frame().ci_high).all()
    assert first.to_dict()["model"]["level"] == 0.95
    assert "Standard deviation between groups" in str(first)
    raw, smoothed = first.plot().get_lines()
    assert len(raw.get_ydata()) == len(smoothed.get_ydata()) == GROUPS
    assert np.std(smoothed.get_ydata()) < np.nanstd(raw.get_ydata())


def test_covariates(release: Path, tmp_path: Path) -> None:
    """From a file or a frame, by key in any order; text becomes columns; `rows` are public numbers. Kills: rows by position."""
    truth, rel = tracts()[1], read_release(release)
    frame = pd.DataFrame({"tract": BY["groups"], "level": truth.mean(axis=1), "side": ["n", "s"] * 30}).sample(
        frac=1.0, random_state=1
    )
    frame.to_csv(tmp_path / "c.csv", index=False)
    told = rel.smooth(str(tmp_path / "c.csv"))
    assert told.model["covariates"] == ["(intercept)", "level", "side[s]"]
    assert told.to_frame().equals(rel.smooth(frame).to_frame())
    errors = [
        np.sqrt(((each.to_frame().estimate.to_numpy().reshape(-1, 2) - truth) ** 2).mean())
        for each in (told, rel.smooth())
    ]
    assert errors[0] < 0.9 * errors[1]
    public = rel.smooth({"tract": BY["groups"], "rows": [len(x) for x, _ in tracts()[0]]})
    assert public.model["noise"]["rows"] == "public"
    assert public.model["covariates"] == ["(intercept)"]


@pytest.mark.parametrize(
    ("covariates", "said"),
    [
        ({"place": ["00"], "z": [1]}, "no column 'tract'"),
        ({"tract": ["00", "01"], "z": [1, 2]}, "58 of 60 groups have no row"),
        ({"tract": ["00", *BY["groups"]], "z": [1] * 61}, "has two rows"),
        ({"tract": BY["groups"], "z": [None] * 60}, "z has no value"),
        ({"tract": BY["groups"], "z": [float("inf")] * 60}, "no finite number"),
        ({"tract": BY["groups"], "rows": ["x"] * 60}, "numbers from 0 up"),
        ({"tract": BY["groups"]}, "no column beside tract"),
        ("nowhere.csv", "nowhere.csv"),
    ],
)
def test_covariates_that_do_not_fit_are_refused(release: Path, covariates: Any, said: str) -> None:
    with pytest.raises(ConfError, match=said):
        read_release(release).smooth(covariates)


def test_covariates_as_spreadsheets_write_them(release: Path, tmp_path: Path) -> None:
    """Kills: a mark of the encoding that becomes part of the first name; a value too many that becomes a covariate."""
    rows = [f"{tract},{i}" for i, tract in enumerate(BY["groups"])]
    place = tmp_path / "c.csv"
    place.write_text("\n".join(["tract,z", *rows]), "utf-8-sig")
    assert read_release(release).smooth(place).model["covariates"] == ["(intercept)", "z"]
    place.write_text("\n".join(["tract,z", *rows]) + ",9", "utf-8")
    with pytest.raises(ConfError, match="more values than there are columns"):
        read_release(release).smooth(place)


def test_a_group_column_with_the_name_of_a_smoothed_one(tmp_path: Path) -> None:
    """Kills: keys that are written over by values."""
    by = {"group_by": ["raw"], "groups": [f"{i}" for i in range(8)]}
    rel = read_release(published(tmp_path, conf_with(release=by, privacy={"epsilon": 8.0})))
    with pytest.raises(ConfError, match="'raw' is a column of groups"):
        rel.smooth()


def test_without_counts(tmp_path: Path) -> None:
    """Expected rows will do, and are said; without them it is refused. Kills: a guess that nobody is told of."""
    with pytest.raises(ConfError, match=r"release\.group_counts"):
        read_release(lines(tmp_path / "none", counts=False)).smooth()
    found = read_release(lines(tmp_path / "expected", counts=False, expected_rows=150)).smooth()
    assert (found.model["noise"]["rows"], found.model["noise"]["law"]) == ("expected", "guessed")
    assert any("expected_rows" in note for note in found.notes)
    assert any("public guess" in note for note in found.notes)


@pytest.mark.parametrize("kind", ["gram", "regression"])
def test_matrices_and_regressions_by_group(kind: str, tmp_path: Path) -> None:
    """Coefficients of each group, by term. Kills: terms of one group beside the values of another."""
    by = {"group_by": ["tract"], "groups": [f"{i}" for i in range(8)]}
    conf = conf_with(release={**(ONE if kind == "regression" else {}), **by}, privacy={"epsilon": 8.0})
    rel = read_release(published(tmp_path, conf))
    formula = "income ~ age + educ" if kind == "gram" else None
    found = rel.smooth(formula=formula).to_frame()
    assert found.columns.tolist() == ["tract", "term", *COLUMNS, "target", "expected", "noise_std"]
    one = rel.group(tract="3").regress(formula).params
    here = found[found.tract == "3"].set_index("term")
    assert here.raw.to_dict() == pytest.approx(dict(one))
    assert set(found.target) == {"least squares"}
    age = found[found.term == "age"]
    assert age.estimate.std() < age.raw.std()  # the groups are made alike
    if kind == "gram":
        assert rel.smooth().model["noise"]["formula"]  # an example of its own
    with pytest.raises(ConfError, match="rows is for lines"):  # kills: public numbers of rows that do nothing
        rel.smooth({"tract": by["groups"], "rows": [100] * 8}, formula=formula)


def test_covariates_that_are_left_out_are_told(tmp_path: Path) -> None:
    """Five groups do not bear two covariates. Kills: covariates that are ignored without a word."""
    by = {"group_by": ["tract"], "groups": [f"{i}" for i in range(5)]}
    rel = read_release(published(tmp_path, conf_with(release=by, privacy={"epsilon": 8.0})))
    rng = np.random.default_rng(1)
    found = rel.smooth(
        {"tract": by["groups"], **{name: rng.standard_normal(5) for name in "ab"}}, formula="income ~ age"
    )
    assert (found.model["covariates"], found.model["covariates_left_out"]) == (["(intercept)"], ["a", "b"])
    assert "Covariates are left out: too few groups have values." in found.notes
    one = rel.smooth({"tract": by["groups"], "a": rng.standard_normal(5)}, formula="income ~ age")
    assert one.model["covariates_left_out"] == ["a"]  # of five groups, too


def test_what_cannot_be_smoothed_is_refused(tmp_path: Path, release: Path) -> None:
    two = {"group_by": ["tract"], "groups": ["a", "b"]}
    kinds = {
        "fewer than 3 groups": published(tmp_path / "1", conf_with(release=two, privacy={"epsilon": 8.0})),
        "of kind gram without groups": published(tmp_path / "2", conf_with()),
        "of kind quantiles": published(tmp_path / "3", conf_with(release={**QUANTILES, **two}, columns=TWO)),
        "this one has one line": published(
            tmp_path / "4", conf_with(release={**LINE, "group_by": None, "groups": None}, columns=TWO)
        ),
    }
    for said, path in kinds.items():
        with pytest.raises(ConfError, match=said):
            read_release(path).smooth()
    with pytest.raises(ConfError, match="no formula"):
        read_release(release).smooth(formula="income ~ age")
    with pytest.raises(ConfError, match="level"):
        read_release(release).smooth(level=7)
    with pytest.raises(OutputError, match="directory"):
        read_release(release).smooth().write(release / "manifest.json")
