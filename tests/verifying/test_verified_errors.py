"""Robust errors in a manifest: what is recomputed, and what a stranger cannot claim."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.opening import read_content
from dpspark.core.facts import Garbled
from dpspark.verifying.certificate import recompute
from dpspark.verifying.layout import problems
from dpspark.verifying.tables import noise_fits
from dpspark.verifying.verification import verify
from tests.manifests import CONFS, bundle_of, manifest_of

WITH_ERRORS = [name for name in CONFS if "errors" in name]


@pytest.mark.parametrize("name", WITH_ERRORS)
def test_what_was_released_is_what_it_says(tmp_path: Path, name: str) -> None:
    assert verify(bundle_of(tmp_path, CONFS[name])).passed


def quieter(manifest: dict[str, Any]) -> None:
    for key in ("diagonal_std", "off_diagonal_std"):
        manifest["mechanism"]["errors"]["regressions"][0][key] /= 1.2


def other_share(manifest: dict[str, Any]) -> None:
    manifest["spec"]["release"]["errors_share"] = 0.2


def told_share(manifest: dict[str, Any]) -> None:
    manifest["mechanism"]["errors"]["share_of_mu_squared"] *= 0.9


def one_regression_more(manifest: dict[str, Any]) -> None:
    manifest["spec"]["release"]["regressions"].append("age ~ sex")


def another_regression(manifest: dict[str, Any]) -> None:
    manifest["mechanism"]["errors"]["regressions"][0]["formula"] = "income ~ sex + age"


def unpaid_clip(manifest: dict[str, Any]) -> None:
    spending = manifest["privacy"]["spending"]
    spending[:] = [part for part in spending if part["stage"] != "residual bounds"]


def cheaper_clip(manifest: dict[str, Any]) -> None:
    (part,) = (part for part in manifest["privacy"]["spending"] if part["stage"] == "residual bounds")
    part["exponent"] *= 2


def weighted(manifest: dict[str, Any]) -> None:
    manifest["weight"] = manifest["spec"]["weight"] = {"name": "w", "column": "w", "upper": 5.0}


@pytest.mark.parametrize(
    "change",
    [quieter, other_share, told_share, one_regression_more, another_regression, unpaid_clip, cheaper_clip, weighted],
)
@pytest.mark.parametrize("name", ["gaussian errors", "gaussian errors replaced"])
def test_what_is_not_so_is_found(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Kills: a guarantee that is taken from the manifest's words and not from its scales."""
    manifest = manifest_of(CONFS[name])
    assert recompute(manifest).holds
    changed = copy.deepcopy(manifest)
    change(changed)
    with suppress(Garbled):
        assert not recompute(changed).holds


def changed_content(path: Path, **tables: pa.Table) -> GramContent:
    content = read_content(path)
    return GramContent(content.path, content.manifest, {**content.tables, **tables})


def test_tables_that_do_not_agree_are_found(tmp_path: Path) -> None:
    path = bundle_of(tmp_path, CONFS["gaussian errors"])
    content = read_content(path)
    assert problems(content) == []
    assert noise_fits(content)
    meat = content.tables["meat"]
    doubled = pc.multiply(meat["value"], 2.0)
    other = meat.set_column(meat.schema.get_field_index("value"), "value", doubled)
    assert problems(changed_content(path, meat=other)) == ["meat is not scaled_meat, in original units"]
    loud = meat.set_column(meat.schema.get_field_index("noise_std"), "noise_std", doubled)
    assert not noise_fits(changed_content(path, meat=loud))
    assert problems(changed_content(path, meat=meat.slice(1))) != []
    content.manifest["mechanism"]["residual_clips"][0] *= 1.01
    assert problems(content) == ["mechanism.residual_clips are none that can be drawn"]


@pytest.mark.parametrize("name", ["gram_ridge errors", "gaussian errors clusters"])
def test_a_share_that_is_only_told_is_found(name: str) -> None:
    manifest = manifest_of(CONFS[name])
    told_share(manifest)
    assert not recompute(manifest).holds


def test_a_target_that_no_bound_was_drawn_for_is_found(tmp_path: Path) -> None:
    """It decides whether standard errors by clusters are shown."""
    content = read_content(bundle_of(tmp_path, CONFS["gaussian errors clusters"]))
    assert problems(content) == []
    content.manifest["mechanism"]["clusters"]["target"] -= 1
    assert problems(content) == ["mechanism.clusters.target is not that of the bounds"]


def facts_below(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """List every number, word and flag, and where it is."""
    if isinstance(found, dict | list):
        pairs = found.items() if isinstance(found, dict) else enumerate(found)
        return [each for key, value in pairs for each in facts_below(value, (*path, key))]
    return [(path, found)]


def another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else value * 0.99 or 0.01
    return f"{value} "


CLAIM = {("epsilon",), ("delta",), ("rho",)}  # of a stage: what it may cost, which may be more than it does
# Cells around lines: the rows of their table are compared with these (verifying.numbers.cells_layout).
OF_TABLES = {("cells", "x_cells"), ("cells", "spread")}
NEW_STAGES = ("bounds", "residual bounds", "score bounds", "group_counts")


@pytest.mark.parametrize(
    "name",
    [
        "gaussian errors",
        "gaussian errors clusters",
        "gram_ridge errors clusters",
        "gaussian bounds by rank",
        "line counts",
    ],
)
def test_every_fact_is_compared(name: str) -> None:
    """Kills: a fact of meats, ranks, scores or group counts that anybody may rewrite, if only a word of it."""
    conf = {**CONFS["line huber"], "release/group_counts": {}} if name == "line counts" else CONFS[name]
    manifest = manifest_of(conf)
    assert recompute(manifest).holds
    stages = manifest["privacy"]["spending"]
    places = [("privacy", "spending", at) for at, part in enumerate(stages) if part["stage"] in NEW_STAGES]
    places += [("mechanism", "errors")] if "errors" in manifest["mechanism"] else []
    for place in places:
        part: Any = manifest
        for key in place:
            part = part[key]
        for path, value in facts_below(part):
            if path in CLAIM | OF_TABLES:
                continue
            changed = copy.deepcopy(manifest)
            here: Any = changed
            for key in (*place, *path[:-1]):
                here = here[key]
            here[path[-1]] = another(value)
            try:
                holds = recompute(changed).holds
            except Garbled:
                holds = False
            assert not holds, (*place, *path)
