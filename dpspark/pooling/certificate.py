"""The certificate of a pool: what it is made of, what is assumed, and what is guaranteed then.

Parallel composition: where one person is in one part at most, a change of that person changes one release alone, and the pool,
a function of all of them, is protected as that release is: the largest epsilon and delta of the parts, or the largest rho. Of
records that are replaced this holds within a part: one that moves to another part changes both.
Where people may be in several, basic composition: the sums (McSherry 2009, Theorems 3 and 4).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpspark.bundle.files import FORMAT
from dpspark.core.domain import domain_to_manifest, products_to_manifest
from dpspark.mechanisms.gram.noise_model import noise_to_manifest
from dpspark.mechanisms.gram.noisy import noise_from_manifest, sum_of_noises
from dpspark.pooling.alike import Part
from dpspark.privacy.budget import Budget
from dpspark.spec.guarantee import kept_columns, sentence
from dpspark.spec.parts import PrivacyUnit
from dpspark.spec.spec import hash_of

POOL = "pool"  # in place of a mechanism's name
POOL_WORDS = "The matrices of several releases were added up, each with its own noise: no data were read."
NOT_CHARGED = "none"  # in place of an entry of the ledger
JUDGES = ("statement", "plan", "files")  # the weakest first
APART = (
    " This is a pool of {count} releases ({names}), and it is assumed that one {who} is in the data of one of them at most: "
    "each is then protected by that release alone (parallel composition). {Who}s in several of them are protected by the sum "
    "of their budgets only."
)
STAYS = " That a record which is replaced stays in its release is assumed, too."
TOGETHER = (
    " This is a pool of {count} releases ({names}), whose budgets are added up: it holds even if one {who} is in the data of "
    "all of them."
)
MAY_BE_ALIKE = (
    "Standard errors take rows as independent, and those of one {who} in several parts may be alike: then they are too "
    "small."
)
NO_MEATS = (
    "Standard errors assume residuals of equal variance: the parts hold meats about coefficients of their own, which do not "
    "add up to the meat about the pool's. The parts' own regressions have robust ones."
)
OF_MEATS = ("Standard errors of the regressions in meat.parquet", "A row without a value in ", "There are about ")
SAME_ROWS = (
    "{names} name the same source and filter: unless its rows were others each time, their people are the same, and this pool "
    "protects them by the sum of the budgets only."
)
NO_SHARES = "Not every part tells its shares of clipped values: the pool tells none."


def pool_manifest(parts: Sequence[Part], name: str, version: str, overlap: str) -> dict[str, Any]:
    """Write the certificate, but for its date, its versions and its files: from the parts' own alone."""
    first = parts[0].manifest
    budget = pooled_budget([part.manifest["privacy"] for part in parts], overlap)
    spec = _spec(parts, name, version, budget)
    named = {"name": name, "version": version, "kind": first["release"]["kind"]}
    kept = {key: first["release"][key] for key in ("group_types", "groups_sha256") if key in first["release"]}
    return {
        "format": FORMAT,
        "release": {**named, **kept},
        "source": {"timezone": _common(parts, lambda m: (m.get("source") or {}).get("timezone"))},
        "guarantee": _guarantee(parts, budget, overlap),
        "pool": {"parts": [_named(part) for part in parts], "overlap": overlap},
        "privacy": _privacy(parts, budget, overlap),
        "mechanism": {
            "name": POOL,
            "sampler": f"drawn once for each part: {', '.join(_mechanisms(parts))}",
            "noise": noise_to_manifest(sum_of_noises([part.noise for part in parts])),
            "repair": _repair(parts),
        },
        "columns": domain_to_manifest(parts[0].content.domain),
        **products_to_manifest(parts[0].content.domain),
        "terms": list(first["terms"]),
        "grid_bits": min(part.manifest["grid_bits"] for part in parts),
        "nulls": first.get("nulls"),
        "weight": first.get("weight"),
        "row_norm": first["row_norm"],
        "spec": spec,
        "spec_hash": hash_of(spec),
        "ledger": {
            "dataset": ", ".join(dict.fromkeys(p.manifest["ledger"]["dataset"] for p in parts)),
            "id": NOT_CHARGED,
        },
        **_monitoring(parts),
        "limitations": list(_limitations(parts, overlap)),
    }


def pooled_budget(budgets: Sequence[Mapping[str, Any]], overlap: str) -> Budget:
    """The largest of the parts' budgets, or their sum."""
    together = max if overlap == "none" else _sum_up
    found = {}
    for key in ("epsilon", "delta", "rho"):
        values = [each[key] for each in budgets]
        found[key] = None if all(value is None for value in values) else together([value or 0.0 for value in values])
    return Budget(**found)


def _sum_up(values: Sequence[float]) -> float:
    """Add up, and round up."""
    exact = sum((Fraction(value) for value in values), Fraction(0))
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)


def _named(part: Part) -> dict[str, Any]:
    named = part.manifest["release"]
    return {"name": named["name"], "version": named["version"], "manifest_sha256": part.digest}


def _common(parts: Sequence[Part], read: Any) -> Any:
    """Read what all parts say; None where they differ."""
    first = read(parts[0].manifest)
    return first if all(read(part.manifest) == first for part in parts) else None


def _mechanisms(parts: Sequence[Part]) -> list[str]:
    return list(dict.fromkeys(str(part.manifest["mechanism"]["name"]) for part in parts))


def _repair(parts: Sequence[Part]) -> str:
    """The repair that all parts ask for; what is safe for the noise of one is not known to be for a sum."""
    found = _common(parts, lambda manifest: manifest["mechanism"].get("repair", "none"))
    return "none" if found in (None, "safe") else str(found)


def _spec(parts: Sequence[Part], name: str, version: str, budget: Budget) -> dict[str, Any]:
    """What was asked for, as far as it is the same in all parts."""
    specs = [part.manifest["spec"] for part in parts]
    asked, privacy = specs[0]["release"], specs[0].get("privacy", {})
    rows = [(spec.get("source") or {}).get("rows_per_record") for spec in specs]
    same = {key: specs[0].get(key) for key in ("columns", "products", "nulls", "row_norm", "weight")}
    where = _common(parts, lambda manifest: manifest["spec"].get("where"))
    given = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return {
        "source": {
            "pool": [part.digest for part in parts],
            **({"rows_per_record": max(filter(None, rows))} if any(rows) else {}),
        },
        **{key: value for key, value in same.items() if value is not None},
        **({} if where is None else {"where": where}),
        "privacy": {**given, "neighbours": privacy.get("neighbours"), "unit": privacy.get("unit")},
        "release": {
            "name": name,
            "version": version,
            "kind": "gram",
            **{key: asked[key] for key in ("group_by", "groups") if asked.get(key)},
        },
        "mechanism": {"name": POOL},
    }


def _who(parts: Sequence[Part]) -> str:
    return "person" if "max_rows" in (parts[0].manifest["privacy"].get("unit") or {}) else "record"


def _guarantee(parts: Sequence[Part], budget: Budget, overlap: str) -> str:
    privacy = parts[0].manifest["privacy"]
    unit = privacy.get("unit") or {}
    person = PrivacyUnit(**{key: unit[key] for key in ("column", "max_rows", "nulls")}) if "max_rows" in unit else None
    names = ", ".join(part.content.name for part in parts[:6]) + (", ..." if len(parts) > 6 else "")
    said = {"count": len(parts), "names": names, "who": _who(parts), "Who": _who(parts).capitalize()}
    public = bool(privacy.get("count_is_exact")) or _has_exact_count(parts)
    stays = STAYS if privacy["neighbours"] == "replace_one" else ""
    more = APART + stays if overlap == "none" else TOGETHER
    kept = max((kept_columns(part.manifest) for part in parts), key=len)  # the weakest of the parts' promises
    return sentence(budget, privacy["neighbours"], person, public, kept) + more.format(**said)


def _has_exact_count(parts: Sequence[Part]) -> bool:
    return any(_monitored(part).get("noise_std") == 0 for part in parts)


def _privacy(parts: Sequence[Part], budget: Budget, overlap: str) -> dict[str, Any]:
    first = parts[0].manifest["privacy"]
    judges = [part.manifest["privacy"].get("judged_by") for part in parts]
    rows = {part.manifest["privacy"].get("its_rows_are") for part in parts}
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "rho": budget.rho,
        "neighbours": first["neighbours"],
        "unit": first.get("unit"),
        "count_is_exact": first.get("count_is_exact", False),
        "spending": list(_spending(parts, budget, overlap)),
        "judged_by": None if None in judges else next(judge for judge in JUDGES if judge in judges),
        "its_rows_are": rows.pop() if len(rows) == 1 else "either",
        "moves_between_groups": all(part.manifest["privacy"].get("moves_between_groups", True) for part in parts),
    }


def _spending(parts: Sequence[Part], budget: Budget, overlap: str) -> Iterator[dict[str, Any]]:
    """What the budget is made of: the largest of the parts', or each of them."""
    if overlap == "none":
        yield {"stage": POOL, "epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    else:
        for part in parts:
            yield {"stage": part.content.name, **{k: part.manifest["privacy"][k] for k in ("epsilon", "delta", "rho")}}
    if all("squared_weights" in part.content.tables for part in parts):
        paid = [
            each
            for part in parts
            for each in part.manifest["privacy"]["spending"]
            if each["stage"] == "squared weights"
        ]
        noises: list[Any] = [noise_from_manifest(each["noise"]) for each in paid]
        yield {"stage": "squared weights", "noise": noise_to_manifest(sum_of_noises(noises))}


def _monitored(part: Part) -> Mapping[str, Any]:
    found = part.manifest.get("monitoring")
    return found if isinstance(found, Mapping) else {}


def _monitoring(parts: Sequence[Part]) -> dict[str, Any]:
    """The number of rows, where all parts tell theirs."""
    told = [_monitored(part) for part in parts]
    if not all(told):
        return {}
    std = sum(each["noise_std"] ** 2 for each in told) ** 0.5
    return {"monitoring": {"rows": sum(each["rows"] for each in told), "noise_std": std}}


def _of_one_source(parts: Sequence[Part]) -> list[list[str]]:
    """List the releases whose specs ask for the same rows of one place."""
    found: dict[str, list[str]] = {}
    for part in parts:
        spec = part.manifest["spec"]
        asked = json.dumps([spec.get("source"), spec.get("where")], sort_keys=True, default=str)
        found.setdefault(asked, []).append(part.content.name)
    return [names for names in found.values() if len(names) > 1]


def _limitations(parts: Sequence[Part], overlap: str) -> Iterator[str]:
    """What a reader has to know: of the pool, and of its parts where it holds for the pool."""
    if overlap == "unknown":
        yield MAY_BE_ALIKE.format(who=_who(parts))
    else:
        yield from (SAME_ROWS.format(names=" and ".join(names)) for names in _of_one_source(parts))
    if any("meat" in part.content.tables for part in parts):
        yield NO_MEATS
    shares = ["diagnostics" in part.content.tables for part in parts]
    if any(shares) and not all(shares):
        yield NO_SHARES
    said = (str(line) for part in parts for line in part.manifest.get("limitations", ()))
    yield from dict.fromkeys(line for line in said if not line.startswith(OF_MEATS))
