"""Remarks for readers of the numbers, from a manifest alone: how columns are defined, what standard errors assume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpspark.core.formula_terms import quoted
from dpspark.mechanisms.errors.asked import CLASSICAL

if TYPE_CHECKING:
    from dpspark.analysis.regression import Regression

USUAL_LEVEL = 0.95
STANDARD_ERRORS = "Standard errors"
EQUAL_VARIANCES = "{what}: equal variances assumed, and rows that are independent."
ROBUST = "{what}: {errors}, which hold where variances differ, of rows that are independent."
CLUSTERED = "{what}: {words} They hold where variances differ, and where rows of one cluster are alike."
IN_PARTS = "Rows of one person in several parts of the pool are not independent: "
OF_ONE = "Rows of one {whose} (up to {most}) are not independent: "
TOO_SMALL = "where there are several, the standard errors are too small."
TOO_NARROW = "where there are several, the intervals are too narrow."
REPAIRED = "Repaired by {how}: coefficients to predict with. The repair biases them, so they have no standard error."
TOO_MANY = "where there are several, too many regressors rank high."


def definitions(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The computed columns of a release, each with its SQL; a weight that is computed is not among them."""
    columns = _part(_part(manifest, "spec"), "columns")
    used = [column.get("name") for column in manifest.get("columns", ())]
    found = {name: _part(columns, name).get("expr") for name in used}
    return {name: text for name, text in found.items() if isinstance(text, str)}


def defined_of(found: Mapping[str, str], terms: Iterable[str]) -> dict[str, str]:
    """The definitions of the columns that some terms are of."""
    wanted = tuple(terms)
    return {name: text for name, text in found.items() if any(t == name or t.startswith(f"{name}[") for t in wanted)}


def definition_lines(found: Mapping[str, str]) -> list[str]:
    return [definition_line(name, text) for name, text in found.items()]


def definition_line(name: str, sql: str) -> str:
    """Say how a column is computed. A column that a formula asked for says it by its name: its SQL is long."""
    text = " ".join(sql.split())
    if (":" in name or "(" in name) and quoted(name) == name and "case when " in text:
        return f"{name} is computed from values that were moved to their bounds"
    return f"{name} is computed: {text}"


def assumptions(manifest: Mapping[str, Any], what: str = STANDARD_ERRORS, then: str = TOO_SMALL) -> list[str]:
    """Say what the standard errors of least squares, or what else is made with them, take for granted."""
    return [EQUAL_VARIANCES.format(what=what), *alike(manifest, then)]


def stated_assumptions(found: Sequence[str], fit: Regression) -> list[str]:
    """Say what standard errors are, of a regression: the first of its assumptions is that variances are equal."""
    if not found:
        return []
    if fit.clusters is not None:
        others = [] if fit.clusters.people else found[1:]
        return [CLUSTERED.format(what=STANDARD_ERRORS, words=fit.clusters.in_words()), *others]
    if fit.errors != CLASSICAL:
        return [ROBUST.format(what=STANDARD_ERRORS, errors=fit.errors.upper()), *found[1:]]
    why = fit.errors_reason
    return [*found, f"Not robust: {why}."] if why.endswith("are assumed") else list(found)


def alike(manifest: Mapping[str, Any], then: str = TOO_SMALL) -> list[str]:
    """Say that a person, or a record, may have several rows, and what follows; nothing where it has one."""
    spec = _part(manifest, "spec")
    unit, source = _part(_part(spec, "privacy"), "unit"), _part(spec, "source")
    most, rows = unit.get("max_rows", 1), source.get("rows_per_record", 1)
    if isinstance(most, int) and most > 1:
        return [OF_ONE.format(whose=unit.get("column"), most=f"{most:,}") + then]
    if isinstance(rows, int) and rows > 1:
        return [OF_ONE.format(whose="record", most=f"{rows:,}") + then]
    return [IN_PARTS + then] if _part(manifest, "pool").get("overlap") == "unknown" else []


def line_remarks(manifest: Mapping[str, Any]) -> list[str]:
    """Say of lines and quantiles what their intervals are, where they have any, and how their columns are defined."""
    return [*interval_remarks(manifest), *definition_lines(definitions(manifest))]


def interval_remarks(manifest: Mapping[str, Any]) -> list[str]:
    level = interval_level(manifest)
    return (
        []
        if level is None
        else [f"ci_low and ci_high are ends of {100 * level:g}% intervals.", *alike(manifest, TOO_NARROW)]
    )


def interval_level(manifest: Mapping[str, Any]) -> float | None:
    """Read the level of a release's published intervals; None where it has none."""
    release = _part(_part(manifest, "spec"), "release")
    if not isinstance(release.get("interval"), Mapping):
        return None
    level = _part(release, "interval").get("level", USUAL_LEVEL)
    return float(level) if isinstance(level, int | float) and 0 < level < 1 else None


def _part(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A stranger may have written the manifest."""
    found = content.get(key)
    return found if isinstance(found, Mapping) else {}
