"""Which options a release takes: what does not apply is refused with the reason, never taken and ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpspark.analysis.remarks import USUAL_LEVEL, interval_level
from dpspark.analysis.result import check_level
from dpspark.errors import ConfError

NO_SQUARES = (
    "the rows are weighted, and the release holds no squared weights: it has no intervals. Leave it out, or release "
    "with weight.squares_share."
)


def level_or_usual(level: float | None) -> float:
    """A level that can be one, by default 95%."""
    return USUAL_LEVEL if level is None else check_level(level)


def refuse_matrix_options(kind: str, repair: str | None, interval: str | None) -> None:
    """Of what is shown as it was released."""
    for name, value in (("repair", repair), ("interval", interval)):
        if value is not None:
            raise ConfError(
                f"{name}={value!r} is for releases of kind gram: this one, of kind {kind}, is shown as it was released. "
                "Leave it out."
            )


def check_stored_level(manifest: Mapping[str, Any], level: float | None) -> None:
    """Of published intervals the level is fixed: what other levels would need was never published."""
    if level is None:
        return
    check_level(level)
    stored, kind = interval_level(manifest), manifest["release"]["kind"]
    if stored is None:
        how = " Leave it out, or release with release.interval." if kind == "theil_sen" else " Leave it out."
        raise ConfError(
            f"level={level:g}: this release, of kind {kind}, has no intervals that a level could change.{how}"
        )
    if level != stored:
        raise ConfError(
            f"level={level:g}: the intervals of this release are at {stored:g}, as release.interval.level said, and hold "
            "for no other. Leave it out, or release again."
        )


def check_fit_options(
    method: str | None, why_none: str, level: float | None, repair: str | None, interval: str | None
) -> None:
    """Of a release of kind regression, whose mechanism decides how intervals are made (`method`; None: there are none)."""
    if repair is not None:
        refuse_matrix_options("regression", repair, None)
    if level is not None:
        check_level(level)
    for name, value in (("level", level), ("interval", interval)):
        if value is not None and method is None:
            raise ConfError(f"{name}={value!r}: this release has no intervals.\n{why_none}")
    if interval is not None and interval != method:
        raise ConfError(
            f"interval={interval!r}: the mechanism of this release gives intervals by {method}. Leave it out; for a choice, "
            "release kind gram."
        )


def check_weighted_options(has_intervals: bool, level: float | None, interval: str | None) -> None:
    """Of a matrix of weighted rows."""
    if level is not None:
        check_level(level)
    for name, value in (("level", level), ("interval", interval)):
        if value is not None and not has_intervals:
            raise ConfError(f"{name}={value!r}: {NO_SQUARES}")
