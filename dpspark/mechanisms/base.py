"""A mechanism is one place: its class says all that the rest of the product must know of it.

A class of its own file has its name, its options, what its budget may be given in, how it is calibrated, what it costs, what
it says of itself in a manifest, and how it is read back from one. `mechanisms.registry` lists the classes. Nobody asks for a
mechanism's name or class to decide something: what differs between mechanisms is an attribute or a method here.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts
from dpspark.core.records import Records
from dpspark.mechanisms.errors.asked import AskedErrors
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import Cost, cost_of, same
from dpspark.privacy.events import Event

if TYPE_CHECKING:
    from dpspark.mechanisms.errors.meat import Meats

# An extra is paid for beside a release; private bounds are one that has several methods.
Kind = Literal["gram", "regression", "theil_sen", "quantiles", "extra", "bounds"]
Currency = Literal["epsilon", "both", "rho"]  # epsilon alone, epsilon and delta, rho
ANY: tuple[Currency, ...] = ("epsilon", "both", "rho")
GAUSSIAN: tuple[Currency, ...] = ("both", "rho")
FLOATING = "the sampler is floating point: its law is checked, not the last bits of its draws"


@dataclass(frozen=True)
class Limits:
    """The values that an option may have: one of `choices`, or a whole or real number in a range."""

    words: str
    whole: bool = False
    least: float | None = None  # included
    above: float | None = None  # excluded
    most: float | None = None  # included
    below: float | None = None  # excluded
    choices: tuple[str, ...] = ()

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest number that is allowed."""
        low = self.least if self.above is None else math.nextafter(self.above, math.inf)
        high = self.most if self.below is None else math.nextafter(self.below, -math.inf)
        return -math.inf if low is None else low, math.inf if high is None else high

    def check(self, name: str, value: Any) -> None:
        """Refuse a value of an option with a ValueError that names it. Not every caller has a conf."""
        if self.choices:
            if value not in self.choices:
                raise ValueError(f"mechanism.{name}={value!r}; expected one of {', '.join(self.choices)}.")
            return
        low, high = self.range
        if not low <= value <= high:
            least = "above 0" if self.above == 0 else f"from {low:g}"
            most = "" if high == math.inf else f" to {high:g}"
            raise ValueError(f"mechanism.{name}={value}; expected a number {least}{most}.")


def option(limits: Limits, default: float | None = None) -> Any:
    """Declare an option of a mechanism. All may be left out: defaults are given, or come from public quantities."""
    return field(default=default, metadata={"limits": limits})


@dataclass(frozen=True)
class NoOptions:
    """The options of a mechanism that has none."""


def options_of(mechanism: type[Mechanism]) -> dict[str, Limits]:
    """List the options that a mechanism takes, in the order in which it declares them."""
    return {each.name: each.metadata["limits"] for each in dataclasses.fields(mechanism.Options)}


@dataclass(frozen=True)
class Problem:
    """The task of a mechanism: a bounded row, what one record can change, and public guesses."""

    domain: Domain
    records: Records
    expected_rows: int | None = None  # a public guess: accuracy may depend on it, privacy must not
    errors: AskedErrors | None = None  # regressions whose standard errors are paid for, too


class Mechanism(ABC):
    """A way to turn exact statistics into a release."""

    kind: ClassVar[Kind]
    name: ClassVar[str]
    words: ClassVar[str]  # a sentence on how it protects, for reports
    currencies: ClassVar[tuple[Currency, ...]]
    Options: ClassVar[type] = NoOptions
    exact_sampler: ClassVar[bool] = True
    weighted: ClassVar[bool] = False  # its proof covers weighted rows
    by_group: ClassVar[bool] = True
    adds_up: ClassVar[bool] = True  # the noise of what it publishes of several groups together is known
    one_row: ClassVar[bool] = False  # it is proved for one row a record alone
    pure_alternative: ClassVar[str] = ""  # the mechanism of its kind for a budget without delta
    rows_alternative: ClassVar[str] = ""  # those of its kind for several rows a record, where it is for one
    robust_errors: ClassVar[bool] = False  # it can be released together with the meats of regressions
    tells_rows: ClassVar[bool] = False  # the first entry of what it publishes is the number of rows
    no_errors: ClassVar[str] = ""  # why a release by it has no standard errors, if it is always so: a limitation

    if TYPE_CHECKING:  # fields of some mechanisms, computed by others

        @property
        def domain(self) -> Domain:
            """The bounded rows that it reads."""

        @property
        def count_is_public(self) -> bool:
            """Whether it publishes the number of rows as it is."""

    @classmethod
    def check_options(cls, options: Any) -> None:
        """Refuse options that do not go together, with a ValueError that names them."""
        return None

    @classmethod
    def check_groups(cls, options: Any) -> None:
        """Refuse a release by group, with a ValueError, where it is not for groups."""
        if not cls.by_group:
            raise ValueError(f"{cls.name} is not for releases by group.")

    @classmethod
    def check_currency(cls, given: Currency, options: Any) -> None:
        """Refuse a budget in a currency that it does not have, with a ValueError."""
        if given in cls.currencies:
            return
        if "rho" in cls.currencies and given == "epsilon":
            raise ValueError(
                f"privacy.delta: missing. Give epsilon and delta, or rho alone; or use mechanism {cls.pure_alternative}."
            )
        raise ValueError(f"mechanism {cls.name} needs privacy.epsilon and privacy.delta.")

    @classmethod
    @abstractmethod
    def for_budget(cls, problem: Any, budget: Budget, options: Any) -> Self:
        """Calibrate it: the least noise within the budget. From public things alone."""

    @classmethod
    @abstractmethod
    def from_facts(cls, problem: Any, facts: Facts, claimed: Budget) -> Self:
        """Read it back from a manifest: its scales are taken, sensitivities are computed again, nothing is calibrated."""

    @abstractmethod
    def events(self) -> tuple[Event, ...]:
        """Say what it runs, for the ledger and the certificate. Never less than what is run."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Say every number that is needed to compute the guarantee again, for the manifest."""

    def for_domain(self, domain: Domain) -> Self:
        """Make the same mechanism for other bounds: the sensitivity of scaled rows does not depend on them."""
        raise NotImplementedError(f"the bounds of {self.kind} are public")

    @property
    def passes(self) -> int:
        """The number of times that it reads the rows."""
        return 1

    def paid_meats(self) -> Meats | None:
        """The meats of regressions that are paid for together with it; None where there are none."""
        return None

    def cost(self) -> Cost:
        """Price its events."""
        return cost_of(self.events())

    @property
    def trusted(self) -> tuple[str, ...]:
        """The facts that whoever checks a manifest takes on trust."""
        return () if self.exact_sampler else (FLOATING,)

    @abstractmethod
    def sensitivity_in_words(self) -> tuple[float, str]:
        """Say how far one record moves what it publishes, and in which norm."""

    def noise_in_words(self) -> str:
        """Say how large its noise is, for `dpspark check`."""
        raise NotImplementedError(f"the noise of {self.kind} has no words yet")

    @classmethod
    def unlike_options(cls, asked: Facts, facts: Facts) -> tuple[str, ...]:
        """Name the options that a conf gave and a manifest's facts contradict: ten matchings are not one.

        By default those that are facts of the same name, and those that it does not have. A fact with parts of its own is
        for its mechanism to compare.
        """
        given, own = [name for name in asked.names() if name != "name" and asked.has(name)], options_of(cls)
        both = [name for name in given if name in own and facts.has(name) and not facts.has_part(name)]
        others = (name for name in given if name not in own)
        return (*others, *(name for name in both if not _as_asked(name, own[name], asked, facts)))

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states and a mechanism read back from it does not: by default, numbers of its facts."""
        return tuple(unlike(self.facts(), stated))


def _as_asked(name: str, limits: Limits, asked: Facts, facts: Facts) -> bool:
    if limits.choices:
        return asked.text(name) == facts.text(name)
    if limits.whole:
        return asked.whole(name) == facts.whole(name)
    return asked.number(name) == facts.number(name)


def unlike(found: dict[str, Any], stated: Facts) -> list[str]:
    """Name the facts whose numbers differ, or are missing."""
    names = []
    for key, value in found.items():
        if isinstance(value, dict):
            if unlike(value, stated.part(key)):
                names.append(key)
        elif _is_number(value) and not _alike(stated.number(key), value):
            names.append(key)
    return names


def _alike(stated: float, found: float) -> bool:
    """Whole numbers are the same, others to the last digits but a few."""
    return stated == found or (isinstance(found, float) and same(stated, found))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
