"""Write docs/evaluation.md and its pictures from the results of a whole run of `dpspark evaluate`.

python docs/evaluation.py RUN, where RUN is the run's --out; `make docs-evaluation` does the run first: half an hour.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from dpspark.evaluation.experiment import find_experiments
from dpspark.evaluation.page import draw_plots, section, write_page

HERE = Path(__file__).parent
PICTURES = HERE / "evaluation"


def main(run: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.png"):
        old.unlink()
    sections = []
    for experiment in find_experiments([]):
        table = pd.read_parquet(run / f"{experiment.name}.parquet")
        sections.append(section(experiment, table, draw_plots(experiment, table, PICTURES), f"{PICTURES.name}/"))
    write_page(HERE / "evaluation.md", sections, "dpspark evaluate")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
