"""The registry, walked: whoever adds a mechanism and forgets its words, its proof, its attack or its documents is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpspark.audit.confs import specs_of
from dpspark.audit.targets import TARGETS
from dpspark.mechanisms.base import Mechanism, options_of
from dpspark.mechanisms.registry import EXTRAS, REGISTRY

WALKED = [mechanism for kind in ("gram", "regression") for mechanism in REGISTRY[kind]]
COUNTS = ("diagnostics", "count")
DOCUMENTS = " ".join(path.read_text() for path in (Path(__file__).parents[2] / "docs").glob("*.md"))


def privacy_block(mechanism: type[Mechanism]) -> str:
    """The block of the class, or of the one that it shares its proof with."""
    return next((text for each in mechanism.__mro__ if "Privacy\n" in (text := each.__doc__ or "")), "")


@pytest.mark.parametrize("mechanism", [*WALKED, *(EXTRAS[name] for name in COUNTS)])
def test_it_says_what_it_is(mechanism: type[Mechanism]) -> None:
    assert mechanism.words.endswith(".")
    assert mechanism.currencies
    for part in ("Unit", "Requires", "Sensitivity", "Guarantee", "Source", "Public", "Excluded", "Tested by"):
        assert part in privacy_block(mechanism), part
    for test in privacy_block(mechanism).split("Tested by")[1].split("\n")[0].split(","):
        assert (Path(__file__).parents[2] / test.strip()).exists(), test
    for limits in options_of(mechanism).values():
        assert limits.words.endswith(".")


@pytest.mark.parametrize("mechanism", WALKED)
def test_it_is_attacked_and_documented(mechanism: type[Mechanism]) -> None:
    """A broken copy, too. Kills: a mechanism that nobody ever tried to break."""
    target = TARGETS[mechanism.kind, mechanism.name]
    assert target.mutants(specs_of(mechanism.kind, mechanism.name)[0])
    assert f"`{mechanism.name}`" in DOCUMENTS


@pytest.mark.parametrize("name", COUNTS)
def test_extras_are_attacked(name: str) -> None:
    assert ("stage", name) in TARGETS
