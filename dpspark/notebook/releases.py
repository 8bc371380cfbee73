"""A release of any kind as lines and tables, for a notebook. Post-processing of what was published: no cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.data.domain import domain_from_manifest
from dpspark.places import near
from dpspark.regression.covariance import covariance_of, covariance_std
from dpspark.regression.remarks import definition_lines, definitions, interval_remarks
from dpspark.regression.summary import decimals_of, fit_parts
from dpspark.released import (
    GramRelease,
    GroupedRelease,
    LinesRelease,
    QuantilesRelease,
    RegressionRelease,
    Release,
)
from dpspark.shown import Grid, Part, bound_texts

ENDS = 6  # rows at either end of a table that may have a hundred thousand
NOISE = "± is the standard deviation of the privacy noise"


def release_parts(release: Release) -> list[Part]:
    if isinstance(release, RegressionRelease):
        return [*fit_parts(release.fit()), *_about(release)]
    what: list[Part] = []
    if isinstance(release, GramRelease):
        what = _gram(release)
    elif isinstance(release, GroupedRelease):
        what = _grouped(release)
    elif isinstance(release, LinesRelease):
        what = _lines(release)
    elif isinstance(release, QuantilesRelease):
        what = [*_ends(release.tables["quantiles"]), *release.notes, "All of them: .quantiles(); a picture: .plot()"]
    defined = definition_lines(definitions(release.manifest))
    return [release._title(), *_about(release), *what, *defined]


def _about(release: Release) -> list[Part]:
    mechanism = release.manifest["mechanism"]
    return [
        f"Kind {release.kind} by {mechanism.get('kernel', mechanism['name'])}, in {near(release.path)}",
        str(release.manifest["guarantee"]),
    ]


def _gram(release: GramRelease) -> list[Part]:
    moments = release._moments()
    count_noise = math.sqrt(max(0.0, moments.noise.along(np.eye(len(moments.terms))[0], moments.scaled)[0, 0]))
    exact = moments.noise.count_is_exact
    rows = f"{'' if exact else 'About '}{max(0.0, moments.rows):,.0f} {'in weights' if moments.weighted else 'rows'}"
    spread = "" if exact else f" (± {count_noise:.2g})"
    numbers = [column.name for column in release._domain.numeric]
    response = _quoted(numbers[-1] if numbers else release.terms[-1])
    others = [name for name in (*numbers[:-1], *(block.name for block in release._domain.blocks)) if numbers]
    return [
        f"{rows}{spread}",
        Grid([["", "bounds", "", "mean", "±", "std. dev.", "±"], *_columns(release)]),
        f"{NOISE}. Means and deviations are of the values as bounded.",
        f"Next: .regress('{response} ~ {_quoted(others[0]) if others else 1}'), .correlation(), .pca(2), .plot()",
    ]


def _columns(release: GramRelease) -> list[list[str]]:
    """Each term with its public bounds, its mean and its spread, as released."""
    moments = release._moments()
    count, half = moments.rows if moments.rows > 0 else math.nan, moments.half[1:]
    scaled_means = moments.scaled[0, 1:] / count
    # To first order noise E moves a mean m_j by (E_0j − m_j·E_00) / n.
    cov = moments.noise.along(np.eye(len(moments.terms))[0], moments.scaled)
    moved = np.diag(cov)[1:] - 2 * scaled_means * cov[0, 1:] + scaled_means**2 * cov[0, 0]
    means, mean_std = moments.middle[1:] + half * scaled_means, half * np.sqrt(np.maximum(moved, 0.0)) / count
    variance = np.diag(covariance_of(moments.scaled))
    spread = half * np.sqrt(np.where(variance > 0, variance, np.nan))
    spread_std = half**2 * np.diag(covariance_std(moments)) / (2 * spread)
    bounds = {c.name: bound_texts(c.lower, c.upper) for c in release._domain.numeric}
    return [
        [
            term,
            *bounds.get(term, ["", ""]),
            *_with_noise(means[i], mean_std[i]),
            *_with_noise(spread[i], spread_std[i]),
        ]
        for i, term in enumerate(release.terms[1:])
    ]


def _grouped(release: GroupedRelease) -> list[Part]:
    domain = domain_from_manifest(release.manifest)
    name, each = ("second_moment", domain.width**2) if release.kind == "gram" else ("coefficients", domain.width - 1)
    table = release.tables[name].select(list(release.group_by))
    firsts = table.take(pa.array(np.arange(0, table.num_rows, each)))  # of each group: all have as many rows
    keys = {key: firsts[key][0].as_py() for key in release.group_by} if firsts.num_rows else {}
    example = ", ".join(f"{key}={value!r}" for key, value in keys.items())
    return [
        f"{firsts.num_rows:,} groups",
        *_ends(firsts),
        f"One of them: .group({example}), which can do all that a release of kind {release.kind} can",
    ]


def _lines(release: LinesRelease) -> list[Part]:
    table, asked = release.tables["predictions"], release.manifest["release"]
    cuts = max(1, pc.count_distinct(table["x"]).as_py())
    lines = table.num_rows // cuts
    by = f" by {', '.join(release.group_by)}" if release.group_by else ""
    mechanism = release.manifest["mechanism"]
    head = f"{asked['y']} at {asked['x']}: {lines:,} line{'' if lines == 1 else 's'}{by}"
    chosen = [f"Chosen because {mechanism['chosen']}"] if "chosen" in mechanism else []
    return [
        head,
        release.aim,
        *chosen,
        *_ends(table),
        *release.notes,
        *interval_remarks(release.manifest),
        "All of them: .predictions(); a picture: .plot()",
    ]


def _ends(table: pa.Table, ends: int = ENDS) -> list[Part]:
    """The first and the last rows, without columns that have no value at all."""
    names = [field.name for field in table.schema if not _empty(table[field.name])]
    left = frozenset(i for i, name in enumerate(names) if pa.types.is_string(table.schema.field(name).type))
    whole = table.num_rows <= 2 * ends + 1
    first, last = (table, None) if whole else (table.slice(0, ends), table.slice(table.num_rows - ends))
    cells = [names, *_cells(first.select(names))]
    if last is not None:
        cells += [["⋮"] * len(names), *_cells(last.select(names))]
    return [Grid(cells, left), *([] if whole else [f"{table.num_rows:,} rows in all"])]


def _empty(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.all(pc.is_null(column, nan_is_null=True)).as_py())


def _cells(table: pa.Table) -> list[list[str]]:
    return [[_number(v) if isinstance(v, float) else str(v) for v in row.values()] for row in table.to_pylist()]


def _with_noise(value: float, noise: float) -> tuple[str, str]:
    """As many digits as the noise leaves."""
    if not (math.isfinite(value) and math.isfinite(noise)):
        return "–", "–"
    digits = decimals_of(10 * noise)  # two of the noise
    return f"{value:,.{digits}f}", f"{noise:,.{digits}f}"


def _quoted(name: str) -> str:
    """As a formula takes it."""
    return name if name.isidentifier() else f"`{name}`"


def _number(value: Any) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.5g}"
