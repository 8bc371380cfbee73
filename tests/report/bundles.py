"""Published releases of every kind from made-up rows, by the product's own mechanisms, without Spark or a ledger."""

from __future__ import annotations

import itertools
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
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles
from dpspark.mechanisms.regression.base import Rows, StatisticsMechanism
from dpspark.privacy.keyed import KeyedRandom
from dpspark.releasing.make import make
from dpspark.releasing.manifest import build_manifest, gram_facts
from dpspark.releasing.regression import OneGram
from dpspark.releasing.tables import (
    coefficients_table,
    grouped_table,
    hierarchy_table,
    predictions_table,
    quantiles_table,
    scaled_table,
    second_moment_table,
)
from dpspark.source.group_keys import DIRECTORY, NO_GROUPS, ReleasedGroups
from dpspark.spec.choose import GramMechanism, choose
from dpspark.spec.extras import squared_weights
from dpspark.spec.spec import Spec, load_spec
from tests.noises import SeededNoise

ROWS = 40_000
CONF: dict[str, Any] = {
    "source": {"parquet": "people.parquet"},
    "columns": {
        "age": {"lower": 18, "upper": 99},
        "educ": {"lower": 1, "upper": 16},
        "sex": {"categories": ["F", "M"]},
        "region": {"categories": ["north", "south", "west"]},
        "income": {"lower": 0, "upper": 200000},
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-9},
    "release": {"name": "income", "version": "1"},
    "ledger": {"url": "sqlite:///ledger.db", "dataset": "people"},
}
Tables = dict[str, pa.Table]


def conf_with(**changes: Any) -> dict[str, Any]:
    """Keys of parts are added to them; None takes a part out."""
    found = {key: dict(value) for key, value in CONF.items()}
    for name, value in changes.items():
        if name == "columns":
            found[name] = value
        elif value is None:
            del found[name]
        else:
            found[name] = {k: v for k, v in {**found.get(name, {}), **value}.items() if v is not None}
    return found


def people(rows: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    age, educ = rng.uniform(18, 99, rows), rng.uniform(1, 16, rows)
    sex, region = rng.choice(["F", "M"], rows), rng.choice(["north", "south", "west"], rows, p=[0.5, 0.3, 0.2])
    income = 400 * age + 3000 * educ + 9000 * (sex == "M") - 4000 * (region == "west") + rng.normal(30000, 20000, rows)
    return {"age": age, "educ": educ, "sex": sex, "region": region, "income": income, "w": rng.uniform(0, 5, rows)}


def published(place: Path, conf: dict[str, Any], values: dict[str, Any] | None = None, seed: int = 4) -> Path:
    """The directory of a release of these rows."""
    spec, noise = load_spec(conf), SeededNoise(np.random.default_rng(seed))
    mechanism = choose(spec)
    values = people() if values is None else values
    if spec.asked_errors is not None:
        names = [column.name for column in mechanism.domain.columns]
        rows = list(zip(*(values[name].tolist() for name in names), strict=True))
        made = make(spec, mechanism, MemoryRows(mechanism.domain, rows), noise, lambda step: None)
        tables, found = made.tables, made.found
    elif isinstance(mechanism, LineMechanism):
        tables, found = _lines(spec, mechanism, values), {}
    elif isinstance(mechanism, ExponentialQuantiles):
        tables, found = _quantiles(spec, mechanism, values), {}
    elif isinstance(mechanism, GramMechanism) and spec.release.kind == "gram":
        tables, found = _gram(spec, mechanism, values, noise)
    else:
        assert isinstance(mechanism, StatisticsMechanism)
        tables, found = _regression(spec, mechanism, values, noise), {}
    if spec.release.levels is not None:
        tables["hierarchy"] = hierarchy_table(spec.release.levels, groups_of(spec))
    return put(place, build_manifest(spec, mechanism, found, "entry", "none", groups_of(spec)), tables)


def groups_of(spec: Spec) -> ReleasedGroups:
    """The groups as a source with columns of the list's types would have them."""
    listed = spec.release.listed_groups
    return (
        listed.with_types({name: DIRECTORY[listed.kind(name)] for name in listed.names}) if listed.names else NO_GROUPS
    )


def put(place: Path, manifest: dict[str, Any], tables: Tables) -> Path:
    final = place / manifest["release"]["name"] / manifest["release"]["version"]
    digest = stage(place, manifest["ledger"]["id"], tables, manifest)
    publish(staging_path(place, manifest["ledger"]["id"], digest), final, digest)
    return final


def _exact(domain: Domain, values: dict[str, Any], part: slice = slice(None)) -> ExactGram:
    arrays = [pa.array(values[column.name][part]) for column in domain.columns]
    weights = [] if domain.weight is None else [pa.array(values[domain.weight.name][part])]
    accumulator = GramAccumulator(domain)
    accumulator.add([*arrays, *weights], len(arrays[0]))
    return ExactGram.from_partials(domain, [accumulator.finish()])


def _rows(mechanism: StatisticsMechanism, values: dict[str, Any], part: slice) -> Rows:
    """The rows for as many passes as it takes."""
    domain = mechanism.domain
    if mechanism.passes == 1:
        return OneGram(_exact(domain, values, part))
    columns = [values[column.name][part].tolist() for column in domain.columns]
    return TableRows.of(domain, list(zip(*columns, strict=True)))


def _parts(spec: Spec, rows: int) -> list[slice]:
    """The rows of each group, the first of them the largest."""
    ends = np.linspace(0, 1, len(spec.release.group_keys) + 1) ** 0.8 * rows
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def _gram(spec: Spec, mechanism: GramMechanism, values: dict[str, Any], noise: Any) -> tuple[Tables, dict[str, Any]]:
    if spec.release.group_by is None:
        noisy = mechanism.release(_exact(mechanism.domain, values), noise)
        tables = {"second_moment": second_moment_table(noisy), "scaled": scaled_table(noisy)}
        if "squared weights" in spec.shares:
            squared = squared_weights(spec, mechanism.domain)
            tables["squared_weights"] = second_moment_table(squared.release(_exact(squared.domain, values), noise))
        return tables, gram_facts(spec, noisy)
    parts = _parts(spec, len(next(iter(values.values()))))
    all_noisy = [mechanism.release(_exact(mechanism.domain, values, part), noise) for part in parts]
    groups = groups_of(spec)
    made = {
        "second_moment": grouped_table(groups, [second_moment_table(one) for one in all_noisy]),
        "scaled": grouped_table(groups, [scaled_table(one) for one in all_noisy]),
    }
    return made, gram_facts(spec, all_noisy[0])


def _regression(spec: Spec, mechanism: StatisticsMechanism, values: dict[str, Any], noise: Any) -> Tables:
    facts = {"name": spec.mechanism_name, **mechanism.facts()}
    grouped = spec.release.group_by is not None
    parts = _parts(spec, len(next(iter(values.values())))) if grouped else [slice(None)]
    coefficients, statistics = [], []
    for part in parts:
        one = mechanism.release(_rows(mechanism, values, part), noise, lambda step: None)
        assert one.statistics is not None
        fit = RegressionFit(mechanism.domain, facts, one.theta, one.statistics, seed_of(spec.hash))
        coefficients.append(coefficients_table(fit))
        statistics.append(statistics_table(mechanism.domain.terms, one.statistics))
    if spec.release.group_by is None:
        return {"coefficients": coefficients[0], "statistics": statistics[0]}
    groups = groups_of(spec)
    return {"coefficients": grouped_table(groups, coefficients), "statistics": grouped_table(groups, statistics)}


def _lines(spec: Spec, mechanism: LineMechanism, values: dict[str, Any]) -> Tables:
    """Many groups share the fits of a few: what they look like is all that matters here."""
    keys, random, kernel = spec.release.group_keys or ((),), KeyedRandom(bytes(32)), mechanism.kernel
    x, y = values[spec.release.x or ""], values[spec.release.y or ""]
    few = []
    for i in range(min(40, len(keys))):
        part = slice(i * 200, i * 200 + 200)
        steeper = y[part] + (i * 17 % 40 - 15) * 100 * (x[part] - 58)  # slopes of both signs and of all sizes
        few.append(kernel.fit(x[part], np.clip(steeper, 0, 200000), random, i))
    fits = [few[i % len(few)] for i in range(len(keys))]
    return {"predictions": predictions_table(groups_of(spec), fits)}


def _quantiles(spec: Spec, mechanism: ExponentialQuantiles, values: dict[str, Any]) -> Tables:
    keys, random, kernel = spec.release.group_keys or ((),), KeyedRandom(bytes(32)), mechanism.kernel
    tables = []
    for i in range(len(keys)):
        group = {axis.name: values[axis.name][i * 500 : i * 500 + 500] for axis, _, _ in kernel.targets}
        drawn = kernel.fit(group, random, i)
        tables.append(quantiles_table(mechanism.shown(drawn, spec.release.expected_rows)))
    if spec.release.group_by is None:
        return {"quantiles": tables[0]}
    return {"quantiles": grouped_table(groups_of(spec), tables)}
