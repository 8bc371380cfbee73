"""Results have one base class: whoever shows one needs not know which it is."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pyarrow as pa
import pytest

from dpspark.analysis.content.groups import GROUPED
from dpspark.analysis.content.opening import KINDS
from dpspark.analysis.example import choose_response, example_formula
from dpspark.analysis.result import Answer, Result
from dpspark.published.reading import RELEASES, read_release
from dpspark.published.release import Release
from dpspark.spec.spec import load_spec
from tests.kinds_of_release import CONFS, published_kinds
from tests.manifests import BASE


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    return {kind: read_release(path) for kind, path in published_kinds(tmp_path_factory.mktemp("k")).items()}


@pytest.mark.parametrize("kind", CONFS)
def test_every_kind_gives_a_result(kind: str, kinds: dict[str, Release]) -> None:
    """Kills: a result that lacks what the others have, a note that its summary leaves out, NaN in JSON."""
    release: Any = kinds[kind]
    if release.content.group_by:
        release = release.only(tract="b")
    result = release.regress("income ~ age + sex") if release.kind == "gram" else release.regress()
    assert isinstance(result, Result)
    assert result.title.startswith("Release income 1" + (", tract=b" if "by group" in kind else ""))
    assert all(note in result.summary() for note in result.notes)
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False)) == result.to_dict()
    assert isinstance(result.to_frame(), pd.DataFrame)
    assert len(result.to_frame()) > 0
    assert result._repr_html_().startswith("<")
    assert result.plot().get_title()
    plt.close("all")


def test_what_else_is_asked_is_shown_in_the_same_way(kinds: dict[str, Release]) -> None:
    gram = kinds["gram"]
    for answer in (gram.all_subsets("income"), gram.pca(2), gram.describe()):
        assert isinstance(answer, Answer)
        assert str(answer) == answer.summary()
        assert answer.to_dict()
        assert answer._repr_html_().startswith("<")


def test_regress_is_written_once() -> None:
    """Kills: an option that one kind of release takes and another does not know."""
    for kind in RELEASES.values():
        assert inspect.getattr_static(kind, "regress") is Release.__dict__["regress"]
    options = inspect.signature(Release.regress).parameters.values()
    assert all(option.kind not in (option.VAR_POSITIONAL, option.VAR_KEYWORD) for option in options)


def test_every_kind_has_a_class_for_analysts() -> None:
    """Kills: a kind that can be read, but not held."""
    assert {*KINDS.values(), *GROUPED.values()} <= set(RELEASES)


@pytest.mark.parametrize("kind", ["gram by group", "gram_ridge by group"])
def test_a_table_of_all_groups_together(kind: str, tmp_path: Path) -> None:
    """A table without keys belongs to every group. Fails on 0.2.0: a KeyError when a group was chosen."""
    content = read_release(published_kinds(tmp_path, [kind])[kind]).content
    shares = {"column": ["age"], "side": ["lower"], "clipped_share": [0.1], "noise_std": [0.01]}
    content.tables["diagnostics"] = pa.table(shares)
    one = content.one({"tract": "a"})
    assert one.tables["diagnostics"].num_rows == 1
    assert [row["column"] for row in one.clipped] == ["age"]


def test_one_choice_of_a_response() -> None:
    """Kills: a report of a computed column, where `describe` suggests the one that was measured."""
    bounds = {"age": (18, 99), "income": (0, 5000), "squared": (0, 25e6)}
    columns = {name: {"lower": low, "upper": high} for name, (low, high) in bounds.items()}
    domain = load_spec({**BASE, "columns": columns}).domain
    computed = {"squared": "income * income"}
    assert choose_response(domain, computed) == "income"
    assert choose_response(domain, {}) == "squared"
    assert example_formula(domain, computed).startswith("income ~ ")
    categories = {"sex": {"categories": ["F"]}, "region": {"categories": ["north", "south"]}}
    assert choose_response(load_spec({**BASE, "columns": categories}).domain, {}) == "region[south]"
