"""The confs that are audited where the user gives none: small, so that the attacker sees as much as possible.

epsilon is 1. Where a mechanism needs delta it is 0.05, far more than a release should have: the formulas and the code are the
same at every delta, and at this one a few thousand releases tell a wrong constant from a right one. At 1e-6 they would not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpspark.audit.target import BOTH
from dpspark.audit.targets import TARGETS
from dpspark.mechanisms.lines.auto import AutoLines
from dpspark.mechanisms.registry import REGISTRY, mechanism_named
from dpspark.spec.spec import Spec, load_spec

EPSILON, DELTA = 1.0, 0.05
STAGES = ("bounds", "diagnostics", "interval", "count")
# A number of rows that is public, or two rows' group privacy, which is not tight: one relation is enough.
ONLY = {
    "all_pairs": ("replace_one",),
    "smooth_sensitivity": ("replace_one",),
}
OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("theil_sen", "depth"): {"cells": 4},
    ("theil_sen", "huber"): {"cells": 4},
    ("theil_sen", "all_pairs"): {"cells": 4},
    ("theil_sen", "exponential"): {"cells": 100},
    ("theil_sen", "widened"): {"cells": 100},
    ("theil_sen", "smooth_sensitivity"): {"cells": 100, "matchings": 1},
    ("theil_sen", "gradient_descent"): {"steps": 4},
}


def audited() -> list[tuple[str, str]]:
    """(kind, mechanism) of everything that can be asked for, and the stages beside it."""
    named = [(kind, each.name) for kind, all_of in REGISTRY.items() for each in all_of if each is not AutoLines]
    return [*named, *(("stage", stage) for stage in STAGES)]


def specs_of(kind: str, name: str) -> list[Spec]:
    if kind == "stage":
        return [load_spec(_stage_conf(name, relation)) for relation in _relations(kind, name)]
    return [load_spec(_conf(kind, name, relation)) for relation in _relations(kind, name)]


def _relations(kind: str, name: str) -> tuple[str, ...]:
    target = TARGETS.get((kind, name))
    return ONLY.get(name, BOTH) if target is None else target.relations


def _options(kind: str, name: str) -> Mapping[str, Any]:
    target = TARGETS.get((kind, name))
    return OPTIONS.get((kind, name), {}) if target is None else target.options


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
        "mechanism": {"name": name, **_options(kind, name)},
        "ledger": {"dataset": "audit"},
    }


def _stage_conf(stage: str, relation: str) -> dict[str, Any]:
    if stage == "interval":
        conf = _conf("theil_sen", "depth", relation)
        conf["release"]["interval"] = {"epsilon_share": 0.5}
        return conf
    if stage == "count":
        return {**_conf("quantiles", "exponential", relation), "count": {"epsilon_share": 0.5}}
    conf = _conf("gram", "laplace", relation)
    if stage == "bounds":
        conf["columns"] = {"income": {"bounds": "private", "search": [0, 1000000]}}
        conf["bounds"] = {"epsilon_share": 0.5}
    else:
        conf["diagnostics"] = {"epsilon_share": 0.5}
    return conf
