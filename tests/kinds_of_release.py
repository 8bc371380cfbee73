"""A small release of every kind and family of mechanisms, without Spark, for tests of what commands do with each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.analysis.fit import RegressionFit, seed_of
from dpspark.bundle.statistics import statistics_table
from dpspark.mechanisms.regression.gradient_descent import GradientDescent
from dpspark.mechanisms.regression.objective import ObjectivePerturbation
from dpspark.releasing.manifest import build_manifest
from dpspark.releasing.regression import OneGram
from dpspark.releasing.tables import coefficients_table
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from tests.noises import SeededNoise
from tests.report.bundles import _exact, conf_with, people, published, put

TWO = {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 200000}}
BY = {"group_by": ["tract"], "groups": ["a", "b"]}
ONE = {"kind": "regression", "response": "income"}
LINE = {"kind": "theil_sen", "x": "age", "y": "income"}
QUANTILES = {"kind": "quantiles", "probabilities": [0.1, 0.5]}
CAP = {"mode": "cap", "radius": 1.5}
RICH = {"epsilon": 8.0}


def _of(kind: dict[str, Any], mechanism: str | None = None, **more: Any) -> dict[str, Any]:
    named = {} if mechanism is None else {"mechanism": {"name": mechanism}}
    return conf_with(release=kind, privacy=RICH, **named, **more)


CONFS: dict[str, dict[str, Any]] = {
    "gram": _of({}),
    "gram by group": _of(BY),
    "gram weighted": _of({}, weight={"column": "w", "upper": 5}),
    "gram weighted, with squares": _of({}, weight={"column": "w", "upper": 5, "squares_share": 0.2}),
    "gram by wishart": _of({}, "wishart"),
    "gram by projection": _of({}, "johnson_lindenstrauss"),
    "gram with errors": _of({"errors": "hc1", "regressions": ["income ~ age + educ"]}),
    "gram_ridge": _of(ONE),
    "gram_ridge, with errors": _of({**ONE, "errors": "hc1"}),
    "gram_ridge by group": _of({**ONE, **BY}),
    "gram_ridge, moved rows": _of(ONE, row_norm=CAP),
    "gram_ridge, weighted rows": _of(ONE, row_norm={**CAP, "include_response": True}),
    "adassp": _of(ONE, "adassp"),
    "adassp, as published": conf_with(release=ONE, privacy=RICH, mechanism={"name": "adassp", "constants": "wang"}),
    "refined": _of(ONE, "refined"),
    "ssp": _of(ONE, "ssp"),
    "objective": _of(ONE, "objective"),
    "gradient_descent": _of(ONE, "gradient_descent"),
    "line": _of(LINE, columns=TWO),
    "line with interval": _of({**LINE, "interval": {"level": 0.9}}, "gram", columns=TWO),
    "lines by group": _of({**LINE, **BY}, columns=TWO),
    "lines by group, with interval": _of({**LINE, **BY, "interval": {}}, "huber", columns=TWO),
    "quantiles": _of(QUANTILES, columns=TWO),
    "quantiles by group": _of({**QUANTILES, **BY}, columns=TWO),
}


def published_kinds(place: Path, kinds: Iterable[str] = CONFS) -> dict[str, Path]:
    """The directory of each."""
    values = people(8000)
    return {kind: _published(place / str(i), CONFS[kind], values) for i, kind in enumerate(kinds)}


def _published(place: Path, conf: dict[str, Any], values: dict[str, Any]) -> Path:
    spec = load_spec(conf)
    mechanism = choose(spec)
    if not isinstance(mechanism, ObjectivePerturbation | GradientDescent):
        return published(place, conf, values)
    facts, tables = {"name": spec.mechanism_name, **mechanism.facts()}, {}
    if isinstance(mechanism, ObjectivePerturbation):
        noise = SeededNoise(np.random.default_rng(4))
        found = mechanism.release(OneGram(_exact(mechanism.domain, values)), noise, lambda step: None)
        theta, statistics = found.theta, found.statistics
        assert statistics is not None
        tables["statistics"] = statistics_table(mechanism.domain.terms, statistics)
    else:
        theta, statistics = np.linspace(-0.1, 0.2, mechanism.domain.width - 1), None
    fit = RegressionFit(mechanism.domain, facts, theta, statistics, seed_of(spec.hash))
    tables["coefficients"] = coefficients_table(fit)
    return put(place, build_manifest(spec, mechanism, {}, "entry", "none"), tables)
