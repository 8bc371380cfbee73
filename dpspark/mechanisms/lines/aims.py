"""Which line a release of lines aims at, in words. They differ where residuals are skewed."""

from __future__ import annotations

from typing import Any

from dpspark.spec.mechanism import target_of


def aim(manifest: dict[str, Any]) -> str:
    """For readers of a release, of this version or an older one."""
    release, mechanism = manifest["release"], manifest["mechanism"]
    text = f"the {target_of(mechanism['kernel'])} of {release['y']} along {release['x']}"
    if mechanism["kernel"] != "huber":
        return text
    bounds = [c for c in manifest.get("columns", ()) if c["name"] == release["y"] and c.get("lower") is not None]
    clip = mechanism.get("clip")
    if not bounds or not isinstance(clip, int | float):  # a stranger's
        return text
    low, high = manifest["spec"]["release"].get("candidates") or (bounds[0]["lower"], bounds[0]["upper"])
    shown = f"{clip * (high - low):.3g}"
    return f"{text}, with residuals clipped to ±{shown}: nearer to the median where they are larger"
