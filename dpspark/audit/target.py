"""What the audit knows of one mechanism: its conf, its attacks, and the broken copies that they must catch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpspark.audit.attacks import Case, Finding, distinguish
from dpspark.audit.white_box import measure_noise
from dpspark.core.domain import Domain
from dpspark.privacy.noise import OpenDPNoise
from dpspark.spec.spec import Spec

BOTH = ("add_remove", "replace_one")


@dataclass(frozen=True)
class Attack:
    """One attack on a broken copy."""

    by: str
    run: Callable[[int, float], Finding]  # of trials and risk


@dataclass(frozen=True)
class Mutant:
    """A deliberately broken copy of a mechanism, with the attack that must catch it."""

    kind: str
    mechanism: str
    name: str
    attack: Attack


@dataclass(frozen=True)
class Target:
    """A mechanism as the audit attacks it."""

    kind: str
    name: str
    case: Callable[[Spec], Case]  # two neighbours whose releases are told apart
    noise_free: Callable[[str, str, dict[str, Domain]], list[Finding]]  # of target, neighbours, and kinds of rows
    broken: Callable[[Spec], Mapping[str, Attack]] = lambda spec: {}  # by what is wrong with each
    relations: tuple[str, ...] = BOTH
    options: Mapping[str, Any] = field(default_factory=dict)  # of the mechanism, so that few releases show much
    # An extra: the kind and mechanism of the release that it is beside, and the keys of the conf that ask for it.
    beside: tuple[str, str] = ("", "")
    asks: Mapping[str, Any] = field(default_factory=dict)

    def mutants(self, spec: Spec) -> list[Mutant]:
        return [Mutant(self.kind, self.name, what, attack) for what, attack in self.broken(spec).items()]


def seen(build: Callable[[], Case], times: int = 1) -> Attack:
    """Catch by telling neighbours apart. How broken, and in `times` as many trials, so that 4000 miss fewer than 1 in 100."""
    return Attack("distinguish", lambda trials, risk: distinguish(build(), times * trials, OpenDPNoise(), risk))


def measured(build: Callable[[], Case]) -> Attack:
    """Catch by measuring the noise."""
    return Attack("white box", lambda trials, risk: measure_noise(build(), trials, OpenDPNoise(), risk))


def found_without_noise(find: Callable[[], Finding]) -> Attack:
    """Catch by looking at what the noise is added to."""
    return Attack("noise-free", lambda trials, risk: find())
