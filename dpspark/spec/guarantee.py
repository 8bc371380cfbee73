"""What a release guarantees, in one sentence, and whom: for its manifest, and for whoever checks one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpspark.privacy.budget import Budget, zcdp_epsilon
from dpspark.spec.parts import PrivacyUnit


def sentence(
    budget: Budget, neighbours: str, unit: PrivacyUnit | None, count_is_public: bool, kept: Sequence[str] = ()
) -> str:
    """One that a lawyer could read. `kept` are the columns that a replaced record keeps: nothing hides their values."""
    epsilon, delta = budget.epsilon or 0.0, budget.delta
    if budget.rho is not None:
        at = zcdp_epsilon(budget.rho, 1e-9)
        bound = (
            f"satisfies {budget.rho:g}-zero-concentrated differential privacy; for example, the probability of any "
            f"result changes by a factor of at most e^{at:.3g} = {_factor(at)}, but for a probability of 1e-09"
        )
    elif not delta:
        bound = (
            f"is {epsilon:g}-differentially private: the probability of any result changes by a factor of at most "
            f"e^{epsilon:g} = {_factor(epsilon)}"
        )
    else:
        bound = (
            f"is ({epsilon:g}, {delta:g})-differentially private: the probability of any result changes by a factor of at "
            f"most e^{epsilon:g} = {_factor(epsilon)}, but for a probability of {delta:g}"
        )
    public = "; the number of records is published as it is" if count_is_public else ""
    change = _change(neighbours == "add_remove", unit)
    change += f", if it keeps its {' and '.join(kept)}" if kept else ""
    return f"Whoever reads this release learns nearly the same about the data {change}. The release {bound}{public}."


def kept_columns(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Read from a manifest which columns a replaced record keeps: those of its group, where it cannot move to another."""
    spec, privacy = manifest.get("spec", {}), manifest["privacy"]
    by = spec.get("release", {}).get("group_by") or ()
    moves = privacy["neighbours"] != "replace_one" or privacy.get("moves_between_groups", True)
    return () if moves or "max_rows" in (privacy.get("unit") or {}) else tuple(sorted(by))


def protected(unit: PrivacyUnit | None, rows_per_record: int) -> dict[str, Any]:
    """State what is protected: `rows_per_record` of the release's rows can change with it."""
    if unit is None:
        return {"record": "one row of the source", "rows_per_record": rows_per_record}
    return {
        "record": f"one person: the rows with one value of {unit.column}",
        **unit.model_dump(),
        "people_changed": rows_per_record // unit.max_rows,
        "rows_per_record": rows_per_record,
    }


def _change(added: bool, unit: PrivacyUnit | None) -> str:
    if unit is None:
        return "whether or not any one record is in the data" if added else "whatever values any one record has"
    rows = f"at most {unit.max_rows} row{'s' if unit.max_rows > 1 else ''} kept"
    alone = "" if unit.nulls == "drop" else "; a row without one is a person of its own"
    who = f"any one person ({unit.column}, {rows}{alone})"
    return f"whether or not {who} is in the data" if added else f"whatever rows {who} has"


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else "a number too large to protect anyone"
