"""Lines of coarser levels: means of those of groups by rows, with intervals. Without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dpspark.published.reading import read_release
from dpspark.smoothing.counts import averaged, likely_rows
from dpspark.smoothing.levels import groups_of_level, lines_of_level
from dpspark.smoothing.model import Areas, Smoothed, smooth
from dpspark.smoothing.problem import Problem, RowsOfGroups
from dpspark.smoothing.result import read_smoothed
from dpspark.smoothing.simulation import NoiseLaw
from dpspark.source.hierarchy import Hierarchy
from dpspark.verifying.verification import verify
from tests.commands import exit_code
from tests.smoothing.test_smooth_release import BY, GROUPS, fewer_draws, lines, tracts

LEVELS = ["state", "county", "tract"]
assert fewer_draws  # for all tests here, too


def nested() -> list[dict[str, str]]:
    """Eight counties in two states; one has the empty tract alone, and one that of a single row."""
    states = ["s0", "s1", *(f"s{i // 30}" for i in range(2, GROUPS))]
    counties = ["e0", "e1", *(f"c{i // 12}" for i in range(2, GROUPS))]
    rows = zip(states, map("".join, zip(states, counties, strict=True)), BY["groups"], strict=True)
    return [dict(zip(LEVELS, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lines(tmp_path_factory.mktemp("levels"), group_by=None, groups=nested(), hierarchy=LEVELS)


def test_files_of_every_level(release: Path, tmp_path: Path, capsys: Any) -> None:
    """Kills: counts of a level that do not add up; a level by position; rows that are forgotten; noise of k counts as of k²."""
    assert verify(release).passed
    assert exit_code("smooth", str(release), "-o", str(tmp_path / "out")) == 0
    said = capsys.readouterr().out
    assert "Level county: 8 groups" in said
    assert "Level state: 2 groups" in said
    assert "each keeps its own" in said
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"model.json", *(f"smoothed{x}.{y}" for x in ("", "_county", "_state") for y in ("csv", "parquet"))}
    finest, county, state = (
        pd.read_parquet(tmp_path / "out" / f"smoothed{x}.parquet") for x in ("", "_county", "_state")
    )
    assert finest.columns[:2].tolist() == ["tract", "x"]
    assert county.columns[:3].tolist() == ["state", "county", "x"]
    counts = pq.read_table(release / "group_counts.parquet").to_pandas()
    table = pd.DataFrame(nested()).assign(rows=counts["rows"], variance=counts["noise_std"] ** 2)
    for frame, by in ((county, ["state", "county"]), (state, ["state"])):
        own = frame[frame.x == frame.x.min()].set_index(by)["rows"]
        assert own.to_dict() == table.groupby(by)["rows"].sum().to_dict()  # to the last digit
        noise = frame[frame.x == frame.x.min()].set_index(by)["rows_noise_std"] ** 2
        assert noise.to_dict() == pytest.approx(table.groupby(by)["variance"].sum().to_dict())
    assert county.groupby("state")["rows"].sum().to_dict() == (state.groupby("state")["rows"].sum()).to_dict()
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert set(model["levels"]) == {"county", "state"}
    assert model["levels"]["county"]["target"] == "mean, averaged over tract by rows"
    again = read_smoothed(tmp_path / "out")
    assert list(again.levels) == ["county", "state"]
    assert again.levels["state"].to_frame().equals(state)
    assert exit_code("smooth", str(release), "-o", str(tmp_path / "out")) == 4  # nothing is written over


def test_empty_groups_and_single_ones(release: Path) -> None:
    """A county of an empty tract has what others say; one of a single tract has that one's value."""
    found = read_release(release).smooth()
    county, finest = found.levels["county"].to_frame(), found.to_frame()
    empty = county[county.county == "s0e0"]
    assert (empty.status == "from_model").all() or (empty.shrinkage > 0.5).all()
    assert np.isfinite(county.estimate).all()
    assert (county.std_error > 0).all()
    few = county[county.county == "s1e1"]  # of one row
    assert (few.std_error.to_numpy() > county[county.county == "s0c1"].std_error.to_numpy()).all()
    assert len(finest) == 2 * GROUPS
    truth, rows = tracts()[1], np.array([len(x) for x, _ in tracts()[0]])
    table = pd.DataFrame(nested()).assign(rows=rows, low=truth[:, 0] * rows, high=truth[:, 1] * rows)
    sums = table.groupby(["state", "county"], sort=False)[["rows", "low", "high"]].sum()
    means = (sums[["low", "high"]].to_numpy() / np.maximum(sums["rows"].to_numpy(), 1)[:, None])[2:]
    errors = county.estimate.to_numpy().reshape(-1, 2)[2:] - means
    assert (abs(errors) < 4.5 * county.std_error.to_numpy().reshape(-1, 2)[2:]).all()  # the seed is fixed


def test_the_finest_level_is_as_without_levels(release: Path, tmp_path: Path) -> None:
    """Kills: levels that change a draw of the simulation. The seed is the release's: made the same here."""
    plain = lines(tmp_path)
    with_levels, without = (json.loads((path / "manifest.json").read_text()) for path in (release, plain))
    without["spec_hash"] = with_levels["spec_hash"]
    one, other = read_release(release), read_release(plain)
    other.content.manifest["spec_hash"] = with_levels["spec_hash"]
    assert one.smooth().to_frame().equals(other.smooth().to_frame())


COUNTIES, EACH = 1500, 4


def world(scatter: float = 0.03, seed: int = 11) -> tuple[Problem, Hierarchy, np.ndarray, np.ndarray]:
    """Tracts in counties with noise whose law is known, by their rows; their true values and rows."""
    rng, count = np.random.default_rng(seed), COUNTIES * EACH
    rows = rng.integers(20, 200, count).astype(float)
    true = 0.5 + scatter * rng.standard_normal((count, 2))
    sizes = np.array([0.0, 10.0, 1000.0])
    noise = np.eye(2) * (0.6**2 / np.maximum(sizes, 10.0))[:, None, None]
    law = NoiseLaw(sizes, np.full(2, 0.5), noise, np.array([1.0, 0.0, 0.0]), np.zeros((3, 2)), np.zeros((3, 2, 2)))
    values = true + rng.standard_normal((count, 2)) * np.sqrt(law.at(rows)[0][:, 0, 0])[:, None]
    noisy = rows + rng.laplace(0, 8, count)
    likely = likely_rows(noisy, 8 * 2**0.5)
    covariance, wild = averaged(law, likely)
    areas = Areas(values, covariance, np.ones((count, 1)), 0.0, wild, 1.0)
    levels = Hierarchy(("county", "tract"), tuple((f"{i // EACH}", f"{i}") for i in range(count)))
    known = RowsOfGroups(noisy, 8 * 2**0.5, likely, law)
    table = pa.table({"county": [key[0] for key in levels.keys], "tract": [key[1] for key in levels.keys]})
    return Problem(table, areas, values, np.eye(2), 0.0, "x", [0, 1], "mean", ("1",), {}, known), levels, true, rows


def test_the_noise_of_a_mean_is_that_of_all_parts() -> None:
    """Against the mean of true values by true rows, which nobody knows. False alarm: 1e-6, for squares of normal errors.

    Kills: the noise of one part of four forgotten; equal weights, where groups differ much.
    """
    for scatter in (0.03, 0.3):
        problem, levels, true, rows = world(scatter)
        found, places = smooth(problem.areas), levels.places("county")
        truth = np.stack([np.bincount(places, rows * each) / np.bincount(places, rows) for each in true.T], axis=1)
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], truth.size)
        assert low < _squares(problem, found, levels, truth) < high
        assert problem.rows is not None
        if scatter == 0.03:
            heard = (np.arange(len(rows)) % EACH > 0)[:, None, None]
            forgetful = replace(problem.areas, noise=np.where(heard, problem.areas.noise, 0.0))
            broken = replace(problem, areas=forgetful)
        else:
            broken = replace(problem, rows=replace(problem.rows, likely=np.full((len(rows), 1), 100.0)))
        assert not low < _squares(broken, found, levels, truth) < high


def _squares(problem: Problem, found: Smoothed, levels: Hierarchy, truth: np.ndarray) -> float:
    """Add up squared errors, in standard deviations of what is said to be their noise."""
    level = lines_of_level(problem, found, levels, groups_of_level(problem.groups, levels, "county"), "county")
    std = np.sqrt(np.diagonal(level.areas.noise, axis1=1, axis2=2))
    return float((((level.areas.values - truth) / std) ** 2).sum())


def test_offsets_are_taken_off_and_their_error_is_shared() -> None:
    """Kills: an offset that is added; its uncertainty, which no average takes away, left out."""
    problem, levels, _, _ = world()
    assert problem.rows is not None
    off = replace(problem.rows.law, offset=np.full((3, 2), 0.01), offset_noise=np.tile(np.eye(2) * 1e-6, (3, 1, 1)))
    found = smooth(problem.areas)
    groups = groups_of_level(problem.groups, levels, "county")
    one, other = (
        lines_of_level(replace(problem, rows=rows), found, levels, groups, "county")
        for rows in (problem.rows, replace(problem.rows, law=off))
    )
    assert other.areas.values == pytest.approx(one.areas.values - 0.01)
    assert one.shared is not None
    assert other.shared is not None
    assert one.shared.max() == 0
    assert (np.diagonal(other.shared, axis1=1, axis2=2) >= 0.3e-6).all()


def test_wild_values_do_not_count() -> None:
    """A tract whose draw fell anywhere, beside three others. Kills: wild draws in the mean."""
    problem, levels, _, _ = world()
    values = problem.areas.values.copy()
    values[::EACH] = [0.02, 0.97]
    wild = np.where(np.arange(len(values)) % EACH == 0, 0.5, 0.0)
    areas = replace(problem.areas, values=values, wild=wild)
    found, groups = smooth(areas), groups_of_level(problem.groups, levels, "county")
    level = lines_of_level(replace(problem, areas=areas), found, levels, groups, "county")
    assert found.near[::EACH].max() < 0.01
    assert abs(level.areas.values.mean(axis=0) - 0.5).max() < 0.01
