"""Releases of matrices of made-up rows, without Spark or a ledger, to be pooled and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.bundle.staging import publish, stage, staging_path
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.releasing.make import make
from dpspark.releasing.manifest import build_manifest, gram_facts
from dpspark.releasing.tables import grouped_table, scaled_table, second_moment_table
from dpspark.source.group_keys import ReleasedGroups
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import load_spec
from tests.manifests import MemoryRows, conf_of
from tests.noises import SeededNoise

Rows = dict[str, np.ndarray]
FORMULA = "income ~ age + sex"


def people(seed: int, count: int) -> Rows:
    """Make people whose income follows from age and sex."""
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(18, 99, count), rng.choice(["F", "M"], count)
    income = 60_000 + 500 * (age - 50) + 8_000 * (sex == "M") + rng.normal(0, 15_000, count)
    return {"age": age, "income": income, "sex": sex}


def together(*parts: Rows) -> Rows:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def released(output: Path, rows: Rows, seed: int, changes: dict[str, Any]) -> Path:
    """Publish a matrix of these rows, with noise from a seed."""
    spec = load_spec(conf_of(changes))
    mechanism, noise = choose_gram(spec), SeededNoise(np.random.default_rng(seed))
    columns = [pa.array(rows[column.name]) for column in mechanism.domain.columns]
    if spec.asked_errors is not None:
        listed = list(zip(*(column.to_pylist() for column in columns), strict=True))
        made = make(spec, mechanism, MemoryRows(mechanism.domain, listed), noise, lambda step: None)
        found, tables = made.found, made.tables
    else:
        accumulator = GramAccumulator(mechanism.domain)
        accumulator.add(columns, len(rows["age"]))
        noisy = mechanism.release(ExactGram.from_partials(mechanism.domain, [accumulator.finish()]), noise)
        found = gram_facts(spec, noisy)
        tables = {"second_moment": second_moment_table(noisy), "scaled": scaled_table(noisy)}
    groups = None
    if spec.release.group_by is not None:  # the same matrix for each group
        keys = tuple((key,) for key in changes["release/groups"])
        groups = ReleasedGroups(spec.release.group_by, (pa.string(),), keys)
        tables = {"second_moment": grouped_table(groups, [tables["second_moment"]] * len(keys))}
        found["composition"] = spec.records.composition
    entry = f"{seed:032x}"
    manifest = build_manifest(spec, mechanism, found, entry, "none", groups)
    digest = stage(output, entry, tables, manifest)
    final = output / manifest["release"]["name"] / manifest["release"]["version"]
    publish(staging_path(output, entry, digest), final, digest)
    return final
