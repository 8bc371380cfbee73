"""`dpspark describe`: what a release holds and what can be asked of it. Post-processing of what was published: no cost."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.analysis.content.table import TableContent
from dpspark.analysis.example import example_formula
from dpspark.analysis.means import count_noise_std, term_means
from dpspark.analysis.options import Asked
from dpspark.analysis.remarks import definition_line
from dpspark.analysis.result import Answer, without_nan
from dpspark.analysis.subsets import MOST_SUBSETS
from dpspark.analysis.summary import decimals_of, row_norm_lines
from dpspark.bundle.storage import near
from dpspark.core.domain import Numeric, category_label
from dpspark.core.formula import formula_text
from dpspark.errors import ConfError
from dpspark.show.tables import Grid, Part, bound_texts
from dpspark.source.group_keys import key_label

NOISE = "± is the standard deviation of the privacy noise. Means and deviations are of the values as bounded."
NULLS = {
    "drop_row": "a row with a null in one of these columns was left out",
    "midpoint": "a null counts as the middle of its bounds",
}
OF_QUANTILES = "a null does not count"
MOST_CATEGORIES = 12


@dataclass(frozen=True)
class Description(Answer):
    """A description of a release: `content` is all of it, for machines, and the summary is made of nothing else."""

    content: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self.content

    def parts(self) -> list[Part]:
        found = self.content
        return [
            found["title"],
            f"Kind {found['kind']} by {found['mechanism']}, in {found['path']}",
            found["guarantee"],
            *([found["aim"]] if found["aim"] else []),
            *_lines(found),
            *found["notes"],
            "",
            columns_grid(found["columns"]),
            *([NOISE] if _has_means(found["columns"]) else []),
            *_column_lines(found["columns"]),
            "",
            Grid(
                [["What can be asked", ""], *([ask["command"], ask["gives"]] for ask in found["ask"])],
                frozenset({0, 1}),
            ),
        ]


def describe(release: Content) -> Description:
    """Describe what a release holds."""
    manifest = release.manifest
    mechanism, spec = manifest["mechanism"], _part(manifest, "spec")
    groups = [] if release.group else list(_part(spec, "release").get("group_by") or ())
    content = {
        "title": release.title,
        "release": {"name": manifest["release"]["name"], "version": manifest["release"]["version"]},
        "kind": release.kind,
        "mechanism": mechanism.get("kernel", mechanism["name"]),
        "path": near(release.path),
        "guarantee": str(manifest["guarantee"]),
        "regression": _regression(release),
        "line": _line(release),
        "probabilities": _distinct(release, "quantiles", "probability"),
        "aim": release.aim if isinstance(release, LinesContent) else None,
        "notes": release.notes if isinstance(release, TableContent) else [],
        "level": release.level,
        "rows": _rows(release),
        "where": spec.get("where"),
        "nulls": OF_QUANTILES if release.kind == "quantiles" else NULLS.get(str(manifest.get("nulls"))),
        "row_norm": row_norm_lines(release.domain),
        "record": _part(_part(manifest, "privacy"), "unit").get("record"),
        "weight": _part(manifest, "weight").get("name"),
        "group": release.group or None,
        "groups": _groups(release, groups) if groups else None,
        "columns": column_facts(release),
        "example": _example(release),
        "ask": _asks(release, groups),
    }
    return Description(without_nan(content))


def columns_grid(columns: Sequence[Mapping[str, Any]]) -> Grid:
    """A row for each term: bounds, and where they are known mean and standard deviation, each with its noise."""
    means = _has_means(columns)
    cells = [["", "bounds", "", *(["mean", "±", "std. dev.", "±"] if means else [])]]
    for column in columns:
        bounds = bound_texts(column["lower"], column["upper"]) if "lower" in column else ["", ""]
        for term in column["terms"]:
            numbers = [("mean", "mean_noise_std"), ("std_dev", "std_dev_noise_std")] if means else []
            shown = [text for value, noise in numbers for text in with_noise(term[value], term[noise])]
            cells.append([term["term"], *bounds, *shown])
    return Grid(cells)


def with_noise(value: float | None, noise: float | None) -> tuple[str, str]:
    """Write a value with as many digits as its noise leaves, and the noise."""
    if value is None or noise is None or not (math.isfinite(value) and math.isfinite(noise)):
        return "–", "–"
    digits = decimals_of(10 * noise)  # two of the noise
    return f"{value:,.{digits}f}", f"{noise:,.{digits}f}"


def rows_line(rows: Mapping[str, Any]) -> str:
    exact = not rows["noise_std"]
    spread = "" if exact else f" (± {rows['noise_std']:.2g})"
    return f"{'' if exact else 'About '}{max(0.0, rows['value']):,.0f} {rows['of']}{spread}"


def gram_rows(release: GramContent) -> dict[str, Any]:
    """Compute the number of rows, or the sum of their weights, and its noise."""
    moments = release.moments
    of = "in weights" if moments.weighted else "rows"
    return {"value": moments.rows, "noise_std": count_noise_std(moments), "of": of}


def _rows(release: Content) -> dict[str, Any] | None:
    """Find the number of rows, where the release tells it."""
    monitored = _part(release.manifest, "monitoring")
    if isinstance(release, GramContent):
        return gram_rows(release)
    if isinstance(monitored.get("rows"), int) and not release.group:
        return {"value": float(monitored["rows"]), "noise_std": monitored.get("noise_std"), "of": "rows"}
    if not isinstance(release, RegressionContent):
        return None
    fit = release.regress(Asked())
    if not math.isfinite(fit.n):
        return None
    return {"value": fit.n, "noise_std": float(release.tables["statistics"]["noise_std"][0].as_py()), "of": fit.n_is}


def column_facts(release: Content) -> list[dict[str, Any]]:
    """List the columns with their bounds or categories, and the released means where there are any."""
    computed = release.definitions
    means = {one.term: asdict(one) for one in term_means(release.moments)} if isinstance(release, GramContent) else {}
    found = []
    for column in release.domain.columns:
        terms = [means.get(term, {"term": term}) for term in column.terms]
        what: dict[str, Any] = {"name": column.name, "definition": computed.get(column.name)}
        if isinstance(column, Numeric):
            what.update(lower=column.lower, upper=column.upper, private_bounds=column.private)
            if column.public_side is not None:
                what["private_sides"] = list(column.private_sides)
        else:
            what.update(categories=list(column.categories), base=_base(release, column.terms))
        found.append({**what, "terms": terms})
    for product in release.domain.products:
        terms = [means.get(term, {"term": term}) for term in release.domain.terms_of(product)]
        found.append({"name": product.name, "definition": None, "product_of": list(product.of), "terms": terms})
    return found


def _base(release: Content, terms: Sequence[str]) -> str | None:
    """Find the term that a formula leaves out, so that the others are compared with it."""
    return terms[0] if release.kind == "gram" and len(terms) > 1 else None


def _regression(release: Content) -> str | None:
    if release.kind != "regression":
        return None
    terms = release.domain.terms
    return formula_text(terms[-1], terms[1:-1])


def _line(release: Content) -> dict[str, Any] | None:
    named = release.manifest["release"]
    cuts = _distinct(release, "predictions", "x")
    return None if cuts is None else {"x": named["x"], "y": named["y"], "cuts": cuts}


def _distinct(release: Content, table: str, column: str) -> list[float] | None:
    """List the values of a column, in their order; None of a release without that table."""
    return release.tables[table][column].drop_null().unique().to_pylist() if table in release.tables else None


def _example(release: Content) -> str | None:
    if release.kind != "gram":
        return None
    return (
        release.example() if isinstance(release, GramContent) else example_formula(release.domain, release.definitions)
    )


def _groups(release: Content, groups: Sequence[str]) -> dict[str, Any]:
    """The columns of the groups, how many groups there are, and the levels above them where there are any."""
    levels = _part(_part(release.manifest, "spec"), "release").get("hierarchy") or ()
    names = [each if isinstance(each, str) else str(each[-1]) for each in levels][:-1]
    return {"by": groups, "count": _count_groups(release, groups), **({"levels": names} if names else {})}


def _levels(groups: Mapping[str, Any]) -> str:
    return f"; levels above them: {', '.join(groups['levels'])}" if groups.get("levels") else ""


def _count_groups(release: Content, groups: Sequence[str]) -> int:
    counted = _part(_part(_part(release.manifest, "spec"), "release"), "groups").get("count")
    if isinstance(counted, int):
        return counted
    table = next(table for table in release.tables.values() if groups[0] in table.schema.names)
    return int(table.select(list(groups)).group_by(list(groups)).aggregate([]).num_rows)


def _asks(release: Content, groups: Sequence[str]) -> list[dict[str, str]]:
    """List the commands that work on it, ready to be run."""
    path = shlex.quote(near(release.path))
    chosen = release.group or _first_group(release, groups)
    group = "".join(f" --group {shlex.quote(f'{key}={value}')}" for key, value in chosen.items())
    needed = group if release.group or isinstance(release, GroupedContent) else ""
    asks: list[tuple[str, str]] = []
    if release.kind == "gram":
        domain, formula = release.domain, str(_example(release))
        asks.append((f"regress {path} {shlex.quote(formula)}{needed}", "any regression of these columns"))
        for meat in release.meats if isinstance(release, GramContent) else ():
            asks.append((f"regress {path} {shlex.quote(meat.text)}", f"with robust standard errors ({meat.kind})"))
        if release.manifest.get("weight") is None:
            left = shlex.quote(formula.partition(" ~ ")[0].strip("`")) + _few_enough(len(domain.columns) - 1)
            asks.append((f"regress {path} --all-subsets {left}{needed}", "all regressions of one, ranked"))
        asks.append((f"covariance {path} --correlation{needed}", "correlations; or covariances, without --correlation"))
        if sum(max(1, len(column.terms) - 1) for column in domain.columns) > 1:
            asks.append((f"pca {path} -k 2{needed}", "principal components"))
    else:
        gives = {"regression": "the regression", "theil_sen": "the lines", "quantiles": "the quantiles"}[release.kind]
        asks.append((f"regress {path}{needed}", f"{gives}, as released"))
        if groups and not needed:
            asks.append((f"regress {path}{group}", "those of one group"))
    if groups and needed:
        asks.append((f"describe {path}{group}", "one group alone"))
    if "group_counts" in release.tables and not release.group:
        asks.append((f"smooth {path} -o smoothed", "every group with an interval, with the help of all others"))
    asks.append((f"report {path}{needed if release.group else ''}", "a page for readers"))
    asks.append((f"verify {path}", "whether it is what it says"))
    return [{"command": f"dpspark {command}", "gives": gives} for command, gives in asks]


def _few_enough(columns: int) -> str:
    """Write the option that limits subsets, where there are too many of all sizes."""
    most = columns
    while sum(math.comb(columns, size) for size in range(most + 1)) > MOST_SUBSETS:
        most -= 1
    return "" if most == columns else f" --max-terms {most}"


def _first_group(release: Content, groups: Sequence[str]) -> dict[str, str]:
    if not groups:
        return {}
    table = next(table for table in release.tables.values() if groups[0] in table.schema.names)
    if not table.num_rows:
        raise ConfError("describe: this release has no groups.")
    return {name: key_label(table[name][0].as_py()) for name in groups}


def _lines(found: Mapping[str, Any]) -> list[str]:
    line, groups, level = found["line"], found["groups"], found["level"]
    at = "" if line is None else ", ".join(f"{cut:g}" for cut in line["cuts"] if cut is not None)
    return [
        *([f"Regression: {found['regression']}"] if found["regression"] else []),
        *([] if line is None else [f"Lines of {line['y']} along {line['x']}, at {line['x']} = {at}"]),
        *(
            []
            if not found["probabilities"]
            else [f"Quantiles: {', '.join(f'{p:g}' for p in found['probabilities'] if p is not None)}"]
        ),
        *([] if level is None else [f"Intervals: {100 * level:g}%, fixed when they were released"]),
        *([] if found["rows"] is None else [rows_line(found["rows"])]),
        *([f"Groups: {groups['count']:,}, by {', '.join(groups['by'])}{_levels(groups)}"] if groups else []),
        *([f"Rows where {found['where']}"] if found["where"] else []),
        *([f"Nulls: {found['nulls']}"] if found["nulls"] else []),
        *found["row_norm"],
        *([f"A record is {found['record']}"] if found["record"] else []),
        *([f"Rows are weighted by {found['weight']}"] if found["weight"] else []),
    ]


def _column_lines(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for column in columns:
        if column["definition"]:
            lines.append(definition_line(column["name"], column["definition"]))
        if "categories" in column:
            known = [category_label(category) for category in column["categories"]]
            more = f", ... {len(known) - MOST_CATEGORIES} more" if len(known) > MOST_CATEGORIES else ""
            base = f"; a formula compares with {column['base']}" if column["base"] else ""
            lines.append(f"{column['name']} is one of {', '.join(known[:MOST_CATEGORIES])}{more}{base}")
        if "product_of" in column:
            first, second = column["product_of"]
            lines.append(f"{column['name']} is the product of {first} and {second}, one column for each category")
        if column.get("private_bounds"):
            lines.append(
                f"{column['name']}: its {found_bounds(column.get('private_sides'))} found in the data, with noise"
            )
    return lines


def found_bounds(sides: Sequence[str] | None) -> str:
    """Say which bounds of a column are private: both, where none are named."""
    return "bounds were" if sides is None else f"{' and '.join(sides)} bound was"


def _has_means(columns: Sequence[Mapping[str, Any]]) -> bool:
    return any("mean" in term for column in columns for term in column["terms"])


def _part(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A stranger may have written the manifest."""
    found = content.get(key)
    return found if isinstance(found, Mapping) else {}
