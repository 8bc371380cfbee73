"""Smooth a published release: from its tables to a table of estimates with intervals, and the model behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.options import check_level
from dpspark.bundle.files import HIERARCHY
from dpspark.bundle.schemas import SMOOTHED_NAMES
from dpspark.errors import ConfError
from dpspark.smoothing.coefficients import coefficients_problem
from dpspark.smoothing.levels import groups_of_level, lines_of_level, matrices_of_level
from dpspark.smoothing.lines import lines_problem
from dpspark.smoothing.model import BADLY, FEWEST_GROUPS, Areas, Smoothed, smooth, unsmoothed
from dpspark.smoothing.problem import Problem
from dpspark.smoothing.result import SmoothedGroups

# The noise of a group is known from all groups' rows, not from its own: its variance is off by 40% or so, as if it had been
# estimated with so many degrees of freedom.
DEGREES = 12
MOST_CV = 1 / 3  # a coefficient of variation above which an estimate is marked as suppressed
FEW = f"Fewer than {FEWEST_GROUPS} groups have values: each keeps its own, and the others have none."
OK, FROM_MODEL, FITS_BADLY = "ok", "from_model", "fits_badly"


def smooth_content(
    content: Content,
    covariates: Any = None,
    level: float = 0.95,
    formula: str | None = None,
    suppress_cv: float | None = None,
) -> SmoothedGroups:
    """Smooth what a release by group holds. `covariates` are public: a file, or columns by name, with the groups' keys.

    Of a release with a hierarchy, coarser levels too.
    """
    level = check_level(level)
    most = MOST_CV if suppress_cv is None else suppress_cv
    if not (0 < most < math.inf):
        raise ConfError(f"suppress_cv={most:g}: expected a coefficient of variation above 0, e.g. 0.3.")
    taken = [name for name in content.group_by if name in SMOOTHED_NAMES]
    if taken:
        raise ConfError(
            f"smooth: {taken[0]!r} is a column of groups, and of smoothed values. Release with another name."
        )
    problem = _problem(content, covariates, formula)
    try:
        found = smooth(problem.areas)
    except ValueError:
        raise ConfError(
            f"smooth: fewer than {FEWEST_GROUPS} groups have values: nothing to borrow strength from."
        ) from None
    model = {**_model(content, problem, found, level), "suppressed_if": f"cv above {most:.3g}"}
    levels = {}
    for name, coarser in _coarser(content, problem, found):
        drawn, few = _smooth_few(coarser.areas)
        told = {**_model(content, coarser, drawn, level), **({"statement": FEW, "groups_differ": None} if few else {})}
        table = _table(coarser, with_shared(drawn, coarser), level, most)
        levels[name] = SmoothedGroups(table, {**told, "suppressed_if": model["suppressed_if"]}, content.title)
    return SmoothedGroups(_table(problem, found, level, most), model, content.title, levels)


def _problem(content: Content, covariates: Any, formula: str | None) -> Problem:
    if isinstance(content, LinesContent):
        if formula is not None:
            raise ConfError("smooth: lines take no formula. Leave it out.")
        return lines_problem(content, covariates)
    if isinstance(content, GroupedContent):
        return coefficients_problem(content, covariates, formula)
    raise ConfError(
        f"smooth is for lines, regressions and matrices by group; this is a release of kind {content.kind}"
        + ("." if content.group_by else " without groups. Release with release.group_by.")
    )


def _coarser(content: Content, finest: Problem, found: Smoothed) -> Iterator[tuple[str, Problem]]:
    """Give the problem of every level above the groups, the finest of them first."""
    hierarchy = content.hierarchy
    for name in reversed(() if hierarchy is None else hierarchy.coarser):
        if isinstance(content, GroupedContent):
            yield name, matrices_of_level(content, finest, name)
        elif hierarchy is not None:
            groups = groups_of_level(content.published_tables[HIERARCHY], hierarchy, name)
            yield name, lines_of_level(finest, found, hierarchy, groups, name)


def _smooth_few(areas: Areas) -> tuple[Smoothed, bool]:
    """Smooth a level; where it has too few groups to borrow strength from, each keeps its own value. Say which."""
    try:
        return smooth(areas), False
    except ValueError:
        return unsmoothed(areas), True


def with_shared(found: Smoothed, problem: Problem) -> Smoothed:
    """Add the error that groups share: smoothing takes none of it away."""
    return found if problem.shared is None else replace(found, covariance=found.covariance + problem.shared)


def degrees_of(problem: Problem) -> np.ndarray:
    """Say how well the noise of each group is known. In a mean of several groups their own deviations average out."""
    return DEGREES * (np.ones(len(problem.raw)) if problem.parts is None else np.maximum(problem.parts, 1.0))


def _table(problem: Problem, found: Smoothed, level: float, most_cv: float) -> pa.Table:
    """A row for each group and number, with the columns of an office's table."""
    groups, count = len(problem.raw), len(problem.labels)
    estimate = problem.shift + found.values @ problem.shown.T
    variance = np.einsum("mj,gjk,mk->gm", problem.shown, found.covariance, problem.shown)
    std = np.sqrt(np.maximum(variance, 0.0))
    degrees = degrees_of(problem)[:, None]
    half = std * stats.t.isf((1 - level) / 2, degrees)
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = std / abs(estimate)
    badly = (abs(found.distance) > BADLY).any(axis=1)
    status = np.where(~problem.areas.known, FROM_MODEL, np.where(badly, FITS_BADLY, OK))
    at = pa.array(np.repeat(np.arange(groups), count))
    columns = {name: problem.groups[name].take(at) for name in problem.groups.column_names}
    columns[problem.label] = pa.array(problem.labels * groups)
    numbers = {
        "raw": problem.raw,
        "estimate": estimate,
        "std_error": std,
        "ci_low": estimate - half,
        "ci_high": estimate + half,
        "moe90": std * stats.t.isf(0.05, degrees),
        "cv": cv,
        "shrinkage": shrinkage_of(problem.shown, found),
    }
    columns |= {name: pa.array(values.ravel(), pa.float64()) for name, values in numbers.items()}
    columns["suppressed"] = pa.array(~(cv.ravel() <= most_cv), pa.bool_())
    columns["status"] = pa.array(np.repeat(status, count).tolist(), pa.string())
    columns["target"] = pa.array([problem.target] * (groups * count), pa.string())
    noise = np.einsum("mj,gjk,mk->gm", problem.shown, problem.areas.noise, problem.shown)
    noise = np.where(problem.areas.known[:, None], noise, np.nan)
    columns["expected"] = pa.array((problem.shift + found.expected @ problem.shown.T).ravel(), pa.float64())
    columns["noise_std"] = pa.array(np.sqrt(noise).ravel(), pa.float64())
    columns |= {name: pa.array(np.repeat(values, count), pa.float64()) for name, values in problem.beside.items()}
    return pa.table(columns)


def shrinkage_of(shown: np.ndarray, found: Smoothed) -> np.ndarray:
    """Say which part of how far groups differ is left unknown by a group's own values: groups × numbers, each from 0 to 1.

    For a single value it is the part of its distance from the mean that is taken away. Of several, each tells of the others,
    and no one of them is drawn by so much.
    """
    between = found.between.shape * np.outer(found.units, found.units)
    told = np.einsum("mj,gjk,kl,ml->gm", shown, found.kept, between, shown, optimize=True)
    all_of_it = np.einsum("mj,jk,mk->m", shown, between, shown)
    return np.clip(1 - told / np.where(all_of_it > 0, all_of_it, 1.0), 0.0, 1.0)


def _model(content: Content, problem: Problem, found: Smoothed, level: float) -> dict[str, Any]:
    """The model in numbers: what was fitted, how far groups differ, and how well the model describes them."""
    release, between = content.manifest["release"], found.between
    used = problem.covariates[: len(found.slopes)]
    low, high = between.interval(0.95)
    scaled = np.outer(found.units, found.units) * between.shape
    sizes = np.einsum("mj,jk,mk->m", problem.shown, scaled, problem.shown)
    distance = found.distance[problem.areas.known]
    said = (
        "Groups differ: the smoothed values follow their raw ones as far as these are known."
        if found.differ
        else "The groups do not differ measurably: what differs between them may be noise alone."
    )
    return {
        "release": {"name": release["name"], "version": release["version"], "spec_hash": content.manifest["spec_hash"]},
        "method": "empirical Bayes, Fay and Herriot, by moments",
        "groups": len(problem.raw),
        "with_values": int(problem.areas.known.sum()),
        "level": level,
        "target": problem.target,
        "covariates": list(used),
        "covariates_left_out": list(problem.covariates[len(used) :]),
        "coefficients": {
            str(label): dict(zip(used, row.tolist(), strict=True))
            for label, row in zip(problem.labels, (problem.shown @ found.slopes.T), strict=True)
        },
        "between": [
            {
                problem.label: label,
                "std": math.sqrt(max(0.0, between.size) * size),
                "low": math.sqrt(low * size),
                "high": math.sqrt(high * size),
            }
            for label, size in zip(problem.labels, sizes.tolist(), strict=True)
        ],
        "groups_differ": found.differ,
        "statement": said,
        "noise": problem.notes,
        "calibration": {f"within_{z:g}_std": float((abs(distance) < z).mean()) for z in (0.674, 1.645, 1.96)},
        "fit_badly": int((abs(found.distance) > BADLY).any(axis=1).sum()),
    }
