"""What each level of a hierarchy gets: coarser levels are made of the finest release, at no cost.

The variance of a mean of k lines is that of one over k; the noise of a sum of k matrices has k times the variance of one, and
is of k times the rows. All that is known of k is public: the table of the levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.planning.fits import number
from dpspark.planning.predict import Prediction, predict_gram, short_formula
from dpspark.show.tables import Grid, Part
from dpspark.spec.spec import Spec

if TYPE_CHECKING:
    from dpspark.planning.lines import Wrong
    from dpspark.planning.setting import Setting

BOTTOM_UP = "Levels: the finest gets all of the budget; coarser ones are made of it at no cost"
MOST_TERMS = 6


@dataclass(frozen=True)
class LevelPlan:
    """One level: its groups, how many finest groups each has, and the errors of what is made for it."""

    name: str
    groups: int
    parts: tuple[int, int, int]  # the least, the typical and the largest number of finest groups in a group
    rows: float  # that are expected in a typical group
    errors: tuple[tuple[str, float], ...] = ()  # of lines: typical errors, root mean square over the groups
    noise_std: float = math.nan  # of matrices: on an off-diagonal entry of columns scaled to [-1, 1]
    predictions: tuple[Prediction, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        least, typical, most = self.parts
        found: dict[str, Any] = {
            "level": self.name,
            "groups": self.groups,
            "finest_groups": {"least": least, "typical": typical, "most": most},
            "rows": self.rows,
        }
        if self.errors:
            found["errors"] = [{"what": what, "error": number(error)} for what, error in self.errors]
        if not math.isnan(self.noise_std):
            found["noise_std"] = self.noise_std
            found["regressions"] = [
                {
                    "formula": each.formula,
                    "status": each.status,
                    "std_errors": dict(zip(each.terms, map(number, each.std_errors), strict=True)),
                }
                for each in self.predictions
            ]
        return found


def line_levels(spec: Spec, rows: float, wrong: Sequence[Wrong]) -> tuple[LevelPlan, ...]:
    """Predict the errors of mean lines. How much groups' rows are off is not in it: it is small where groups are alike."""
    found = []
    for name, sizes in _levels(spec):
        share = math.sqrt(float((1 / sizes).mean()))
        errors = tuple((each.what, each.shown.total * share) for each in wrong)
        found.append(LevelPlan(name, len(sizes), _parts(sizes), rows * float(np.median(sizes)), errors))
    return tuple(found)


def gram_levels(setting: Setting) -> tuple[LevelPlan, ...]:
    """Predict the noise of summed matrices, and the regressions of a typical group of each level."""
    found = []
    for name, sizes in _levels(setting.spec):
        parts = _parts(sizes)
        guess = setting.guess.with_rows(setting.guess.rows * parts[1])
        fits = tuple(predict_gram(setting.gram, setting.domain, guess, each, parts[1]) for each in setting.formulas)
        std = setting.gram.noise.off_diagonal() * math.sqrt(parts[1])
        found.append(LevelPlan(name, len(sizes), parts, guess.rows, noise_std=std, predictions=fits))
    return tuple(found)


def level_parts(levels: Sequence[LevelPlan]) -> list[Part]:
    """Show the levels as tables; nothing where there are none."""
    if not levels:
        return []
    finest = levels[-1].name
    head = ["level", "groups", f"{finest} in each", "rows in each"]
    if levels[0].errors:
        cells = [[*head, *(what for what, _ in levels[0].errors)]]
        cells += [[*_cells(each), *(f"{error:.3g}" for _, error in each.errors)] for each in levels]
        return [BOTTOM_UP, Grid(cells)]
    cells = [[*head, "noise of an entry", "noise per row"]]
    cells += [[*_cells(each), f"{each.noise_std:.4g}", f"{each.noise_std / each.rows:.2g}"] for each in levels]
    return [BOTTOM_UP, Grid(cells), *_fits(levels)]


def _fits(levels: Sequence[LevelPlan]) -> list[Part]:
    shown: list[Part] = []
    for i, first in enumerate(levels[0].predictions):
        terms = first.terms[:MOST_TERMS]
        cells = [["standard errors", *terms]]
        cells += [[each.name, *map(_error, each.predictions[i].std_errors[: len(terms)])] for each in levels]
        shown += ["", short_formula(first.formula), Grid(cells)]
    return shown


def _error(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "none"


def _cells(each: LevelPlan) -> list[str]:
    least, typical, most = each.parts
    spread = f"{typical:,}" if least == most else f"{typical:,} ({least:,} to {most:,})"
    return [each.name, f"{each.groups:,}", spread, f"{each.rows:,.0f}"]


def _levels(spec: Spec) -> list[tuple[str, np.ndarray]]:
    """The levels, the coarsest first, and how many finest groups each group has."""
    levels = spec.release.levels
    return [] if levels is None else [(name, levels.sizes(name)) for name in levels.names]


def _parts(sizes: np.ndarray) -> tuple[int, int, int]:
    return int(sizes.min()), max(1, round(float(np.median(sizes)))), int(sizes.max())
