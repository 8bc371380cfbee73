"""The reference of the bundle, from the schemas that write it and the shapes that read it."""

from __future__ import annotations

import json

from models import about, in_a_cell, keys_of, plain
from pydantic import BaseModel

from dpspark.analysis.content.opening import KINDS
from dpspark.bundle import manifest_shape
from dpspark.bundle.files import FORMAT, MANIFEST, SIGNATURE, SUCCESS, WITHOUT_GROUPS
from dpspark.bundle.schemas import SCHEMAS
from dpspark.releasing.manifest import build_manifest
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec

HEAD = f"""\
# The bundle

A release is a directory, `<output.path>/<name>/<version>/`: a manifest and Parquet tables. It is format {FORMAT}. It can be
read with anything that reads Parquet; `dpspark.read_release` also checks every hash and schema first.

| file | |
|---|---|
| `{MANIFEST}` | the certificate: the guarantee in a sentence, and every number needed to recompute it |
| `*.parquet` | the tables below, those that the kind of release has |
| `{SIGNATURE}` | only after [`dpspark sign`](../verify.md#sign) |
| `{SUCCESS}` | written last: without it a release is unfinished |

The tables of a release by group begin with the columns of `group_by`, in their types in the source
({" and ".join(WITHOUT_GROUPS)} do not). Nothing in a bundle is exact, and nothing in it was not paid for.

"""
# What is shown: a table or column that is not here stops the build.
TABLES = {
    "second_moment": "Kind gram: the full symmetric matrix DᵀD in original units, `(intercept)` first.",
    "scaled": "Kind gram: the same in scaled coordinates (columns in [-1, 1]), from which regressions start: columns far "
    "from 0 keep their digits. Its noise is in the manifest.",
    "squared_weights": "As second_moment, each row counted by its squared weight. Only with `weight.squares_share`.",
    "statistics": "Kind regression: what the coefficients come from, in scaled coordinates.",
    "coefficients": "Kind regression: the coefficients, in original units.",
    "meat": "Σ r²·x xᵀ of each regression in `release.regressions`, or of the one regression, in original units: H·meat·H is "
    "the robust covariance, H the inverse of its Σ x xᵀ. Residuals r are clipped. Only with `release.errors`.",
    "scaled_meat": "The same in scaled coordinates.",
    "diagnostics": "What the bounds cut off. Only with `diagnostics`.",
    "predictions": "Kind theil_sen: a row for each group and cut.",
    "group_counts": "How many rows each group of lines has. Only with `release.group_counts`.",
    "line_cells": "How the rows of all groups lie around their lines: counts of cells of x and of distances, in units of the "
    "bounds. Only with `release.group_counts`.",
    "quantiles": "Kind quantiles: a row for each column and probability.",
}
COLUMNS = {
    "row": "a term: `(intercept)`, a number, or a category such as `sex[F]`",
    "col": "a term",
    "value": "Σ row · col over the bounded rows, with noise",
    "noise_std": "the standard deviation of the noise in the number beside it",
    "rows": "a number of rows, with noise; it may be below 0",
    "x_low": "lower end of a cell of x, in units of its bounds",
    "x_high": "upper end",
    "residual_low": "lower end of a cell of distances from a group's line, in units of y's bounds; −∞ of the first",
    "residual_high": "upper end; ∞ of the last",
    "regression": "the regression, as the conf writes it",
    "errors": "what the standard errors are: `classical` (equal variances assumed), `hc1` or `cluster`",
    "term": "`(intercept)`, a number, or a category",
    "estimate": "the number that was asked for, with noise",
    "std_error": "sampling and privacy noise together; null where the mechanism gives none",
    "ci_low": "lower end of the interval; null or NaN where there is none. Of coefficients at 95%, of lines at "
    "`release.interval.level`",
    "ci_high": "upper end of the interval",
    "status": "`ok`, or why the number cannot be used as it is",
    "column": "a column of the conf",
    "side": "`lower` or `upper`",
    "clipped_share": "the share of its values beyond that bound, with noise",
    "x": "the cut",
    "slope": "of the line",
    "intercept": "of the line, at x = 0",
    "probability": "which quantile",
    "rank_error": "how many rows it can be off, with probability 95% for all of a column's; releases of version 0.2 lack it",
}
NOISES = {"Additive": "added", "Sampling": "drawn", "OfStatistics": "of one regression"}
EXAMPLE = {
    "source": {"parquet": "data/people"},
    "columns": {"age": {"lower": 18, "upper": 99}, "sex": {"categories": ["F", "M"]}},
    "privacy": {"epsilon": 1.0, "delta": 1e-9},
    "release": {"name": "people", "version": "2026-11"},
    "ledger": {"dataset": "people"},
}


def tables() -> str:
    lines = ["## Tables\n"]
    for name, schema in SCHEMAS.items():
        lines += [f"### {name}.parquet\n", f"{TABLES[name]}\n", "| column | type | |", "|---|---|---|"]
        lines += [f"| `{field.name}` | {field.type} | {COLUMNS[field.name]} |" for field in schema]
        lines.append("")
    return "\n".join(lines)


def shapes(model: type[BaseModel], dotted: str, above: tuple[type[BaseModel], ...] = ()) -> list[str]:
    """What a manifest must have to be read at all. What is made of its own kind is described once."""
    lines = [f"### {dotted}\n", f"{about(model)}\n"] if dotted else []
    lines += ["| key | value | |", "|---|---|---|"]
    keys = keys_of(model)
    for key in keys:
        words = f"{key.words}{'' if key.required else ', or not there'}"
        more = f" Default: {plain(key.default)}." if plain(key.default) else ""
        lines.append(f"| `{key.name}` | {words} | {in_a_cell(key.about)}{more} |")
    lines.append("")
    for key in keys:
        for inner in key.models:
            if inner in (*above, model):
                continue
            below = f"{dotted}.{key.name}" if dotted else key.name
            name = below if len(key.models) == 1 else f"{below}: {NOISES[inner.__name__]}"
            lines += shapes(inner, name, (*above, model))
    return lines


def example() -> str:
    """The manifest of a release, but for what its draw adds. No data is needed for it."""
    spec = load_spec(EXAMPLE)
    manifest = build_manifest(spec, choose(spec), {}, "0f3a...", "4.3.0")
    manifest |= {"created_at": "2026-11-16T12:00:00+00:00"}
    return f"## An example\n\n```json\n{json.dumps(manifest, indent=2, ensure_ascii=False)}\n```\n"


def page() -> str:
    kinds = f"Kinds: {', '.join(KINDS)}. Keys that are not listed here may be there; readers ignore them.\n"
    manifest = [f"## {MANIFEST}\n", about(manifest_shape.Manifest), "", kinds, *shapes(manifest_shape.Manifest, "")]
    return "\n".join([HEAD, tables(), *manifest, example()])
