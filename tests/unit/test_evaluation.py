"""The papers' experiments as a machine: resumed where it was, the same numbers each time, refused where it must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspark.errors import ConfError
from dpspark.evaluation.experiment import Experiment, Setting, cell_key, find_experiments, generator_of
from dpspark.evaluation.noise import ExperimentNoise
from dpspark.evaluation.page import section
from dpspark.evaluation.runner import run_experiment


def counting(done: list[Any], fail_at: int | None = None) -> Experiment:
    def measure(cell: dict[str, Any], random: np.random.Generator) -> list[dict[str, Any]]:
        if len(done) == fail_at:
            raise KeyboardInterrupt
        done.append(cell["size"])
        return [{"value": float(random.normal())}]

    return Experiment(
        name="count-cells",
        paper="Nobody",
        figures="figure 0",
        title="Counting",
        claim="Cells are counted.",
        cells=lambda setting: [{"size": size, "quick": setting.quick} for size in range(4)],
        measure=measure,
        plots=lambda table: {},
        findings=lambda table: f"{len(table)} cells.",
    )


def run(experiment: Experiment, out: Path, quick: bool = False) -> Any:
    return run_experiment(experiment, Setting(quick), out, 1, lambda step: None)


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """Kills: cells done again, or lost; another stream of numbers after a stop."""
    done: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        run(counting(done, fail_at=2), tmp_path)
    resumed = run(counting(done), tmp_path)
    assert done == [0, 1, 2, 3]
    assert resumed.value.tolist() == run(counting([]), tmp_path / "other").value.tolist()
    assert not list(tmp_path.rglob("*.part"))


def test_quick_cells_are_not_taken_for_full_ones(tmp_path: Path) -> None:
    done: list[Any] = []
    run(counting(done), tmp_path, quick=True)
    run(counting(done), tmp_path)
    assert len(done) == 8


def test_where_a_file_lies_does_not_matter() -> None:
    experiment = counting([])
    here, there = ({"size": 1, "file": f"{folder}/bike.parquet"} for folder in ("a", "b"))
    assert cell_key(experiment, here) == cell_key(experiment, there)
    assert generator_of(experiment, here).random() == generator_of(experiment, there).random()


def test_unknown_experiments_are_refused() -> None:
    with pytest.raises(ConfError, match="Known: bain-"):
        find_experiments(["bian"])
    found = [one.name for one in find_experiments(["bain", "bain-noise"])]
    assert found == ["bain-sanity", "bain-noise", "bain-simulated", "bain-pums"]


def test_names_are_unique_and_every_experiment_tells_its_story() -> None:
    every = find_experiments([])
    assert len({one.name for one in every}) == len(every)
    for one in every:
        assert one.figures
        assert one.claim.strip()
        keys = [cell_key(one, cell) for cell in one.cells(Setting())]
        assert len(set(keys)) == len(keys) > 0, one.name


def test_pages_keep_tables_and_wrap_text(tmp_path: Path) -> None:
    told = counting([])
    table = run(told, tmp_path)
    text = section(told, table, ["count-cells.png"], "evaluation/")
    assert "![Counting: count cells](evaluation/count-cells.png)" in text
    assert "**What we see.** 4 cells." in text


def test_noise_of_experiments_has_the_asked_scale() -> None:
    noise = ExperimentNoise(np.random.default_rng(5))
    assert np.std(noise.discrete_gaussian(1e6, 4000)) == pytest.approx(1e6, rel=0.05)
    assert np.mean(np.abs(noise.discrete_laplace(1e6, 4000))) == pytest.approx(1e6, rel=0.05)
    assert all(0 <= noise.below(10**30) < 10**30 for _ in range(100))
