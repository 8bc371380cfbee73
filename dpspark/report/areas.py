"""Smoothed groups for the page's program: values beside the raw ones, a funnel, a calibration, and a map if there is one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.keys import keys_of_rows
from dpspark.errors import ConfError
from dpspark.report.geography import read_map
from dpspark.report.packed import names, singles, small_numbers
from dpspark.smoothing.result import SmoothedGroups, read_smoothed

NUMBERS = ("raw", "estimate", "std_error", "expected", "noise_std")
SHARES = np.linspace(0.02, 0.98, 49)
MOST_LISTED = 20
SUPPRESSED = "suppressed"


def areas_of(
    release: Content, smoothed: SmoothedGroups | str | Path | None, map_file: str | Path | None, map_key: str | None
) -> dict[str, Any] | None:
    """Collect what the page shows of smoothed groups; None if there are none."""
    if map_key is not None and map_file is None:
        raise ConfError("--map-key says which property of a map names its areas: give --map too.")
    if smoothed is None:
        if map_file is not None:
            raise ConfError("--map shows smoothed areas: run dpspark smooth, and give its directory as --smoothed.")
        return None
    found = smoothed if isinstance(smoothed, SmoothedGroups) else read_smoothed(smoothed)
    _check_same(release, found)
    label = next(iter(found.model["between"][0]))
    labels = [each[label] for each in found.model["between"]]
    content = _content(found, list(release.group_by), label, labels)
    if map_file is not None:
        keys = keys_of_rows(found.table, release.group_by)[:: len(labels)]
        content["map"] = read_map(Path(map_file), list(release.group_by), map_key, keys)
    return content


def _check_same(release: Content, found: SmoothedGroups) -> None:
    """Refuse what was smoothed from another release, or does not have what the page shows."""
    if release.group:
        raise ConfError("--smoothed shows all groups: leave --group out.")
    if not release.group_by:
        raise ConfError("--smoothed is for releases by group, and this one has none.")
    if found.model["release"].get("spec_hash") != release.manifest["spec_hash"]:
        raise ConfError(f"--smoothed is of another release, {found.title}. Run dpspark smooth for this one.")
    lacking = [name for name in (*release.group_by, *NUMBERS, "status") if name not in found.table.column_names]
    if lacking or not found.model.get("between"):
        raise ConfError(f"--smoothed has no {lacking[0] if lacking else 'model'}: run dpspark smooth again.")


def _content(found: SmoothedGroups, group_by: list[str], label: str, labels: list[Any]) -> dict[str, Any]:
    table, model, count = found.table, found.model, len(labels)
    groups = table.num_rows // count
    if table[label].to_pylist() != labels * groups:
        raise ConfError("--smoothed: its table is not a row for each group and number. Run dpspark smooth again.")
    keys = keys_of_rows(table, group_by)[::count]
    values = {name: _wide(table, name, count) for name in NUMBERS}
    return {
        "group_by": group_by,
        "count": groups,
        "left_out": 0,
        "keys": [names([key[i] for key in keys]) for i in range(len(group_by))],
        "label": label,
        "level": model["level"],
        "reach": _reach(table, model["level"]),
        "reach90": _ratio(table["moe90"], table["std_error"]),
        "numbers": [_number(table, values, model, i, count) for i in range(count)],
        "notes": [_sentence(note) for note in found.notes],
        "suppressed_if": str(model.get("suppressed_if", "")),
        "map": None,
    }


def _sentence(note: str) -> str:
    return note if note.endswith(".") else f"{note}."


def _wide(table: pa.Table, name: str, count: int) -> np.ndarray:
    return table[name].to_numpy().astype(float).reshape(-1, count)


def _ratio(above: pa.ChunkedArray, below: pa.ChunkedArray) -> float:
    """How many standard errors a margin is: the same for all rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nanmedian(above.to_numpy() / below.to_numpy()))


def _reach(table: pa.Table, level: float) -> float:
    half = pa.chunked_array([(table["ci_high"].to_numpy() - table["ci_low"].to_numpy()) / 2])
    found = _ratio(half, table["std_error"])
    return found if math.isfinite(found) else float(stats.norm.isf((1 - level) / 2))


def _number(
    table: pa.Table, values: dict[str, np.ndarray], model: dict[str, Any], at: int, count: int
) -> dict[str, Any]:
    """One number of every group: a line at a cut, or a coefficient."""
    between = model["between"][at]
    own = {name: column[:, at] for name, column in values.items()}
    off = (own["raw"] - own["expected"]) / np.sqrt(own["noise_std"] ** 2 + between["std"] ** 2)
    status = table["status"].to_pylist()[at::count]
    hidden = table[SUPPRESSED].to_numpy(zero_copy_only=False)[at::count]
    said = [f"{one}, {SUPPRESSED}" if no else one for one, no in zip(status, hidden, strict=True)]
    kinds = list(dict.fromkeys(said))
    badly = [i for i, one in enumerate(status) if one == "fits_badly" and math.isfinite(off[i])]
    badly.sort(key=lambda i: -abs(off[i]))
    known = np.sort(off[np.isfinite(off)])
    return {
        "name": f"{between[_label(between)]}",
        "std": between["std"],
        "low": between["low"],
        "high": between["high"],
        "values": {name: singles(column) for name, column in own.items()},
        "shrinkage": small_numbers(np.rint(200 * table["shrinkage"].to_numpy()[at::count])),
        "statuses": kinds,
        "status": small_numbers(np.array([kinds.index(one) for one in said])),
        "badly": [[i, round(float(off[i]), 2)] for i in badly[:MOST_LISTED]],
        "badly_count": len(badly),
        "calibration": [
            [float(p), float(np.searchsorted(known, stats.norm.ppf(p)) / max(1, len(known)))] for p in SHARES
        ],
    }


def _label(between: dict[str, Any]) -> str:
    return next(iter(between))
