"""The options that a release takes: what does not apply is refused with the reason, never taken and ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpspark.analysis.remarks import USUAL_LEVEL, interval_level
from dpspark.errors import ConfError

NO_SQUARES = (
    "the rows are weighted, and the release holds no squared weights: it has no intervals. Leave it out, or release "
    "with weight.squares_share."
)


@dataclass(frozen=True)
class Asked:
    """The options of `regress`; None is one that was left out."""

    formula: str | None = None
    level: float | None = None
    repair: str | None = None
    interval: str | None = None
    errors: str | None = None


def check_level(level: float) -> float:
    """Refuse what cannot be a confidence level."""
    if not (isinstance(level, int | float) and 0 < level < 1):
        raise ConfError(f"level={level!r}; expected a number between 0 and 1, such as 0.95.")
    return level


def level_or_usual(level: float | None) -> float:
    """Check a level; by default it is 95%."""
    return USUAL_LEVEL if level is None else check_level(level)


def refuse_matrix_options(kind: str, asked: Asked) -> None:
    """Refuse what only a matrix can give, where all is shown as it was released."""
    for name, value in (("repair", asked.repair), ("interval", asked.interval), ("errors", asked.errors)):
        if value is not None:
            raise ConfError(
                f"{name}={value!r} is for releases of kind gram: this one, of kind {kind}, is shown as it was released. "
                "Leave it out."
            )


def check_stored_level(manifest: Mapping[str, Any], level: float | None) -> None:
    """Refuse another level than that of published intervals: what it would need was never published."""
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


def check_fit_options(method: str | None, why_none: str, asked: Asked) -> None:
    """Refuse what a release of kind regression cannot give: its mechanism decides how intervals are made.

    That is `method`; where it is None there are no intervals, and `why_none` says why.
    """
    refuse_matrix_options("regression", replace(asked, interval=None, errors=None))
    _refuse_intervals(asked, None if method is not None else f"this release has no intervals.\n{why_none}")
    if asked.interval is not None and asked.interval != method:
        raise ConfError(
            f"interval={asked.interval!r}: the mechanism of this release gives intervals by {method}. Leave it out; for a "
            "choice, release kind gram."
        )


def check_weighted_options(has_intervals: bool, asked: Asked) -> None:
    """Refuse intervals of weighted rows, where the release does not hold what they need."""
    _refuse_intervals(asked, None if has_intervals else NO_SQUARES)


def _refuse_intervals(asked: Asked, reason: str | None) -> None:
    """Refuse all that intervals are asked with, if there is a reason why there are none."""
    if asked.level is not None:
        check_level(asked.level)
    for name, value in (("level", asked.level), ("interval", asked.interval), ("errors", asked.errors)):
        if value is not None and reason is not None:
            raise ConfError(f"{name}={value!r}: {reason}")
