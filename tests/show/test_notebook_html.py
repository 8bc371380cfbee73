"""What a notebook shows of results: the numbers of the summary, harmless whatever names there are, and never long."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpspark
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.content.quantiles import QuantilesContent
from dpspark.bundle.schemas import PREDICTIONS_SCHEMA, QUANTILES_SCHEMA
from dpspark.published.gram import GramRelease
from dpspark.published.grouped import GroupedRelease
from dpspark.published.lines import LinesRelease
from dpspark.published.quantiles import QuantilesRelease
from dpspark.show.html import STYLE
from dpspark.show.notebook import in_notebook
from dpspark.show.notebook_progress import Cell
from dpspark.show.progress import Step, Tasks
from tests.conftest import income_columns, release_of

TAGS = {"style", "div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
HOSTILE = "<img src=x onerror=alert(1)>\"'&<script>"


class Page(HTMLParser):
    """Rows of cells and lines, as a browser would read them; refuses tags and attributes that reprs do not make."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.lines: list[str] = []
        self.status = ""
        self._kind = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= {"class", "colspan"}
        self.open.append(tag)
        self._kind = dict(attrs).get("class") or ""
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "p":
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        elif "p" in self.open:
            self.lines[-1] += data
            if "dps-status" in self._kind or "strong" in self.open:
                self.status += data


@pytest.fixture
def release(conf: dict[str, Any]) -> GramRelease:
    return release_of(conf, income_columns())


SHOWN: dict[str, Callable[[GramRelease], Any]] = {
    "estimates": lambda release: release.regress("income ~ age + educ + sex"),
    "no regressor": lambda release: release.regress("income ~ 1"),
    "repaired": lambda release: release.regress("income ~ age", repair="ridge"),
    "bootstrap": lambda release: release.regress("income ~ age", interval="bootstrap"),
    "subsets": lambda release: release.all_subsets("income"),
}


@pytest.mark.parametrize("what", SHOWN)
def test_html_has_the_numbers_of_the_summary(release: GramRelease, what: str) -> None:
    """Every line and cell, in order. Kills: a table of its own that drifts from the text; a note that is lost."""
    found = SHOWN[what](release)
    page = Page(found._repr_html_())
    text = [line.split() for line in found.summary().splitlines() if line.strip("- ")]
    shown = [" ".join(row).split() for row in page.rows] + [line.split() for line in page.lines]
    assert sorted(shown) == sorted(text)
    assert page.rows


def test_html_of_a_plan_and_of_components(release: GramRelease, conf: dict[str, Any]) -> None:
    """Kills: a section of the plan that is lost; a loading beside the wrong term."""
    plan = dpspark.plan(conf, ["income ~ age + educ"], rows=20_000)
    page = Page(plan._repr_html_())
    text = [line.split() for line in plan.summary().splitlines() if line]
    assert sorted([" ".join(row).split() for row in page.rows] + [line.split() for line in page.lines]) == sorted(text)
    components = release.pca(2)
    loadings = {row[0]: row[1:] for row in Page(components._repr_html_()).rows}
    for term, values in components.loadings().iterrows():
        assert loadings[str(term)] == [f"{value:.3f}" for value in values]


def test_not_identified_is_clear(conf: dict[str, Any]) -> None:
    """Kills: a table of NaN where the noise drowns the signal; a status that looks like any other line."""
    found = release_of({**conf, "privacy": {"epsilon": 0.001, "delta": 1e-9}}, income_columns(100)).regress(
        "income ~ age"
    )
    page = Page(found._repr_html_())
    assert found.status == "NOT_IDENTIFIED"
    assert page.status.startswith("NOT IDENTIFIED")
    assert page.rows == []
    assert "nan" not in found._repr_html_().replace(STYLE, "").lower()


def hostile(conf: dict[str, Any]) -> GramRelease:
    made, rows = copy.deepcopy(conf), income_columns(2000)
    made["columns"] = {"age": conf["columns"]["age"], HOSTILE: conf["columns"]["income"]}
    made["columns"]["sex"] = {"categories": ["F", HOSTILE]}
    sex = np.where(rows["sex"] == "F", "F", HOSTILE)
    return release_of(made, {"age": rows["age"], HOSTILE: rows["income"], "sex": sex})


def test_names_cannot_run(conf: dict[str, Any]) -> None:
    """A column and a category are markup. Kills: one that is not escaped (the parser refuses tags it does not know)."""
    release = hostile(conf)
    fit = release.regress(f"`{HOSTILE}` ~ age + sex")
    for found in (release, fit, release.all_subsets(HOSTILE), release.pca(2)):
        html = found._repr_html_()
        page = Page(html)
        assert "<img" not in html
        assert any(HOSTILE in text for text in [*page.lines, *(cell for row in page.rows for cell in row)])


GROUPS = 70_000
MANIFEST = {
    "release": {"name": "many", "version": "1", "kind": "theil_sen", "x": "age", "y": HOSTILE},
    "privacy": {"epsilon": 1.0, "delta": None, "rho": None, "neighbours": "add_remove"},
    "spec": {"release": {"group_by": ["tract"]}},
    "mechanism": {"name": "auto", "kernel": "huber"},
    "guarantee": "A sentence.",
}


def of_groups(kind: str, release: GramRelease) -> Any:
    keys = [f"{HOSTILE}{i}" for i in range(GROUPS)]
    tract = pa.field("tract", pa.string())
    if kind == "theil_sen":
        columns = {name: np.arange(2.0 * GROUPS) for name in ("x", "estimate", "slope", "intercept")}
        columns["x"] %= 2
        nothing = np.full(2 * GROUPS, np.nan)
        table = pa.table(
            {
                "tract": np.repeat(keys, 2),
                **columns,
                "ci_low": nothing,
                "ci_high": nothing,
                "status": ["ok"] * 2 * GROUPS,
            }
        ).select(["tract", *PREDICTIONS_SCHEMA.names])
        return LinesRelease(LinesContent(Path("nowhere"), MANIFEST, {"predictions": table}))
    if kind == "quantiles":
        columns = [["age"] * GROUPS, [0.5] * GROUPS, np.arange(GROUPS, dtype=float), ["ok"] * GROUPS, [9.0] * GROUPS]
        table = pa.table([keys, *columns], schema=pa.schema([tract, *QUANTILES_SCHEMA]))
        manifest = {**MANIFEST, "release": {"name": "many", "version": "1", "kind": "quantiles"}}
        return QuantilesRelease(QuantilesContent(Path("nowhere"), manifest, {"quantiles": table}))
    manifest = {**release.manifest, "spec": {"release": {"group_by": ["tract"]}}}
    one = release.tables["second_moment"]
    at = np.tile(np.arange(one.num_rows), GROUPS)
    tables = {"second_moment": one.take(at).add_column(0, tract, [np.repeat(keys, one.num_rows)])}
    return GroupedRelease(GroupedContent(Path("nowhere"), manifest, tables))


@pytest.mark.parametrize("kind", ["theil_sen", "quantiles", "gram"])
def test_many_groups_show_their_ends(conf: dict[str, Any], kind: str) -> None:
    """70,000 groups with hostile names. Kills: a page of all; a last group that is not the last; names that run."""
    small = {**conf, "columns": {"age": conf["columns"]["age"]}}
    html = of_groups(kind, release_of(small, income_columns(100)))._repr_html_()
    page = Page(html)
    assert len(html) < 15_000
    assert page.rows[1][0] == f"{HOSTILE}0"
    assert page.rows[-1][0] == f"{HOSTILE}{GROUPS - 1}"
    assert any(f"{GROUPS:,}" in line or f"{2 * GROUPS:,}" in line for line in page.lines)
    assert "nan" not in html.lower()


def test_sixty_columns_stay_small(conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a table of all terms by all components; a formula of a thousand characters."""
    monkeypatch.setattr("dpspark.analysis.pca.REPLICATES", 20)  # bands are not looked at
    rng = np.random.default_rng(0)
    names = [f"column_with_a_long_name_{i}" for i in range(60)]
    columns = {name: {"lower": -1, "upper": 1} for name in names}
    made = {**conf, "columns": columns, "privacy": {"epsilon": 100.0, "delta": 1e-9}}
    release = release_of(made, {name: rng.uniform(-1, 1, 20_000) for name in names})
    fit = release.regress(f"{names[0]} ~ .")
    assert fit.status == "OK"
    for found in (release, fit, release.pca(), release.all_subsets(names[0], max_terms=1)):
        html = found._repr_html_()
        Page(html)
        assert len(html) < 40_000
    rows = Page(fit._repr_html_()).rows
    assert rows[1][0] == "(intercept)"
    assert rows[-1][0] == names[-1]
    assert "more rows" in " ".join(rows[41])


def test_a_release_says_what_it_holds(release: GramRelease) -> None:
    """Means and spreads against the released covariance, with their noise. Kills: units of the scaled matrix."""
    rows = {row[0]: row[1:] for row in Page(release._repr_html_()).rows}
    second, covariance = release.second_moment(), release.covariance()
    for term in ("age", "income", "sex[M]"):
        *_, mean, mean_noise, spread, _ = (float(cell.replace(",", "") or 0) for cell in rows[term])
        assert mean == pytest.approx(second.loc["(intercept)", term] / second.iloc[0, 0], rel=1e-3)
        assert spread == pytest.approx(covariance.loc[term, term] ** 0.5, rel=1e-2)
        assert mean_noise > 0
    assert rows["age"][:2] == ["18", "99"]


def test_the_noise_of_a_mean(conf: dict[str, Any]) -> None:
    """400 releases of the same rows: the stated ± within a fifth of their spread. Kills: the count's own noise forgotten."""
    from tests.conftest import releases_of

    made = {**conf, "columns": {"age": conf["columns"]["age"]}, "privacy": {"epsilon": 0.2, "delta": 1e-9}}
    rows = {"age": np.full(3000, 95.0)}
    found = releases_of(made, rows, range(400))
    means = [r.second_moment().loc["(intercept)", "age"] / r.second_moment().iloc[0, 0] for r in found]
    stated = float(Page(found[0]._repr_html_()).rows[1][4])
    assert stated == pytest.approx(np.std(means), rel=0.2)


def test_only_the_colours_of_the_page() -> None:
    """Kills: a fixed colour or background, which a dark page would hide."""
    assert not re.search(r"#[0-9a-f]{3}|rgb|(?<!-)color: (?!inherit)|background: (?!none)", STYLE)


def test_no_notebook_here() -> None:
    assert not in_notebook()


def test_a_display_that_fails_stops_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: an error of the front end, or of a lost kernel, that ends a release."""
    monkeypatch.setitem(__import__("sys").modules, "IPython.display", None)
    cell = Cell("income 1")
    cell(Step("reading"))
    cell(Tasks(1, 2))
    cell.end()
