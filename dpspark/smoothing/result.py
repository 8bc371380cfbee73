"""Smoothed groups in the hands of an analyst: a table, the model, and files of both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from dpspark.analysis.result import Answer, without_nan
from dpspark.bundle.names import plain_name
from dpspark.errors import ConfError, OutputError
from dpspark.show.tables import Part

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SHOWN = 10
FILES = ("smoothed.parquet", "smoothed.csv", "model.json")
BESIDE = ("rows", "rows_noise_std")  # of the lines of coarser levels: in the files, and too wide for a terminal


def read_smoothed(folder: str | Path) -> SmoothedGroups:
    """Read what `dpspark smooth` wrote into a directory."""
    home = Path(folder)
    try:
        table = pq.ParquetFile(home / FILES[0]).read()
        model = json.loads((home / FILES[2]).read_text("utf-8"))
        models = model.pop("levels", {}) if isinstance(model, dict) else {}
        coarser = {name: pq.ParquetFile(home / level_files(name)[0]).read() for name in models}
    except OSError:
        raise ConfError(
            f"{str(home)!r}: no {FILES[0]} and {FILES[2]} there. Run: dpspark smooth RELEASE -o DIR"
        ) from None
    except ValueError:
        raise ConfError(f"{str(home)!r}: its files are not those of dpspark smooth.") from None
    try:
        title = "{name} {version}".format(**model["release"])
    except (KeyError, TypeError):
        raise ConfError(f"{str(home)!r}: its {FILES[2]} is not that of dpspark smooth.") from None
    levels = {name: SmoothedGroups(each, models[name], title) for name, each in coarser.items()}
    return SmoothedGroups(table, model, title, levels)


def level_files(level: str) -> list[str]:
    """Name the files of a coarser level. A name that leads to another directory is a ValueError."""
    return [f"smoothed_{plain_name(level)}.parquet", f"smoothed_{level}.csv"]


class SmoothedGroups(Answer):
    """Estimates of all groups that borrow strength from each other, beside the raw ones. Post-processing: no cost."""

    def __init__(
        self, table: pa.Table, model: dict[str, Any], title: str, levels: Mapping[str, SmoothedGroups] | None = None
    ):
        self.table, self.model, self.title = table, model, title
        self.levels = dict(levels or {})  # the coarser levels of a hierarchy, by name

    def to_frame(self) -> pd.DataFrame:
        """All rows, for pandas."""
        return self.table.to_pandas()

    def to_dict(self) -> dict[str, Any]:
        levels = {name: each.to_dict() for name, each in self.levels.items()}
        own = without_nan({"model": self.model, "smoothed": self.table.to_pylist()})
        return {**own, "levels": levels} if levels else own

    @property
    def notes(self) -> list[str]:
        """Lines that a reader of the table should know."""
        model, label = self.model, next(iter(self.model["between"][0]))
        differ = ", ".join(
            f"{each['std']:.3g} ({each['low']:.3g} to {each['high']:.3g}) at {label} = {each[label]}"
            for each in model["between"]
        )
        rows = {
            "expected": "Every group is taken to have release.expected_rows rows: what each has was not paid for.",
            "public": "Numbers of rows are those of the covariates.",
        }.get(model["noise"].get("rows", ""), "")
        law = "The spread of rows around lines is a public guess." if model["noise"].get("law") == "guessed" else ""
        left_out = "Covariates are left out: too few groups have values." if model.get("covariates_left_out") else ""
        count = model["fit_badly"]
        badly = (
            f"{count:,} {'group fits' if count == 1 else 'groups fit'} the model badly: see status." if count else ""
        )
        return [
            model["statement"],
            *([] if model["groups_differ"] is None else [f"Standard deviation between groups: {differ}"]),
            f"Aims at: {model['target']}",
            *(line for line in (rows, law, left_out, badly) if line),
        ]

    def parts(self) -> list[Part]:
        more = self.table.num_rows - SHOWN
        hidden = {"expected", "noise_std", *(("target", *BESIDE) if BESIDE[0] in self.table.column_names else ())}
        shown = [name for name in self.table.column_names if name not in hidden]
        head = self.table.select(shown).slice(0, SHOWN).to_pandas().to_string(index=False, float_format="{:.4g}".format)
        rest = [f"... {more:,} more rows"] if more > 0 else []
        said = [self.title, f"{self.model['groups']:,} groups, smoothed", "", *head.splitlines(), *rest, *self.notes]
        for name, each in self.levels.items():
            first, *others = each.parts()[1:]
            said += ["", f"Level {name}: {first}", *others]
        return said

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw a funnel: raw and smoothed values of the first number, by how much each group says itself."""
        from matplotlib import pyplot as plt

        axes = plt.subplots()[1] if ax is None else ax
        label = next(iter(self.model["between"][0]))
        first = self.model["between"][0][label]
        frame = self.to_frame()
        frame = frame[frame[label] == first]
        own = 1 - frame["shrinkage"]
        axes.plot(own, frame["raw"], ".", color="0.7", label="raw")
        axes.plot(own, frame["estimate"], ".", color="C0", label="smoothed")
        axes.set_xlabel("weight of the group's own value (1 − shrinkage)")
        axes.set_ylabel(f"value at {label} = {first}")
        axes.legend()
        return axes

    def write(self, folder: str | Path) -> list[Path]:
        """Write smoothed.parquet, smoothed.csv and model.json into a directory; none of them is written over.

        Levels of a hierarchy have files of their own: smoothed_county.parquet and smoothed_county.csv.
        """
        home = Path(folder)
        own = {FILES[0]: self.table, FILES[1]: self.table}
        for name, each in self.levels.items():
            own |= dict.fromkeys(level_files(name), each.table)
        paths = [*(home / name for name in own), home / FILES[2]]
        model = {
            **self.model,
            **({"levels": {name: each.model for name, each in self.levels.items()}} if self.levels else {}),
        }
        try:
            home.mkdir(parents=True, exist_ok=True)
            for path in paths:
                if path.exists():
                    raise OutputError(f"{str(path)!r} is there already. Choose another directory, or remove it.")
            for path, table in zip(paths, own.values(), strict=False):
                (pq.write_table if path.suffix == ".parquet" else pyarrow.csv.write_csv)(table, path)
            paths[-1].write_text(json.dumps(without_nan(model), indent=2, ensure_ascii=False) + "\n", "utf-8")
        except OSError as error:
            raise OutputError(f"{str(home)!r}: {error.strerror}. Choose another directory.") from None
        return paths
