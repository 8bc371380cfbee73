"""Attacks on medians of random pairs' values, where those near the best are as good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.target import Attack, Target, seen
from dpspark.audit.theil_sen.pairs import pair_values, pairing_finding, rank_finding
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.widened import WidenedLines
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec


def case(spec: Spec, times: float = 1.0) -> Case:
    """Tell drawn values apart, the pairs being known; `times` is by how much the exponent is too large."""
    line = cast(WidenedLines, choose(spec)).line
    return case_of(spec, spec.release_budget, pair_values(line, line.quieter(times)))


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [rank_finding(target, neighbours, width=2), pairing_finding(target, neighbours)]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"exponent × 4": seen(lambda: case(spec, 4.0))}


TARGET = Target("theil_sen", "widened", case, noise_free, broken, options={"cells": 100})
