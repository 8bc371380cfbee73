"""Settings from public guesses: how many rows a group has, how far x spreads, how far y is from its line.

A wrong guess costs accuracy, never privacy. Measured on 111 tracts of ranks (5 to 200 rows, residuals of 0.19) and on simulated
groups of 30 to 100,000 rows.
"""

from __future__ import annotations

import math

from dpspark.mechanisms.lines.grid import LINES

ROWS_PER_BUCKET = 500_000
MOST_LINES = 1000
ROWS = 100.0  # of a group, where nobody says how many
RESIDUAL = 0.19  # in units of the candidates' range, likewise
WIDE_X = 1 / 16  # x on one side of the middle of [0, 1] have a variance of 1/16 at most; evenly spread ones have 1/12
KNOTS, REACH = (0.1, 0.3, 0.5, 0.7, 0.9), 0.1


def lines_for(expected_rows: float | None) -> int:
    """Cells along an anchor: the grid is finer where estimates are."""
    return LINES if expected_rows is None else min(MOST_LINES, max(LINES, 2 * math.ceil(10 * math.sqrt(expected_rows))))


def clip_for(epsilon: float, expected_rows: float | None, y_spread: float | None = None) -> float:
    """Of Huber's scores, in units of the candidates' range; `y_spread` is a guess of the residuals' standard deviation.

    The best clip is half of that or less at epsilon·rows = 100, and all of it at 1500; the error is within 10% of the best from
    half to twice that. Too small a clip makes it a median of residuals, with a floor of 0.75 standard errors; one far above the
    residuals adds noise in proportion.
    """
    usual = RESIDUAL if y_spread is None else y_spread
    share = 0.26 * math.sqrt(epsilon * (expected_rows or ROWS) / 90)
    return usual * min(2.6, max(0.1, share))


def ramps_for(epsilon: float, expected_rows: float | None, x_variance: float | None) -> tuple[tuple[float, ...], float]:
    """Knots and reach. x that fill their bounds need one ramp, in the middle; others, or unknown ones, need several.

    A short ramp gives the slope more weight against the noise, the longest is that of least squares: as with the clip.
    """
    if x_variance is None or x_variance < WIDE_X:
        return KNOTS, REACH
    return (0.5,), min(0.5, max(0.12, 0.15 * (epsilon * (expected_rows or ROWS) / 180) ** (1 / 3)))
