"""The guarantee and the method in plain words, from the manifest alone."""

from __future__ import annotations

import math
from typing import Any

from dpspark.analysis.aims import aim
from dpspark.analysis.remarks import definitions
from dpspark.mechanisms.lines.auto import AutoLines
from dpspark.mechanisms.registry import line_of_kernel, mechanisms_of
from dpspark.pooling.certificate import POOL, POOL_WORDS
from dpspark.privacy.budget import zcdp_epsilon
from dpspark.report.markup import Markup, element, facts, join, table, unbroken
from dpspark.show.tables import bound_texts
from dpspark.spec.guarantee import kept_columns

FALSE_ALARMS = 0.05
AT_DELTA = 1e-9  # where a guarantee in rho is converted, as in the manifest's own sentence

KINDS = {
    "gram": "a matrix of second moments: sums of products of its columns, from which any regression can be run",
    "regression": "one linear regression",
    "theil_sen": "robust lines, one for each group",
    "quantiles": "quantiles of its columns",
}
NEIGHBOURS = {
    "add_remove": "Whether a record is in the data at all: the data with it and without it give nearly the same release.",
    "replace_one": "The values of a record: the data with these and with any others give nearly the same release. "
    "That it is in the data is not hidden.",
}
NULLS = {
    "drop_row": "rows with a missing value were left out",
    "midpoint": "a missing value counts as the middle of its bounds",
}


def number(value: object, digits: int = 6) -> str:
    """A number of a manifest, which a stranger may have written."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) and abs(value) < 10**15 else f"{value:.{digits}g}"


def budget_text(privacy: dict[str, Any]) -> str:
    if privacy["rho"] is not None:
        return f"ρ = {privacy['rho']:g}"
    return f"ε = {privacy['epsilon']:g}" + (f", δ = {privacy['delta']:g}" if privacy["delta"] else "")


def mechanism_name(mechanism: dict[str, Any]) -> str:
    """Name the mechanism, or what `auto` chose in its place."""
    name = str(mechanism["name"])
    return str(mechanism.get("kernel", name)) if name == AutoLines.name else name


def guarantee(manifest: dict[str, Any]) -> Markup:
    privacy = manifest["privacy"]
    unit = privacy.get("unit") if isinstance(privacy.get("unit"), dict) else {}
    return join(
        element("blockquote", element("p", unbroken(str(manifest["guarantee"])))),
        facts(
            [
                ("Who is protected", _who(unit)),
                ("What about them", compared(manifest)),
                *_budget_facts(privacy),
                ("In other words", _attack(privacy)),
            ]
        ),
        _spending(privacy["spending"]),
    )


def compared(manifest: dict[str, Any]) -> str:
    """Say what the guarantee hides of a record, and what it does not."""
    kept = " and ".join(kept_columns(manifest))
    return NEIGHBOURS[manifest["privacy"]["neighbours"]] + (f" Nor is its {kept}, which it keeps." if kept else "")


def _who(unit: dict[str, Any]) -> str:
    if "max_rows" in unit:
        return (
            f"A person, with all rows that have one value of {unit.get('column')}: at most {unit['max_rows']} of them "
            "were used."
        )
    rows = unit.get("rows_per_record", 1)
    more = f"; it may be in up to {rows} of the rows that were used" if rows != 1 else ""
    return f"One record, that is one row of the source{more}. Somebody with several rows has less protection."


def _budget_facts(privacy: dict[str, Any]) -> list[tuple[str, object]]:
    if privacy["rho"] is not None:
        return [
            (
                f"ρ (rho) = {privacy['rho']:g}",
                "How much the distribution of results can move with one record (zero-concentrated differential privacy). "
                "Smaller is more private.",
            )
        ]
    epsilon, delta = privacy["epsilon"], privacy["delta"]
    factor = f"{math.exp(epsilon):.3g}" if epsilon < 700 else "a very large number"
    found: list[tuple[str, object]] = [
        (
            f"ε (epsilon) = {epsilon:g}",
            f"No result becomes more than {factor} times as likely, or as unlikely, because of one record. "
            "Smaller is more private; 0 would be perfect.",
        )
    ]
    if delta:
        found.append(
            (
                f"δ (delta) = {delta:g}",
                f"The bound on ε may fail with a probability of {delta:g}, 1 in {1 / delta:,.0f}.",
            )
        )
    return found


def _attack(privacy: dict[str, Any]) -> str:
    """A test with some false alarms finds at most this share: e^ε·α + δ, or 1 − e^(−ε)·(1 − α − δ)."""
    if privacy["rho"] is not None:
        epsilon, delta = zcdp_epsilon(privacy["rho"], AT_DELTA), AT_DELTA
    else:
        epsilon, delta = privacy["epsilon"], privacy["delta"] or 0.0
    often = 1 - math.exp(-epsilon) * (1 - FALSE_ALARMS - delta)
    power = min(often, math.exp(min(epsilon, 50.0)) * FALSE_ALARMS + delta, 1.0)
    percent = math.ceil(1000 * power - 1e-9) / 10  # rounded against us
    return (
        "Suppose somebody knows all other records and all about one of them, and tests this release for it. If the test "
        f"gives a false alarm {FALSE_ALARMS:.0%} of the time, it finds the record at most {percent:g}% of the time."
    )


def _spending(parts: list[dict[str, Any]]) -> Markup | None:
    if len(parts) < 2:
        return None
    symbols = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
    used = [key for key in symbols if any(part.get(key) is not None for part in parts)]
    rows: list[list[object]] = [
        [part["stage"], *(number(part[key]) if part.get(key) is not None else "" for key in used)] for part in parts
    ]
    heads = ["Part", *(symbols[key] for key in used)]
    return table(heads, rows, "What the budget was spent on: the parts add up", (1, 2, 3))


def mechanism_words(kind: str, name: str) -> str:
    """Say how a mechanism protects, in its own words. What `auto` chose goes by its kernel."""
    if name == POOL:
        return POOL_WORDS
    named = [each for each in mechanisms_of(kind) if each.name == name]
    chosen = line_of_kernel(name) if kind == "theil_sen" and not named else None
    return next((each.words for each in (*named, chosen) if each is not None), "see the numbers below.")


def method(manifest: dict[str, Any], rows: str) -> Markup:
    mechanism, release, spec = manifest["mechanism"], manifest["release"], manifest["spec"]
    name = mechanism_name(mechanism)
    group_by = spec["release"].get("group_by")
    sensitivity = mechanism.get("sensitivity")
    because = sensitivity.get("because") if isinstance(sensitivity, dict) else None
    norm = manifest["row_norm"]
    weight = manifest.get("weight")
    return join(
        facts(
            [
                ("Release", f"{release['name']}, version {release['version']}"),
                ("What", KINDS[release["kind"]] + (f"; by {', '.join(group_by)}" if group_by else "")),
                ("Mechanism", join(element("code", name), f": {mechanism_words(release['kind'], name)}")),
                ("Aims at", aim(manifest) if release["kind"] == "theil_sen" else None),
                ("Noise", noise_words(mechanism.get("noise"), "rows" if weight is None else "weights")),
                ("Drawn by", mechanism.get("sampler")),
                ("Sensitivity", because),
                ("Rows", rows),
                ("Filter", None if spec.get("where") is None else element("code", spec["where"])),
                ("Missing values", NULLS.get(str(manifest.get("nulls")))),
                (
                    "Weights",
                    None
                    if not isinstance(weight, dict)
                    else f"{weight.get('name')}, up to {number(weight.get('upper'))}",
                ),
                (
                    "Row norm",
                    None
                    if norm is None
                    else f"scaled rows were {'shrunk' if norm['mode'] == 'cap' else 'moved'} to norm {norm['radius']:g}",
                ),
                ("Made", f"{manifest.get('created_at', '')} with dpspark {_version(manifest)}"),
            ]
        ),
        columns(manifest),
        element("details", element("summary", "All numbers of the mechanism"), _numbers(mechanism)),
    )


def _version(manifest: dict[str, Any]) -> str:
    versions = manifest.get("versions")
    return str(versions.get("dpspark", "")) if isinstance(versions, dict) else ""


def noise_words(noise: Any, counted: str = "rows") -> str | None:
    """`counted` is what the matrix adds up."""
    if not isinstance(noise, dict):
        return None
    if noise.get("model") == "sampling":
        return (
            f"that of a matrix of {noise['degrees']:,.0f} degrees of freedom, after {number(noise['ridge'], 4)} was added to "
            "the diagonal and taken off again; it grows with the entries"
        )
    unit = f"in {counted}, with every column scaled to [−1, 1]"
    parts = [f"standard deviation {noise['off_diagonal_std']:.4g} off the diagonal, {noise['diagonal_std']:.4g} on it"]
    if "cross_std" in noise:
        parts.append(f"{noise['cross_std']:.4g} in products with the response")
    return f"{', '.join(parts)} ({unit})"


def columns(manifest: dict[str, Any]) -> Markup:
    rows: list[list[object]] = []
    defined = definitions(manifest)
    for column in manifest["columns"]:
        if column.get("categories") is not None:
            shown = [str(c).lower() if isinstance(c, bool) else str(c) for c in column["categories"]]
            row: list[object] = [column["name"], "categories", ", ".join(shown)]
        else:
            side = " and ".join(column.get("private_sides", ())) + " bound" if column.get("private_sides") else "bounds"
            how = f"number; {side} found in the data, with noise" if column.get("bounds") == "private" else "number"
            row = [column["name"], how, " to ".join(bound_texts(column["lower"], column["upper"], 6))]
        if defined:
            text = defined.get(column["name"])
            row.append("" if text is None else element("code", text))
        rows.append(row)
    for first, second in manifest.get("products") or ():
        rows.append([f"{first}:{second}", "block of products", f"{first} times {second}", *([""] if defined else [])])
    heads = ["Column", "Type", "Bounds or categories", *(["Computed as"] if defined else [])]
    return table(heads, rows, "Columns, and the bounds they were clipped to")


def _numbers(mechanism: dict[str, Any]) -> Markup:
    rows: list[list[object]] = []

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{name}.{key}" if name else str(key), inner)
        elif isinstance(value, list):
            rows.append([name, ", ".join(number(item) if not isinstance(item, dict) else "…" for item in value)])
        elif value is not None:
            rows.append([name, number(value, 12)])

    walk("", mechanism)
    return table(["Name", "Value"], rows, "As in the manifest; in units of the scaled matrix", (1,))


def limitations(manifest: dict[str, Any]) -> Markup:
    given = manifest.get("limitations")
    said = [str(item) for item in given] if isinstance(given, list) else []
    return element("ul", *(element("li", item) for item in said))
