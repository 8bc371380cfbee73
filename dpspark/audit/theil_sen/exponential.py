"""Attacks on medians of random pairs' values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.target import Attack, Target, found_without_noise, seen
from dpspark.audit.theil_sen.pairs import pair_values, pairing_finding, rank_finding
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.exponential import ExponentialLines
from dpspark.mechanisms.lines.pairs import matchings
from dpspark.privacy.keyed import Stream
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec


def case(spec: Spec, times: float = 1.0) -> Case:
    """Tell drawn values apart, the pairs being known; `times` is by how much the exponent is too large."""
    line = cast(ExponentialLines, choose(spec)).line
    return case_of(spec, spec.release_budget, pair_values(line, line.quieter(times)))


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [rank_finding(target, neighbours), pairing_finding(target, neighbours)]


def cut_before_shuffle(rows: int, count: int, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """OpenDP #2950: an odd table loses its last record, then the rest is shuffled."""
    return matchings(rows - rows % 2, count, stream)


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {
        "both cuts with all of ε": seen(lambda: case(spec, 2.0), 12),
        "cut before shuffle (OpenDP #2950)": found_without_noise(
            lambda: pairing_finding("theil_sen exponential", "add_remove", cut_before_shuffle)
        ),
    }


TARGET = Target("theil_sen", "exponential", case, noise_free, broken, options={"cells": 100})
