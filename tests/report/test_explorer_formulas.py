"""Formulas in a report's explorer, several regressions side by side, and files of them, in a browser."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.analysis.model_table import model_table
from dpspark.errors import ConfError
from dpspark.interop.table_files import WRITERS
from tests.report.browser import opened
from tests.report.bundles import CONF, conf_with, people, published

ASKED = ["income ~ C(sex)*educ + I(age**2) + age", "income ~ educ + log(age)", "income ~ age + educ"]
SHOWN = ["income ~ age", "income ~ age + educ", "income ~ sex*educ + region", "income ~ `a_%&#{}` + age"]
READ = [
    "income ~ age",
    "income ~ C(sex)*educ + I(age**2)",
    "income ~ educ:sex + educ + sex",
    "income ~ (sex + educ)^2 + I(age * age)",
    "income ~ sex/educ",
    "income ~ age:educ",
    "income ~ I(educ*age) + np.log(age)",
    "income ~ poly(age, 2, raw=True)",
    "income ~ poly(age, 2, raw=True)^2",
    "income ~ poly(age, 2)",
    'income ~ C(region, Treatment("west"))',
    "income ~ C(region, Treatment('south')) - 1",
    "income ~ region + sex - 1",
    "income ~ 0 + region[west] + age",
    "income ~ .",
    "income ~ . - sex - region[west]",
    "income ~ (. - sex)",
    "income ~ 1",
    "income ~ - 1",
    "income ~ ",
    "income",
    "log(age) ~ educ",
    "log(age) ~ .",
    "`log(age)` ~ .",
    "income ~ poly(age + educ, 2, raw=True)",
    "income ~ I((age + educ + 3)**8)",
    "sex ~ age",
    "sex[M] ~ age + sex",
    "age ~ age",
    "income ~ I(educ**3)",
    "income ~ I(2*age - age)",
    "income ~ I(age/educ)",
    "income ~ I(3)",
    "income ~ I(age",
    "income ~ I(age +)",
    "income ~ sin(age)",
    "income ~ sex:region",
    "income ~ sex:educ",
    "income ~ region[north] + region[south] + region[west]",
    "income ~ C(age)",
    "income ~ C(region, Sum)",
    "income ~ C(region, Treatment(north1))",
    "income ~ age educ",
    "income ~ age + 2",
    "income ~ (age + educ)^9",
    "income ~ age ! educ",
    "income ~ nothing",
    "income ~ `a_%&#{}`",
    "income ~ a_%&#{}",
]


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with columns that formulas asked for, one that is computed, one with an odd name, and robust errors."""
    values = people()
    values["a_%&#{}"] = np.random.default_rng(9).uniform(0, 1, len(values["age"]))
    made = {
        "age_educ": values["age"] * values["educ"],
        "I(age**2)": values["age"] ** 2,
        "sex[M]:educ": (values["sex"] == "M") * values["educ"],
        "log(age)": np.log(values["age"]),
    }
    more = {"age_educ": {"expr": "educ * age", "lower": 18, "upper": 1584}, "a_%&#{}": {"lower": 0, "upper": 1}}
    conf = conf_with(
        columns={**CONF["columns"], **more},
        release={"regressions": ASKED, "errors": "hc1", "errors_share": 0.5},
        privacy={"epsilon": 40.0},
    )
    return published(tmp_path_factory.mktemp("products"), conf, {**values, **made})


@pytest.fixture(scope="module")
def shown_page(products: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dpspark.read_release(products).report(tmp_path_factory.mktemp("page") / "page.html", regress=SHOWN)


def start(words: str) -> str:
    """What is wrong, up to where the page and the command go on in their own words."""
    if words.startswith("no column"):
        return "no column"  # the page names it as it was written
    return " ".join(words.replace("'", "").split()).split(".")[0].split(" on")[0].split(";")[0]


def test_formulas_find_the_same_columns_as_by_the_command(browser: Any, products: Path, shown_page: Path) -> None:
    """Kills: a term that finds another column, or none, or is taken where the command refuses it; another coding."""
    content = dpspark.read_release(products).content
    taken = refused = 0
    with opened(browser, shown_page) as page:
        for text in READ:
            mine = page.evaluate("t => { try { return dpspark.parse(t); } catch (e) { return e.message; } }", text)
            try:
                theirs = content.parse(text)
            except ConfError as error:
                what = str(error).removeprefix(f"formula {text!r}").removeprefix(": ").removeprefix("; ")
                assert isinstance(mine, str), (text, mine)
                assert start(mine) == start(what), text
                refused += 1
            else:
                assert isinstance(mine, dict), (text, mine)
                found = (mine["response"], tuple(mine["regressors"]), mine["intercept"])
                assert found == (theirs.response, theirs.regressors, theirs.intercept), text
                taken += 1
    assert taken >= 15
    assert refused >= 20


def test_a_formula_is_typed(browser: Any, products: Path, shown_page: Path) -> None:
    """Kills: a formula that is read and not drawn; boxes that say something else; a refusal without its reason."""
    found = dpspark.read_release(products)
    with opened(browser, shown_page) as page:
        field, title = page.get_by_label("Formula"), page.locator("#explorer h3")
        field.fill("income ~ C(sex)*educ + I(age**2)")
        page.keyboard.press("Enter")
        assert title.inner_text() == "income ~ sex[M] + educ + I(age**2) + sex[M]:educ"
        assert page.get_by_label("I(age**2)", exact=True).is_checked()
        assert not page.get_by_label("age", exact=True).is_checked()
        cell = page.locator("#explorer .coefficients tbody tr:nth-child(5) td").first
        theirs = found.regress("income ~ C(sex)*educ + I(age**2)").params["sex[M]:educ"]
        assert float(cell.get_attribute("data-value") or "") == pytest.approx(theirs, rel=1e-6)
        field.fill("income ~ educ + I(educ**3)")
        page.get_by_role("button", name="Run").click()
        words = page.locator("#explorer .output").inner_text()
        assert words.startswith("This formula is refused: no column I(educ**3) in this release. It has educ,")
        assert "the publisher" in words
        assert field.get_attribute("aria-invalid") == "true"
        assert page.locator("#explorer table").count() == 0
        page.get_by_label("age", exact=True).check()  # goes on from what the boxes say
        assert field.input_value() == "income ~ age + educ + sex[M] + I(age**2) + sex[M]:educ"
        assert field.get_attribute("aria-invalid") is None


def test_some_categories_alone_have_a_box_that_is_neither_on_nor_off(browser: Any, shown_page: Path) -> None:
    """Kills: another reference that the boxes turn into the first one when something else is chosen."""
    with opened(browser, shown_page) as page:
        page.get_by_label("Formula").fill('income ~ C(region, Treatment("west"))')
        page.keyboard.press("Enter")
        assert page.get_by_label("region (3 categories)").evaluate("box => box.indeterminate")
        page.get_by_label("age", exact=True).check()
        assert page.locator("#explorer h3").inner_text() == "income ~ age + region[north] + region[south]"
        page.get_by_label("region (3 categories)").click()
        page.get_by_label("region (3 categories)").check()
        assert page.locator("#explorer h3").inner_text() == "income ~ age + region[south] + region[west]"


def cells_of(page: Any) -> list[list[str]]:
    rows = "rows => rows.map(row => [...row.children].map(cell => cell.innerText))"
    return page.locator("#regressions .models tr").evaluate_all(rows)


def test_regressions_are_side_by_side_as_the_command_prints_them(
    browser: Any, products: Path, shown_page: Path
) -> None:
    """Kills: a column of another model; stars, rows or kinds of errors that differ from `dpspark table`."""
    found = dpspark.read_release(products)
    table = model_table([found.regress(text) for text in SHOWN])
    assert {"classical", "hc1"} <= set(dict(table.footer)["Std. errors"])
    with opened(browser, shown_page) as page:
        mine = [[cell.replace("−", "-") for cell in row] for row in cells_of(page)]
        notes = page.locator("#regressions .beside .foot p").all_inner_texts()
    assert mine == [*table.head(), *table.body(), *([name, *values] for name, values in table.footer)]
    assert notes == table.notes


@pytest.mark.parametrize(("kind", "form"), [("CSV", "csv"), ("LaTeX", "tex")])
def test_files_are_made_in_the_page(browser: Any, products: Path, shown_page: Path, kind: str, form: str) -> None:
    """Kills: a policy of the page that forbids its own files; a file that differs from that of `dpspark table`."""
    found = dpspark.read_release(products)
    theirs = WRITERS[form](model_table([found.regress(text) for text in SHOWN])).decode()
    with opened(browser, shown_page) as page:
        with page.expect_download() as download:
            page.locator("#regressions .beside").get_by_role("button", name=kind).click()
        assert download.value.suggested_filename == f"income-1-models.{form}"
        mine = Path(download.value.path()).read_text(encoding="utf-8")
    if form == "tex":
        assert mine == theirs
        return
    rows, others = (list(csv.reader(io.StringIO(text))) for text in (mine, theirs))
    assert [[*row[:3], *row[9:]] for row in rows] == [[*row[:3], *row[9:]] for row in others]
    numbers = [np.array([row[3:9] for row in of[1:]], float) for of in (rows, others)]
    np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-280)


def test_the_explorers_table_can_be_taken_away(browser: Any, shown_page: Path) -> None:
    """Kills: a button that gives the first regression, whatever is shown."""
    with opened(browser, shown_page) as page:
        page.get_by_label("Formula").fill("income ~ log(age)")
        page.keyboard.press("Enter")
        with page.expect_download() as download:
            page.locator("#explorer").get_by_role("button", name="CSV").click()
        rows = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[2] for row in rows] == ["term", "(intercept)", "log(age)"]


def test_a_published_regression_can_be_taken_away(browser: Any, tmp_path: Path) -> None:
    """Kills: a file of kind regression that lacks what its release has, or names another group."""
    groups = {"group_by": ["state"], "groups": ["CA", "NY"]}
    for name, more in {"one": {}, "two": groups}.items():
        conf = conf_with(release={"kind": "regression", "response": "income", **more})
        file = dpspark.read_release(published(tmp_path / name, conf)).report(tmp_path / f"{name}.html")
        with opened(browser, file) as page:
            if more:
                page.get_by_label("Group (state)").select_option("NY")
            with page.expect_download() as download:
                page.get_by_role("button", name="LaTeX").click()
            text = Path(download.value.path()).read_text(encoding="utf-8")
        assert "age & " in text
        assert (r"Release income 1, state=NY: epsilon" if more else r"Release income 1: epsilon") in text


def test_a_table_says_what_weighted_rows_have(browser: Any, tmp_path: Path) -> None:
    """Kills: a sum of weights that is called rows; a kind of standard errors where there are none."""
    found = dpspark.read_release(published(tmp_path, conf_with(weight={"column": "w", "upper": 5})))
    asked = ["income ~ age", "income ~ educ"]
    table = model_table([found.regress(text) for text in asked])
    with opened(browser, found.report(tmp_path / "page.html", regress=asked)) as page:
        mine, notes = cells_of(page), page.locator("#regressions .beside .foot p").all_inner_texts()
    assert [row[0] for row in mine[-2:]] == ["Sum of weights", "R-squared"]
    assert notes == table.notes


def test_models_of_a_group(browser: Any, tmp_path: Path) -> None:
    """Kills: a table of models that stays with the first group."""
    conf = conf_with(release={"group_by": ["state"], "groups": ["CA", "NY"]})
    found = dpspark.read_release(published(tmp_path, conf))
    file = found.report(tmp_path / "page.html", regress=["income ~ age", "income ~ educ"])
    with opened(browser, file) as page:
        page.get_by_label("Group (state)").select_option("NY")
        mine, notes = cells_of(page), page.locator("#regressions .beside .foot").inner_text()
    theirs = model_table([found.group(state="NY").regress(text) for text in ("income ~ age", "income ~ educ")])
    assert mine[2] == theirs.body()[0]
    assert "Release income 1, state=NY: " in notes


def test_the_page_says_no_more_than_before(shown_page: Path) -> None:
    """Kills: names for the explorer that leak the addresses of sources, or a page with a policy that is wider."""
    text = shown_page.read_text(encoding="utf-8")
    assert "people.parquet" not in text
    assert "default-src 'none'; script-src 'sha256-" in text.replace("&#x27;", "'").replace("&#39;", "'")
    assert "blob:" not in text.partition("</head>")[0]
