"""Private bounds, found in one more pass before the release itself. spec.extras has what they and other extras cost.

What is found is private until the whole release is published: it stays in memory on the driver and inside the functions sent
to executors, and is staged once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpspark.core.domain import Numeric
from dpspark.privacy.noise import NoiseSource
from dpspark.spark.exact_sums import exact_histogram
from dpspark.spark.row_source import RowSource
from dpspark.spec.choose import Mechanism
from dpspark.spec.extras import bounds_finder
from dpspark.spec.spec import Spec


def find_bounds(spec: Spec, mechanism: Mechanism, spark: Any, source: RowSource, noise: NoiseSource) -> Mechanism:
    """Make the same mechanism for the bounds found in one more pass. The sensitivity of scaled rows does not depend on them."""
    histogram = exact_histogram(spark, source, mechanism.domain.read_columns, spec.axes)
    source.check_unchanged()
    return with_bounds(mechanism, bounds_finder(spec).release(histogram, noise))


def with_bounds(mechanism: Mechanism, found: Mapping[str, tuple[float, float]]) -> Mechanism:
    """Put the bounds that were found into a mechanism."""
    columns = []
    for column in mechanism.domain.columns:
        if isinstance(column, Numeric) and column.name in found:
            lower, upper = found[column.name]
            column = replace(column, lower=lower, upper=upper)
        columns.append(column)
    return mechanism.for_domain(replace(mechanism.domain, columns=tuple(columns)))
