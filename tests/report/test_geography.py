"""Maps of areas, as the page's program reads them back. Without a browser."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspark.errors import ConfError
from dpspark.report import geography
from dpspark.report.geography import read_map

Rings = list[list[tuple[int, int]]]


def rings_of(content: dict[str, Any]) -> list[tuple[int, Rings]]:
    """Each area's group, and its rings, as the page's program reads them."""
    numbers: list[int] = []
    value = shift = 0
    for byte in base64.b64decode(content["shapes"]):
        value += (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value = shift = 0
    rest, found, at = iter(numbers), [], [0, 0]
    for _ in range(content["areas"]):
        group, rings = next(rest) - 1, []
        for _ in range(next(rest)):
            rings.append([])
            for _ in range(next(rest)):
                at = [
                    here + (-(step + 1) // 2 if step % 2 else step // 2) for here, step in zip(at, rest, strict=False)
                ]
                rings[-1].append(tuple(at))
        found.append((group, rings))
    assert next(rest, None) is None
    return found


def area(name: str, kind: str, coordinates: Any) -> dict[str, Any]:
    return {"properties": {"tract": name}, "geometry": {"type": kind, "coordinates": coordinates}}


def square(x: float, y: float, side: float) -> list[list[float]]:
    return [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]


def cells(x: int, y: int, side: int, height: int) -> list[tuple[int, int]]:
    """The corners of a square, y downwards, without the one that closes it."""
    return [(i, height - j) for i, j in square(x, y, side)[:-1]]


def read(place: Path, features: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    path = place / "map.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return read_map(path, ["tract"], None, [(name,) for name in names])


def test_islands_and_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: rings or areas that run into each other, points or areas lost, an area of the wrong group."""
    monkeypatch.setattr(geography, "GRIDS", (1000,))
    straight = [[0, 600], [50, 600], [100, 600], [100, 700], [0, 700], [0, 600]]
    features = [
        area("lake", "MultiPolygon", [[square(0, 0, 400), square(100, 100, 50)], [square(500, 500, 100)]]),
        area("elsewhere", "Polygon", [square(900, 900, 100)]),
        area("dot", "Polygon", [square(300.1, 800.1, 0.1)]),
        area("specks", "MultiPolygon", [[square(700.1, 0.1, 0.1)], [square(700, 100, 20)]]),
        area("straight", "Polygon", [straight]),
    ]
    found = read(tmp_path, features, ["dot", "straight", "lake", "specks", "unseen"])
    assert (found["areas"], found["missing"], found["others"], found["size"]) == (5, 1, 1, [1001, 1001])
    assert rings_of(found) == [
        (2, [cells(0, 0, 400, 1000), cells(100, 100, 50, 1000), cells(500, 500, 100, 1000)]),
        (-1, [cells(900, 900, 100, 1000)]),
        (0, [[(300, 200)]]),
        (3, [cells(700, 100, 20, 1000)]),
        (1, [[(0, 400), (100, 400), (100, 300), (0, 300)]]),
    ]


def test_a_map_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid gets coarser until the map is small enough, and else it is refused. Kills: a page of any size."""
    angle = np.linspace(0, 2 * np.pi, 80)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    drawn = [area(f"{i}", "Polygon", [(circle + np.array([3 * i, 0])).tolist()]) for i in range(300)]
    names = [f"{i}" for i in range(300)]
    fine = read(tmp_path, drawn, names)
    assert fine["size"][0] == geography.GRIDS[0] + 1
    monkeypatch.setattr(geography, "MOST_CHARACTERS", len(fine["shapes"]) - 1)
    coarse = read(tmp_path, drawn, names)
    assert coarse["size"][0] < fine["size"][0]
    assert len(coarse["shapes"]) < len(fine["shapes"])
    assert len(rings_of(coarse)) == 300
    monkeypatch.setattr(geography, "MOST_CHARACTERS", 100)
    with pytest.raises(ConfError, match="300 areas take"):
        read(tmp_path, drawn, names)
