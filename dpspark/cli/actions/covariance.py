"""`dpspark covariance`: the covariance or correlation matrix of a release with its noise."""

from __future__ import annotations

import json
import math
from shutil import get_terminal_size
from typing import Any

from dpspark.analysis.repair import choose_repair
from dpspark.errors import ConfError
from dpspark.published.gram import GramRelease
from dpspark.published.grouped import GroupedRelease
from dpspark.published.release import Release
from dpspark.show.tables import folded


def covariance_table(found: Release, correlation: bool, repair: str | None, as_json: bool) -> str:
    if isinstance(found, GroupedRelease):
        raise found.content.no_group_chosen()  # _no_matrix says so for the other commands
    if not isinstance(found, GramRelease):
        raise ConfError(f"{str(found.path)!r} is a release of kind {found.kind}: it has no matrix.")
    matrix = found.correlation(repair) if correlation else found.covariance(repair)
    noise = found.correlation_std() if correlation else found.covariance_std()
    terms = found.terms[1:]
    how = choose_repair(repair, found.manifest)
    if as_json:
        entries = [
            {"row": a, "col": b, "value": _number(matrix.loc[a, b]), "noise_std": _number(noise.loc[a, b])}
            for i, a in enumerate(terms)
            for b in terms[i:]
        ]
        return json.dumps(
            {"of": "correlation" if correlation else "covariance", "repair": how.how, "entries": entries},
            ensure_ascii=False,
        )
    cells = [["", *terms]]
    for term in terms:
        cells.append([term, *(f"{value:.5g}" for value in matrix.loc[term])])
        cells.append(["", *(f"±{value:.2g}" for value in noise.loc[term])])
    notes = ["± is the standard deviation of the privacy noise in the unrepaired matrix."]
    if how.how != "none":
        moments = found.content.moments
        nothing = how.matrix(moments) is moments.scaled
        notes.append(f"Repair {how.how}: there was nothing to repair." if nothing else f"Repaired by {how.how}.")
    if matrix.isna().to_numpy().any():
        notes.append("nan: a variance is not positive, after noise: the column is drowned by the noise.")
    return "\n".join([*folded(cells, get_terminal_size().columns), *notes])


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
