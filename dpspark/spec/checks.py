"""Whether the parts of a conf fit together. What is wrong is a ValueError, which names the key and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpspark.bundle.schemas import SCHEMAS, SMOOTHED_NAMES
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError
from dpspark.mechanisms.base import Currency
from dpspark.mechanisms.registry import lines, mechanisms_of
from dpspark.mechanisms.regression.base import is_mapped
from dpspark.spec.hierarchy import level_names
from dpspark.spec.rows import NO_BOUNDS

if TYPE_CHECKING:
    from dpspark.spec.spec import Spec

# Columns of the tables of a release: a group's column of such a name could not be told from them.
# Those that are not for releases by group have none, and cells are of all groups together.
UNGROUPED = ("diagnostics", "meat", "scaled_meat", "line_cells")
# Only where groups are counted or have levels, which is for smoothing: version 0.2 allowed these names.
COUNTED = {"rows", "rows_noise_std", *SMOOTHED_NAMES}
RESERVED = {name for table, schema in SCHEMAS.items() if table not in UNGROUPED for name in schema.names} - {"rows"}


def check_limits(spec: Spec) -> None:
    """Want bounds or categories for every column that is released, and none for a computed key of groups alone."""
    release = spec.release
    released = {release.x, release.y, release.response, *(release.regressors or ())}
    for name, column in spec.columns.items():
        is_key = name in spec.computed_keys and name not in released
        if is_key and column.limits:
            raise ValueError(
                f"columns.{name}: {' and '.join(column.limits)} would do nothing: it is a computed key of groups and not "
                f"released.\nGive expr alone. Which groups there are is said by release.groups."
            )
        if not is_key and not column.limits:
            raise ValueError(f"columns.{name}: {NO_BOUNDS}")


def check_rows(spec: Spec) -> None:
    """Check expressions, the column of persons and the weight."""
    for what, text in spec.expressions.items():
        from dpspark.spec.expressions import check_row_local

        check_row_local(text, what)
    if spec.privacy.protected in spec.computed:
        raise ValueError(
            f"privacy.unit.column={spec.privacy.protected!r} is a computed column; expected one of the source."
        )
    if spec.weight is None:
        return
    if not spec.mechanism_class.weighted:
        others = [mechanism.name for mechanism in mechanisms_of("gram") if mechanism.weighted]
        raise ValueError(
            f"weight: {spec.mechanism_name} is not proved for weighted rows. Use kind gram with mechanism "
            f"{' or '.join(others)}."
        )
    named = spec.columns.get(spec.weight.name)
    if named is not None and spec.weight.expr is not None:
        raise ValueError(
            f"weight.expr={spec.weight.expr!r} is the name of a column too. Use weight.column, or rename it."
        )
    if named is not None and named.expr is not None:
        raise ValueError(
            f"weight.column={spec.weight.column!r} is a computed column; expected one of the source.\n"
            f"Write the expression as weight.expr: {named.expr!r}."
        )


def check_extras(spec: Spec) -> None:
    """Check what is paid for beside the release."""
    if spec.bounds is not None and not spec.axes:
        raise ValueError("bounds: no column has private bounds. Remove this key, or give one a search range.")
    if spec.diagnostics is not None and not spec.mechanism_class.tells_rows:
        raise ValueError(
            f"diagnostics: {spec.mechanism_name} counts nothing. Remove this key, or use "
            f"{mechanisms_of(spec.release.kind)[0].name}."
        )
    if spec.diagnostics is not None and not spec.domain.numeric:
        raise ValueError("diagnostics: no column has bounds, so nothing can be clipped. Remove this key.")
    if not sum(spec.shares.values()) < 1:
        raise ValueError(
            f"the shares of {' and '.join(spec.shares)} take the whole budget; expected less than 1 in sum."
        )
    if spec.axes and spec.release.expected_rows is not None:
        _check_enough_rows(spec, spec.release.expected_rows)


def _check_enough_rows(spec: Spec, rows: int) -> None:
    """Refuse private bounds that would clip most of the rows that are expected."""
    from dpspark.spec.extras import bounds_finder

    finder = bounds_finder(spec)
    if rows < finder.least_rows:
        raise ValueError(
            f"release.expected_rows={rows} with private bounds by {finder.name}: of few rows they would clip most. Expected "
            f"{finder.least_rows} rows or more. Give public bounds; or fewer private sides, a larger epsilon or a larger "
            "bounds.epsilon_share."
        )


def check_errors(spec: Spec) -> None:
    """Check standard errors that hold where variances differ: where they are proved, and of what regressions."""
    asked = spec.release.errors
    if asked is None:
        return
    if not spec.mechanism_class.robust_errors:
        others = [mechanism.name for mechanism in mechanisms_of(spec.release.kind) if mechanism.robust_errors]
        raise ValueError(
            f"release.errors: not for mechanism {spec.mechanism_name}, which is not released together with a meat. Use "
            f"{' or '.join(others)}, or remove this key."
        )
    if spec.weight is not None:
        raise ValueError("release.errors: not proved for weighted rows. Remove this key, or weight.")
    if spec.release.kind == "regression" and is_mapped(spec.domain):
        raise ValueError(
            "release.errors: this row_norm biases least squares, and no interval covers that. Use row_norm: {mode: cap, "
            "radius: ..., include_response: true}, or remove one of the keys."
        )
    try:
        spec.asked_errors  # noqa: B018 - refuses a formula that cannot be read
    except ConfError as error:
        raise ValueError(f"release.regressions: {error}") from None


def check_currency(spec: Spec) -> None:
    """Check that the mechanism takes a budget of this currency."""
    privacy = spec.privacy
    given: Currency = "rho" if privacy.rho is not None else "both" if privacy.delta is not None else "epsilon"
    spec.mechanism_class.check_currency(given, spec.options)


def check_groups(spec: Spec) -> None:
    """Check what a release by group may have."""
    if spec.privacy.fixed is not None and spec.privacy.neighbours != "replace_one":
        raise ValueError("privacy.fixed is for neighbours: replace_one.")
    reserved = RESERVED if spec.release.group_counts is None else RESERVED | COUNTED
    taken = [name for name in spec.release.group_by or () if name in reserved]
    if taken:
        raise ValueError(f"release.group_by: {taken[0]!r} is a column of the release's own tables. Rename it.")
    if spec.release.group_by is not None:
        spec.mechanism_class.check_groups(spec.options)
    if spec.release.hierarchy is not None:
        _check_hierarchy(spec, reserved)
    if spec.release.kind in ("theil_sen", "quantiles") or spec.release.group_by is None:
        return
    for key in ("weight", "diagnostics"):
        if getattr(spec, key) is not None:
            raise ValueError(
                f"{key} is not for releases by group. Remove this key, or release.group_by: a filter (where) makes a "
                "release of one group."
            )
    if spec.axes:
        raise ValueError("private bounds are not for releases by group. Give lower and upper as numbers.")


def _check_hierarchy(spec: Spec, reserved: set[str]) -> None:
    """Check the names of levels, and that sums of what the mechanism draws have a noise that is known."""
    taken = [name for name in level_names(spec.release.hierarchy or ()) if name in reserved | COUNTED]
    if taken:
        raise ValueError(f"release.hierarchy: {taken[0]!r} is a column of the release's own tables. Rename it.")
    if not spec.mechanism_class.adds_up:
        others = [each.name for each in mechanisms_of(spec.release.kind) if each.adds_up]
        raise ValueError(
            f"release.hierarchy: {spec.mechanism_name} draws a matrix with noise that grows with it, and the noise of a sum of "
            f"them is not known. Use {', '.join(others[:-1])} or {others[-1]}."
        )


def check_line(spec: Spec) -> None:
    """Check lines and quantiles: columns with public bounds, and nothing that only matrices have."""
    release = spec.release
    if release.kind not in ("theil_sen", "quantiles"):
        return
    for key in ("row_norm", "weight", "diagnostics", "bounds"):
        if getattr(spec, key) is not None:
            raise ValueError(f"{key} is not for kind {release.kind}.")
    if release.kind == "theil_sen":
        _check_target(spec)
    for name in (release.x, release.y) if release.kind == "theil_sen" else spec.plain_columns:
        column = spec.columns.get(str(name))
        if column is None:
            raise _not_a_column(str(name), spec.columns)
        if column.public_bound("lower") is None or column.private_sides:
            raise ValueError(f"columns.{name}: kind {release.kind} needs public bounds, lower and upper.")


def _check_target(spec: Spec) -> None:
    """Check that the mechanism aims at the line that is asked for."""
    name, asked, own = spec.mechanism_name, spec.release.target, spec.line_class.target
    if asked is None or own is None or own == asked:
        return
    others = [other.name for other in lines() if other.target == asked]
    raise ValueError(
        f"release.target={asked!r}, and mechanism {name} aims at the {own}.\n"
        f"Use auto, or one of {', '.join(others)}; or leave release.target out."
    )


def check_regression(spec: Spec) -> None:
    """Check the response and the regressors."""
    release, columns = spec.release, spec.columns
    if release.kind != "regression":
        if spec.row_norm is not None and spec.row_norm.include_response:
            raise ValueError("row_norm.include_response is for kind regression.")
        return
    assert release.response is not None
    for name in (release.response, *(release.regressors or ())):
        if name not in columns:
            raise _not_a_column(name, columns)
    if columns[release.response].categories is not None:
        raise ValueError(f"release.response={release.response!r} has categories; expected a column with bounds.")
    if release.response in spec.regressors:
        raise ValueError(f"release.response={release.response!r} is among the regressors.")
    if not spec.regressors or len(set(spec.regressors)) < len(spec.regressors):
        raise ValueError("release.regressors: expected one or more columns, each once.")
    single = [name for name in spec.regressors if len(columns[name].categories or "ab") < 2]
    if single:
        raise ValueError(f"columns.{single[0]} has one category: it says the same as the intercept. Leave it out.")


def _not_a_column(name: str, columns: Iterable[str]) -> ValueError:
    return ValueError(f"release: {name!r} is not among the columns: {', '.join(columns)}.{did_you_mean(name, columns)}")
