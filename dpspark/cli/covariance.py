"""`dpspark covariance`: the covariance or correlation matrix of a release with its noise."""

from __future__ import annotations

import json
import math
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from dpspark.cli.options import group_option, json_option, one_group, release_argument, repair_option, show_text
from dpspark.errors import ConfError

if TYPE_CHECKING:
    from dpspark.published.release import Release


@click.command()
@release_argument
@click.option("--correlation", is_flag=True, help="The correlation matrix instead.")
@repair_option
@group_option
@json_option
def covariance(release: str, correlation: bool, repair: str | None, groups: tuple[str, ...], as_json: bool) -> None:
    """Print the covariance matrix of a release, and the standard deviation of the noise in each entry."""
    from dpspark.published.reading import read_release

    found = one_group(read_release(release), groups)
    text = covariance_table(found, correlation, repair, as_json)
    click.echo(text) if as_json else show_text(text, headings=True)


def covariance_table(found: Release, correlation: bool, repair: str | None, as_json: bool) -> str:
    """Render the matrix, its noise under each row, as text or JSON."""
    from dpspark.analysis.repair import choose_repair
    from dpspark.published.gram import GramRelease
    from dpspark.published.grouped import GroupedRelease
    from dpspark.show.tables import folded

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
