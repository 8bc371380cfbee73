"""`dpspark compare` and `dpspark.compare`: one regression from two releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpspark.analysis.compare import Comparison, compare_fits
from dpspark.analysis.options import check_level
from dpspark.analysis.regression import Regression
from dpspark.bundle.files import manifest_digest
from dpspark.errors import ConfError, NotOfThisKind
from dpspark.published.reading import read_release
from dpspark.published.release import Release


def compare(
    a: Release[Any, Any] | str | Path,
    b: Release[Any, Any] | str | Path,
    formula: str | None = None,
    *,
    overlap: str = "none",
    level: float | None = None,
) -> Comparison:
    """Compare the coefficients of a regression between two releases, or paths of releases: b − a, with intervals.

    `overlap` says whether people may be in the data of both: none or unknown.
    """
    chosen = check_level(0.95 if level is None else level)
    releases = [one if isinstance(one, Release) else read_release(one) for one in (a, b)]
    if releases[0].manifest["files"] == releases[1].manifest["files"] and _group(releases[0]) == _group(releases[1]):
        raise ConfError("compare: both are the same release, with the same noise. Give two releases.")
    if shared(*releases):
        raise ConfError(
            "compare: a pool has parts in common with the other: they share noise. Compare releases of other parts."
        )
    first, second = (_fit(release, formula) for release in releases)
    return compare_fits(first, second, overlap, chosen)


def shared(one: Release[Any, Any], other: Release[Any, Any]) -> bool:
    """Tell whether a pool and another release have a part in common, and with it people and noise."""
    return not _parts(one).isdisjoint(_parts(other)) if _is_pool(one) or _is_pool(other) else False


def _is_pool(release: Release[Any, Any]) -> bool:
    return release.manifest.get("pool") is not None


def _parts(release: Release[Any, Any]) -> set[str | None]:
    told = release.manifest.get("pool")
    if told is None:
        return {manifest_digest(release.path)}
    return {part["manifest_sha256"] for part in told["parts"]}


def _group(release: Release[Any, Any]) -> dict[str, Any]:
    return dict(release.content.group or {})


def _fit(found: Release[Any, Any], formula: str | None) -> Regression:
    fit = found.regress(formula)
    if not isinstance(fit, Regression):
        raise NotOfThisKind(
            f"{str(found.path)!r} is a release of kind {found.kind}: compare takes kinds gram and regression."
        )
    return fit
