"""dpspark evaluate: the papers' experiments, their plots and their page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from dpspark.errors import ConfError, OutputError
from dpspark.evaluation.experiment import Setting, find_experiments
from dpspark.evaluation.page import draw_plots, section, write_page
from dpspark.evaluation.runner import run_experiment

PAGE = "evaluation.md"


def evaluate(
    names: Sequence[str],
    data: str | None,
    quick: bool,
    out: str,
    processes: int | None,
    report: Callable[[str], None],
) -> str:
    """Run what is not yet done, draw, and give the path of the page."""
    if data is not None and not Path(data).is_dir():
        raise ConfError(f"--data {data!r}: no such directory.")
    chosen, setting, folder = find_experiments(names), Setting(quick, Path(data) if data else None), Path(out)
    sections = []
    for experiment in chosen:
        table = run_experiment(experiment, setting, folder, processes or os.cpu_count() or 1, report)
        plots = draw_plots(experiment, table, folder)
        sections.append(section(experiment, table, plots, ""))
    options = "".join([" --quick" if quick else "", " --data DIR" if data else ""])
    try:
        write_page(folder / PAGE, sections, f"dpspark evaluate{''.join(f' {name}' for name in names)}{options}")
    except OSError as error:
        raise OutputError(f"--out {out!r}: {error.strerror}. Choose another directory.") from None
    return str(folder / PAGE)
