"""Which line a release of lines aims at, in words. They differ where residuals are skewed."""

from __future__ import annotations

from typing import Any

from dpspark.mechanisms.registry import line_of_kernel

UNKNOWN = "an unknown line"  # said of a kernel that is none of this version's


def target_of(manifest: dict[str, Any]) -> str | None:
    """Say which line a release aims at: that of medians or of means; None if its kernel is unknown here."""
    line = line_of_kernel(manifest["mechanism"]["kernel"])
    return None if line is None else line.target


def has_own_interval(manifest: dict[str, Any]) -> bool:
    """Tell whether the line's own numbers give its interval, without a share of the budget."""
    line = line_of_kernel(manifest["mechanism"]["kernel"])
    return line is not None and line.own_interval


def aim(manifest: dict[str, Any]) -> str:
    """Say it for readers of a release, of this version or an older one."""
    release, mechanism = manifest["release"], manifest["mechanism"]
    line = line_of_kernel(mechanism["kernel"])
    if line is None:
        return f"{UNKNOWN} of {release['y']} along {release['x']}: its kernel is none that is known here"
    return line.aim(release["x"], release["y"], mechanism, _height(manifest))


def _height(manifest: dict[str, Any]) -> float | None:
    """The range of what is published, in units of y."""
    y = manifest["release"]["y"]
    bounds = [c for c in manifest.get("columns", ()) if c["name"] == y and c.get("lower") is not None]
    if not bounds:
        return None
    low, high = manifest["spec"]["release"].get("candidates") or (bounds[0]["lower"], bounds[0]["upper"])
    return high - low
