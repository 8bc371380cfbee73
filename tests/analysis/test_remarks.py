"""What stands under every table: how computed columns are defined, and what standard errors take for granted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import dpspark
from dpspark.analysis.remarks import alike, assumptions, definitions
from tests.report.bundles import CONF, conf_with, people, published

COMPUTED = {**CONF["columns"], "age2": {"expr": "age\n * age", "lower": 0, "upper": 9801}}
PERSON = {"unit": {"column": "person_id", "max_rows": 4}}
EQUAL = "Standard errors: equal variances assumed, and rows that are independent."
ALIKE = "Rows of one person_id (up to 4) are not independent: where there are several, the "
DEFINED = "age2 is computed: age * age"
TWO = {"group_by": ["tract"], "groups": ["a", "b"]}
LINE = {"kind": "theil_sen", "x": "age2", "y": "income", **TWO, "interval": {}}


def made(tmp_path: Path, **changes: Any) -> Any:
    values = people()
    conf = conf_with(**{"columns": COMPUTED, "privacy": {**PERSON, "epsilon": 4.0}, **changes})
    return dpspark.read_release(published(tmp_path, conf, {**values, "age2": values["age"] ** 2}))


def everywhere(fit: Any) -> list[str]:
    """What a person sees of it, in the shell and in a notebook."""
    return [fit.summary(), re.sub("<[^>]*>", "\n", fit._repr_html_())]


def test_under_a_matrix_regression(tmp_path: Path) -> None:
    """Fails on 0.2.0: nothing was said, and computed columns were never defined."""
    rel = made(tmp_path)
    fit = rel.regress("income ~ age2 + educ")
    for text in everywhere(fit):
        assert EQUAL in text
        assert ALIKE in text
        assert DEFINED in text
    content = fit.to_dict()
    assert content["assumptions"][0] == EQUAL
    assert content["assumptions"][1].startswith(ALIKE)
    assert content["definitions"] == {"age2": "age\n * age"}
    other = rel.regress("income ~ educ")
    assert other.to_dict()["definitions"] == {}  # of the columns that are in it
    assert DEFINED not in other.summary()
    assert DEFINED in re.sub("<[^>]*>", "\n", rel._repr_html_())


def test_under_repaired_and_bootstrapped_ones(tmp_path: Path) -> None:
    rel = made(tmp_path)
    assert EQUAL in rel.regress("income ~ age2 + educ", interval="bootstrap").summary()
    repaired = rel.regress("income ~ age2 + educ", repair="ridge")
    assert (EQUAL in repaired.summary()) == (repaired.interval_of != "none")


def test_under_a_ranking(tmp_path: Path) -> None:
    ranking = made(tmp_path).all_subsets("income", max_terms=2)
    for text in everywhere(ranking):
        assert "BIC and R-squared: equal variances assumed" in text
        assert "Rows of one person_id (up to 4) are not independent" in text
        assert DEFINED in text
    assert ranking.to_dict()["definitions"] == {"age2": "age\n * age"}
    assert len(ranking.to_dict()["assumptions"]) == 2


@pytest.mark.parametrize("groups", [{}, TWO])
def test_under_a_released_regression(tmp_path: Path, groups: dict[str, Any]) -> None:
    rel = made(tmp_path, release={"kind": "regression", "response": "income", "regressors": ["age2", "educ"], **groups})
    one = rel.group(tract="b") if groups else rel
    for text in everywhere(one.regress()):
        assert EQUAL in text
        assert ALIKE in text
        assert DEFINED in text
    assert one.regress().to_dict()["assumptions"][0] == EQUAL
    assert DEFINED in re.sub("<[^>]*>", "\n", rel._repr_html_())


def test_under_lines_and_quantiles(tmp_path: Path) -> None:
    """Fails on 0.2.0: nobody was told the level of an interval, nor what x is."""
    lines = made(tmp_path, release=LINE)
    for text in (lines.summary(), re.sub("<[^>]*>", "\n", lines._repr_html_())):
        assert "ci_low and ci_high are ends of 95% intervals." in text
        assert ALIKE in text
        assert DEFINED in text
    columns = {"age2": COMPUTED["age2"]}
    quantiles = made(tmp_path / "q", columns=columns, release={"kind": "quantiles", "probabilities": [0.5]})
    assert DEFINED in quantiles.summary()
    assert "intervals" not in quantiles.summary()
    assert quantiles.to_dict()["definitions"] == lines.to_dict()["definitions"] == {"age2": "age\n * age"}


@pytest.mark.parametrize(
    "release",
    [{}, {"kind": "regression", "response": "income"}, {"kind": "regression", "response": "income", **TWO}, LINE],
)
def test_in_the_report(tmp_path: Path, release: dict[str, Any]) -> None:
    """Fails on 0.2.0: neither in the page's data nor in its table of columns."""
    page = made(tmp_path, release=release).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert ALIKE in page
    assert "Computed as" in page
    assert "<code>age\n * age</code>" in page
    if release != LINE:
        assert EQUAL in page


def test_one_row_a_person_has_nothing_alike(tmp_path: Path) -> None:
    rel = made(tmp_path, privacy={"unit": {"column": "person_id", "max_rows": 1}, "epsilon": 4.0})
    assert assumptions(rel.manifest) == [EQUAL]


def test_rows_of_one_record_are_alike_too() -> None:
    manifest = {"spec": {"source": {"rows_per_record": 3}, "privacy": {}}}
    assert alike(manifest) == [
        "Rows of one record (up to 3) are not independent: where there are several, the standard errors are too small."
    ]


@pytest.mark.parametrize("spec", [None, {}, {"columns": []}, {"columns": {"a": 3}}, {"columns": {"a": {"expr": 4}}}])
def test_a_stranger_may_have_written_it(spec: Any) -> None:
    manifest = {"spec": spec, "columns": [{"name": "a"}]}
    assert definitions(manifest) == {}
    assert alike({"spec": {"privacy": {"unit": {"max_rows": "many"}}, "source": 3}}) == []
