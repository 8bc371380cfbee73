"""What an audit knows of one mechanism: how it is attacked, and the broken copies of it that the attack must catch.

audit/<kind>/<name>.py says it of a mechanism, audit/registry.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpspark.audit.attacks import Case, Finding
from dpspark.spec.spec import Spec

BOTH = ("add_remove", "replace_one")


@dataclass(frozen=True)
class Broken:
    """A deliberately broken copy of a mechanism, with the attack that must catch it.

    It is caught by telling neighbours apart, in `times` as many trials, so that 4000 miss fewer than 1 in 100; or, `measured`,
    by the size of its noise.
    """

    name: str
    case: Callable[[Spec, Any], Case]
    measured: bool = False
    times: int = 1


@dataclass(frozen=True)
class Attacked:
    """A mechanism, as an audit attacks it."""

    case: Callable[[Spec, Any], Case]  # the distinguishing attack on a spec's calibrated mechanism
    noise_free: tuple[Callable[[str, str], Finding], ...]  # of a target's name and a relation of neighbours
    broken: tuple[Broken, ...]
    relations: tuple[str, ...] = BOTH  # for which it is attacked
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # small ones, so that the attacker sees as much as possible
