"""The pages of the experiments: for each the plots, the paper's claim or our question, and what we see."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.experiment import Experiment
from experiments.style import save

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 116
HEAD = """# The papers' experiments

Made by `python -m experiments`. Every experiment shows the paper's method as printed, its corrected form and dpspark's
default, at the same epsilon and delta unless it says so; where a paper is wrong, {corrections}
says how. The run writes the numbers behind each plot beside it, as Parquet.

Rows are generated, of the papers' sizes. With `--data DIR` real files are used where DIR has them:
`pums_ca_10000.parquet` (age, educ, income: a sample of the California PUMS), `acs2024_adults.parquet` (AGEP, SCHL,
PINCP: American Community Survey), `oi_cells.parquet` (parent_rank, kid_rank, cell: Opportunity Insights' tracts) and
`uci/NAME.parquet` (x1, x2, …, y: the UCI sets).
"""


REAL_HEAD = """# How good are the answers on real data

Made by `python -m experiments real --data DIR`, by the product's own code and defaults. Errors are total errors, bias
and privacy noise together, over the standard error of least squares on the same rows without privacy; the standard
error is the one that holds when variances differ (HC). A coverage is the share of nominal 95% intervals that hold the
truth. Seeds are fixed: the same cell has the same numbers on every machine.

DIR has `acs2024_adults.parquet` (American Community Survey 2024, adults with income: STATE, AGEP, SEX, RAC1P, SCHL,
MAR, WKHP, PINCP, WAGP) and `uci/NAME.parquet` (x1, x2, …, y: the UCI sets). Without `--data` rows are generated.
"""
PAGES = {"evaluation": HEAD, "real-data": REAL_HEAD}


def draw_plots(experiment: Experiment, table: pd.DataFrame, out: Path) -> list[str]:
    """The file names of an experiment's plots, drawn."""
    names = []
    for name, figure in experiment.plots(table).items():
        names.append(f"{experiment.name}-{name}.png" if name else f"{experiment.name}.png")
        save(figure, out / names[-1])
    return names


def section(
    experiment: Experiment,
    table: pd.DataFrame,
    plots: list[str],
    folder: str = "",
    options: str = "",
    with_files: pd.DataFrame | None = None,
) -> str:
    """`with_files`: the results of a run with --data, whose findings are added."""
    pictures = "\n\n".join(f"![{experiment.title}: {_spoken(name)}]({folder}{name})" for name in plots)
    command = f"`python -m experiments {experiment.name}{options}`"
    source = f"*{experiment.paper}, {experiment.figures}.*\n{command}" if experiment.paper else command
    head = f"## {experiment.title}\n\n{source}"
    parts = [
        head,
        _wrapped(f"**The {'paper' if experiment.paper else 'question'}.** {experiment.claim}"),
        pictures,
        _wrapped(f"**What we see.** {experiment.findings(table)}"),
        "" if with_files is None else _wrapped(f"**With real files (`--data`).** {experiment.findings(with_files)}"),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def page(name: str, sections: list[str], corrections: str = "docs/corrections.md") -> str:
    """Lay out a page of PAGES."""
    return PAGES[name].format(corrections=corrections) + "\n" + "\n".join(sections)


def _spoken(file: str) -> str:
    return file.removesuffix(".png").replace("-", " ")


def _wrapped(text: str) -> str:
    """Paragraphs in lines of a readable length; tables and lists as they are."""
    paragraphs = [inspect.cleandoc(part) for part in re.split(r"\n\s*\n", text.strip())]
    plain = (part if part.startswith(("|", "-", "!", "`")) else _filled(part) for part in paragraphs)
    return "\n\n".join(plain)


def _filled(paragraph: str) -> str:
    return textwrap.fill(" ".join(paragraph.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
