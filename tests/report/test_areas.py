"""Smoothed areas in a report: their table, plots and map in a real browser."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.errors import ConfError
from dpspark.report.areas import areas_of
from dpspark.smoothing.result import SmoothedGroups
from tests.kinds_of_release import ONE
from tests.report.browser import opened
from tests.report.bundles import conf_with, published
from tests.report.test_geography import rings_of
from tests.smoothing.test_smooth_release import GROUPS, lines


def squares(names: list[str], **properties: Any) -> dict[str, Any]:
    """A row of squares, one for each name."""
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"tract": name, **properties},
                "geometry": {
                    "type": "Polygon",
                    "coordinates": [[[i, 0], [i + 1, 0], [i + 1, 20], [i, 20], [i, 0]]],
                },
            }
            for i, name in enumerate(names)
        ],
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    place = tmp_path_factory.mktemp("areas")
    found = dpspark.read_release(lines(place))
    smoothed = found.smooth()
    smoothed.write(place / "out")
    return found, smoothed, place


def write(place: Path, content: Any) -> Path:
    path = place / "map.geojson"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_map_and_a_table_of_areas(browser: Any, made: tuple[Any, Any, Path], tmp_path: Path) -> None:
    """Kills: areas of other groups, a click that finds none, numbers of the other cut."""
    found, smoothed, place = made
    names = [f"{i:02d}" for i in range(GROUPS - 1)]
    page_file = found.report(
        tmp_path / "page.html", smoothed=place / "out", map=write(tmp_path, squares([*names, "elsewhere"]))
    )
    frame = smoothed.to_frame()
    with opened(browser, page_file) as page:
        areas = page.locator("#areas")
        cells = areas.locator("table.groups tbody tr").nth(5).locator("td.number")
        values = cells.evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
        own = frame.iloc[10]
        assert values[:6] == pytest.approx(
            [own.raw, own.estimate, own.std_error, own.ci_low, own.ci_high, own.moe90], rel=1e-5
        )
        box = areas.locator("canvas").bounding_box()
        wide = (box["width"] - 8) / 60 if box["width"] / 60 < box["height"] / 20 else (box["height"] - 8) / 20
        middle = box["width"] / 2 + (7.5 - 30) * wide
        areas.locator("canvas").click(position={"x": middle, "y": box["height"] / 2})
        assert areas.locator(".map [role=status]").inner_text().startswith("07: ")
        assert "1 groups are not on the map. 1 areas" in areas.locator(".map [role=status]").inner_text()
        assert areas.locator(".dots").count() == 2
        areas.get_by_label("Number shown").select_option("1")
        assert float(cells.nth(1).get_attribute("data-value")) == pytest.approx(frame.iloc[11].estimate, rel=1e-5)


@pytest.mark.parametrize(
    ("content", "key", "said"),
    [
        ("{", None, "not JSON"),
        ({"type": "Point"}, None, "FeatureCollection"),
        (squares(["00"]), "GEOID", "no property 'GEOID'; it has tract"),
        (squares(["x"]), None, "no area of it is a group"),
        ({"features": [{"properties": {"tract": "00"}, "geometry": None}]}, None, "area 1 is no Polygon"),
    ],
)
def test_bad_maps_are_refused(
    made: tuple[Any, Any, Path], tmp_path: Path, content: Any, key: str | None, said: str
) -> None:
    found, smoothed, _ = made
    with pytest.raises(ConfError, match=said):
        found.report(tmp_path / "p.html", smoothed=smoothed, map=write(tmp_path, content), map_key=key)


def test_what_does_not_apply_is_refused(made: tuple[Any, Any, Path], tmp_path: Path) -> None:
    found, smoothed, place = made
    other = dpspark.read_release(lines(tmp_path / "other", epsilon=39.0))
    with pytest.raises(ConfError, match="another release"):
        other.report(tmp_path / "p.html", smoothed=smoothed)
    with pytest.raises(ConfError, match="--smoothed"):
        found.report(tmp_path / "p.html", map=place / "map.geojson")
    with pytest.raises(ConfError, match="give --map too"):
        found.report(tmp_path / "p.html", smoothed=smoothed, map_key="x")
    with pytest.raises(ConfError, match="dpspark smooth RELEASE"):
        found.report(tmp_path / "p.html", smoothed=tmp_path)
    with pytest.raises(ConfError, match="suppress_cv"):
        found.smooth(suppress_cv=0)


def singles_of(packed: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), "<f4")


def test_coefficients_of_two_group_columns(tmp_path: Path) -> None:
    """A number for each term, and areas by both properties. Kills: terms of other groups, keys by their first column."""
    keys = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    by = {"group_by": ["state", "county"], "groups": [list(key) for key in keys]}
    rel = dpspark.read_release(published(tmp_path, conf_with(release={**ONE, **by}, privacy={"epsilon": 8.0})))
    smoothed = rel.smooth()
    frame = smoothed.to_frame()
    drawn = squares([""] * 4)
    for feature, (state, county) in zip(drawn["features"], reversed(keys), strict=True):
        feature["properties"] = {"state": state, "county": county}
    path = write(tmp_path, drawn)
    content = areas_of(rel.content, smoothed, path, None)
    assert content is not None
    assert (content["label"], content["count"], content["group_by"]) == ("term", 4, ["state", "county"])
    assert [number["name"] for number in content["numbers"]] == frame.term[
        frame.state.eq("a") & frame.county.eq(1)
    ].tolist()
    for number in content["numbers"]:
        own = frame[frame.term == number["name"]]
        assert list(zip(own.state, own.county.astype(int), strict=True)) == keys
        for name in ("raw", "estimate", "std_error", "expected", "noise_std"):
            assert singles_of(number["values"][name]) == pytest.approx(own[name].to_numpy(), rel=1e-6)
    assert [group for group, _ in rings_of(content["map"])] == [3, 2, 1, 0]
    with pytest.raises(ConfError, match="needs the properties state, county"):
        areas_of(rel.content, smoothed, path, "state")


def test_tables_that_lack_something_are_refused(made: tuple[Any, Any, Path], tmp_path: Path) -> None:
    """Directories of older versions say the way out. Kills: a page of other groups' numbers after rows were lost."""
    found, smoothed, _ = made
    for table in (smoothed.table.drop_columns("expected"), smoothed.table.slice(1), smoothed.table.slice(0, 3)):
        other = SmoothedGroups(table, smoothed.model, smoothed.title)
        with pytest.raises(ConfError, match="dpspark smooth again"):
            found.report(tmp_path / "p.html", smoothed=other)
    assert not (tmp_path / "p.html").exists()
