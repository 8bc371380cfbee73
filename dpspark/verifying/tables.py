"""Whether the standard deviations beside released numbers are those of the manifest's noise, in the units of its bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.bundle.statistics import statistics_table
from dpspark.core.domain import domain_from_manifest
from dpspark.mechanisms.gram.noisy import noise_from_manifest
from dpspark.verifying.errors import expected_meats


def noise_fits(release: Content) -> bool | None:
    """Compare the standard deviations in the tables with the manifest's noise; None where no table has any."""
    if isinstance(release, GroupedContent):
        return _grouped(release)
    found = _expected(release)
    if found is None:
        return None
    name, expected = found
    fits = _same(release.tables[name], expected)
    if "squared_weights" in release.tables:
        fits = fits and _same(release.tables["squared_weights"], _squared_weights(release.manifest))
    for table, stds in expected_meats(release):
        fits = fits and _same(release.tables[table], stds)
    return fits


def _expected(release: Content) -> tuple[str, np.ndarray] | None:
    """Compute what a table's noise_std should be, in the order of its rows; with the table's name."""
    if isinstance(release, GramContent):
        table = release.tables["second_moment"]
        square = release.noise.entry_std(release.domain, release.matrix)
        at = {term: i for i, term in enumerate(release.terms)}
        rows, columns = ([at[term] for term in table[name].to_pylist()] for name in ("row", "col"))
        return "second_moment", square[rows, columns]
    if isinstance(release, RegressionContent) and release.noisy_statistics is not None:
        table = statistics_table(release.domain.terms, release.noisy_statistics)
        names = ["row", "col"]
        if table.select(names) != release.tables["statistics"].select(names):
            raise ValueError("other statistics than these")
        return "statistics", table["noise_std"].to_numpy()
    return None


def _grouped(release: GroupedContent) -> bool:
    """Check group after group; noise that does not depend on the data is the same in all of them."""
    name = "second_moment" if release.kind == "gram" else "statistics"
    table = release.tables[name]
    keys = list(release.group_by)
    first = [column[0] for column in (table[key] for key in keys)]
    rows = next((i for i in range(table.num_rows) if [table[key][i] for key in keys] != first), table.num_rows)
    if table.num_rows % rows:
        return False
    blocks = range(table.num_rows // rows)
    always = name == "statistics" or not noise_from_manifest(release.manifest["mechanism"]["noise"]).grows_with_data
    expected = None
    for block in blocks:
        part = table.slice(block * rows, rows)
        if expected is None or not always:
            found = _expected(_block(release, name, part, block))
            if found is None:
                return False
            expected = found[1]
        if not _same(part, expected):
            return False
    return True


def _block(release: GroupedContent, name: str, part: pa.Table, block: int) -> Content:
    """Take one group's table; a regression has coefficients too, a row for each term."""
    if name == "second_moment":
        return GramContent(release.path, release.manifest, {name: part})
    terms = release.domain.width - 1
    coefficients = release.tables["coefficients"].slice(block * terms, terms)
    return RegressionContent(release.path, release.manifest, {name: part, "coefficients": coefficients})


def _squared_weights(manifest: dict[str, Any]) -> np.ndarray:
    (part,) = (each for each in manifest["privacy"]["spending"] if each["stage"] == "squared weights")
    noise, domain = noise_from_manifest(part["noise"]), domain_from_manifest(manifest)
    return noise.entry_std(domain, np.zeros((domain.width, domain.width))).ravel()


def _same(table: pa.Table, expected: np.ndarray) -> bool:
    found = table["noise_std"].to_numpy()
    return found.shape == expected.shape and bool(np.allclose(found, expected, rtol=1e-9, atol=0.0, equal_nan=False))
