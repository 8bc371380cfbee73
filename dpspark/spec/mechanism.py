"""The mechanism of a release: its name and its options, as the registry of mechanisms declares them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StrictInt, create_model

from dpspark.mechanisms.base import Limits, Mechanism, options_of
from dpspark.mechanisms.registry import REGISTRY, mechanism_named, mechanisms_of
from dpspark.spec.values import BudgetShare, Part, Positive, Text


class NamedMechanism(Part):
    """The options of a mechanism may all be left out: defaults come from public quantities."""

    name: Text | None = None
    """One of those of the kind of release; the first of them by default."""

    def check(self, kind: str) -> None:
        """Check that the name belongs to this kind of release, and the options to the name."""
        names = [mechanism.name for mechanism in mechanisms_of(kind)]
        if self.name_for(kind) not in names:
            raise ValueError(f"mechanism.name={self.name!r}; for kind {kind} expected one of {', '.join(names)}.")
        mechanism = self.class_for(kind)
        for given in self.given:
            if given not in options_of(mechanism):
                raise ValueError(
                    f"mechanism: {given} is not an option of {mechanism.name}; it has "
                    f"{', '.join(options_of(mechanism)) or 'none'}."
                )
        for given, value in self.given.items():
            options_of(mechanism)[given].check(given, value)
        mechanism.check_options(self.options_for(kind))

    @property
    def given(self) -> dict[str, Any]:
        """The options that the conf gives."""
        found = self.model_dump(exclude_none=True)
        found.pop("name", None)
        return dict(sorted(found.items()))

    def name_for(self, kind: str) -> str:
        return self.name or mechanisms_of(kind)[0].name

    def class_for(self, kind: str) -> type[Mechanism]:
        return mechanism_named(kind, self.name_for(kind))

    def options_for(self, kind: str) -> Any:
        """The options as the mechanism has them."""
        return self.class_for(kind).Options(**self.given)


def _type_of(limits: Limits) -> Any:
    """The type by which a conf's value is checked."""
    if limits.choices:
        return Literal[limits.choices]
    if limits.whole:
        return Annotated[StrictInt, Field(ge=limits.least, le=limits.most)]
    if limits.below is not None:  # a share of the budget
        return BudgetShare
    return Positive if limits.most is None else Annotated[Positive, Field(le=limits.most)]


def _all_options() -> dict[str, Limits]:
    """List every option of any mechanism, in the widest of its ranges: `check` knows that of the mechanism that is named."""
    found: dict[str, Limits] = {}
    for mechanisms in REGISTRY.values():
        for mechanism in mechanisms:
            for name, limits in options_of(mechanism).items():
                found[name] = _widest(name, found.get(name, limits), limits)
    return found


def _widest(name: str, one: Limits, other: Limits) -> Limits:
    """Join the ranges of an option that two mechanisms have. One name is one type: a choice, a whole number or a number."""
    if (one.whole, one.choices) != (other.whole, other.choices):
        raise TypeError(f"the option {name} is of two types")
    lowest = min(one, other, key=lambda limits: limits.range[0])
    highest = max(one, other, key=lambda limits: limits.range[1])
    words = one.words if other.words in one.words else f"{one.words} {other.words}"
    return replace(highest, words=words, least=lowest.least, above=lowest.above)


ALL_OPTIONS = _all_options()
if TYPE_CHECKING:
    MechanismPart = NamedMechanism
else:
    MechanismPart = create_model(
        "Mechanism",
        __base__=NamedMechanism,
        __doc__=NamedMechanism.__doc__,
        **{
            name: (_type_of(limits) | None, Field(None, description=limits.words))
            for name, limits in ALL_OPTIONS.items()
        },
    )
    MechanismPart.__qualname__ = "MechanismPart"  # where pickle finds it
