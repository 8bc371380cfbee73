"""The content of a release for the page's program: as published, in few characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.keys import Key, keys_of_rows, rows_by_key, tables_by_key
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.analysis.example import full_formula
from dpspark.analysis.options import Asked
from dpspark.analysis.remarks import USUAL_LEVEL, assumptions, definition_line, line_remarks
from dpspark.analysis.result import without_nan
from dpspark.analysis.sandwich import ReleasedMeat
from dpspark.analysis.summary import row_norm_lines
from dpspark.core.domain import Domain, Numeric, category_label
from dpspark.core.formula import Formula
from dpspark.errors import ConfError, OutputError
from dpspark.mechanisms.errors.asked import CLASSICAL
from dpspark.report.formula_names import formula_names
from dpspark.report.packed import doubles, names, singles, small_numbers

MOST_CHARACTERS = 4_500_000  # of all groups together, so that a page stays below 5 MB
STATUS = "status"


@dataclass
class Results:
    """Results to show: `content` is for the page, `keys` are all groups, `formulas` the regressions."""

    content: dict[str, Any]
    keys: list[Key] = field(default_factory=list)
    formulas: list[Formula] = field(default_factory=list)


def results_of(release: Content, regress: Sequence[str]) -> Results:
    """Collect what the page shows of a release; `regress` are formulas."""
    if regress and release.kind != "gram":
        raise ConfError(f"--regress is for releases of kind gram; this one is of kind {release.kind}.")
    if release.kind == "gram":
        return _matrices(release, regress)
    if release.kind == "regression":
        return _regressions(release)
    return _lines(release) if release.kind == "theil_sen" else _quantiles(release)


def _each_group(release: Content) -> Iterator[tuple[Key, Content]]:
    """Give every group with its content; of a release without groups, itself."""
    if isinstance(release, GroupedContent):
        yield from release.each()
    else:
        yield _own_key(release), release


def _own_key(release: Content) -> Key:
    """Read the key of a group that was chosen before."""
    return tuple(category_label(release.group[name]) for name in release.group_by if name in release.group)


def _matrices(release: Content, regress: Sequence[str]) -> Results:
    domain = release.domain
    keys: list[Key] = []
    packed: list[np.ndarray] = []
    squared = None
    upper = np.triu_indices(domain.width)
    most = max(1, MOST_CHARACTERS // (11 * len(upper[0])))
    first: GramContent | None = None
    for key, found in _each_group(release):
        assert isinstance(found, GramContent)
        keys.append(key)
        if len(packed) < most:
            packed.append(found.moments.scaled[upper])
            squared = found.moments.squared_weights
        first = first or found
    assert first is not None
    formulas, complete = _chosen(first, regress)
    moments = first.moments
    content = {
        "terms": list(domain.terms),
        "middle": moments.middle.tolist(),
        "half": moments.half.tolist(),
        "noise": moments.noise.for_page(),
        "weighted": moments.weighted,
        "columns": _columns(domain),
        **formula_names(release),
        "name": release.name,
        "cost": release.cost,
        "record": release.record,
        "group_by": list(release.group_by),
        "groups": [list(key) for key in keys[:most]],
        "left_out": len(keys) - len(packed),
        "matrices": doubles(np.array(packed)),
        "squared": None if squared is None else doubles(squared[upper]),
        "squared_noise": None if moments.squared_noise is None else moments.squared_noise.for_page(),
        "assumptions": assumptions(release.manifest),
        "robust": [_robust(first, meat) for meat in first.meats],
        "definitions": {name: definition_line(name, text) for name, text in release.definitions.items()},
        "formulas": [
            {"response": f.response, "regressors": list(f.regressors), "intercept": f.intercept} for f in formulas
        ],
        "complete": complete,
        "repair": release.manifest["mechanism"].get("repair", "none"),
        "row_norm": row_norm_lines(domain),
    }
    return Results(content, keys, formulas)


def _chosen(release: GramContent, regress: Sequence[str]) -> tuple[list[Formula], bool]:
    """Choose what was asked for; else the regressions whose errors were paid for; else one number on all other columns.

    Or (not complete) on the first that are identified.
    """
    if regress:
        return list(dict.fromkeys(release.parse(text) for text in regress)), True
    if release.meats:
        return [meat.formula for meat in release.meats], True
    formula, complete = full_formula(release.domain, release.definitions, release.moments)
    return [formula], complete


def _robust(release: GramContent, meat: ReleasedMeat) -> dict[str, Any]:
    """Say what was paid for of one regression: its sampling covariance where variances differ, if the noise allows it."""
    fit = release.fit(meat.formula, Asked())
    of = {
        "response": meat.formula.response,
        "regressors": list(meat.formula.regressors),
        "intercept": meat.formula.intercept,
        "errors": fit.errors,
        "terms": list(fit.terms),
        "assumptions": fit.assumptions,
    }
    if fit.errors == CLASSICAL:
        return of
    return {**of, "sampling": fit.sampling_covariance().tolist(), "df": fit.degrees_of_freedom().tolist()}


def _columns(domain: Domain) -> list[dict[str, Any]]:
    """Describe the columns and blocks of products: their terms, and those that stand for a block beside its columns."""
    firsts = {block.terms[0] for block in domain.blocks if len(block.terms) > 1}
    products = []
    for product in domain.products:
        terms = domain.terms_of(product)
        chosen = [term for term in terms if not firsts & set(domain.factor_terms(term))]
        number = next((c for c in domain.numeric if c.name == product.of[1]), None)
        bounds = {} if number is None else {"lower": number.lower, "upper": number.upper}
        products.append({"name": product.name, "terms": list(terms), "regressors": chosen, "product": True, **bounds})
    return [
        {"name": c.name, "terms": list(c.terms), "lower": c.lower, "upper": c.upper}
        if isinstance(c, Numeric)
        else {"name": c.name, "terms": list(c.terms)}
        for c in domain.columns
    ] + products


def _regressions(release: Content) -> Results:
    """Collect of groups what their tables have; of a single one all that `dpspark regress` says."""
    domain, group_by = release.domain, list(release.group_by)
    common = {
        "columns": _columns(domain),
        "response": domain.terms[-1],
        "name": release.name,
        "cost": release.cost,
        "record": release.record,
        "group_by": group_by,
        "assumptions": assumptions(release.manifest),
        "definitions": {name: definition_line(name, text) for name, text in release.definitions.items()},
    }
    if isinstance(release, RegressionContent):
        key, fit = _own_key(release), release.regress(Asked())
        common["assumptions"] = fit.assumptions
        return Results({**common, "groups": [list(key)], "left_out": 0, "fits": [fit.to_dict()]}, [key])
    keys: list[Key] = []
    fits: list[dict[str, Any]] = []
    most = max(1, MOST_CHARACTERS // (70 * domain.width))
    for key, table in tables_by_key(release.tables["coefficients"], group_by):
        keys.append(key)
        if len(fits) < most:
            fits.append(_published(table))
    content = {**common, "groups": [list(key) for key in keys[:most]], "left_out": len(keys) - len(fits), "fits": fits}
    return Results(content, keys)


def _published(table: pa.Table) -> dict[str, Any]:
    rows = table.to_pylist()
    return without_nan({"terms": rows, "status": rows[0][STATUS], "level": USUAL_LEVEL})


def _lines(release: Content) -> Results:
    """Collect a row for each group: at every cut the estimate and its interval, then the line."""
    assert isinstance(release, LinesContent)
    table, group_by = release.table, list(release.group_by)
    cuts = list(dict.fromkeys(table["x"].to_pylist()))
    named = release.manifest["release"]
    columns: list[dict[str, Any]] = []
    count = table.num_rows // max(1, len(cuts))
    if not (count and np.isfinite(cuts).all() and table["x"].to_pylist() == cuts * count):
        raise OutputError("this release is damaged: its predictions are not a row for each group and cut.")
    ends = "" if release.level is None else f"{100 * release.level:g}% "
    for name, label in (
        ("estimate", "{y} at {x} = {cut:g}"),
        ("ci_low", f"{ends}low at {{cut:g}}"),
        ("ci_high", f"{ends}high at {{cut:g}}"),
    ):
        values = table[name].to_numpy().reshape(count, len(cuts))
        for i, cut in enumerate(cuts):
            if name == "estimate" or np.isfinite(values[:, i]).any():
                text = label.format(y=named["y"], x=named["x"], cut=cut)
                columns.append({"label": text, "cut": i, "of": name, "values": values[:, i]})
    columns.sort(key=lambda column: column["cut"])
    for name in ("slope", "intercept"):
        columns.append({"label": name, "of": name, "values": table[name].to_numpy()[:: len(cuts)]})
    keys = keys_of_rows(table, group_by)[:: len(cuts)]
    content = _wide(group_by, keys, columns, table[STATUS].to_pylist()[:: len(cuts)])
    bounds = [c for c in release.manifest["columns"] if c["name"] == named["x"]]
    x = [bounds[0]["lower"], bounds[0]["upper"]] if bounds else [min(cuts), max(cuts)]
    notes = [*(f"{note}." for note in release.notes), *line_remarks(release.manifest)]
    found = {"cuts": cuts, "x": named["x"], "y": named["y"], "x_bounds": x, "notes": notes}
    return Results({**content, **found}, keys)


def _quantiles(release: Content) -> Results:
    table, group_by = release.tables["quantiles"], list(release.group_by)
    positions = rows_by_key(table, group_by)
    whole = list(zip(table["column"].to_pylist(), table["probability"].to_pylist(), strict=True))
    asked = list(dict.fromkeys(whole))
    if not (whole == asked * len(positions) and np.isfinite([p for _, p in asked]).all()):
        raise OutputError("this release is damaged: its quantiles are not a row for each group and probability.")
    at = np.arange(table.num_rows).reshape(len(positions), len(asked))
    if any(list(rows) != own for rows, own in zip(at, positions.values(), strict=True)):
        raise OutputError("this release is damaged: the rows of a group are not together.")
    estimates = table["estimate"].to_numpy()
    columns: list[dict[str, Any]] = [
        {"label": f"{name}, {p:g}", "column": name, "probability": p, "of": "estimate", "values": estimates[at[:, i]]}
        for i, (name, p) in enumerate(asked)
    ]
    status = table[STATUS].to_pylist()
    worst = [max((status[i] for i in rows), key=_weakness) for rows in at]
    content = _wide(group_by, list(positions), columns, worst)
    bounds = _columns(release.domain)
    return Results({**content, "bounds": bounds, "notes": line_remarks(release.manifest)}, list(positions))


def _weakness(status: str) -> int:
    """Order the statuses of a group's columns: the last of these is shown, and one that is not known here is worse."""
    known = ("ok", "ok_if_expected", "rows_unknown", "weakly_identified")
    return known.index(status) if status in known else len(known)


def _wide(group_by: list[str], keys: list[Key], columns: list[dict[str, Any]], status: list[str]) -> dict[str, Any]:
    """Pack as many groups as fit, in the release's order."""
    kept = len(keys)
    while kept > 1 and (size := _characters(keys[:kept], columns)) > MOST_CHARACTERS:
        kept = max(1, math.floor(kept * 0.98 * MOST_CHARACTERS / size))
    labels = list(dict.fromkeys(status))[:255]
    codes = np.array([labels.index(s) if s in labels else 255 for s in status[:kept]])
    return {
        "group_by": group_by,
        "count": kept,
        "left_out": len(keys) - kept,
        "keys": [names([key[i] for key in keys[:kept]]) for i in range(len(group_by))],
        "columns": [{**column, "values": singles(column["values"][:kept])} for column in columns],
        "statuses": labels,
        "status": small_numbers(codes),
    }


def _characters(keys: Sequence[Key], columns: Sequence[Mapping[str, Any]]) -> int:
    parts = sum(
        len(part) + 6 if isinstance(part, str) else 2
        for i in range(len(keys[0]))
        for part in names([k[i] for k in keys])
    )
    return parts + len(keys) * math.ceil(16 / 3 * len(columns) + 4 / 3)
