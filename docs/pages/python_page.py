"""The reference of the Python interface: which docstrings, in which order. mkdocstrings reads them."""

from __future__ import annotations

import dpspark

HEAD = """\
# Python

What `import dpspark` offers, and what its calls return. A worked example is in [From Python](../python.md).
"""
CALLS = (
    "load_spec",
    "release",
    "read_release",
    "compare",
    "pool",
    "series",
    "load",
    "plan",
    "verify",
    "compute_vcv",
    "get_accuracy",
    "get_parameters",
)
RETURNED = (
    ("Releases", "What `release` and `read_release` return, by kind. All of it is post-processing: it costs nothing."),
    "dpspark.published.release.Release",
    "dpspark.published.gram.GramRelease",
    "dpspark.published.regression.RegressionRelease",
    "dpspark.published.table.TableRelease",
    "dpspark.published.lines.LinesRelease",
    "dpspark.published.quantiles.QuantilesRelease",
    "dpspark.published.grouped.GroupedRelease",
    ("Results", "What an analyst gets from a release, and a steward from a plan or a check."),
    "dpspark.analysis.result.Answer",
    "dpspark.analysis.result.Result",
    "dpspark.analysis.regression.Regression",
    "dpspark.analysis.least_squares.RegressionResult",
    "dpspark.analysis.fit.RegressionFit",
    "dpspark.analysis.subsets.Ranking",
    "dpspark.analysis.pca.Components",
    "dpspark.analysis.compare.Comparison",
    "dpspark.analysis.series.Series",
    "dpspark.smoothing.result.SmoothedGroups",
    "dpspark.warehouse.load.Loaded",
    "dpspark.planning.planner.Plan",
    "dpspark.planning.accuracy.Accuracy",
    "dpspark.verifying.verification.Verification",
    ("Errors", "Each has the exit code that the command ends with."),
    "dpspark.errors.DpsparkError",
    "dpspark.errors.ConfError",
    "dpspark.errors.LedgerError",
    "dpspark.errors.SourceError",
    "dpspark.errors.OutputError",
)


def block(path: str, heading: str) -> str:
    return f"::: {path}\n    options:\n      heading: {heading}\n      toc_label: {heading.split('.')[-1]}\n"


def page() -> str:
    shown = {each.rpartition(".")[2] for each in RETURNED if isinstance(each, str)}
    others = [name for name in dpspark._HOME if name not in CALLS and name not in shown]
    parts = [HEAD, "## Calls\n"]
    parts += [block(f"{dpspark._HOME[name]}.{name}", f"dpspark.{name}") for name in (*CALLS, *others)]
    for each in RETURNED:
        if isinstance(each, tuple):
            parts.append(f"## {each[0]}\n\n{each[1]}\n")
        else:
            parts.append(block(each, each.rpartition(".")[2]))
    return "\n".join(parts)
