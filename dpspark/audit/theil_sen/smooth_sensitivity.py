"""Attacks on Student noise that is scaled to a smooth sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.target import Attack, Target, found_without_noise, seen
from dpspark.audit.theil_sen.shared import TABLES, Draw, fresh_stream, spread_finding
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.smooth_sensitivity import SmoothLines, SmoothTheilSen, smooth_sensitivity
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec

Smooth = Callable[[np.ndarray, int, float, int], Any]
# Found by climbing on the exact law at epsilon = 1: pairs' values, and the one that takes the first one's place.
VALUES = (0.13, 0.03, 0.15, 0.25, 0.23, 0.8, 0.3, 0, 0.92, 0.72, 0.24, 0.61, 0.59, 0.81, 0.86), 0.63


def case(spec: Spec, times: float = 1.0) -> Case:
    """Tell noisy medians apart, the pairs being known; `times` is by how much noise and decay are too large."""
    line = cast(SmoothLines, choose(spec)).line
    made = replace(line, noise=line.noise * times, decay=line.decay * times)
    return case_of(spec, spec.release_budget, _medians(line, made))


def _medians(claimed: SmoothTheilSen, made: SmoothTheilSen) -> Draw:
    """Student noise around the median of known pairs' values, scaled to their smooth sensitivity."""
    shares, instead = VALUES
    values = [
        np.sort(np.rint(np.array(part) * claimed.cells).astype(np.int64)) for part in (shares, (instead, *shares[1:]))
    ]
    values = [np.repeat(part, claimed.per_record) for part in values]
    centres = [int(part[(len(part) - 1) // 2]) for part in values]
    scales = [
        float(smooth_sensitivity(part, claimed.per_record, claimed.decay, claimed.cells)) / claimed.noise
        for part in values
    ]

    def log_density(edge: int, which: int) -> float:
        centre, scale = centres[which], scales[which]
        ends = [
            -math.inf if edge == 0 else edge - 0.5 - centre,
            math.inf if edge == claimed.cells else edge + 0.5 - centre,
        ]
        low, high = (student_share(end / scale) for end in ends)
        return math.log(high - low)

    def draw(side: int, _: NoiseSource) -> float:
        stream = fresh_stream()
        edges = [made.released(values[side], stream) for _ in claimed.plane.anchors]
        return sum(log_density(edge, 1) - log_density(edge, 0) for edge in edges)

    return draw


def student_share(t: float) -> float:
    """Compute P(T <= t) with 2 degrees of freedom."""
    return 0.5 + 0.5 * math.copysign(1.0, t) if math.isinf(t) else 0.5 + t / (2 * math.sqrt(2 + t * t))


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [smooth_finding(target, neighbours)]


def smooth_finding(target: str, neighbours: str, of: Smooth = smooth_sensitivity) -> Finding:
    """Check that the smooth sensitivity of neighbours differs by e^decay at most, and covers the median's own move."""
    rng, k, decay, worst = np.random.default_rng(4), 2, 0.3, 0.0
    for _ in range(TABLES):
        values = np.sort(rng.choice([0, 100, *rng.integers(0, 101, 4)], k * int(rng.integers(1, 8))))
        other = values.copy()
        other[rng.choice(len(values), k, replace=False)] = rng.choice([0, 100, *rng.integers(0, 101, 2)], k)
        other = np.sort(other)
        sizes = [float(of(part, k, decay, 100)) for part in (values, other)]
        middle = (len(values) - 1) // 2
        moved = abs(int(values[middle]) - int(other[middle]))
        worst = max(worst, max(sizes) / max(min(sizes), 1e-9), math.exp(decay) * moved / max(min(sizes), 1e-9))
    return spread_finding(target, neighbours, math.exp(decay), worst, TABLES, "ratio of smooth sensitivities", 1 + 1e-9)


def short_smooth_sensitivity(values: np.ndarray, per_record: int, decay: float, cells: int) -> float:
    """Alabi et al.'s code: its loop ends before t = (l + 1)·k."""
    middle, m = (len(values) - 1) // 2, len(values)

    def at(i: int) -> int:
        return 0 if i < 0 else cells if i >= m else int(values[i])

    return max(
        math.exp(-decay * others) * max(at(middle + t) - at(middle + t - (others + 1) * per_record) for t in range(q))
        for others in range(m // per_record + 2)
        if (q := (others + 1) * per_record)
    )


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {
        "noise ÷ 8, decay × 8": seen(lambda: case(spec, 8.0)),
        "loop misses t = (l+1)k (Alabi)": found_without_noise(
            lambda: smooth_finding("theil_sen smooth_sensitivity", "replace_one", short_smooth_sensitivity)
        ),
    }


# It is for a public number of rows.
TARGET = Target(
    "theil_sen", "smooth_sensitivity", case, noise_free, broken, ("replace_one",), {"cells": 100, "matchings": 1}
)
