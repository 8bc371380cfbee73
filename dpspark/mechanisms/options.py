"""Options that several mechanisms have: one name has one meaning. Its range may differ between mechanisms."""

from __future__ import annotations

from dataclasses import replace

from dpspark.mechanisms.base import Limits

CALIBRATION = Limits(
    "The exact privacy profile (the default), or the constants of the paper's theorem.", choices=("exact", "theorem")
)
CELLS = Limits("How many steps the public grid of values has.", whole=True, least=2, most=2**20)
MATCHINGS = Limits("How many random pairings of the rows.", whole=True, least=1, most=1000)
# Sums of gradients fit an int64 up to 8e10 rows.
CLIP = Limits("Where one row's gradient, or residual, is cut off, in units of the bounds.", above=0, most=100)
LINE_CLIP = replace(CLIP, above=None, least=1e-6, most=10)


def steps_option(words: str) -> Limits:
    """Limit how many steps a descent has; what a step is, and how many there are by default, differs."""
    return Limits(words, whole=True, least=1, most=1000)
