"""The names of all mechanisms, by kind."""

from __future__ import annotations

from dpspark.mechanisms.registry import REGISTRY

MECHANISMS = {kind: tuple(mechanism.name for mechanism in all_of) for kind, all_of in REGISTRY.items()}
