"""The guarantee recomputed from manifests: every mechanism's holds, and none does once a number is moved."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import dp_accounting
import pytest

from dpspark.core.facts import Facts, Garbled
from dpspark.spec.guarantee import kept_columns, protected, sentence
from dpspark.spec.parts import PrivacyUnit
from dpspark.spec.spec import hash_of
from dpspark.verifying.certificate import budget_of, recompute
from dpspark.verifying.rows import records_of
from tests.manifests import BY_GROUP, CONFS, LINE, PERSON, manifest_of, named

MANIFESTS = {name: manifest_of(changes) for name, changes in CONFS.items()}
# The numbers that noise, exponents and steps are made of. Each of them is in the proof of some mechanism.
SCALES = {
    *("diagonal_std", "off_diagonal_std", "cross_std", "response_std", "least_eigenvalue_std"),
    *("residual_cross_std", "residual_response_std"),
    *("scale", "level_scale", "sigma", "off_diagonal_sigma", "ridge", "ridge_removed", "ridge_before"),
}
EXPONENTS = {"exponent", "decay"}


def holds(manifest: dict[str, Any]) -> bool:
    """By the recomputation of its numbers alone: the spec's hash, and the words for what is claimed, are made anew."""
    manifest["spec_hash"] = hash_of(manifest["spec"])
    with suppress(AttributeError, KeyError, TypeError, ValueError, ArithmeticError, Garbled):
        reword(manifest)
    try:
        return recompute(manifest).holds
    except Garbled:
        return False


def reword(manifest: dict[str, Any]) -> None:
    privacy, asked = manifest["privacy"], manifest["spec"]["privacy"]
    unit = PrivacyUnit(**asked["unit"]) if "unit" in asked else None
    public = "published as it is" in manifest["guarantee"]
    manifest["guarantee"] = sentence(
        budget_of(Facts(privacy, "")), asked["neighbours"], unit, public, kept_columns(manifest)
    )
    privacy["unit"] = protected(unit, privacy["unit"]["rows_per_record"])


def number_paths(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Find the path to every number of a manifest."""
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from number_paths(value, (*path, key))
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield path


def put(manifest: dict[str, Any], path: tuple[Any, ...], change: Any) -> dict[str, Any]:
    new = copy.deepcopy(manifest)
    here = new
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = change(here[path[-1]])
    return new


@pytest.mark.parametrize("name", CONFS)
def test_what_was_released_holds(name: str) -> None:
    """Kills a mutant that recomputes too much: a release must not fail its own certificate."""
    manifest = MANIFESTS[name]
    assert hash_of(manifest["spec"]) == manifest["spec_hash"]
    found = recompute(manifest)
    assert not found.problems
    for part in found.parts:
        assert (part.holds, part.differs) == (True, ()), part.cost.shown(part.claimed)


@pytest.mark.parametrize("name", CONFS)
def test_less_noise_than_claimed_is_found(name: str) -> None:
    """Kills the mutants that forget one of a mechanism's scales: 1% less of any of them is found."""
    manifest = MANIFESTS[name]
    tried = 0
    for path in number_paths({key: manifest[key] for key in ("mechanism", "privacy")}):
        if path[-1] in SCALES or (path[-1] == "noise" and "line" in name):
            tried += 1
            factor = 1.01 if path[-1] == "noise" else 0.99
            assert not holds(put(manifest, path, lambda v, f=factor: v * f)), path
        elif path[-1] in EXPONENTS:
            tried += 1
            assert not holds(put(manifest, path, lambda v: v * 1.01)), path
    assert tried


FOLLOW = {"mu": 1 / 0.99, "rho": 1 / 0.99**2, "mean_removed": 0.99, "noise": 1 / 0.99}  # what else goes with the scales
SLACK = (
    "theorem",
    "wang",
    "kalaja",
)  # papers' constants, which the guarantee does not need: they are checked by themselves


@pytest.mark.parametrize("name", CONFS)
def test_less_noise_everywhere_is_found(name: str) -> None:
    """A forger who changes all numbers alike: the cost itself is above the claim, whatever the manifest says of it."""
    manifest = MANIFESTS[name]
    for path in number_paths({"mechanism": manifest["mechanism"]}):
        factor = 0.99 if path[-1] in SCALES else 1 / 0.99 if path[-1] in EXPONENTS else FOLLOW.get(path[-1], 1.0)
        manifest = put(manifest, path, lambda v, f=factor: v * f if f != 1 else v)
    last = recompute(manifest).parts[-1]
    assert not holds(manifest)
    assert last.holds == any(part in name for part in SLACK)


@pytest.mark.parametrize("name", CONFS)
def test_less_than_was_spent_is_found(name: str) -> None:
    """A smaller claim: in `privacy` alone, or everywhere and said in the sentence, too."""
    manifest = MANIFESTS[name]
    slack = 0.05 if any(part in name for part in ("theorem", "wang", "kalaja")) else 0.99
    for key in ("epsilon", "delta", "rho"):
        if not manifest["privacy"][key]:
            continue
        assert not holds(put(manifest, ("privacy", key), lambda v: v * 0.99))
        everywhere = manifest
        for path in number_paths({part: manifest[part] for part in ("privacy", "spec")}):
            if path[-1] == key and (path[0] == "privacy" or path[1] == "privacy"):
                everywhere = put(everywhere, path, lambda v: v * slack)
        pure_anyway = key == "delta" and manifest["mechanism"].get("calibration") == "pure"
        assert holds(everywhere) == pure_anyway, key


@pytest.mark.parametrize("name", CONFS)
def test_wider_bounds_are_found(name: str) -> None:
    """In the columns alone: the spec has the others. Kills the mutant that does not compare them."""
    manifest = MANIFESTS[name]
    for path in number_paths({"columns": manifest["columns"]}):
        factor = 0.99 if path[-1] == "lower" else 1.01
        assert not holds(put(manifest, path, lambda v, f=factor: v * f - (f < 1))), path


@pytest.mark.parametrize(
    ("name", "paths", "factor"),
    [
        ("gaussian capped", [("row_norm", "radius"), ("spec", "row_norm", "radius")], 1.01),
        ("gaussian projected", [("row_norm", "radius"), ("spec", "row_norm", "radius")], 1.01),
        ("gram_ridge capped", [("row_norm", "radius"), ("spec", "row_norm", "radius")], 1.01),
        ("gaussian weighted", [("weight", "upper"), ("spec", "weight", "upper")], 1.01),
        ("gaussian query", [("privacy", "unit", "rows_per_record"), ("spec", "source", "rows_per_record")], 2),
        ("line huber", [], 1),
    ],
)
def test_more_than_the_noise_is_for_is_found(name: str, paths: list[tuple[Any, ...]], factor: float) -> None:
    """Longer rows, heavier ones or more of them, in the manifest and its spec alike."""
    manifest = MANIFESTS[name]
    for path in paths:
        manifest = put(manifest, path, lambda v: v * factor)
    assert holds(manifest) == (not paths)


def test_another_column_or_neighbour_is_found() -> None:
    """A wider matrix, or neighbours that change more, than the noise was for."""
    manifest = copy.deepcopy(MANIFESTS["gaussian"])
    manifest["columns"].append({"name": "wealth", "lower": 0.0, "upper": 1.0})
    manifest["spec"]["columns"]["wealth"] = {"lower": 0.0, "upper": 1.0}
    manifest["terms"].append("wealth")
    assert not holds(manifest)
    for name in ("gaussian", "laplace", "wishart", "gram_ridge", "objective", "descent", "line depth", "quantiles"):
        manifest = copy.deepcopy(MANIFESTS[name])
        for part in (manifest["privacy"], manifest["spec"]["privacy"]):
            part["neighbours"] = "replace_one"
        manifest["privacy"]["its_rows_are"] = "replaced"
        manifest["privacy"]["moves_between_groups"] = "group_by" in manifest["spec"]["release"]
        assert not holds(manifest), name


def test_an_exact_count_needs_replaced_rows() -> None:
    """Kills the mutant that trusts count_is_exact."""
    for name in ("gaussian", "laplace", "gram_ridge"):
        manifest = copy.deepcopy(MANIFESTS[name])
        manifest["mechanism"]["noise"]["count_is_exact"] = True
        assert not holds(manifest), name


@pytest.mark.parametrize(
    ("name", "path", "words"),
    [
        ("gaussian", ("guarantee",), lambda text: text.replace("any one record", "any one hospital, all its patients")),
        ("gaussian", ("guarantee",), lambda text: f"The release is (0.01, 0)-differentially private. Not: {text}"),
        ("gaussian replaced", ("guarantee",), lambda text: text.replace("; the number of records is published", "")),
        ("gaussian", ("privacy", "unit", "record"), lambda text: "one person: all rows"),
        ("gaussian", ("privacy", "count_is_exact"), lambda _: True),
        ("gaussian person", ("guarantee",), lambda text: text.replace("person", "household")),
        ("gaussian person", ("privacy", "unit", "column"), lambda _: "household"),
        ("gaussian person", ("privacy", "unit", "nulls"), lambda _: "own"),
    ],
)
def test_words_for_another_guarantee_are_found(name: str, path: tuple[str, ...], words: Any) -> None:
    """Kills the mutant that looks for the numbers alone: whom a release protects is half of what it guarantees."""
    manifest = MANIFESTS.get(name) or manifest_of(PERSON)
    assert recompute(manifest).holds
    assert recompute(put(manifest, path, words)).problems


def test_other_options_than_those_asked_for_are_found() -> None:
    """Ten matchings that are told as one, with one's exponent: each of the two parts fits by itself."""
    manifest = manifest_of({**LINE, **BY_GROUP, **named("exponential", matchings=10)})
    assert holds(manifest)
    mechanism = manifest["mechanism"]
    mechanism.update(matchings=1, exponent=mechanism["exponent"] * 10)
    mechanism["sensitivity"]["value"] /= 10
    assert not holds(manifest)
    manifest = copy.deepcopy(MANIFESTS["descent rho"])
    manifest["mechanism"].update(steps=1, scale=manifest["mechanism"]["scale"] / math.sqrt(7))
    assert not holds(manifest)


@pytest.mark.parametrize(
    ("changes", "option", "other"),
    [
        ({**LINE, **named("exponential", matchings=10, cells=64)}, "cells", 65),
        ({**LINE, **named("huber", clip=0.2)}, "clip", 0.3),
        ({**LINE, **named("gradient_descent", clip=0.2)}, "clip", 0.3),
        ({**LINE, **named("widened", width=0.01)}, "width", 0.02),
        (named("wishart", scale=2.0), "scale", 3.0),
        (named("wishart"), "calibration", "theorem"),
        (named("wishart"), "steps", 3),
        (named("johnson_lindenstrauss", rows=10**6), "rows", 10**5),
        (named("inverse_wishart", degrees_of_freedom=10**6), "degrees_of_freedom", 10**5),
        (named("inverse_wishart", adaptive=0.2), "adaptive", 0.3),
        (named("inverse_wishart"), "adaptive", 0.3),
        (named("inverse_wishart", adaptive=0.2), "adaptive", None),
    ],
    ids=str,
)
def test_each_option_is_compared_with_its_fact(changes: dict[str, Any], option: str, other: Any) -> None:
    """Kills: an option that nobody compares; the spec then asks for another release than this one."""
    manifest = manifest_of(changes)
    assert recompute(manifest).problems == ()
    manifest["spec"]["mechanism"][option] = other
    assert recompute(manifest).problems == (f"not as in the spec: mechanism.{option}",)


def test_a_stage_that_is_not_paid_for_is_found() -> None:
    manifest = copy.deepcopy(MANIFESTS["gaussian stages"])
    manifest["privacy"]["spending"] = manifest["privacy"]["spending"][1:]
    assert not holds(manifest)
    manifest = copy.deepcopy(MANIFESTS["gaussian stages"])
    manifest["privacy"]["spending"][2]["epsilon"] = 1.0
    assert not holds(manifest)


@pytest.mark.parametrize(
    ("name", "path"), [("laplace", ("mechanism",)), ("laplace weighted", ("privacy", "spending", 0))]
)
def test_more_noise_than_was_drawn_is_found(name: str, path: tuple[Any, ...]) -> None:
    """Kills the mutant that reads the smallest scale alone: analyses go by what is said of the noise."""
    for key in ("diagonal_std", "off_diagonal_std"):
        assert not holds(put(MANIFESTS[name], (*path, "noise", key), lambda v: v * 1.01)), key


def test_an_unknown_mechanism_or_law_is_refused() -> None:
    """Never priced as something else."""
    for name in ("gaussian", "wishart", "inverse_wishart"):
        manifest = copy.deepcopy(MANIFESTS[name])
        for part in (manifest["mechanism"], manifest["spec"]["mechanism"]):
            part["name"] = "cauchy"
        with pytest.raises(Garbled, match="known here"):
            recompute(manifest)
    for name in ("gaussian", "laplace", "wishart"):
        with pytest.raises(Garbled, match="law"):
            recompute(put(MANIFESTS[name], ("mechanism", "noise", "law"), lambda _: "cauchy"))


WILD = [None, True, "x", [], {}, -1, 0, 1e308, 10**400, 2**63, float("inf"), float("nan"), [[1]], {"a": 1}]


@pytest.mark.parametrize(
    "name", ["gaussian stages", "inverse_wishart adaptive", "objective", "line exponential", "quantiles"]
)
def test_a_garbled_manifest_is_refused_quietly(name: str) -> None:
    """Anything in place of anything: it holds or not, and there is no other error."""
    manifest = MANIFESTS[name]

    def everywhere(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield (*path, key)
            if isinstance(value, dict | list):
                yield from everywhere(value, (*path, key))

    for path in everywhere(manifest):
        for value in WILD:
            changed = put(manifest, path, lambda _, v=value: v)
            holds(changed)


@pytest.mark.parametrize("name", ["gaussian", "gaussian replaced", "gaussian capped", "gram_ridge", "adassp"])
def test_another_accountant_agrees(name: str) -> None:
    """From the manifest's numbers by dp-accounting: what the recomputation says is neither more nor less."""
    mechanism = MANIFESTS[name]["mechanism"]
    noise, sensitivity = mechanism["noise"], mechanism["sensitivity"]
    parts = [(sensitivity.get("value", sensitivity.get("squares")), noise["diagonal_std"])]
    parts += [(sensitivity[key], noise[f"{key}_std"]) for key in ("cross", "response") if key in sensitivity]
    if noise.get("least_eigenvalue_std"):
        parts.append((sensitivity["least_eigenvalue"], noise["least_eigenvalue_std"]))
    multiplier = 1 / math.sqrt(sum((change / std) ** 2 for change, std in parts))
    other = dp_accounting.get_epsilon_gaussian(multiplier, 1e-9)
    (part,) = recompute(MANIFESTS[name]).parts
    assert part.cost.epsilon_at(1e-9) == pytest.approx(other, rel=1e-5)


def test_samplers_of_all_groups_that_can_change_are_counted() -> None:
    """Kills: the sampler's distance of one group, where a person's rows may be in three, or a moving record's in two."""
    for name, groups in (("gaussian", 1), ("gaussian by moving group", 2), ("gaussian person by group", 3)):
        assert records_of(Facts(MANIFESTS[name], "")).groups == groups


@pytest.mark.parametrize("delta", [1e-30, 1e-100])
@pytest.mark.parametrize("name", ["gaussian", "gaussian weighted", "gram_ridge", "adassp", "descent", "refined"])
def test_a_tiny_delta_is_met(name: str, delta: float) -> None:
    """Kills: the price of an event, which is rounded up for the ledger, taken for that of the noise."""
    assert recompute(manifest_of({**CONFS[name], "privacy/delta": delta})).holds
