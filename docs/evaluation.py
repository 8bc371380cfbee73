"""Write docs/evaluation.md and its pictures from the results of a whole run of `python -m experiments`.

python docs/evaluation.py RUN [RUN_WITH_DATA], the --out of a run, and of one with --data, whose findings are added where they
differ. `make docs-evaluation` does the first run: half an hour.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from experiments.experiment import find_experiments
from experiments.page import draw_plots, page, section

HERE = Path(__file__).parent
PICTURES = HERE / "evaluation"


def main(run: Path, with_data: Path | None = None) -> None:
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.png"):
        old.unlink()
    sections = []
    for experiment in find_experiments([]):
        table = pd.read_parquet(run / f"{experiment.name}.parquet")
        other = None if with_data is None else pd.read_parquet(with_data / f"{experiment.name}.parquet")
        if other is not None and experiment.findings(other) == experiment.findings(table):
            other = None
        plots = draw_plots(experiment, table, PICTURES)
        sections.append(section(experiment, table, plots, f"{PICTURES.name}/", with_files=other))
    text = page(sections, corrections="[corrections.md](corrections.md)")
    (HERE / "evaluation.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
