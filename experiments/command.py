"""A run of the experiments: what is not yet done, its plots and the pages that they are on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from dpspark.errors import ConfError, OutputError
from experiments.experiment import Setting, find_experiments
from experiments.page import draw_plots, page, section
from experiments.runner import run_experiment


def evaluate(
    names: Sequence[str],
    data: str | None,
    quick: bool,
    out: str,
    processes: int | None,
    report: Callable[[str], None],
) -> str:
    """Run what is not yet done, draw, and give the paths of the pages, a line each."""
    if data is not None and not Path(data).is_dir():
        raise ConfError(f"--data {data!r}: no such directory.")
    chosen, setting, folder = find_experiments(names), Setting(quick, Path(data) if data else None), Path(out)
    if data is not None and not any("file" in cell for one in chosen for cell in one.cells(setting)):
        raise ConfError(
            f"--data {data!r}: no file that these experiments know: see docs/evaluation.md for their names."
        )
    options = "".join([" --quick" if quick else "", " --data DIR" if data else ""])
    for experiment in chosen:
        table = run_experiment(experiment, setting, folder, processes or os.cpu_count() or 1, report)
        plots = draw_plots(experiment, table, folder)
        _written(folder / f"{experiment.name}.md", section(experiment, table, plots, options=options))
    return "\n".join(str(_page(folder, name)) for name in dict.fromkeys(one.page for one in chosen))


def _page(folder: Path, name: str) -> Path:
    """Write a page of all its experiments that were run into the folder, by this command or by earlier ones."""
    parts = [folder / f"{experiment.name}.md" for experiment in find_experiments([]) if experiment.page == name]
    place = folder / f"{name}.md"
    _written(place, page(name, [part.read_text(encoding="utf-8") for part in parts if part.exists()]))
    return place


def _written(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"--out {str(path.parent)!r}: {error.strerror}. Choose another directory.") from None
