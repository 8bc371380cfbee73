"""Write docs/evaluation.md, docs/real-data.md and their pictures from the results of runs of `python -m experiments`.

python docs/evaluation.py RUN [RUN_WITH_DATA], the --out of a whole run, and of one with --data, whose findings are added where
they differ. `make docs-evaluation` does the first run: half an hour. What was not run stays on its page as it is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd

from experiments.experiment import Experiment, find_experiments
from experiments.page import PAGES, draw_plots, page, section

HERE = Path(__file__).parent
PICTURES = HERE / "evaluation"


def main(run: Path, with_data: Path | None = None) -> None:
    PICTURES.mkdir(exist_ok=True)
    for name in PAGES:
        file = HERE / f"{name}.md"
        before = _sections(file.read_text(encoding="utf-8"))
        sections = []
        for experiment in find_experiments([]):
            if experiment.page != name:
                continue
            if (run / f"{experiment.name}.parquet").exists():
                sections.append(_section(experiment, run, with_data))
            elif experiment.title in before:
                sections.append(before[experiment.title])
        file.write_text(page(name, sections, corrections="[corrections.md](corrections.md)"), encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """Cut a page into its sections, by their titles."""
    found = re.findall(r"^## (.+)\n(?:(?!^## ).*\n)*", text, re.M)
    parts = re.findall(r"^## .+\n(?:(?!^## ).*\n)*", text, re.M)
    return {title: part.rstrip("\n") + "\n" for title, part in zip(found, parts, strict=True)}


def _section(experiment: Experiment, run: Path, with_data: Path | None) -> str:
    table = pd.read_parquet(run / f"{experiment.name}.parquet")
    other = None if with_data is None else pd.read_parquet(with_data / f"{experiment.name}.parquet")
    if other is not None and experiment.findings(other) == experiment.findings(table):
        other = None
    for old in PICTURES.glob(f"{experiment.name}*.png"):
        old.unlink()
    plots = draw_plots(experiment, table, PICTURES)
    options = "" if experiment.paper else " --data DIR"
    return section(experiment, table, plots, f"{PICTURES.name}/", options, with_files=other)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
