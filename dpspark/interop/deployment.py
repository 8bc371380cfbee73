"""The facts of a release that the public asks for, each as a sentence or a number: from its manifest alone.

Registries, catalogs and statements of other people's making ask for the same facts in other forms. What a manifest does not
say, such as who publishes it and what for, is not here: whoever publishes it has to say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpspark.bundle.files import group_by
from dpspark.mechanisms.registry import line_of_kernel, mechanisms_of
from dpspark.pooling.certificate import POOL, POOL_WORDS
from dpspark.published.release import Release
from dpspark.report.words import KINDS, NULLS, compared, mechanism_name
from dpspark.show.tables import bound_texts

JUDGED = {
    "files": "Files were read directly: a row of a file is a row of the release.",
    "plan": "Spark's plan of the source was read: each row of the release comes from one row of the source.",
    "statement": "The operator stated how many rows one record can change.",
}
POST_PROCESSING = (
    "Whatever is computed from the published tables: regressions, intervals, repairs of the matrix, reports. None of it "
    "reads the data."
)

PARALLEL = (
    "Parallel composition of {count} releases, each of people of its own: the largest of their budgets. That one record is in "
    "the data of one of them at most is assumed. Each was charged to the ledger of its data; adding them up reads no data."
)
BASIC = (
    "Basic composition of {count} releases: the sum of their budgets, whoever is in the data of several. Each was charged to "
    "the ledger of its data; adding them up reads no data."
)
ONE_JOB = "One job reads the data, and publishes the noisy result alone."
ONE_FOR_EACH = "For each part, one job read its data and published the noisy result alone. Adding them up read no data."


@dataclass(frozen=True)
class Deployment:
    """The facts of one release."""

    name: str
    version: str
    date: str  # of publication, YYYY-MM-DD
    description: str
    guarantee: str
    variant: str  # as registries name it
    parameters: dict[str, float]
    unit: str
    adjacent: str  # which data sets are compared
    domain: str
    unprotected: str
    trust: str  # who reads the data
    preparation: str
    mechanisms: str
    composition: str
    limitations: tuple[str, ...]
    versions: dict[str, str]
    columns: tuple[dict[str, Any], ...]
    files: tuple[str, ...]


def deployment_of(release: Release[Any, Any]) -> Deployment:
    """Collect the facts of a release."""
    manifest = release.manifest
    privacy = manifest["privacy"]
    return Deployment(
        name=str(manifest["release"]["name"]),
        version=str(manifest["release"]["version"]),
        date=str(manifest.get("created_at", ""))[:10],
        description=_description(manifest),
        guarantee=str(manifest["guarantee"]),
        variant=_variant(privacy),
        parameters={key: privacy[key] for key in ("epsilon", "delta", "rho") if privacy.get(key)},
        unit=_unit(privacy),
        adjacent=_adjacent(manifest),
        domain=_domain(manifest),
        unprotected=_unprotected(manifest),
        trust=ONE_FOR_EACH if _part(manifest, "pool") else ONE_JOB,
        preparation=_preparation(manifest),
        mechanisms=_mechanisms(manifest),
        composition=_composition(manifest),
        limitations=tuple(map(str, manifest.get("limitations", ()))),
        versions={str(name): str(version) for name, version in _part(manifest, "versions").items()},
        columns=tuple(manifest["columns"]),
        files=tuple(_part(manifest, "files")),
    )


def _part(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = content.get(key)
    return found if isinstance(found, dict) else {}


def _description(manifest: dict[str, Any]) -> str:
    named, columns = manifest["release"], ", ".join(str(column["name"]) for column in manifest["columns"])
    groups = ", ".join(group_by(manifest))
    by = f", for each of a public list of groups ({groups})" if groups else ""
    return f"Differentially private release of kind {named['kind']}: {KINDS[named['kind']]}{by}. Columns: {columns}."


def _variant(privacy: Mapping[str, Any]) -> str:
    if privacy.get("rho") is not None:
        return "Zero-concentrated DP"
    return "Approximate DP" if privacy.get("delta") else "Pure DP"


def _unit(privacy: Mapping[str, Any]) -> str:
    unit = _part(privacy, "unit")
    if "max_rows" in unit:
        return (
            f"A person: all rows with one value of {unit.get('column')}, of which at most {unit['max_rows']} are used."
        )
    return "A record: one row of the source."


def _adjacent(manifest: dict[str, Any]) -> str:
    privacy = manifest["privacy"]
    rows = _part(privacy, "unit").get("rows_per_record", 1)
    judged = JUDGED.get(str(privacy.get("judged_by")), "")
    return f"{compared(manifest)} Rows of the release that one record can change: {rows}. {judged}".strip()


def _domain(manifest: Mapping[str, Any]) -> str:
    """Every table whose rows have these columns is protected: values beyond the bounds are moved to them."""
    columns = "; ".join(_column(column) for column in manifest["columns"])
    return f"Any table with these columns; values beyond the bounds are moved to them. {columns}."


def _column(column: Mapping[str, Any]) -> str:
    if "categories" in column:
        return f"{column['name']}: one of {len(column['categories'])} categories"
    low, high = bound_texts(column["lower"], column["upper"])
    return f"{column['name']} from {low} to {high}"


def _unprotected(manifest: dict[str, Any]) -> str:
    """List what is published without noise: settings that do not depend on the data, and the count where it is public."""
    private = any(column.get("bounds") == "private" for column in manifest["columns"])
    found = [
        f"the names{' and' if private else ', bounds and'} categories of columns"
        + (", and bounds that were stated beforehand" if private else ""),
        "every setting of the mechanism, and the scale of its noise",
    ]
    if group_by(manifest):
        found.append("the list of groups")
    if manifest["privacy"].get("count_is_exact"):
        found.append("the number of records, which is published as it is")
    return f"{_sentence(', '.join(found))} Nothing else is published without noise."


def _preparation(manifest: Mapping[str, Any]) -> str:
    spec = _part(manifest, "spec")
    found = [NULLS.get(str(manifest.get("nulls")), ""), _bounds(manifest)]
    if _part(manifest, "pool"):
        found.insert(0, "each part may have a filter of its own; its manifest, which is beside the pool, says so")
    if spec.get("where"):
        found.insert(0, f"rows were kept where {spec['where']}, row by row")
    if manifest.get("row_norm"):
        found.append("the length of rows was bounded")
    if manifest.get("weight"):
        found.append("rows were weighted")
    return " ".join(_sentence(each) for each in found if each)


def _bounds(manifest: Mapping[str, Any]) -> str:
    stages = [_part({"one": one}, "one").get("stage") for one in manifest["privacy"]["spending"]]
    if "bounds" in stages:
        return "some bounds were found in the data, with noise, and paid for out of the budget; the others are public"
    return "bounds are public: they were stated before the data were read"


def _mechanisms(manifest: Mapping[str, Any]) -> str:
    kind, mechanism = manifest["release"]["kind"], manifest["mechanism"]
    name = mechanism_name(mechanism)
    listed = {each.name: each for each in mechanisms_of(kind)}
    if name == POOL:
        return f"{name}. {POOL_WORDS} {_sentence(str(mechanism['sampler']))}"
    found = listed.get(name) or line_of_kernel(name)
    sampler = f" Sampler: {mechanism['sampler']}." if isinstance(mechanism.get("sampler"), str) else ""
    return f"{name}. {found.words if found else ''}{sampler}".replace("  ", " ")


def _composition(manifest: Mapping[str, Any]) -> str:
    privacy, pool = manifest["privacy"], _part(manifest, "pool")
    if pool:
        return (PARALLEL if pool["overlap"] == "none" else BASIC).format(count=len(pool["parts"]))
    parts = [_part({"one": one}, "one") for one in privacy["spending"]]
    told = "; ".join(f"{part.get('stage')}: {_amount(part)}" for part in parts)
    many = "Basic composition of the parts of this release" if len(parts) > 1 else "One mechanism"
    ledger = "A ledger adds up what all releases from the same data have cost, and refuses what exceeds its grant."
    return f"{many} ({told}). {ledger}"


def _amount(part: Mapping[str, Any]) -> str:
    given = [
        f"{key} = {part[key]:g}"
        for key in ("epsilon", "delta", "rho")
        if isinstance(part.get(key), int | float) and part[key]
    ]
    return ", ".join(given)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
