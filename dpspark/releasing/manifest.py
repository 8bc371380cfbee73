"""The certificate of a release: what was done, what is guaranteed, and every number needed to check it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpspark.bundle.files import FORMAT
from dpspark.core.domain import domain_to_manifest, products_to_manifest
from dpspark.mechanisms.gram.noise_model import noise_to_manifest
from dpspark.mechanisms.gram.noisy import NoisyGram
from dpspark.releasing.limitations import limitations
from dpspark.source.group_keys import ReleasedGroups
from dpspark.source.table_rows import Snapshot
from dpspark.spec.charges import protection
from dpspark.spec.choose import Mechanism
from dpspark.spec.extras import spending
from dpspark.spec.guarantee import protected, sentence
from dpspark.spec.release import digest_of_groups
from dpspark.spec.spec import Spec


def build_manifest(
    spec: Spec,
    mechanism: Mechanism,
    found: Mapping[str, Any],
    ledger_id: str,
    spark_version: str,
    groups: ReleasedGroups | None = None,
    snapshot: Snapshot | None = None,
) -> dict[str, Any]:
    """`found` is what the mechanism says beside its facts, now that it has drawn; `groups` are those of its tables.

    `snapshot` is the state of the lake table that was read.
    """
    return {
        "format": FORMAT,
        "release": {
            "name": spec.release.name,
            "version": spec.release.version,
            "kind": spec.release.kind,
            **{key: getattr(spec.release, key) for key in ("response", "x", "y") if getattr(spec.release, key)},
            **_groups(groups),
            **_levels(spec, groups),
        },
        "source": {
            "timezone": _timezone(spec),
            **({} if snapshot is None else {"snapshot": snapshot.public()}),
        },
        "guarantee": guarantee(spec, mechanism),
        "privacy": {
            "epsilon": spec.privacy.epsilon,
            "delta": spec.privacy.budget.delta,
            "rho": spec.privacy.rho,
            "neighbours": spec.privacy.neighbours,
            "unit": protected(spec.privacy.unit, spec.records.rows),
            "count_is_exact": mechanism.count_is_public,
            # Basic composition: these add up to the budget above.
            "spending": spending(spec, mechanism),
            # What a change of one record does to its rows.
            "judged_by": spec.judged_by,
            "its_rows_are": spec.records.change,
            "moves_between_groups": spec.records.moves,
        },
        # Numbers are in units of the scaled matrix: columns in [-1, 1], categories and intercept 0 or 1.
        "mechanism": {
            "name": spec.mechanism_name,
            **mechanism.facts(),
            **found,
        },
        "columns": domain_to_manifest(mechanism.domain),
        **products_to_manifest(mechanism.domain),
        "terms": list(mechanism.domain.terms),
        "grid_bits": mechanism.domain.bits,
        "nulls": spec.null_policy,
        "weight": None
        if mechanism.domain.weight is None
        else {**asdict(mechanism.domain.weight), "steps": mechanism.domain.weight.steps},
        "row_norm": None if mechanism.domain.row_norm is None else asdict(mechanism.domain.row_norm),
        "spec": spec.public(),
        "spec_hash": spec.hash,
        "ledger": {"dataset": spec.ledger.dataset, "id": ledger_id},
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(spark_version),
        "limitations": limitations(spec, mechanism, found),
    }


def _timezone(spec: Spec) -> str | None:
    """Name the zone of the conf's own expressions. What a DataFrame computes is in its session's zone, which is not known."""
    passed = spec.source is None or spec.source.dataframe is not None
    return None if passed and not spec.expressions else spec.timezone


def _groups(groups: ReleasedGroups | None) -> dict[str, Any]:
    """The types of the groups' columns, and which keys they have."""
    if groups is None or not groups.names:
        return {}
    types = {name: str(kind) for name, kind in zip(groups.names, groups.types, strict=True)}
    return {"group_types": types, "groups_sha256": digest_of_groups(groups.texts)}


def _levels(spec: Spec, groups: ReleasedGroups | None) -> dict[str, Any]:
    """The types of the columns of coarser levels, and which keys all levels have."""
    levels = spec.release.levels
    if levels is None or groups is None:
        return {}
    keys = [(*above[:-1], *own) for above, own in zip(levels.texts, groups.texts, strict=True)]
    types = {name: str(kind) for name, kind in levels.types().items()}
    return {"level_types": types, "levels_sha256": digest_of_groups(keys)}


def gram_facts(spec: Spec, noisy: NoisyGram) -> dict[str, Any]:
    """List what a drawn matrix adds. A repair is for reading, unless the analyst says otherwise: it is stored as released."""
    return {**noisy.facts, "noise": noise_to_manifest(noisy.noise), "repair": spec.options.repair or "none"}


def guarantee(spec: Spec, mechanism: Mechanism) -> str:
    public, privacy = mechanism.count_is_public or _counts_as_it_is(spec), spec.privacy
    return sentence(privacy.budget, privacy.neighbours, privacy.unit, public, protection(spec).fixed)


def _counts_as_it_is(spec: Spec) -> bool:
    return spec.count is not None and not spec.tells_its_rows and "count" not in spec.shares


def _versions(spark_version: str) -> dict[str, str]:
    found = {"python": platform.python_version(), "spark": spark_version}
    for package in ("dpspark", "opendp", "dp-accounting", "numpy", "pyarrow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            from dpspark.version import __version__

            found[package] = __version__ if package == "dpspark" else "unknown"
    return found
