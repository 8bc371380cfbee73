"""Manifests of every mechanism, made as a release makes them, without Spark, ledger or disk."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.fit import RegressionFit, seed_of
from dpspark.audit.hostile import MemoryRows
from dpspark.audit.tables import TableRows
from dpspark.bundle.staging import publish, stage, staging_path
from dpspark.bundle.statistics import statistics_table
from dpspark.core.domain import Domain
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.mechanisms.regression.base import StatisticsMechanism
from dpspark.releasing.make import make
from dpspark.releasing.manifest import build_manifest, gram_facts
from dpspark.releasing.tables import coefficients_table, scaled_table, second_moment_table
from dpspark.spec.choose import GramMechanism, choose
from dpspark.spec.spec import load_spec
from tests.noises import SeededNoise

BASE: dict[str, Any] = {
    "source": {"parquet": "people.parquet"},
    "columns": {
        "age": {"lower": 18, "upper": 99},
        "income": {"lower": 0, "upper": 200000},
        "sex": {"categories": ["F", "M"]},
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-9},
    "release": {"name": "income", "version": "1"},
    "ledger": {"url": "sqlite:///ledger.db", "dataset": "people"},
}
LINE = {"columns/sex": None, "release/kind": "theil_sen", "release/x": "age", "release/y": "income"}
REGRESSION = {"release/kind": "regression", "release/response": "income"}
QUANTILES = {"columns/sex": None, "release/kind": "quantiles", "release/probabilities": [0.1, 0.5]}
BY_GROUP = {"release/group_by": ["tract"], "release/groups": ["a", "b"]}
REPLACE = {"privacy/neighbours": "replace_one"}
FIXED = {**REPLACE, "privacy/fixed": ["tract"]}
PERSON = {"privacy/unit": {"column": "person", "max_rows": 3}}
PURE = {"privacy/delta": None}
RHO = {"privacy/epsilon": None, "privacy/delta": None, "privacy/rho": 0.02}
ERRORS = {
    "release/errors": "hc1",
    "release/regressions": ["income ~ age + sex", "income ~ sex - 1", "age ~ 1"],
}
CLUSTERS = {"release/errors": {"cluster": "tract"}}
PRIVATE = {"columns/income": {"bounds": "private", "search": [0, 1e6]}}
ONE_SIDE = {"columns/income": {"lower": 0, "upper": "private", "search": [0, 1e6]}}
BY_SHARES = {"bounds": {"method": "percentile"}}


def named(name: str, **options: Any) -> dict[str, Any]:
    return {"mechanism": {"name": name, **options}}


CONFS: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "gaussian rho": RHO,
    "gaussian replaced": REPLACE,
    "gaussian large epsilon": {"privacy/epsilon": 12.0},
    "gaussian capped": {"row_norm": {"mode": "cap", "radius": 1.2}},
    "gaussian projected": {"row_norm": {"mode": "project", "radius": 1.2}, **REPLACE},
    "gaussian weighted": {"weight": {"column": "w", "upper": 50, "squares_share": 0.1}},
    "gaussian weighted by expression": {"weight": {"expr": "w / 100", "upper": 5, "squares_share": 0.1}},
    "gaussian filtered": {"where": "age > 20", **REPLACE},
    "gaussian query": {"source": {"sql": "SELECT * FROM a JOIN b USING (id)", "rows_per_record": 3}},
    "gaussian plain query": {"source": {"sql": "SELECT age, income, sex FROM a"}, **REPLACE},
    "gaussian stages": {**PRIVATE, **BY_SHARES, "diagnostics": {"epsilon_share": 0.05}},
    "gaussian stages rho": {**PRIVATE, **BY_SHARES, "diagnostics": {"epsilon_share": 0.05}, **RHO},
    "gaussian bounds by rank": PRIVATE,
    "gaussian one side by rank": {**ONE_SIDE, "diagnostics": {"epsilon_share": 0.05}},
    "gaussian one side stages": {
        "columns/income": {"lower": "private", "upper": 3e5, "search": [-1e6, 1e6]},
        **BY_SHARES,
    },
    "gaussian bounds by rank rho replaced": {**PRIVATE, "bounds": {"method": "rank", "headroom": 2}, **RHO, **REPLACE},
    "gaussian by group": BY_GROUP,
    "gaussian by moving group": {**BY_GROUP, **REPLACE},
    "laplace": {**named("laplace"), **PURE},
    "laplace stages": {**named("laplace"), **PURE, **PRIVATE, **BY_SHARES, "diagnostics": {}},
    "laplace weighted": {**named("laplace"), **PURE, "weight": {"column": "w", "upper": 5, "squares_share": 0.2}},
    "laplace by moving group": {**named("laplace"), **PURE, **BY_GROUP, **REPLACE},
    "wishart": named("wishart"),
    "wishart replaced": {**named("wishart"), **REPLACE},
    "wishart theorem": {**named("wishart", calibration="theorem"), "privacy/epsilon": 0.5},
    "johnson_lindenstrauss": named("johnson_lindenstrauss"),
    "johnson_lindenstrauss replaced": {**named("johnson_lindenstrauss", rows=500), **REPLACE},
    "johnson_lindenstrauss adaptive": named("johnson_lindenstrauss", rows=100, adaptive=0.1),
    "inverse_wishart": named("inverse_wishart"),
    "inverse_wishart theorem": named("inverse_wishart", calibration="theorem"),
    "inverse_wishart adaptive": {**named("inverse_wishart", degrees_of_freedom=100, adaptive=0.1), **REPLACE},
    "gram_ridge": REGRESSION,
    "gram_ridge one side by rank": {**REGRESSION, **ONE_SIDE},
    "gram_ridge rho": {**REGRESSION, **RHO, **REPLACE},
    "gram_ridge capped": {**REGRESSION, "row_norm": {"mode": "cap", "radius": 1.1, "include_response": True}},
    "gram_ridge diagnostics": {
        **REGRESSION,
        "row_norm": {"mode": "cap", "radius": 1.1, "include_response": True},
        "diagnostics": {},
    },
    "gram_ridge by moving group": {**REGRESSION, **BY_GROUP, **REPLACE},
    "refined": {**REGRESSION, **named("refined")},
    "refined rho": {**REGRESSION, **named("refined"), **RHO, **REPLACE},
    "refined person": {**REGRESSION, **named("refined"), **PERSON, **REPLACE},
    "refined capped": {
        **REGRESSION,
        **named("refined"),
        "row_norm": {"mode": "cap", "radius": 1.1, "include_response": True},
        "diagnostics": {},
    },
    "ssp": {**REGRESSION, **named("ssp")},
    "adassp": {**REGRESSION, **named("adassp")},
    "adassp wang": {**REGRESSION, **named("adassp", constants="wang")},
    "adassp kalaja": {**REGRESSION, **named("adassp", constants="kalaja"), **REPLACE},
    "objective": {**REGRESSION, **named("objective")},
    "objective replaced": {**REGRESSION, **named("objective"), **REPLACE},
    "objective theorem": {**REGRESSION, **named("objective", calibration="theorem")},
    "descent": {**REGRESSION, **named("gradient_descent")},
    "descent pure": {**REGRESSION, **named("gradient_descent"), **PURE, **REPLACE},
    "descent rho": {**REGRESSION, **named("gradient_descent", steps=7), **RHO},
    "line auto": {**LINE, **BY_GROUP},
    "line depth": {**LINE, **BY_GROUP, **named("depth"), **PURE},
    "line depth moving": {**LINE, **BY_GROUP, **named("depth"), **REPLACE},
    "line huber": {**LINE, **BY_GROUP, **named("huber")},
    "line huber rho": {**LINE, **BY_GROUP, **named("huber"), **RHO, **FIXED},
    "line exponential": {**LINE, **BY_GROUP, **named("exponential")},
    "line exponential one cut": {**LINE, **named("exponential"), **PURE, "release/cuts": [40.0]},
    "line exponential buckets": {**LINE, **named("exponential"), **REPLACE, "release/expected_rows": 50_000_000},
    "line all_pairs": {**LINE, **BY_GROUP, **named("all_pairs"), **FIXED},
    "line widened": {**LINE, **BY_GROUP, **named("widened"), **REPLACE},
    "line smooth": {**LINE, **BY_GROUP, **named("smooth_sensitivity"), **FIXED, **PURE},
    "line smooth rho": {**LINE, **BY_GROUP, **named("smooth_sensitivity"), **FIXED, **RHO},
    "line sufficient": {**LINE, **BY_GROUP, **named("sufficient_statistics")},
    "line sufficient fixed": {**LINE, **BY_GROUP, **named("sufficient_statistics"), **FIXED, **RHO},
    "line sufficient moving": {**LINE, **BY_GROUP, **named("sufficient_statistics"), **REPLACE},
    "line descent": {**LINE, **BY_GROUP, **named("gradient_descent")},
    "line descent pure moving": {**LINE, **BY_GROUP, **named("gradient_descent"), **PURE, **REPLACE},
    "line gram": {**LINE, **BY_GROUP, **named("gram")},
    "line gram moving": {**LINE, **BY_GROUP, **named("gram"), **REPLACE},
    "line gram pure": {**LINE, **BY_GROUP, **named("gram"), **PURE},
    "line gram pure moving": {**LINE, **BY_GROUP, **named("gram"), **PURE, **REPLACE},
    "line interval": {**LINE, **BY_GROUP, **named("huber"), "release/interval": {"epsilon_share": 0.2}},
    "line interval pure": {**LINE, **BY_GROUP, **named("depth"), **PURE, "release/interval": {"epsilon_share": 0.2}},
    "line interval moving": {**LINE, **BY_GROUP, **named("huber"), **REPLACE, **RHO, "release/interval": {}},
    "line auto of moments with interval": {
        **LINE,
        **BY_GROUP,
        **FIXED,
        "release/target": "mean",
        "release/expected_rows": 30_000,
        "release/interval": {},
    },
    "line count": {**LINE, **BY_GROUP, **named("huber"), "count": {}},
    "gaussian count": {"count": {}},
    "quantiles count rho": {**QUANTILES, **RHO, "count": {"epsilon_share": 0.1}},
    "quantiles count of a public number": {**QUANTILES, **REPLACE, "count": {}},
    "gaussian errors": ERRORS,
    "gaussian errors replaced": {**ERRORS, **REPLACE, "release/errors_share": 0.3},
    "gaussian errors rho": {**ERRORS, **RHO, "row_norm": {"mode": "cap", "radius": 1.2}},
    "gaussian errors person": {**ERRORS, **PERSON, "diagnostics": {"epsilon_share": 0.05}},
    "gaussian errors stages": {**ERRORS, **PRIVATE},
    "gram_ridge errors": {**REGRESSION, "release/errors": "hc1"},
    "gram_ridge errors rho replaced": {**REGRESSION, "release/errors": "hc1", **RHO, **REPLACE},
    "gaussian errors clusters": {**ERRORS, **CLUSTERS},
    "gaussian errors clusters rho replaced": {**ERRORS, **CLUSTERS, **RHO, **REPLACE, "release/errors_share": 0.3},
    "gaussian errors clusters person": {**ERRORS, **CLUSTERS, **PERSON},
    "gaussian errors clusters of people": {**ERRORS, "release/errors": {"cluster": "person"}, **PERSON},
    "gram_ridge errors clusters": {**REGRESSION, **CLUSTERS},
    "gaussian person": PERSON,
    "gaussian person by group": {**PERSON, **BY_GROUP},
    "gaussian person replaced by group": {**PERSON, **REPLACE, **BY_GROUP, **RHO},
    "laplace person": {**PERSON, **named("laplace"), **PURE, "diagnostics": {}},
    "gram_ridge person by group": {**REGRESSION, **PERSON, **BY_GROUP},
    "line huber person": {**LINE, **PERSON, **BY_GROUP, **named("huber"), "release/interval": {}, "count": {}},
    "line sufficient person": {**LINE, **PERSON, **BY_GROUP, **named("sufficient_statistics")},
    "line gram person": {**LINE, **PERSON, **REPLACE, **BY_GROUP, **named("gram")},
    "quantiles": QUANTILES,
    "quantiles rho": {**QUANTILES, **RHO},
    "quantiles moving": {**QUANTILES, **BY_GROUP, **REPLACE},
}


def conf_of(changes: dict[str, Any]) -> dict[str, Any]:
    """Copy the base conf with some keys changed ("release/name"); None takes one out."""
    conf = copy.deepcopy(BASE)
    for path, value in changes.items():
        here, last = _place(conf, path.split("/"))
        if value is None:
            del here[last]
        else:
            here[last] = copy.deepcopy(value)
    return conf


def variant(conf: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Copy a conf with some keys changed (release__name)."""
    new = copy.deepcopy(conf)
    for path, value in changes.items():
        here, last = _place(new, path.split("__"))
        here[last] = value
    return new


def _place(conf: dict[str, Any], path: list[str]) -> tuple[dict[str, Any], str]:
    *parents, last = path
    for parent in parents:
        conf = conf.setdefault(parent, {})
    return conf, last


def manifest_of(changes: dict[str, Any]) -> dict[str, Any]:
    """Of a release of a few made-up rows, as JSON gives it back."""
    return json.loads(json.dumps(_made(changes)[0]))


def bundle_of(output: Path, changes: dict[str, Any]) -> Path:
    """A published matrix or regression of a few made-up rows."""
    manifest, tables = _made(changes)
    final = output / manifest["release"]["name"] / manifest["release"]["version"]
    digest = stage(output, manifest["ledger"]["id"], tables, manifest)
    publish(staging_path(output, manifest["ledger"]["id"], digest), final, digest)
    return final


def _made(changes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    spec, noise = load_spec(conf_of(changes)), SeededNoise(np.random.default_rng(4))
    mechanism = choose(spec)
    found: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    if spec.asked_errors is not None:
        made = make(spec, mechanism, MemoryRows(mechanism.domain, _rows(mechanism.domain)), noise, lambda step: None)
        found, tables = made.found, made.tables
    elif isinstance(mechanism, GramMechanism) and spec.release.kind == "gram":
        noisy = mechanism.release(_exact(mechanism.domain), noise)
        found = gram_facts(spec, noisy)
        tables = {"second_moment": second_moment_table(noisy), "scaled": scaled_table(noisy)}
    elif isinstance(mechanism, StatisticsMechanism):
        one = mechanism.release(TableRows.of(mechanism.domain, _rows(mechanism.domain)), noise, lambda step: None)
        facts = {"name": spec.mechanism_name, **mechanism.facts()}
        fit = RegressionFit(mechanism.domain, facts, one.theta, one.statistics, seed_of(spec.hash))
        assert one.statistics is not None
        tables = {
            "coefficients": coefficients_table(fit),
            "statistics": statistics_table(mechanism.domain.terms, one.statistics),
        }
    if spec.release.group_by is not None and spec.release.kind != "theil_sen":
        found["composition"] = spec.records.composition
    return build_manifest(spec, mechanism, found, "id", "none"), tables


def _rows(domain: Domain) -> list[tuple[Any, ...]]:
    """The columns of made-up people as rows."""
    return list(zip(*(column.to_pylist() for column in _columns(domain)), strict=True))


def _columns(domain: Domain) -> list[pa.Array]:
    rng = np.random.default_rng(3)
    values = {"age": rng.uniform(18, 99, 400), "income": rng.uniform(0, 2e5, 400), "w": rng.uniform(0, 5, 400)}
    found = [pa.array(values.get(c.name, rng.choice(["F", "M"], 400))) for c in domain.columns]
    return found if domain.weight is None else [*found, pa.array(values["w"])]


def _exact(domain: Domain) -> ExactGram:
    accumulator = GramAccumulator(domain)
    accumulator.add(_columns(domain), 400)
    return ExactGram.from_partials(domain, [accumulator.finish()])
