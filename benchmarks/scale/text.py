"""The benchmark's results as text: a table for each study, exponents below it, and the model."""

from __future__ import annotations

from typing import Any

TITLES = {
    "rows": "Seconds against rows",
    "columns": "Seconds against columns",
    "files": "Seconds against files",
    "cores": "Seconds against cores",
    "tree": "Tree of sums: seconds against partitions",
}
KINDS = ("driver", "jvm", "worker")
NOTES = (
    "Seconds: the median of up to three runs. Memory: resident, of the largest process of its kind, sampled every 50 ms.",
    "The JVM of a local Spark is driver and executor in one. It, and the reused Python workers, keep some of what earlier",
    "studies needed. Exponents: slopes of log seconds on log size, with standard errors; 'larger' is the larger half of",
    "the points, at least three.",
)


def shown(results: dict[str, Any]) -> str:
    lines = [machine_line(results["machine"]), ""]
    for name, study in results["studies"].items():
        lines += [f"{TITLES[name]} ({study['fixed']})", *study_lines(study), ""]
    if results["model"] is not None:
        lines += [*model_lines(results["model"]), ""]
    return "\n".join([*lines, *NOTES, f"Repeat: {results['command']}"])


def machine_line(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cores']} cores ({machine['architecture']}), Java {machine['java']}, Spark {machine['spark']}, "
        f"Python {machine['python']}, a Java heap of {machine['heap']}"
    )


def study_lines(study: dict[str, Any]) -> list[str]:
    head = f"{'':16}{study['x']:>14}{'seconds':>10}{'min-max':>18}{'MB: driver':>12}{'JVM':>8}{'worker':>8}"
    lines = [head]
    for point in study["points"]:
        span = f"{min(point['runs']):.3g}-{max(point['runs']):.3g}" if len(point["runs"]) > 1 else ""
        memory = [f"{point[f'{kind}_peak_bytes'] / 1e6:,.0f}" for kind in KINDS]
        lines.append(
            f"{point['series']:16}{point['x']:>14,}{point['seconds']:>10.3g}{span:>18}"
            f"{memory[0]:>12}{memory[1]:>8}{memory[2]:>8}"
        )
    return [*lines, *(f"  {fit['series']}: exponent {exponent_text(fit)}" for fit in study["fits"])]


def exponent_text(fit: dict[str, Any]) -> str:
    larger = fit["larger"]
    more = "" if fit["points"] <= 3 else f"; larger {_number(larger)}"
    return f"{_number(fit)}{more}"


def _number(fit: dict[str, Any]) -> str:
    if fit["exponent"] is None:
        return "-"
    error = "" if fit["standard_error"] is None else f" ± {fit['standard_error']:.2f}"
    return f"{fit['exponent']:.2f}{error}"


def model_lines(model: dict[str, Any]) -> list[str]:
    cluster, check = model["cluster"], model["check"]
    lines = [
        f"A model, not a measurement: {cluster['executors']} executors of {cluster['cores_each']} cores",
        f"{'rows':>14}{'columns':>9}{'tasks':>8}{'computing':>11}{'storage':>9}{'all else':>10}{'total':>8}  seconds",
    ]
    for found in model["predictions"]:
        rest = found["total"] - found["seconds"]["reading"]
        lines.append(
            f"{found['rows']:>14,}{found['columns']:>9}{found['tasks']:>8,}{found['computing']:>11,.0f}"
            f"{found['storage']:>9,.0f}{rest:>10,.0f}{found['total']:>8,.0f}"
        )
    return [
        *lines,
        f"On this machine the model gives {check['modelled']:.1f} s for {check['rows']:,} rows x {check['columns']} from "
        f"Parquet; measured {check['measured']:.1f} s.",
    ]
