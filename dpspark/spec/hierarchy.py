"""The levels of groups that a conf asks for: what is refused before a table is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpspark.bundle.names import plain_name

if TYPE_CHECKING:
    from dpspark.spec.release import ReleaseName

Level = str | tuple[str, ...]  # a column; or with the columns above, where its keys are unique in these alone

NOT_FOR = {
    "regression": "coefficients of groups do not add up to those of the level above. Use kind gram: matrices do, and serve the "
    "same regression on every level.",
    "quantiles": "quantiles of groups do not give those of the level above. Remove this key.",
}


def level_names(hierarchy: Sequence[Level]) -> tuple[str, ...]:
    """The column of each level."""
    return tuple(level if isinstance(level, str) else level[-1] for level in hierarchy)


def within_others(hierarchy: Sequence[Level]) -> tuple[str, ...]:
    """The levels whose keys are unique only together with those above."""
    return tuple(level[-1] for level in hierarchy if not isinstance(level, str))


def finest_group(hierarchy: Any) -> str | None:
    """The last level of what a conf gives as a hierarchy, if it can be one."""
    last = hierarchy[-1] if isinstance(hierarchy, list | tuple) and hierarchy else None
    return last if isinstance(last, str) else None


def check_levels(release: ReleaseName) -> None:
    """Refuse levels that cannot be, with a ValueError."""
    hierarchy = release.hierarchy or ()
    if any(not level for level in hierarchy):
        raise ValueError("hierarchy: a level is an empty list; expected the name of a column.")
    names = level_names(hierarchy)
    if release.kind in NOT_FOR:
        raise ValueError(f"hierarchy is for kind gram and theil_sen: {NOT_FOR[release.kind]}")
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(
            "hierarchy: expected two or more distinct levels, the coarsest first, e.g. [state, county, tract]."
        )
    if release.groups is None:
        raise ValueError("hierarchy needs groups, the public table with the keys of all levels: a column for each.")
    if release.group_by != names[-1:] or not isinstance(hierarchy[-1], str):
        raise ValueError(
            f"hierarchy: its last level is what groups are made by; expected group_by: [{names[-1]}], or none."
        )
    for at, level in enumerate(hierarchy):
        if not isinstance(level, str) and level != names[: at + 1]:
            raise ValueError(
                f"hierarchy: expected {names[at]}, or with all levels above [{', '.join(names[: at + 1])}]."
            )
    for name in names[:-1]:
        _check_name(name)
    if release.kind == "theil_sen" and release.group_counts is None:
        raise ValueError(
            "hierarchy of lines needs release.group_counts: a line of a coarser level is the mean of those below, by rows."
        )


def _check_name(name: str) -> None:
    """Want a name that a file may have."""
    try:
        plain_name(name)
    except ValueError as error:
        raise ValueError(f"hierarchy: {name!r} names a file of its level, too: {error}") from None
