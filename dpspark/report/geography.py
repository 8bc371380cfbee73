"""A public map of groups, from GeoJSON: its areas on a grid of whole numbers, coarse enough to be small."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.analysis.content.keys import Key
from dpspark.core.domain import category_label
from dpspark.errors import ConfError
from dpspark.report.outlines import Outlines

GRIDS = (8192, 4096, 2048, 1024, 512)  # cells along the longer side: the first that is small enough
MOST_CHARACTERS = 3_000_000
Ring = np.ndarray  # points × 2


def read_map(path: Path, group_by: Sequence[str], key: str | None, keys: Sequence[Key]) -> dict[str, Any]:
    """Read the areas of the groups. Neighbours stay neighbours: a point that two share falls into one cell of the grid."""
    if key is not None and len(group_by) > 1:
        raise ConfError(f"--map-key is for one group column; the map needs the properties {', '.join(group_by)}.")
    shapes = _shapes(path, [key] if key is not None else list(group_by))
    places = {one: i for i, one in enumerate(keys)}
    found = {one for one, _ in shapes}
    if not found & places.keys():
        shown = f"Its first is {', '.join(shapes[0][0])}, the release's {', '.join(keys[0])}."
        raise ConfError(f"--map: no area of it is a group of the release. {shown} Name another property by --map-key.")
    outlines = Outlines.of([rings for _, rings in shapes], [places.get(one, -1) + 1 for one, _ in shapes])
    points = outlines.points
    low, high = points.min(axis=0), points.max(axis=0)
    degrees = abs(points[:, 0]).max() <= 180 and abs(points[:, 1]).max() <= 90
    wide = math.cos(math.radians((low[1] + high[1]) / 2)) if degrees else 1.0
    scale = np.array([max(wide, 0.05), 1.0])
    extent = float(((high - low) * scale).max()) or 1.0
    grid, text = _smallest(outlines, low, high, scale / extent)
    size = np.ceil((high - low) * scale * grid / extent).astype(int) + 1
    return {
        "size": size.tolist(),
        "areas": len(shapes),
        "shapes": text,
        "missing": sum(one not in found for one in keys),
        "others": sum(one not in places for one, _ in shapes),
    }


def _smallest(outlines: Outlines, low: np.ndarray, high: np.ndarray, scale: np.ndarray) -> tuple[int, str]:
    """Write the areas on the finest grid on which they are small enough."""
    for grid in GRIDS:
        text = base64.b64encode(outlines.packed(low, high, scale * grid)).decode()
        if len(text) <= MOST_CHARACTERS:
            return grid, text
    raise ConfError(
        f"--map: its {len(outlines.groups):,} areas take {len(text) / 1e6:.1f} MB of the page on the coarsest grid, and "
        f"{MOST_CHARACTERS / 1e6:g} MB are the most. Give a file of fewer areas."
    )


def _shapes(path: Path, names: list[str]) -> list[tuple[Key, list[Ring]]]:
    """Read the rings of each area, by the properties that name its group."""
    try:
        with path.open(encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise ConfError(f"--map {str(path)!r}: {error.strerror or 'cannot be read'}.") from None
    except (ValueError, RecursionError):
        raise ConfError(f"--map {str(path)!r}: not JSON. Expected GeoJSON, a FeatureCollection of areas.") from None
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, list) or not features:
        raise ConfError(f"--map {str(path)!r}: no GeoJSON FeatureCollection with areas.")
    return [_shape(feature, names, i) for i, feature in enumerate(features)]


def _shape(feature: Any, names: list[str], at: int) -> tuple[Key, list[Ring]]:
    properties = feature.get("properties") if isinstance(feature, dict) else None
    properties = properties if isinstance(properties, dict) else {}
    lacking = [name for name in names if properties.get(name) is None]
    if lacking:
        have = ", ".join(map(str, list(properties)[:10])) or "none"
        raise ConfError(f"--map: area {at + 1} has no property {lacking[0]!r}; it has {have}. Name one by --map-key.")
    try:
        rings = list(_rings(feature["geometry"]))
    except (KeyError, TypeError, ValueError, IndexError):
        raise ConfError(f"--map: area {at + 1} is no Polygon or MultiPolygon of finite coordinates.") from None
    return tuple(category_label(properties[name]) for name in names), rings


def _rings(geometry: dict[str, Any]) -> Iterator[Ring]:
    if geometry["type"] not in ("Polygon", "MultiPolygon"):
        raise ValueError(geometry["type"])
    polygons = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
    count = 0
    for ring in (ring for polygon in polygons for ring in polygon):
        points = np.array([point[:2] for point in ring], dtype=float)
        if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3 or not np.isfinite(points).all():
            raise ValueError("ring")
        count += 1
        yield points
    if not count:
        raise ValueError("empty")
