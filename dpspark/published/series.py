"""`dpspark series` and `dpspark.series`: one regression from releases over time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpspark.analysis.compare import OVERLAPS
from dpspark.analysis.options import check_level
from dpspark.analysis.regression import Regression
from dpspark.analysis.series import Series
from dpspark.bundle.files import MANIFEST, SUCCESS
from dpspark.bundle.storage import Place, place_of
from dpspark.errors import ConfError, NotOfThisKind, OutputError
from dpspark.published.comparing import shared
from dpspark.published.reading import read_release
from dpspark.published.release import Release

MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
PICTURES = (".svg", ".png", ".pdf")


def series(
    releases: Sequence[Release[Any, Any] | str | Path],
    formula: str | None = None,
    *,
    overlap: str = "none",
    level: float | None = None,
) -> Series:
    """Follow the coefficients of a regression through releases, in the order of their versions, with bands.

    A directory of versions, such as releases/income, stands for all that are published in it. `overlap` says whether people
    may be in the data of several: with none, whether coefficients changed is tested.
    """
    if overlap not in OVERLAPS:
        raise ConfError(f"overlap={overlap!r}; expected one of {', '.join(OVERLAPS)}.")
    chosen = check_level(0.95 if level is None else level)
    found = _by_version(open_releases(releases))
    fits: dict[str, Regression] = {}
    left_out = _with_parts_of_others(found)
    for version, release in found.items():
        if version in left_out:
            continue
        try:
            fits[version] = _fit(release, formula, chosen)
        except NotOfThisKind:
            raise
        except ConfError as error:
            left_out[version] = str(error).splitlines()[0]
    if not fits:
        raise ConfError("series: none of the releases has this regression. " + next(iter(left_out.values())))
    terms = next(iter(fits.values())).terms
    for version in [version for version, fit in fits.items() if fit.terms != terms]:
        left_out[version] = f"its terms are others: {', '.join(fits.pop(version).terms)}"
    return Series(fits, overlap, chosen, _missing(found), left_out)


def _with_parts_of_others(releases: Mapping[str, Release[Any, Any]]) -> dict[str, str]:
    """Leave out pools, the largest first, until no two releases have people and noise in common; and say why."""
    kept: dict[str, Release[Any, Any]] = {}
    found: dict[str, str] = {}
    sizes = {
        version: len((release.manifest.get("pool") or {}).get("parts", ())) for version, release in releases.items()
    }
    for version in sorted(releases, key=sizes.__getitem__):
        release = releases[version]
        common = [other for other, one in kept.items() if shared(release, one)]
        if not common:
            kept[version] = release
        elif any(kept[other].manifest.get("pool") is None for other in common):
            found[version] = "it is a pool of releases that are there"
        else:
            found[version] = f"it is a pool that has parts in common with {common[0]}"
    return found


def write_series(found: Series, path: str) -> None:
    """Write a picture or a CSV file, by the ending of its name. Nothing is written over."""
    place, ending = Path(path), Path(path).suffix.lower()
    if ending not in (*PICTURES, ".csv"):
        raise ConfError(f"--out {path!r}: expected a name that ends in {', '.join(PICTURES)} or .csv.")
    if place.exists():
        raise OutputError(f"--out {path!r} is there already. Choose another name.")
    try:
        found.to_frame().to_csv(place, index=False) if ending == ".csv" else found.plot().savefig(place)
    except OSError as error:
        raise OutputError(f"--out {path!r}: {error.strerror or 'it cannot be written'}.") from None


def open_releases(releases: Sequence[Release[Any, Any] | str | Path]) -> list[Release[Any, Any]]:
    """Open releases, and directories of versions."""
    return [release for one in releases for release in _open(one)]


def _open(one: Release[Any, Any] | str | Path) -> Iterator[Release[Any, Any]]:
    """Open a release, or all that are published in a directory of versions."""
    if isinstance(one, Release):
        yield one
        return
    place = place_of(str(one))
    inside = [] if (place / MANIFEST).is_file() else _versions(place)
    if not inside:
        yield read_release(place)
    for folder in inside:
        yield read_release(folder)


def _versions(place: Place) -> list[Place]:
    try:
        return [
            folder for folder in place.iterdir() if (folder / SUCCESS).is_file() and not folder.name.startswith(".")
        ]
    except OSError:
        return []


def _by_version(releases: Sequence[Release[Any, Any]]) -> dict[str, Release[Any, Any]]:
    """Sort by version, numbers in them as numbers; where two have one version, names tell them apart."""
    if len(releases) < 2:
        raise ConfError("series: give two releases at least, or a directory of versions.")
    names = {release.manifest["release"]["name"] for release in releases}
    found: dict[str, Release[Any, Any]] = {}
    for release in sorted(releases, key=lambda one: _order(one.manifest["release"]["version"])):
        named = release.manifest["release"]
        version = named["version"] if len(names) == 1 else f"{named['name']} {named['version']}"
        if version in found:
            raise ConfError(f"series: {version} is there twice. Give each release once.")
        for other, one in found.items():
            if one.manifest["files"] == release.manifest["files"]:
                raise ConfError(
                    f"series: {other} and {version} are the same release, with the same noise. Give each release once."
                )
        found[version] = release
    return found


def _order(version: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|\D+", version)]


def _missing(versions: Iterable[str]) -> list[str]:
    """List versions that are not there between the first and the last, of months, years or other whole numbers."""
    given = list(versions)
    months = [MONTH.fullmatch(version) for version in given]
    if all(months):
        counts = [12 * int(month[1]) + int(month[2]) - 1 for month in months if month]
        return [f"{at // 12:04d}-{at % 12 + 1:02d}" for at in range(counts[0], counts[-1]) if at not in counts]
    if all(version.isdecimal() and len(version) < 6 for version in given):
        numbers = [int(version) for version in given]
        return [str(at) for at in range(numbers[0], numbers[-1]) if at not in numbers]
    return []


def _fit(release: Release[Any, Any], formula: str | None, level: float) -> Regression:
    fit = release.regress(formula, level)
    if not isinstance(fit, Regression):
        raise NotOfThisKind(
            f"{str(release.path)!r} is a release of kind {release.kind}: series takes kinds gram and regression."
        )
    return fit
