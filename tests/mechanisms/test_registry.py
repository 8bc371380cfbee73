"""The registry, walked: whoever adds a mechanism and forgets its words, its proof, its attack or its documents is told."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspark.audit.confs import specs_of
from dpspark.audit.targets import TARGETS
from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.mechanisms.base import Limits, Mechanism, options_of
from dpspark.mechanisms.gram.base import GramMechanism
from dpspark.mechanisms.gram.noisy import NoisyGram
from dpspark.mechanisms.lines.auto import AutoLines
from dpspark.mechanisms.registry import BOUNDS, EXTRAS, REGISTRY, line_of_kernel, lines
from dpspark.mechanisms.regression.gradient_descent import GradientDescent
from dpspark.releasing.manifest import gram_facts
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec

WALKED = [mechanism for of in REGISTRY.values() for mechanism in of]
ATTACKED = [mechanism for mechanism in WALKED if mechanism is not AutoLines]  # which is one of the others
ROOT = Path(__file__).parents[2]
PARTS = ("Unit", "Requires", "Sensitivity", "Guarantee", "Source", "Public", "Excluded", "Tested by")


def called(mechanism: type[Mechanism]) -> str:
    return f"{getattr(mechanism, 'kind', 'extra')} {mechanism.name}"


def privacy_block(mechanism: type[Mechanism]) -> str:
    """Find the block of the class, of its kernel in the same file, or of the one that it shares its proof with."""
    here = vars(import_module(mechanism.__module__)).values()
    own = [each for each in here if isinstance(each, type) and each.__module__.startswith("dpspark.mechanisms")]
    blocks = [text for each in [*own, *mechanism.__mro__] if "Privacy\n" in (text := each.__doc__ or "")]
    return max(blocks, key=lambda text: sum(part in text for part in PARTS), default="")


@pytest.mark.parametrize("mechanism", [*ATTACKED, *EXTRAS.values(), *BOUNDS.values()], ids=called)
def test_it_says_what_it_is(mechanism: type[Mechanism]) -> None:
    """Kills: words, currencies, a proof or options that were forgotten."""
    assert mechanism.words.endswith(".")
    assert mechanism.currencies
    for limits in options_of(mechanism).values():
        assert limits.words.endswith(".")
    block = privacy_block(mechanism)
    assert [part for part in PARTS if part not in block] == []
    for test in block.split("Tested by")[1].split("\n")[0].split(","):
        assert list(ROOT.glob(test.strip())), test


@pytest.mark.parametrize("mechanism", ATTACKED, ids=called)
def test_it_is_attacked_and_documented(mechanism: type[Mechanism]) -> None:
    """Kills: a mechanism that nobody ever tried to break, or told anybody of."""
    target = TARGETS[mechanism.kind, mechanism.name]
    assert target.mutants(specs_of(mechanism.kind, mechanism.name)[0])  # that the attacks catch them: tests/audit
    assert (ROOT / "dpspark" / "audit" / mechanism.kind / f"{mechanism.name}.py").exists()
    documents = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert (
        mechanism.kind == "quantiles"
        or f"\n## {mechanism.name}\n" in documents
        or f"\n### {mechanism.name}\n" in documents
    )


@pytest.mark.parametrize("name", EXTRAS)
def test_extras_are_attacked(name: str) -> None:
    """Kills: an extra without an attack."""
    target = TARGETS["extra", name]
    assert target.mutants(specs_of("extra", name)[0])


OPTIONS = [(mechanism, name) for mechanism in WALKED for name in options_of(mechanism)]
TRIED = (1e-3, 0.2, 2, 5, 50, 10**5, 10**9)  # one of them is allowed, whatever an option is


def tried(limits: Limits) -> list[Any]:
    if limits.choices:
        return list(limits.choices)
    low, high = limits.range
    return [value for value in TRIED if low <= value <= high and not (limits.whole and isinstance(value, float))]


def facts_with(mechanism: type[Mechanism], **options: Any) -> dict[str, Any]:
    """Take what is said of a small release with these options, and not more: a manifest's spec has them in any case."""
    conf = specs_of(mechanism.kind, mechanism.name)[0].public()
    privacy = {**conf["privacy"], "epsilon": 0.5}  # theorems are for less than 1
    given = {"name": mechanism.name, **options}
    source, ledger = {"dataframe": True}, {"dataset": "registry"}
    spec = load_spec({**conf, "source": source, "ledger": ledger, "privacy": privacy, "mechanism": given})
    chosen = choose(spec)
    facts = chosen.facts()
    assert mechanism.unlike_options(Facts(spec.public()["mechanism"], ""), Facts(facts, "")) == ()
    if isinstance(chosen, GramMechanism):
        width = chosen.domain.width
        drawn = NoisyGram(chosen.domain, np.zeros((width, width)), chosen.noise)
        facts |= {"repair": gram_facts(spec, drawn)["repair"]}
    return facts


@pytest.mark.parametrize(
    ("mechanism", "option"), OPTIONS, ids=lambda each: each if isinstance(each, str) else called(each)
)
def test_an_option_does_something(mechanism: type[Mechanism], option: str) -> None:
    """Kills: an option that is declared and ignored. And what a conf asked for is never found unlike its own release."""
    usual, changed = facts_with(mechanism), []
    for value in tried(options_of(mechanism)[option]):
        with suppress(ConfError):  # the budget does not allow every value
            changed.append(facts_with(mechanism, **{option: value}) != usual)
    assert any(changed)


def test_every_line_is_found_by_its_kernels() -> None:
    """Kills: a line whose manifests nobody can read; a kernel that two lines have."""
    found = {line: line.drawn_by() for line in lines()}
    assert [line for line in found if not found[line]] == [AutoLines]
    drawing = [each for of in found.values() for each in of]
    assert [line_of_kernel(each.kernel_name) for each in drawing] == drawing
    assert all(each.target in ("median", "mean") for each in drawing)
    assert line_of_kernel("auto") is None


def test_a_name_stands_for_one_mechanism_of_its_kind() -> None:
    for of in REGISTRY.values():
        assert len({mechanism.name for mechanism in of}) == len(of)


def test_limits_are_those_of_the_mechanism() -> None:
    """Kills: a clip that only another mechanism takes and that is refused only once noise is calibrated."""
    conf = {
        **specs_of("theil_sen", "huber")[0].public(),
        "source": {"dataframe": True},
        "ledger": {"dataset": "registry"},
    }
    with pytest.raises(ConfError, match=r"mechanism.clip=50\.0; expected a number from 1e-06 to 10"):
        load_spec({**conf, "mechanism": {"name": "huber", "clip": 50}})
    assert facts_with(GradientDescent, clip=50)["clip"]["size"] == 50
