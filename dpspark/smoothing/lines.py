"""Published lines by group, as a problem of smoothing: the law of their noise is simulated with the release's own kernel."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.base import refuse_damaged
from dpspark.analysis.content.keys import keys_of_rows
from dpspark.analysis.content.lines import LinesContent
from dpspark.core.facts import Facts, Garbled
from dpspark.errors import ConfError, OutputError
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.defaults import RESIDUAL
from dpspark.mechanisms.lines.errors import height_of
from dpspark.smoothing.covariates import Covariates, no_covariates, read_covariates
from dpspark.smoothing.line_values import line_areas
from dpspark.smoothing.problem import Problem
from dpspark.smoothing.rows_law import GuessedLaw, RowsLaw
from dpspark.smoothing.simulation import DRAWS, Law, NoiseLaw
from dpspark.verifying.certificate import budget_of
from dpspark.verifying.lines import line_problem
from dpspark.verifying.rows import class_of, domain_of, records_of

NO_ROWS = (
    "smooth: how many rows the groups have is not known, and so is the noise in their lines.\nRelease with "
    "release.group_counts, give covariates with a column 'rows' of public numbers, or release with release.expected_rows."
)


def lines_problem(content: LinesContent, covariates: Any) -> Problem:
    """Read lines, their groups' rows and the law of all rows; then simulate the noise."""
    mechanism = _mechanism(content)
    plane, cuts = mechanism.plane, len(mechanism.plane.wanted)
    with refuse_damaged(content.path):
        table = content.table
        groups = table.take(pa.array(np.arange(0, table.num_rows, cuts))).select(list(content.group_by))
        raw = table["estimate"].to_numpy().reshape(-1, cuts)
        slope = table["slope"].to_numpy().reshape(-1, cuts)[:, 0]
    keys = keys_of_rows(groups, content.group_by)
    beside = no_covariates(len(keys)) if covariates is None else read_covariates(covariates, content.group_by, keys)
    rows, std, counts = _rows(content, beside)
    law, known = _law(content, mechanism)
    (low, high), order = plane.y_bounds, np.argsort(plane.wanted)
    ends = [order[0], order[-1]] if len(plane.anchors) > 1 else [0]
    scaled = (raw[:, ends] - low) / (high - low)
    steep = float(np.nanmedian(slope)) * (plane.x_bounds[1] - plane.x_bounds[0]) / (high - low)
    areas, known_rows = line_areas(
        scaled,
        rows,
        std,
        beside.design,
        mechanism.line,
        plane,
        law,
        seed_of(content.manifest),
        steep,
        DRAWS,
        content.hierarchy is not None,
    )
    notes = {"kernel": mechanism.kernel_name, "rows": counts, "law": known, **_noise_notes(known_rows.law, high - low)}
    return Problem(
        groups,
        areas,
        raw,
        _shown(np.array(plane.wanted), ends) * (high - low),
        low,
        "x",
        list(plane.wanted),
        str(content.target),
        beside.names,
        notes,
        known_rows,
    )


def _shown(cuts: np.ndarray, ends: list[int]) -> np.ndarray:
    """The value at each cut, by those at the first and the last."""
    if len(ends) == 1:
        return np.ones((1, 1))
    share = (cuts - cuts[ends[0]]) / (cuts[ends[1]] - cuts[ends[0]])
    return np.stack([1 - share, share], axis=1)


def _mechanism(content: LinesContent) -> LineMechanism:
    """Read the mechanism back from the manifest, as `dpspark verify` does."""
    if not content.group_by:
        raise ConfError("smooth is for releases by group, and this one has one line. Release with release.group_by.")
    facts = Facts(content.manifest, "")
    try:
        (own,) = (part for part in facts.part("privacy").parts("spending") if part.text("stage") == "theil_sen")
        problem = line_problem(facts.part("spec"), domain_of(facts), records_of(facts))
        named = class_of("theil_sen", facts.part("mechanism").text("name"))
        found = named.from_facts(problem, facts.part("mechanism"), budget_of(own))
    except (Garbled, ValueError, KeyError):
        raise OutputError(f"release {str(content.path)!r}: its mechanism is none that is known here.") from None
    assert isinstance(found, LineMechanism)
    return found


def _rows(content: LinesContent, covariates: Covariates) -> tuple[np.ndarray, float, str]:
    """Numbers of rows of the groups, the standard deviation of their noise, and where they are from."""
    if covariates.rows is not None:
        return covariates.rows, 0.0, "public"
    if "group_counts" in content.tables:
        table = content.tables["group_counts"]
        return table["rows"].to_numpy(), float(table["noise_std"].to_numpy()[0]), "paid"
    expected = content.manifest["spec"]["release"].get("expected_rows")
    if expected is None:
        raise ConfError(NO_ROWS)
    return np.full(len(covariates.design), float(expected)), 0.0, "expected"


def _law(content: LinesContent, mechanism: LineMechanism) -> tuple[Law, str]:
    """Read the law of rows around lines: paid for, or guessed."""
    if "line_cells" in content.tables:
        cells = {name: column.to_numpy() for name, column in zip_columns(content.tables["line_cells"])}
        x_edges = np.append(np.unique(cells["x_low"]), cells["x_high"].max())
        residuals = np.append(np.unique(cells["residual_low"]), cells["residual_high"].max())
        counts = cells["rows"].reshape(len(x_edges) - 1, len(residuals) - 1)
        found = RowsLaw.paid(x_edges, residuals, counts)
        if found is not None:
            return found, "paid"
    asked = content.manifest["spec"]["release"]
    spread = (asked.get("y_spread") or RESIDUAL) * height_of(mechanism.plane)
    return GuessedLaw(spread, asked.get("x_variance")), "guessed"


def zip_columns(table: pa.Table) -> list[tuple[str, pa.ChunkedArray]]:
    """The columns of a table by name."""
    return list(zip(table.column_names, table.columns, strict=True))


def _noise_notes(noise: NoiseLaw, height: float) -> dict[str, Any]:
    std = np.sqrt(np.diagonal(noise.noise, axis1=1, axis2=2)) * height
    return {
        "draws": DRAWS,
        "simulated_rows": noise.sizes.tolist(),
        "noise_std": [[float(f"{value:.4g}") for value in row] for row in std],
        "wild": [float(f"{value:.3g}") for value in noise.wild],
    }


def seed_of(manifest: dict[str, Any]) -> bytes:
    """Make a seed from the release itself, so that an analyst's results repeat. It protects nothing."""
    text = f"{manifest['spec_hash']} {manifest['ledger']['id']} smooth"
    return hashlib.sha256(text.encode()).digest()
