"""The confs that are audited where the user gives none: small, so that the attacker sees as much as possible.

epsilon is 1. Where a mechanism needs delta it is 0.05, far more than a release should have: the formulas and the code are the
same at every delta, and at this one a few thousand releases tell a wrong constant from a right one. At 1e-6 they would not.
"""

from __future__ import annotations

from typing import Any

from dpspark.audit.targets import TARGETS
from dpspark.mechanisms.registry import mechanism_named
from dpspark.spec.spec import Spec, load_spec

EPSILON, DELTA = 1.0, 0.05


def audited() -> list[tuple[str, str]]:
    """List the kind and name of everything that can be asked for, and of the extras beside it."""
    return list(TARGETS)


def specs_of(kind: str, name: str) -> list[Spec]:
    if kind == "extra":
        return [load_spec(_extra_conf(name, relation)) for relation in TARGETS[kind, name].relations]
    return [load_spec(_conf(kind, name, relation)) for relation in TARGETS[kind, name].relations]


def _conf(kind: str, name: str, relation: str) -> dict[str, Any]:
    pure = "epsilon" in mechanism_named(kind, name).currencies
    release: dict[str, Any] = {"name": "audit", "version": "1", "kind": kind}
    columns: dict[str, Any] = {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 300000}}
    if kind == "regression":
        release["response"] = "income"
    elif kind == "theil_sen":
        release.update(x="age", y="income")
    elif kind == "quantiles":
        release["probabilities"] = [0.5]
        del columns["age"]
    return {
        "columns": columns,
        "privacy": {"epsilon": EPSILON, **({} if pure else {"delta": DELTA}), "neighbours": relation},
        "release": release,
        "mechanism": {"name": name, **TARGETS[kind, name].options},
        "ledger": {"dataset": "audit"},
    }


def _extra_conf(extra: str, relation: str) -> dict[str, Any]:
    """Ask for an extra beside the release that its target names."""
    target = TARGETS["extra", extra]
    conf = _conf(*target.beside, relation)
    return {**conf, **target.asks, "release": {**conf["release"], **target.asks.get("release", {})}}
