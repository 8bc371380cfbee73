"""Whether released numbers agree with each other: those that follow from others, and those that have public limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.regression import RegressionContent
from dpspark.core.domain import Domain
from dpspark.exact.line_cells import LineCells
from dpspark.mechanisms.counts.clipped import LAWS_BY_NORM
from dpspark.mechanisms.counts.rows import RowCount, count_std, law_of_count
from dpspark.mechanisms.gram.coordinates import congruence_of
from dpspark.mechanisms.lines.plane import Plane
from dpspark.mechanisms.registry import regression_named
from dpspark.privacy.budget import Budget
from dpspark.verifying.errors import unlike_meats

CLOSE = 1e-9  # relative: of the same number, computed in another order
SOLVED = 1e-6  # of coefficients, on another machine's linear algebra
WORST_CONDITION = 1e9  # beyond, two machines may solve to different numbers


def follow(release: Content) -> Iterator[str]:
    """Find what is wrong with the numbers of tables whose rows are where they should be."""
    tables, domain = release.tables, release.domain
    if "scaled" in tables and not _same_matrices(tables, domain):
        yield "second_moment is not scaled, in original units"
    if "meat" in tables or "scaled_meat" in tables:
        yield from unlike_meats(release)
    if "statistics" in tables and not _solved(release, domain):
        yield "coefficients are not those of statistics"
    if "predictions" in tables and not _on_lines(tables["predictions"]):
        yield "predictions are not on their lines"
    if "predictions" in tables and release.manifest["mechanism"]["cuts"] != list(
        plane_of(release.manifest, domain).wanted
    ):
        yield "mechanism.cuts are not those of the spec"
    if "quantiles" in tables and not _within(tables["quantiles"], domain):
        yield "quantiles are outside the bounds of their columns"
    if "diagnostics" in tables and not _noise_of_shares(release, domain):
        yield "diagnostics: its noise_std is not the manifest's"
    if "group_counts" in tables and not _noise_of_groups(release):
        yield "group_counts or line_cells: its noise_std is not the manifest's"
    counted = [tables[name]["rows"].to_numpy() for name in ("group_counts", "line_cells") if name in tables]
    if not all(np.array_equal(rows, np.round(rows)) for rows in counted):  # nor is NaN
        yield "group_counts or line_cells: rows are not whole numbers"
    if not _noise_of_count(release.manifest):
        yield "monitoring: its noise_std is not the manifest's"


def _same_matrices(tables: dict[str, pa.Table], domain: Domain) -> bool:
    """Compare the two matrices: analysts see one, and regressions start from the other."""
    original, scaled = (
        tables[name]["value"].to_numpy().reshape(-1, domain.width, domain.width) for name in ("second_moment", "scaled")
    )
    back = congruence_of(domain)
    size = np.abs(back) @ np.abs(scaled) @ np.abs(back).T
    close = np.abs(original - back @ scaled @ back.T) <= CLOSE * size
    return bool(np.all(close)) and all(np.array_equal(m, m.transpose(0, 2, 1)) for m in (original, scaled))


def _solved(release: Content, domain: Domain) -> bool:
    """Tell whether coefficients follow from the noisy sums, where the mechanism makes them of these."""
    mechanism, terms = release.manifest["mechanism"], domain.width - 1
    solver = regression_named(mechanism["name"]).solver_of(mechanism)
    if solver is None or not solver.follows:
        return True
    statistics, coefficients = release.tables["statistics"], release.tables["coefficients"]
    groups = coefficients.num_rows // terms
    rows = statistics.num_rows // groups
    for group in range(groups):
        tables = {
            "statistics": statistics.slice(group * rows, rows),
            "coefficients": coefficients.slice(group * terms, terms),
        }
        one = RegressionContent(release.path, release.manifest, tables)
        assert one.noisy_statistics is not None
        if np.linalg.cond(one.noisy_statistics.squares) > WORST_CONDITION:
            continue
        if not solver.consistent(one.noisy_statistics.given(domain)):
            return False
        found = solver.published(one.noisy_statistics, domain)
        if not np.abs(found - one.published).max() <= SOLVED * max(1.0, np.abs(found).max()):
            return False
    return True


def plane_of(manifest: dict[str, Any], domain: Domain) -> Plane:
    asked, (x, y) = manifest["spec"]["release"], domain.numeric
    cuts, candidates = tuple(asked.get("cuts") or ()), asked.get("candidates")
    return Plane((x.lower, x.upper), (y.lower, y.upper), cuts, None if candidates is None else tuple(candidates))


def _on_lines(table: pa.Table) -> bool:
    """Check predictions where there is a slope: a single cut has none, and a group without a line has no numbers at all."""
    x, estimate, slope, intercept = (table[name].to_numpy() for name in ("x", "estimate", "slope", "intercept"))
    drawn = np.isfinite(slope)
    at = np.abs(intercept) + np.abs(slope * x) + np.abs(estimate)
    return bool(np.all(np.abs(intercept + slope * x - estimate)[drawn] <= CLOSE * at[drawn]))


def _within(table: pa.Table, domain: Domain) -> bool:
    bounds = {column.name: (column.lower, column.upper) for column in domain.numeric}
    limits = np.array([bounds[name] for name in table["column"].to_pylist()])
    estimate = table["estimate"].to_numpy()
    return not bool(np.any((estimate < limits[:, 0]) | (estimate > limits[:, 1])))


def _noise_of_shares(release: Content, domain: Domain) -> bool:
    """Check the noise of counts over the released number of rows; that of weighted rows is not published."""
    (part,) = (each for each in release.manifest["privacy"]["spending"] if each["stage"] == "diagnostics")
    found = release.tables["diagnostics"]["noise_std"].to_numpy()
    if not domain.first_entry_counts:
        return bool(np.all(found == found[0])) or bool(np.all(np.isnan(found)))
    table = release.tables.get("second_moment", release.tables.get("statistics"))
    assert table is not None
    rows, std = table["value"][0].as_py(), LAWS_BY_NORM[part["sensitivity"]["norm"]].std(part["scale"])
    expected = std / rows if rows >= 1 else math.nan
    return bool(np.allclose(found, expected, rtol=CLOSE, atol=0.0, equal_nan=True))


def _noise_of_count(manifest: dict[str, Any]) -> bool:
    """Check the noise of a number of rows that was paid for."""
    told = manifest.get("monitoring")
    part = next((each for each in manifest["privacy"]["spending"] if each["stage"] == "count"), None)
    if told is None or part is None:
        return part is None  # where it is free it is the matrix's own, or public
    law = law_of_count(Budget(rho=part["rho"]))
    expected = RowCount(law, part["sensitivity"]["value"], part["scale"]).noise_std
    return abs(told["noise_std"] - expected) <= CLOSE * expected


def cells_layout(manifest: dict[str, Any]) -> dict[str, list[Any]]:
    """List the cells of x and residuals that a manifest's extra has, as `releasing.tables` lays them out."""
    cells = _group_extra(manifest)["cells"]
    return LineCells(cells["x_cells"], cells["spread"]).columns()


def _noise_of_groups(release: Content) -> bool:
    """Check the noise of groups' numbers of rows and of cells that were paid for."""
    part = _group_extra(release.manifest)
    law = law_of_count(Budget(rho=part["rho"]))
    scales = {"group_counts": part["scale"], "line_cells": part["cells"]["scale"]}
    return all(
        np.allclose(release.tables[name]["noise_std"].to_numpy(), count_std(law, scale), rtol=CLOSE, atol=0.0)
        for name, scale in scales.items()
    )


def _group_extra(manifest: dict[str, Any]) -> dict[str, Any]:
    (part,) = (each for each in manifest["privacy"]["spending"] if each["stage"] == "group_counts")
    return part
