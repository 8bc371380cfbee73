"""What an experiment is: cells of independent work, a measurement of each, plots and findings of all together."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dpspark
from dpspark.errors import ConfError
from dpspark.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Cell = dict[str, Any]  # parameters: text, numbers and booleans
Row = dict[str, Any]

# In the order of the page. Each module has one EXPERIMENT.
MODULES: tuple[str, ...] = (
    "bain_sanity",
    "bain_noise",
    "bain_simulated",
    "bain_pums",
    "kalaja_ssp",
    "kalaja_noise",
    "kalaja_mapping",
    "kalaja_order",
    "kalaja_intercept",
    "kalaja_clipping",
    "alabi_curves",
    "alabi_crossover",
    "alabi_tracts",
    "neunhoeffer_lines",
    "sheffet_figure1",
    "sheffet_spark",
)
# Those of real microdata, on a page of their own: modules real_*, whose experiments are named real-*.
REAL_MODULES: tuple[str, ...] = (
    "real_bounds",
    "real_categories",
    "real_identification",
    "real_errors",
    "real_groups",
    "real_levels",
    "real_refined",
    "real_clusters",
)


@dataclass(frozen=True)
class Setting:
    """What the user asked for."""

    quick: bool = False
    data: Path | None = None  # a directory with real files; without it, generated sets of the same shape

    def trials(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True)
class Experiment:
    """`cells` run in any order, in several processes, and are kept when done: a killed run goes on where it was.

    `measure` gets one cell and a generator of its own, and returns rows; what it needs beside must be in the cell.
    """

    name: str
    paper: str  # empty for one of real microdata, which no paper has
    figures: str
    title: str
    claim: str  # what the paper says, in our words; of real microdata, what is asked
    cells: Callable[[Setting], Sequence[Cell]]
    measure: Callable[[Cell, np.random.Generator], Sequence[Row]]
    plots: Callable[[pd.DataFrame], dict[str, Figure]]  # by name; the first part of a file name
    findings: Callable[[pd.DataFrame], str]  # Markdown: what we see, every number from the table
    on_spark: bool = False  # its cells run one after the other, in this process

    @property
    def page(self) -> str:
        """The page that it is on, a key of experiments.page.PAGES."""
        return "evaluation" if self.paper else "real-data"


def find_experiments(names: Sequence[str]) -> list[Experiment]:
    """Those named, or of a paper that is named (`real`: of real microdata); all if none is."""
    every = [import_module(f"experiments.{module}").EXPERIMENT for module in (*MODULES, *REAL_MODULES)]
    if not names:
        return every
    found: list[Experiment] = []
    for name in names:
        chosen = [one for one in every if one.name == name or one.name.startswith(f"{name}-")]
        if not chosen:
            raise ConfError(f"experiment {name!r}: not known. Known: {', '.join(one.name for one in every)}.")
        found += [one for one in chosen if one not in found]
    return found


def cell_key(experiment: Experiment, cell: Cell) -> str:
    """A name for its parameters. Of a data file the content matters, not where it lies."""
    plain = {key: _digest(value) if key == "file" else value for key, value in cell.items()}
    return hashlib.sha256(json.dumps([experiment.name, plain], sort_keys=True).encode()).hexdigest()[:24]


def _digest(file: str) -> str:
    found = os.stat(file)
    return _digest_of(file, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest_of(file: str, size: int, changed: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def kept_as(experiment: Experiment, cell: Cell) -> str:
    """The name of a cell's file. Other code measures it again."""
    return f"{cell_key(experiment, cell)}-{_code()}"


@lru_cache(maxsize=1)
def _code() -> str:
    """Of all of dpspark: a change of a mechanism changes what an experiment measures."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted([*Path(dpspark.__file__).parent.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def generator_of(experiment: Experiment, cell: Cell) -> np.random.Generator:
    """The same cell has the same numbers on every machine."""
    return np.random.default_rng(int(cell_key(experiment, cell), 16))
