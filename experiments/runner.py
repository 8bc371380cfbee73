"""Run experiments cell by cell, in as many processes as there are cores; what is done is kept and not done again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpspark.errors import ConfError, DpsparkError, OutputError
from experiments.experiment import Cell, Experiment, Setting, generator_of, kept_as

if TYPE_CHECKING:
    import pandas as pd

Report = Callable[[str], None]


def run_experiment(experiment: Experiment, setting: Setting, out: Path, processes: int, report: Report) -> pd.DataFrame:
    """All rows of an experiment, also as <out>/<name>.parquet."""
    cells = list(experiment.cells(setting))
    kept = out / "cells" / experiment.name
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"--out {str(out)!r}: {error.strerror}. Choose another directory.") from None
    places = [kept / f"{kept_as(experiment, cell)}.parquet" for cell in cells]
    todo = [(cell, place) for cell, place in zip(cells, places, strict=True) if not place.exists()]
    started = time.monotonic()
    for done, _ in enumerate(_finished(experiment, todo, processes), len(cells) - len(todo) + 1):
        report(f"{experiment.name}: {done} of {len(cells)}, {time.monotonic() - started:.0f} s")
    table = _read_all(places)
    _write(table, out / f"{experiment.name}.parquet")
    return table


def _finished(experiment: Experiment, todo: Sequence[tuple[Cell, Path]], processes: int) -> Any:
    """One item for each cell that has just been done."""
    if experiment.on_spark or processes == 1 or len(todo) < 2:
        for cell, place in todo:
            _measure(experiment, cell, place)
            yield place
        return
    module = experiment.measure.__module__
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by the new processes: one cell, one core
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Fresh processes: a forked one would share the locks of libraries that were busy.
    with ProcessPoolExecutor(min(processes, len(todo)), mp_context=get_context("spawn")) as pool:
        running = [pool.submit(_measure_in, module, cell, place) for cell, place in todo]
        try:
            for future in as_completed(running):
                future.result()
                yield future
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _measure_in(module: str, cell: Cell, place: Path) -> None:
    _measure(import_module(module).EXPERIMENT, cell, place)


def _measure(experiment: Experiment, cell: Cell, place: Path) -> None:
    import pandas as pd

    try:
        rows = experiment.measure(cell, generator_of(experiment, cell))
    except (pa.ArrowException, KeyError, OSError):
        if "file" not in cell:
            raise
        raise ConfError(
            f"{cell['file']!r} is not what --data needs: see docs/{experiment.page}.md for its columns."
        ) from None
    shown = {key: value for key, value in cell.items() if key != "file"}
    _write(pd.DataFrame([{**shown, **row} for row in rows]), place)


def _write(table: pd.DataFrame, path: Path) -> None:
    """Whole or not at all: a killed run leaves no half a file under its name."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        table.to_parquet(aside, index=False)
        os.replace(aside, path)
    except OSError as error:
        raise OutputError(f"{str(path)!r}: {error.strerror}. Choose another --out.") from None


def _read_all(places: Sequence[Path]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([_read(place) for place in places], ignore_index=True)


def _read(place: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(place)
    except (OSError, ValueError):
        raise DpsparkError(f"{str(place)!r} cannot be read. Remove it and run again.") from None
