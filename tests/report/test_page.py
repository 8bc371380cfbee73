"""A report as a page: for the keyboard, a phone, the dark, a printer, and against hostile names."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

import dpspark
from dpspark.report.page import report_html
from tests.report.browser import opened
from tests.report.bundles import conf_with, people, published, put

LINE = {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 200000}}
STATES = {"group_by": ["state"], "groups": ["CA", "NY", "TX"]}
KINDS: dict[str, dict[str, Any]] = {
    "gram": {"regress": "income ~ ."},
    "gram by group": {"release": STATES},
    "regression": {"release": {"kind": "regression", "response": "income"}},
    "theil_sen": {
        "columns": LINE,
        "release": {"kind": "theil_sen", "x": "age", "y": "income", **STATES, "interval": {}, "expected_rows": 200},
        "mechanism": {"name": "exponential"},
    },
    "quantiles": {"columns": LINE, "release": {"kind": "quantiles", "probabilities": [0.1, 0.5, 0.9]}},
}
# The colour that a browser makes of any CSS colour, and the contrast of the text of an element with what is behind it.
CONTRAST = """
(selector) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  };
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => {
    const v = c[i] / 255;
    return sum + part * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  return [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility()).map((element) => {
    let behind = element;
    while (behind.parentElement && rgb(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
    const a = light(rgb(getComputedStyle(element).color)), b = light(rgb(getComputedStyle(behind).backgroundColor));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}
"""
TEXTS = (
    "p, a, dt, dd, label, legend, caption, summary, h2, h3, figcaption, button:not(:disabled), table th, table td, code"
)


@pytest.fixture(scope="module", params=KINDS)
def any_page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = dict(KINDS[request.param])
    regress = changes.pop("regress", ())
    place = tmp_path_factory.mktemp("kind")
    return dpspark.read_release(published(place, conf_with(**changes))).report(place / "page.html", regress=regress)


def test_it_fits_a_phone(browser: Any, any_page: Path) -> None:
    """Kills: a table or plot that makes the whole page scroll sideways; a page that is cut off at its side."""
    with opened(browser, any_page, viewport={"width": 375, "height": 812}, device_scale_factor=2) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        inside = ".scroll, pre, .visually-hidden, .skip"
        wide = f"all => all.filter(one => !one.closest('{inside}') && one.getBoundingClientRect().right > 376)"
        assert page.locator("body *").evaluate_all(f"{wide}.map(one => one.outerHTML.slice(0, 90))") == []


def test_a_drowned_release_on_a_phone(browser: Any, tmp_path: Path) -> None:
    """Kills: "on the first columns that are identified" above none; a number cut in two; a list that ends in half a line."""
    few = {name: values[:40] for name, values in people().items()}
    more = {f"age{i}": few["age"] for i in range(4)}
    conf = conf_with(columns={**conf_with()["columns"], **{name: {"lower": 18, "upper": 99} for name in more}})
    file = dpspark.read_release(published(tmp_path, conf, {**few, **more})).report(tmp_path / "page.html")
    with opened(browser, file, viewport={"width": 375, "height": 812}) as page:
        words = page.locator("#regressions .note").inner_text()
        assert words.endswith("Nor was one found on fewer of them.")
        heights = page.locator(".cards .unbroken").evaluate_all("all => all.map(one => one.getClientRects().length)")
        assert heights == [1, 1]
        assert page.locator(".choices").evaluate("one => one.scrollHeight - one.clientHeight") == 0
        cut = "all => all.filter(one => one.getBoundingClientRect().right > 375).length"
        assert page.locator("caption").evaluate_all(cut) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser: Any, any_page: Path, scheme: str) -> None:
    """Kills: a colour set for one scheme alone, text too pale to read (WCAG AA: 4.5)."""
    with opened(browser, any_page, color_scheme=scheme) as page:
        shades = page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")
        assert (int(shades[0]) < 60) == (scheme == "dark")
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
        found = page.evaluate(CONTRAST, TEXTS)
        assert len(found) > 50
        assert min(found) >= 4.5


def test_print(browser: Any, page_file: Path) -> None:
    """Kills: controls on paper, an explorer without its present state, dark paper."""
    with opened(browser, page_file, color_scheme="dark") as page:
        page.get_by_label("Response").select_option("educ")
        page.emulate_media(media="print", color_scheme="dark")
        for hidden in ("nav", ".controls", "#explorer button", ".readout"):
            assert not page.locator(hidden).first.is_visible(), hidden
        assert page.locator("#explorer h3").inner_text().startswith("educ ~ ")
        assert page.locator("#explorer table.coefficients").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert min(page.evaluate(CONTRAST, "p, dt, dd, h2, table th, table td")) >= 4.5
        paper = page.pdf(format="A4", print_background=True)
        assert paper.startswith(b"%PDF")
        assert len(re.findall(rb"/Type /Page\b", paper)) >= 3


def test_keyboard(browser: Any, page_file: Path) -> None:
    """Kills: a mouse-only map, a focus that is lost when the table changes, a map with a tab stop for each cell."""
    with opened(browser, page_file) as page:
        page.keyboard.press("Tab")
        assert page.locator(":focus").inner_text() == "Skip to the report"
        page.locator("#correlations td[data-at='0,0']").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("End")
        assert page.locator(":focus").get_attribute("data-at") == "1,7"
        readout = page.locator("#correlations .readout").inner_text()
        assert readout.startswith("educ × income: 0.")
        assert "privacy noise ±" in readout
        page.keyboard.press("ArrowRight")  # there is nothing there
        assert page.locator(":focus").get_attribute("data-at") == "1,7"
        assert page.locator("#correlations td[tabindex='0']").count() == 1
        page.locator("#correlations td[data-at='7,0']").hover()
        assert page.locator("#correlations .readout").inner_text().startswith("income × age")
        page.get_by_label("Response").focus()
        before = page.locator("#explorer h3").inner_text()
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert page.locator("#explorer h3").inner_text() == before.replace("age + ", "")
        assert page.locator(":focus").get_attribute("type") == "checkbox"


def test_landmarks_and_names(browser: Any, any_page: Path) -> None:
    """Kills: a control or plot without a name, a heading that is skipped, an id that is there twice."""
    with opened(browser, any_page) as page:
        for role in ("banner", "navigation", "main", "contentinfo"):
            assert page.get_by_role(role).count() == 1, role
        ids = page.locator("[id]").evaluate_all("all => all.map(one => one.id)")
        assert len(ids) == len(set(ids))
        unnamed = "all => all.filter(one => !one.labels.length).length"
        assert page.locator("input, select").evaluate_all(unnamed) == 0
        assert page.locator("svg[role=img]:not([aria-label])").count() == 0
        assert page.locator(".plot svg").count() == page.locator(".plot").count() > 0
        levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
        assert page.locator("nav a").evaluate_all("all => all.every(one => document.querySelector(one.hash))")


def test_reduced_motion(browser: Any, page_file: Path) -> None:
    """Kills: transitions that stay."""
    with opened(browser, page_file, reduced_motion="reduce") as page:
        assert page.evaluate("getComputedStyle(document.querySelector('button')).transitionProperty") == "none"
        assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


EVIL = "</script><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
ATTRIBUTE = "\"' onmouseover=\"document.title='taken'\" x=`"


def test_hostile_names_are_text(browser: Any, tmp_path: Path) -> None:
    """Kills: a name or text of a manifest that becomes markup, in HTML, in an attribute or in the page's data."""
    columns = {
        EVIL: {"lower": 0, "upper": 1},
        ATTRIBUTE: {"lower": 0, "upper": 1},
        "kind": {"categories": ["<b>bold</b>", "]]>--><!--", "\u202edrowkcab"]},
        "__proto__": {"lower": 0, "upper": 1},
    }
    rng = people(4000)["w"] / 5
    values = {EVIL: rng, ATTRIBUTE: rng[::-1], "__proto__": rng**2}
    values["kind"] = [columns["kind"]["categories"][i % 3] for i in range(4000)]
    release = published(tmp_path, {**conf_with(columns=columns), "where": "`</script>` > 1"}, values)
    found = dpspark.read_release(release)
    evil = {
        **found.manifest,
        "limitations": [EVIL],
        "guarantee": EVIL,
        "created_at": EVIL,
        "versions": {"dpspark": EVIL},
    }
    evil = {key: value for key, value in evil.items() if key != "files"}
    evil["mechanism"] = {**evil["mechanism"], "sampler": EVIL, EVIL: ATTRIBUTE}
    evil["ledger"] = {**evil["ledger"], "dataset": EVIL}
    again = dpspark.read_release(put(tmp_path / "evil", evil, found.tables))
    # Written as it is: `report` itself refuses a manifest that somebody changed.
    (tmp_path / "page.html").write_text(report_html(again.content), encoding="utf-8")
    with opened(browser, tmp_path / "page.html") as page:
        page.locator("#correlations td[data-at='0,1']").hover()
        page.get_by_role("button", name="All", exact=True).click()
        page.get_by_label("Response").select_option(EVIL)
        page.wait_for_timeout(50)
        assert page.title() == "income 1: a differentially private release"
        assert page.locator("img, b, section section").count() == 0
        assert page.locator("script").count() == 2
        assert page.locator("[onmouseover], [onerror]").count() == 0
        assert page.locator("#limits li").inner_text() == EVIL
        assert EVIL in page.locator("#correlations tbody th").first.inner_text()
        assert "\u202e" not in page.locator("body").inner_text()
        assert "kind[\\u{202e}drowkcab]" in page.locator("#explorer table").first.inner_text()


def test_nothing_but_its_own_program_runs(browser: Any, page_file: Path) -> None:
    """Kills: a policy that lets an inline script, a style or a request through."""
    context = browser.new_context()
    page = context.new_page()
    loaded: list[str] = []
    page.on("requestfinished", lambda request: loaded.append(request.url))
    failed: list[str | None] = []
    page.on("requestfailed", lambda request: failed.append(request.failure))
    page.goto(page_file.as_uri())
    page.evaluate(
        """() => {
          const add = (tag, change) => document.body.append(Object.assign(document.createElement(tag), change));
          add("script", { textContent: "document.title = 'taken'" });
          add("img", { src: "https://example.com/x.png", onerror: null });
          add("style", { textContent: "body { display: none }" });
          fetch("https://example.com/").catch(() => null);
        }"""
    )
    page.wait_for_timeout(50)
    assert page.title() != "taken"
    assert page.locator("main").is_visible()
    assert loaded == [page_file.as_uri()]
    assert set(failed) == {"csp"}
    context.close()


def test_a_wide_release_is_a_small_page(browser: Any, tmp_path: Path) -> None:
    """Kills: a page that grows with more than the square of the columns; a map without its columns."""
    names = [f"column_{i:02d}" for i in range(60)]
    rng = people(5000)
    values = {name: rng["age"] / 50 + (i % 7) * rng["educ"] / 20 for i, name in enumerate(names)}
    conf = conf_with(columns={name: {"lower": 0, "upper": 8} for name in names}, privacy={"epsilon": 8.0})
    file = dpspark.read_release(published(tmp_path, conf, values)).report(tmp_path / "page.html")
    assert file.stat().st_size < 500_000
    with opened(browser, file) as page:
        assert page.locator("#correlations td[data-at]").count() == 3600
        page.get_by_label("Find").fill("_5")
        assert page.locator("#explorer .choice:visible").count() == 11  # and the intercept's
        page.get_by_role("button", name="None").click()
        assert page.locator("#explorer .choice:visible input:checked").count() == 1  # the intercept's
