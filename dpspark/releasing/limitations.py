"""What a release does not say, or says with a bias: the sentences of its manifest, each where it applies and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from dpspark.analysis.clusters import FEW_CLUSTERS
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.registry import mechanisms_of
from dpspark.mechanisms.regression.base import is_mapped
from dpspark.spec.choose import Mechanism
from dpspark.spec.extras import bounds_finder
from dpspark.spec.spec import Spec

BIASED = {"gram": "coefficients are biased", "regression": "coefficients are biased", "theil_sen": "lines are biased"}
CLIPPED = "Values outside the bounds were moved to them. If many were, {biased}; how many is not said."
CLIPPED_COUNTED = (
    "Values outside the bounds were moved to them; diagnostics.parquet says, with noise, what share of each column. "
    "Where it is large, {biased}."
)
CLIPPED_QUANTILES = (
    "Values outside the bounds were moved to them: a quantile beyond a bound is released as one near that bound."
)
MIDPOINT = (
    "A missing number counted as the middle of its bounds, a missing category as none of them. If many were, {biased}; "
    "how many is not said."
)
EQUAL_VARIANCE = "Standard errors assume residuals of equal variance: the {what} holds no fourth moments."
ROBUST = (
    "Standard errors of {which} hold where variances differ {how}, unless the noise is too large a part of them; the table "
    "says so then.{others}"
)
OTHERS_EQUAL = " Those of other regressions assume residuals of equal variance."
MAPPED = "There are no standard errors: the row norm biases least squares, and no interval covers that."
WEIGHTED = "The rows are weighted and the release holds no squared weights: no standard errors but the noise's."
HEAVY = "Weights above {upper:g} counted as {upper:g}; how many is not said."
CAPPED = (
    "Of a person with more usable rows than {most}, {most} were kept at random: estimates are of those rows, among which such "
    "people count for less than among all rows. How many rows were dropped is not said."
)
ALIKE = "{what} take rows as independent, and those of one {whose} may be alike: then they are too small."
NO_ID = "Rows without {column} were dropped."
OWN_ID = (
    "Rows without {column} are protected one by one: a person who has several of them is not protected as a person."
)
ROW_NORM = {
    "cap": "Long rows were shrunk (row_norm): estimates are of the shrunk rows, and differ from those of the rows as they are.",
    "project": "Rows were moved to one norm (row_norm): estimates are of the moved rows, and differ from those of the rows as "
    "they are.",
    "weights": "Rows were weighted to bound their norm (row_norm): where the relation is not linear, estimates differ from "
    "those of the rows as they are.",
}
FEW_ROWS = (
    "There are about {rows:,.0f} rows: private bounds by {method} are best from {enough:,} on, and may have clipped so many "
    "values that coefficients are biased."
)
ALWAYS = (
    "Timing and the memory of the machines that read the data are not protected.",
    "The guarantee is for this release; other releases from the same data add to it. The ledger keeps the sum.",
)
LINES = (
    "Intervals of lines are for the line that the mechanism aims at: of skewed residuals, one nearer to medians than to means. "
    "They take residuals as of one spread and not far from normal."
)
ALONE = "A row without a value in {column!r} is a cluster of its own; how many are is not said."
FEW = "There are about {count} clusters, by a count with noise. Standard errors by fewer than {few} are known to be too small."
LINES_OF_MEANS = (
    "Intervals of lines are for the line of means, and take residuals as of one spread and not far from normal."
)
FLOATING_POINT = "The noise was drawn in floating point: no proof covers the last bits of its numbers. "
EXACT = {
    "gram": "The {names} mechanisms have exact samplers.",
    "regression": "The mechanisms {names} have exact samplers.",
}


def limitations(spec: Spec, mechanism: Mechanism, found: Mapping[str, Any] | None = None) -> list[str]:
    """List what a reader has to know. `found` is what was drawn beside the tables; before that, None."""
    return [
        *_of_persons(spec),
        *_of_values(spec, mechanism),
        *_of_errors(spec, mechanism),
        *_of_clusters(spec, found or {}),
        *ALWAYS,
        *_of_draws(spec),
    ]


def of_few_rows(spec: Spec, rows: float | None) -> list[str]:
    """Say that private bounds may have clipped many rows, where the number of rows that was released is too small for them."""
    if not spec.axes or rows is None:
        return []
    finder = bounds_finder(spec)
    enough = finder.enough_rows
    return [FEW_ROWS.format(rows=max(0.0, rows), method=finder.name, enough=enough)] if rows < enough else []


def _of_persons(spec: Spec) -> Iterator[str]:
    unit = spec.privacy.unit
    if unit is not None:
        yield CAPPED.format(most=unit.max_rows)
        yield (NO_ID if unit.nulls == "drop" else OWN_ID).format(column=unit.column)


def _of_values(spec: Spec, mechanism: Mechanism) -> Iterator[str]:
    """Bounds, weights and norms: what was done to the rows."""
    domain, kind = mechanism.domain, spec.release.kind
    if kind == "quantiles":
        yield CLIPPED_QUANTILES
    elif domain.numeric:
        yield (CLIPPED if spec.diagnostics is None else CLIPPED_COUNTED).format(biased=BIASED[kind])
    if kind != "quantiles" and domain.nulls == "midpoint":
        yield MIDPOINT.format(biased=BIASED[kind])
    if spec.axes:
        yield spec.bounds_extra.method_class.limitation
    if domain.weight is not None:
        yield HEAVY.format(upper=domain.weight.upper)
    if domain.row_norm is not None:
        yield ROW_NORM["weights" if domain.row_norm.include_response else domain.row_norm.mode]


def _of_clusters(spec: Spec, found: Mapping[str, Any]) -> Iterator[str]:
    if spec.cluster_key is None:
        return
    yield ALONE.format(column=spec.cluster_key.name)
    count = found["clusters"]["count"] if "clusters" in found else FEW_CLUSTERS
    if count < FEW_CLUSTERS:
        yield FEW.format(count=max(round(count), 0), few=FEW_CLUSTERS)


def _of_errors(spec: Spec, mechanism: Mechanism) -> Iterator[str]:
    """Standard errors and intervals, where the release has any."""
    kind, what = spec.release.kind, "Standard errors"
    if kind == "quantiles":
        return
    if kind == "theil_sen":
        if spec.release.interval is None:
            return
        what = "Intervals"
        yield LINES_OF_MEANS if cast(LineMechanism, mechanism).own_interval else LINES
    elif spec.mechanism_class.no_errors:
        yield spec.mechanism_class.no_errors
        return
    elif spec.weight is not None and spec.weight.squares_share is None:
        yield WEIGHTED
        return
    elif kind == "regression" and is_mapped(mechanism.domain):
        yield MAPPED
        return
    elif spec.asked_errors is not None:
        listed = kind == "gram"
        which = "the regressions in meat.parquet" if listed else "the regression"
        key = spec.cluster_key
        how = "(HC1)" if key is None else f"and where rows with one {key.name!r} are alike"
        yield ROBUST.format(which=which, how=how, others=OTHERS_EQUAL if listed else "")
    else:
        yield EQUAL_VARIANCE.format(what="matrix" if kind == "gram" else "release")
    unit, asked = spec.privacy.unit, spec.asked_errors
    people = asked is not None and asked.clusters is not None and asked.clusters.whole
    if spec.records.rows > 1 and not people:
        yield ALIKE.format(what=what, whose="person" if unit is not None and unit.max_rows > 1 else "record")


def _of_draws(spec: Spec) -> Iterator[str]:
    if not spec.mechanism_class.exact_sampler:
        *others, last = [each.name for each in mechanisms_of(spec.release.kind) if each.exact_sampler]
        yield FLOATING_POINT + EXACT[spec.release.kind].format(names=f"{', '.join(others)} and {last}")
