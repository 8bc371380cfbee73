"""Exponents: seconds proportional to a power of the size, by least squares of logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def fits(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each series, of all points and of the larger half of them (at least three), where fixed costs matter less."""
    found = []
    for series in dict.fromkeys(point["series"] for point in points):
        mine = sorted((point["x"], point["seconds"]) for point in points if point["series"] == series)
        every = exponent(mine)
        larger = exponent(mine[-max(3, -(-len(mine) // 2)) :])
        found.append({"series": series, "points": len(mine), **every, "larger": larger})
    return found


def exponent(points: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    """The slope, and its standard error if there are points enough for one."""
    if len(points) < 2:
        return {"exponent": None, "standard_error": None}
    x, y = np.log(np.array(points, dtype=float)).T
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residuals = y - y.mean() - slope * centred
    free = len(points) - 2
    error = float(np.sqrt(residuals @ residuals / free / (centred @ centred))) if free else None
    return {"exponent": slope, "standard_error": error}
