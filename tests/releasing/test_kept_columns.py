"""`privacy.fixed`: a replaced record keeps its group, and every statement of the guarantee says that nothing hides it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpspark.report.words import compared
from dpspark.spec.guarantee import kept_columns
from dpspark.verifying.certificate import recompute
from tests.commands import run
from tests.manifests import BY_GROUP, CONFS, FIXED, REPLACE, bundle_of
from tests.report.bundles import conf_with, published

KEPT = "whatever values any one record has, if it keeps its tract."


def manifest_of(path: Path) -> dict[str, Any]:
    return json.loads((path / "manifest.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["line huber rho", "line all_pairs", "line sufficient fixed"])
def test_a_guarantee_says_what_a_record_keeps(name: str, tmp_path: Path) -> None:
    """Kills: "whatever values any one record has" of a release that may tell a record's group."""
    manifest = manifest_of(bundle_of(tmp_path, CONFS[name]))
    assert KEPT in manifest["guarantee"]
    assert compared(manifest).endswith("is not hidden. Nor is its tract, which it keeps.")
    assert not recompute(manifest).problems
    manifest["guarantee"] = manifest["guarantee"].replace(", if it keeps its tract", "")
    assert any("guarantee: not the sentence" in problem for problem in recompute(manifest).problems)


@pytest.mark.parametrize(
    "changes",
    [{**BY_GROUP, **REPLACE}, BY_GROUP, FIXED, CONFS["gaussian person replaced by group"]],
    ids=["moving", "added", "no groups", "person"],
)
def test_nothing_is_kept_where_all_is_hidden(changes: dict[str, Any], tmp_path: Path) -> None:
    """Kills: an exception in the guarantee that the noise does not need."""
    manifest = manifest_of(bundle_of(tmp_path, changes))
    assert kept_columns(manifest) == ()
    assert "keeps its" not in manifest["guarantee"]


def test_facts_for_the_public_say_what_is_not_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: an entry of the registry that promises more than the noise; a list of groups that is told as protected."""
    conf = conf_with(
        columns={"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 200000}},
        privacy={"neighbours": "replace_one", "fixed": ["tract"]},
        release={"group_by": ["tract"], "groups": ["a", "b"]},
    )
    release = published(tmp_path, conf)
    code, printed, _ = run(capsys, "convert", str(release), "--to", "registry", "--out", str(tmp_path / "out"))
    assert code == 0
    entry = yaml.safe_load(Path(printed.strip()).read_text(encoding="utf-8"))["deployment"]
    assert "Nor is its tract, which it keeps." in entry["privacy_loss"]["privacy_unit_details"]
    assert "the list of groups" in entry["dp_variant"]["unprotected_quantities"]
    assert "for each of a public list of groups (tract)" in entry["basic"]["description"]
