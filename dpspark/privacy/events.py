"""What a release did, as records that an accountant can add up: the ledger stores them, composition.py prices them.

An event says what was run, never what it was meant to cost: the meaning of a kind must not change, as ledgers hold them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from dpspark.privacy.budget import Budget

ROUNDED_UP = 1 + 1e-11  # past the 1e-12 by which mechanisms round their noise up


@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian noise; `noise_multiplier` is sigma / sensitivity of all of it together.

    It is zCDP as it stands, and within total variation `sampler_distance` of a rounded continuous Gaussian (MATH §14).
    """

    noise_multiplier: float
    sampler_distance: float

    @classmethod
    def of(cls, mu: float, sampler_distance: float) -> Gaussian:
        return cls(math.nextafter(1 / mu, 0.0), sampler_distance)

    @property
    def mu(self) -> float:
        return 1 / self.noise_multiplier

    @property
    def rho(self) -> float:
        return self.mu**2 / 2


@dataclass(frozen=True)
class Exponential:
    """`count` exponential mechanisms, each pure with `epsilon` and of bounded range: epsilon²/8-zCDP.

    Rogers & Steinke (2021); Cesar & Rogers (2021), Lemma 3.4.
    """

    epsilon: float
    count: int = 1

    @property
    def rho(self) -> float:
        return self.count * min(self.epsilon, self.epsilon**2 / 8)


@dataclass(frozen=True)
class Pure:
    """`count` other pure mechanisms: epsilon²/2-zCDP. Bun & Steinke (2016), Proposition 1.4."""

    epsilon: float
    count: int = 1

    @property
    def rho(self) -> float:
        return self.count * min(self.epsilon, self.epsilon**2 / 2)


@dataclass(frozen=True)
class Approximate:
    """Known by its (epsilon, delta) alone: delta-approximate epsilon²/2-zCDP. Bun & Steinke (2016), Section 8."""

    epsilon: float
    delta: float

    @property
    def rho(self) -> float:
        return min(self.epsilon, self.epsilon**2 / 2)


@dataclass(frozen=True)
class Claim:
    """Nothing is known of what was run: its (epsilon, delta) is added as it stands."""

    epsilon: float
    delta: float

    @property
    def rho(self) -> float:
        return Pure(self.epsilon).rho


@dataclass(frozen=True)
class Concentrated:
    """Known by its rho alone."""

    rho: float


Event = Gaussian | Exponential | Pure | Approximate | Claim | Concentrated
_KINDS: dict[str, type] = {
    "gaussian": Gaussian,
    "exponential": Exponential,
    "pure": Pure,
    "approximate": Approximate,
    "claim": Claim,
    "zcdp": Concentrated,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class Charge:
    """What a release claims as a whole, and what it ran: both hold, so that the cheaper may be charged."""

    budget: Budget
    events: tuple[Event, ...]

    @classmethod
    def of(cls, budget: Budget, events: Iterable[Event] | None = None) -> Charge:
        """Without events, or with none of them: what the claim alone allows to say. Nothing is free."""
        return cls(budget, tuple(events or ()) or event_of(budget))

    @property
    def is_bare(self) -> bool:
        return any(isinstance(event, Claim) for event in self.events)

    @property
    def has_rho(self) -> bool:
        known = all(event.delta == 0 for event in self.events if isinstance(event, Approximate | Claim))
        return self.budget.rho is not None or known

    @property
    def rho(self) -> float:
        """A claim in rho is charged as written: what was run is a hair below it."""
        return self.budget.rho if self.budget.rho is not None else sum(event.rho for event in self.events)


def event_of(budget: Budget) -> tuple[Event, ...]:
    if budget.rho is not None:
        return (Concentrated(budget.rho),)
    assert budget.epsilon is not None
    return (Claim(budget.epsilon, budget.delta or 0.0),)


def to_json(events: Iterable[Event]) -> str:
    return json.dumps([{"event": _NAMES[type(event)], **asdict(event)} for event in events], allow_nan=False)


def from_json(text: str) -> tuple[Event, ...]:
    return tuple(_from_record(record) for record in json.loads(text))


def _from_record(record: dict[str, float | str]) -> Event:
    kind = _KINDS[str(record["event"])]
    return kind(**{field.name: record[field.name] for field in fields(kind)})
