"""What readers of several regressions beside each other should know: bounds that differ, and standard errors that do."""

from __future__ import annotations

from collections.abc import Mapping

from dpspark.analysis.regression import Regression
from dpspark.show.canvas import bounds_of
from dpspark.show.tables import bound_texts

CLIPPED = "Part of a difference may be clipping: {column} was bounded by {bounds}."
ERRORS = "Standard errors are not of one kind: {kinds}."


def differences_in_kind(fits: Mapping[str, Regression]) -> list[str]:
    """Say which columns have other bounds, and whose standard errors are of another kind; nothing where all are alike."""
    found = []
    first = next(iter(fits.values()))
    for column in (first.response, *first.terms):
        bounds: dict[str, list[str]] = {}
        for name, fit in fits.items():
            own = bounds_of(fit.domain).get(column)
            if own is not None:
                bounds.setdefault(" to ".join(bound_texts(*own)), []).append(name)
        if len(bounds) > 1:
            told = "; ".join(f"{text} in {', '.join(names)}" for text, names in bounds.items())
            found.append(CLIPPED.format(column=column, bounds=told))
    kinds: dict[str, list[str]] = {}
    for name, fit in fits.items():
        kinds.setdefault(fit.errors, []).append(name)
    if len(kinds) > 1:
        found.append(ERRORS.format(kinds="; ".join(f"{kind} in {', '.join(names)}" for kind, names in kinds.items())))
    return found
