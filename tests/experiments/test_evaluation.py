"""The papers' experiments as a machine: resumed where it was, the same numbers each time, refused where it must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.errors import ConfError
from experiments.command import evaluate
from experiments.experiment import Experiment, Setting, cell_key, find_experiments, generator_of
from experiments.noise import ExperimentNoise
from experiments.page import section
from experiments.runner import run_experiment


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


def test_of_a_file_its_content_matters(tmp_path: Path) -> None:
    """Kills: results of one file shown for another of the same name; cells lost because a directory moved."""
    experiment, cells = counting([]), []
    for folder, content in (("a", b"bike"), ("b", b"bike"), ("c", b"wine")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bike.parquet").write_bytes(content)
        cells.append({"size": 1, "file": str(tmp_path / folder / "bike.parquet")})
    keys = [cell_key(experiment, cell) for cell in cells]
    assert keys[0] == keys[1] != keys[2]
    draws = [generator_of(experiment, cell).random() for cell in cells]
    assert draws[0] == draws[1] != draws[2]


def test_cells_have_numbers_of_their_own() -> None:
    """Kills: one stream for all cells, whose errors would cancel."""
    assert len({generator_of(counting([]), {"size": size}).random() for size in range(20)}) == 20


def test_unknown_experiments_are_refused() -> None:
    with pytest.raises(ConfError, match="Known: bain-"):
        find_experiments(["bian"])
    assert [one.name for one in find_experiments(["bain"])] == [
        one.name for one in find_experiments([]) if one.name.startswith("bain-")
    ]


def test_data_that_no_experiment_knows_is_refused(tmp_path: Path) -> None:
    """Kills: a page that says --data over generated rows; an unexpected error for a file with other columns."""
    with pytest.raises(ConfError, match="no file that these experiments know"):
        evaluate(["bain-pums"], str(tmp_path), True, str(tmp_path / "out"), 1, lambda step: None)
    pq.write_table(pa.table({"kid": [1.0]}), tmp_path / "oi_cells.parquet")
    with pytest.raises(ConfError, match=r"oi_cells\.parquet' is not what --data needs"):
        evaluate(["alabi-tracts"], str(tmp_path), True, str(tmp_path / "out"), 2, lambda step: None)


def test_a_page_keeps_what_was_run_before(tmp_path: Path) -> None:
    """Kills: one experiment that takes the others off the page."""
    out = tmp_path / "out"
    for name in ("bain-sanity", "kalaja-ssp"):
        path = evaluate([name], None, True, str(out), 2, lambda step: None)
    text = Path(path).read_text()
    first, second = (text.index(f"python -m experiments {name} --quick`") for name in ("bain-sanity", "kalaja-ssp"))
    assert first < second


def test_names_are_unique_and_every_experiment_tells_its_story() -> None:
    every = find_experiments([])
    assert len({one.name for one in every}) == len(every)
    for one in every:
        assert one.figures or not one.paper  # none of real microdata
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
