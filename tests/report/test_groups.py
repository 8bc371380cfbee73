"""Releases by group in a report: tables of many, and one chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.cli.main import main
from tests.report.browser import opened
from tests.report.bundles import conf_with, published
from tests.report.test_explorer import same

LINE = {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 200000}}
STATES = {"group_by": ["state"], "groups": ["CA", "NY", "TX", "odd, 'quoted'"]}


@pytest.fixture(scope="module")
def tracts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """70,000 lines with intervals, as many as a country has tracts."""
    keys = [
        f"{state:02d}{county:03d}{tract:04d}00"
        for state in range(1, 51)
        for county in range(14)
        for tract in range(100)
    ]
    release = {"kind": "theil_sen", "x": "age", "y": "income", "group_by": ["tract"], "groups": keys}
    conf = conf_with(
        columns=LINE, release={**release, "interval": {}, "expected_rows": 200}, mechanism={"name": "exponential"}
    )
    place = tmp_path_factory.mktemp("tracts")
    found = dpspark.read_release(published(place, conf))
    return found, found.report(place / "page.html")


def column(page: Any, index: int) -> list[float]:
    cells = page.locator(f"#lines table.groups tbody tr td:nth-child({index + 1})")
    return cells.evaluate_all("all => all.map(cell => Number(cell.dataset.value))")


def test_seventy_thousand_lines(browser: Any, tracts: tuple[Any, Path]) -> None:
    """Kills: groups left out or mixed up, a sort of texts instead of numbers, weak lines as solid as others, a page of 5 MB."""
    found, file = tracts
    assert file.stat().st_size < 5_000_000
    table = found.predictions()
    slopes = np.sort(table["slope"].to_numpy()[::2])
    with opened(browser, file) as page:
        heads = page.locator("#lines thead button")
        names = heads.all_inner_texts()
        at = [name.strip() for name in names].index("slope")
        assert "1–20 of 70,000" in page.locator(".pager").inner_text()
        first = page.locator("#lines table.groups tbody tr").first
        assert first.locator("th").inner_text() == table["tract"][0]
        assert column(page, 1)[0] == pytest.approx(table["estimate"][0], rel=1e-6)
        heads.nth(at).click()
        assert page.locator("#lines thead th").nth(at).get_attribute("aria-sort") == "ascending"
        np.testing.assert_allclose(column(page, at), slopes[:20], rtol=1e-6)
        heads.nth(at).click()
        np.testing.assert_allclose(column(page, at), slopes[::-1][:20], rtol=1e-6)
        page.get_by_role("button", name="Last").click()
        np.testing.assert_allclose(column(page, at)[-1], slopes[0], rtol=1e-6)
        page.get_by_label("Find a group").fill("07003004")
        rows = page.locator("#lines table.groups tbody tr")
        assert rows.count() == sum("07003004" in key for key in table["tract"][::2]) == 10
        rows.nth(3).get_by_role("button").click()
        chosen = rows.nth(3).locator("th").inner_text()
        own = table[table["tract"] == chosen].reset_index()
        assert column(page, 1)[3] == pytest.approx(own["estimate"][0], rel=1e-6)
        assert own["status"][0] == "weakly_identified"
        assert page.locator("#lines .detail figcaption").inner_text().endswith(f"{chosen}, weakly identified")
        assert page.locator("#lines .detail .curve.weak").count() == 1
        weak = (table["status"][::2] == "weakly_identified").sum()
        assert f"{weak:,} of the groups are weakly identified" in page.locator("#lines").inner_text()
        counted = page.locator("#lines figure details tbody tr td:nth-child(3)").all_text_contents()
        known = np.isfinite(table["estimate"].to_numpy()[::2]).sum()
        assert sum(int(text.replace(",", "")) for text in counted) == known
        page.get_by_label("Find a group").fill("no such tract")
        assert "none" in page.locator(".pager").inner_text()


def test_more_groups_than_fit(browser: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Kills: a page that leaves groups out and does not say so."""
    monkeypatch.setattr("dpspark.report.results.MOST_CHARACTERS", 20_000)
    release = {
        "kind": "theil_sen",
        "x": "age",
        "y": "income",
        "group_by": ["tract"],
        "groups": list(range(10_000, 12_000)),
    }
    conf = conf_with(columns=LINE, release=release, mechanism={"name": "sufficient_statistics"})
    file = dpspark.read_release(published(tmp_path, conf)).report(tmp_path / "page.html")
    with opened(browser, file) as page:
        note = page.locator("#lines .note").inner_text()
        left = int(note.split()[0].replace(",", ""))
        assert 1000 < left < 2000
        assert f"of {2000 - left:,}" in page.locator(".pager").inner_text()


def test_the_matrix_of_a_chosen_group(browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: matrices of other groups, a chooser that the explorer does not hear of, a command without the group."""
    release = published(tmp_path, conf_with(release=STATES))
    file = dpspark.read_release(release).report(tmp_path / "page.html", regress=["income ~ age + educ"])
    with opened(browser, file) as page:
        for i, state in enumerate(STATES["groups"]):
            page.get_by_label("Group (state)").select_option(str(i))
            with pytest.raises(SystemExit):
                main(["regress", str(release), "income ~ age + educ", "--group", f"state={state}", "--json"])
            theirs = json.loads(capsys.readouterr().out)
            for where in ("#regressions", "#explorer"):
                shown = page.locator(f"{where} table.coefficients tbody tr td:nth-child(2)")
                values = shown.evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
                assert all(same(mine, row["estimate"]) for mine, row in zip(values, theirs["terms"], strict=True))
                assert page.locator(f"{where} h3 + .hint").inner_text().startswith(f"{state}; about ")
        command = page.locator("#explorer pre").inner_text()
        assert command.endswith("'income ~ age + educ' --group 'state=odd, '\\''quoted'\\'''")


def test_a_report_of_one_group(browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: --group that is lost on the way, or that the page's command does not name."""
    for name, release in (("matrix", STATES), ("regression", {**STATES, "kind": "regression", "response": "income"})):
        place, target = published(tmp_path / name, conf_with(release=release)), str(tmp_path / f"{name}.html")
        with pytest.raises(SystemExit) as caught:
            main(["report", str(place), "--group", "state=NY", "--out", target])
        assert caught.value.code == 0
        with opened(browser, Path(target)) as page:
            assert page.locator("h1").inner_text() == "income 1 state=NY"
            assert page.get_by_label("Group (state)").locator("option").all_inner_texts() == ["NY"]
            fit = dpspark.read_release(place).group(state="NY").regress(None if name == "regression" else "income ~ .")
            cells = page.locator("table.coefficients").first.locator("tbody tr td:nth-child(2)")
            values = cells.evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
            np.testing.assert_allclose(values, list(fit.params.values()), rtol=1e-6)


def test_one_published_regression(browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: another table than `dpspark regress` prints of it, for each mechanism with intervals of its own."""
    for mechanism in ("gram_ridge", "adassp"):
        conf = conf_with(release={"kind": "regression", "response": "income"}, mechanism={"name": mechanism})
        release = published(tmp_path / mechanism, conf)
        file = dpspark.read_release(release).report(tmp_path / "page.html")
        with pytest.raises(SystemExit):
            main(["regress", str(release), "--json"])
        theirs = json.loads(capsys.readouterr().out)
        with opened(browser, file) as page:
            for i, row in enumerate(theirs["terms"]):
                cells = page.locator("#coefficients table.coefficients tbody tr").nth(i).locator("td.number")
                values = cells.evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
                keys = ("estimate", "std_error", "t", "p_value", "ci_low", "ci_high")
                assert all(same(mine, row[key]) for mine, key in zip(values, keys, strict=True))
            assert page.locator("#coefficients .effect").count() == len(theirs["terms"]) - 1


def test_regressions_by_group(browser: Any, tmp_path: Path) -> None:
    """Kills: a chooser that shows the first group's coefficients for all."""
    conf = conf_with(release={"kind": "regression", "response": "income", **STATES})
    found = dpspark.read_release(published(tmp_path, conf))
    with opened(browser, found.report(tmp_path / "page.html")) as page:
        page.get_by_label("Group (state)").select_option("1")
        cells = page.locator("#coefficients table.coefficients tbody tr td:nth-child(2)")
        values = cells.evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
        np.testing.assert_allclose(values, list(found.group(state="NY").fit().params.values()), rtol=1e-6)


def test_quantiles_by_group(browser: Any, tmp_path: Path) -> None:
    """Kills: columns, probabilities or groups in another order than the release's."""
    conf = conf_with(columns=LINE, release={"kind": "quantiles", "probabilities": [0.1, 0.5, 0.9], **STATES})
    found = dpspark.read_release(published(tmp_path, conf))
    table = found.quantiles()
    with opened(browser, found.report(tmp_path / "page.html")) as page:
        heads = page.locator("#quantiles table.groups thead button").all_inner_texts()
        for i, state in enumerate(STATES["groups"]):
            row = page.locator("#quantiles table.groups tbody tr").nth(i)
            assert row.locator("th").inner_text() == state
            values = row.locator("td.number").evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
            own = table[table["state"] == state]
            np.testing.assert_allclose(values, own["estimate"], rtol=1e-6)
            labels = [f"{c}, {p:g}" for c, p in zip(own["column"], own["probability"], strict=True)]
            assert [head.strip() for head in heads[1:-1]] == labels
        assert page.locator("#quantiles .detail .plot").count() == 2
