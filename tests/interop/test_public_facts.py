"""`dpspark convert --to registry`, `jsonld` and `statement`: facts for the public, from the manifest alone."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpspark.interop.registry import MARK
from tests.commands import run
from tests.manifests import CONFS, bundle_of
from tests.report.bundles import conf_with, people, published

# The keys of a registry's entry that it must have, and those that a reader looks for.
BASIC = {
    *("name", "data_curators", "description", "intended_use"),
    *("data_product_type", "data_product_region", "publication_date"),
}


LINES = ("line-by-group", "quantiles", "gaussian-private-bounds")  # published by 0.2.0
GOLDEN = Path(__file__).parents[1] / "golden" / "v020" / "releases"


def converted(folder: Path, name: str, form: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, Any]]:
    release = GOLDEN / name / "1" if name in LINES else bundle_of(folder, CONFS[name])
    code, printed, _ = run(capsys, "convert", str(release), "--to", form, "--out", str(folder / "out"))
    assert code == 0
    return Path(printed.strip()).read_text(encoding="utf-8"), json.loads((release / "manifest.json").read_text())


@pytest.mark.parametrize("name", ["gaussian", "gaussian rho", "laplace", "gaussian person", "gram_ridge", *LINES])
def test_an_entry_states_what_was_spent_on_whom(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: another epsilon; a variant that is not the budget's; a person told as a row; a blank without its mark."""
    text, manifest = converted(tmp_path, name, "registry", capsys)
    entry = yaml.safe_load(text)["deployment"]
    privacy = manifest["privacy"]
    given = {key: privacy[key] for key in ("epsilon", "delta", "rho") if privacy[key]}
    assert entry["privacy_loss"]["privacy_parameters"] == given
    variants = {"rho": "Zero-concentrated DP", "delta": "Approximate DP", "epsilon": "Pure DP"}
    assert entry["dp_variant"]["variant_name"] == next(variants[key] for key in variants if key in given)
    assert ("person" in entry["privacy_loss"]["privacy_unit"].lower()) == ("max_rows" in privacy["unit"])
    assert entry["basic"].keys() == BASIC
    assert entry["basic"]["publication_date"] == manifest["created_at"][:10]
    blanks = sum(line.rstrip().split("#")[0].rstrip().endswith("''") for line in text.splitlines())
    assert text.count(f"# {MARK}: ") == blanks > 5


def test_a_catalog_reads_columns_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, manifest = converted(tmp_path, "gaussian", "jsonld", capsys)
    found = json.loads(text)
    assert [one["name"] for one in found["variableMeasured"]] == [column["name"] for column in manifest["columns"]]
    assert {one["contentUrl"] for one in found["distribution"]} == {*manifest["files"], "manifest.json"}
    assert {"name": "epsilon", "value": 1.0}.items() <= found["additionalProperty"][0].items()


def test_a_catalog_of_either_kind_finds_the_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a dcat:Dataset without title, description or distributions; a price that no manifest says."""
    text, manifest = converted(tmp_path, "gaussian", "jsonld", capsys)
    found = json.loads(text)
    for theirs, ours in {"dct:title": "name", "dct:description": "description", "dcat:keyword": "keywords"}.items():
        assert found[theirs] == found[ours]
    assert found["dct:issued"] == {"@type": "xsd:date", "@value": manifest["created_at"][:10]}
    files = {one["@id"]: one for one in found["distribution"]}
    assert {one["@id"] for one in found["dcat:distribution"]} == set(files) == {*manifest["files"], "manifest.json"}
    assert files["manifest.json"]["dcat:downloadURL"] == {"@id": "manifest.json"}
    assert not {"isAccessibleForFree", "license", "publisher", "creator"} & set(found)


def test_the_registry_shows_names_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its pages render Markdown and LaTeX. Kills: a name that is a program there, or a condition that is a tag."""
    odd = {name: {"lower": 0, "upper": 100} for name in ("<b>x", "$a$_b*", "age_2")}
    conf = conf_with(columns={**odd, "income": {"lower": 0, "upper": 200000}})
    values = people()
    values |= dict.fromkeys(odd, values["age"])
    release = published(tmp_path, {**conf, "where": "age<income and income>age"}, values)
    code, printed, _ = run(capsys, "convert", str(release), "--to", "registry", "--out", str(tmp_path / "out"))
    assert code == 0
    entry = yaml.safe_load(Path(printed.strip()).read_text(encoding="utf-8"))["deployment"]
    told = entry["dp_variant"]["data_domain"]
    assert r"\<b\>x from 0 to 100; \$a\$\_b\* from 0 to 100; age_2 from 0 to 100" in told
    assert r"age\<income and income\>age" in entry["implementation"]["preprocessing_and_hyperparameter_tuning"]


class Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.said = ""
        self.tags: list[str] = []

    def handle_data(self, data: str) -> None:
        self.said += data

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)


def test_a_statement_has_the_guarantee_and_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a guarantee in other words than the manifest's; a limitation that is left out; a script."""
    text, manifest = converted(tmp_path, "gaussian capped", "statement", capsys)
    page = Text()
    page.feed(text)
    assert manifest["guarantee"] in page.said
    assert all(limitation in page.said for limitation in manifest["limitations"])
    assert "script" not in page.tags


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gaussian", "the names, bounds and categories of columns"),
        ("gaussian-private-bounds", "the names and categories of columns, and bounds that were stated beforehand"),
    ],
)
def test_bounds_with_noise_are_not_told_as_published_without(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: bounds that were found in the data, among what is published without noise."""
    text, _ = converted(tmp_path, name, "registry", capsys)
    assert words in yaml.safe_load(text)["deployment"]["dp_variant"]["unprotected_quantities"].lower()
