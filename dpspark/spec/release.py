"""What a release asks for: its name, its kind, and the keys of that kind."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, field_validator, model_validator

from dpspark.bundle.names import PlainName
from dpspark.core.domain import category_label
from dpspark.errors import ConfError
from dpspark.source.group_keys import ListedGroups, is_key
from dpspark.source.hierarchy import Hierarchy
from dpspark.spec.hierarchy import check_levels, finest_group, level_names, within_others
from dpspark.spec.rows import Share
from dpspark.spec.values import Number, Part, Positive, Text, WholeNumber

Kind = Literal["gram", "regression", "theil_sen", "quantiles"]
Key = StrictStr | StrictInt | StrictBool | StrictFloat
# The keys that belong to some kinds only.
KEYS = {
    "response": ("regression",),
    "regressors": ("regression",),
    "x": ("theil_sen",),
    "y": ("theil_sen",),
    "cuts": ("theil_sen",),
    "candidates": ("theil_sen",),
    "x_variance": ("theil_sen",),
    "y_spread": ("theil_sen",),
    "interval": ("theil_sen",),
    "group_counts": ("theil_sen",),
    "target": ("theil_sen",),
    "group_by": ("theil_sen", "gram", "regression", "quantiles"),
    "groups": ("theil_sen", "gram", "regression", "quantiles"),
    "hierarchy": ("theil_sen", "gram", "regression", "quantiles"),
    "probabilities": ("quantiles",),
    "regressions": ("gram",),
    "errors": ("gram", "regression"),
    "errors_share": ("gram", "regression"),
}
MOST_GROUPS = 10_000_000


class IntervalExtra(Part):
    """An interval at each cut of a line, and what is paid for it."""

    epsilon_share: Share = 0.2
    """The part of the budget that is spent on them; `gram` takes none."""
    level: Annotated[Number, Field(ge=0.5, le=0.9999)] = 0.95
    """The confidence level."""


class GroupCountsExtra(Part):
    """Each group's number of rows, and how all rows lie around the lines, and what is paid for them: one more pass."""

    epsilon_share: Share = 0.1
    """The part of the budget that is spent on them."""


class ClusterErrors(Part):
    """Standard errors that hold where rows of one cluster are alike, too."""

    cluster: Text
    """The column whose values say which cluster a row belongs to: text, whole numbers, dates, or true and false. It need not be
    among the columns of the release. A row without a value is a cluster of its own."""


class ReleaseName(Part):
    """A name and a version stand for one draw of noise, for good: new data or a changed conf needs a new version."""

    name: PlainName
    """Letters, digits, `.`, `_` and `-`."""
    version: PlainName
    """Best the date of the data, never that of the run."""
    kind: Kind = "gram"
    """`gram`: one matrix for all regressions. `regression`: one regression. `theil_sen`: robust lines.
    `quantiles`: quantiles of columns."""
    response: Text | None = None
    """The column to explain."""
    regressors: tuple[Text, ...] | None = None
    """The columns that explain it; by default all others."""
    x: Text | None = None
    """The column along which lines run."""
    y: Text | None = None
    """The column whose values lines predict."""
    cuts: tuple[Number, ...] | None = None
    """Where lines are published, in units of x; by default the quarter points of its bounds."""
    candidates: tuple[Number, Number] | None = None
    """The range of what is published; by default the bounds of y."""
    x_variance: Annotated[Positive, Field(le=0.25)] | None = None
    """A public guess of the variance of x in a group, where its bounds are 0 and 1. For `auto`."""
    y_spread: Annotated[Positive, Field(le=1)] | None = None
    """A public guess of the spread of residuals, where the bounds of y are 0 and 1. For `huber` and intervals."""
    target: Literal["median", "mean"] | None = None
    """The line that is wanted: of medians, as Theil and Sen's (the default), or of means, as least squares. They differ where
    residuals are skewed. `auto` obeys."""
    interval: IntervalExtra | None = None
    """Also publish an interval at each cut."""
    group_counts: GroupCountsExtra | None = None
    """Also publish, with noise, how many rows each group has and how rows lie around the lines: `dpspark smooth` uses both."""
    regressions: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    """Formulas such as `log(wage) ~ educ*sex + I(exper**2)`: the products, powers and functions in them are released as columns
    of their own, with bounds that follow from those of the listed columns. They are also those that `errors` are for."""
    errors: Literal["hc1"] | ClusterErrors | None = None
    """Also publish what standard errors need that hold where variances differ (`hc1`), or where rows of one cluster are alike,
    too (`{cluster: column}`): of `regressions`, or of the one regression. Two more passes."""
    errors_share: Share | None = None
    """The part of mu² that `errors` get, jointly with the release; 0.1 by default."""
    group_by: tuple[Text, ...] | None = None
    """The columns whose values make groups; with `groups`."""
    groups: Text | tuple[Key | tuple[Key, ...] | dict[Text, Key], ...] | None = None
    """The public list of groups: a CSV or Parquet file, or the list itself. It must not be found in the data. Keys are of the
    type that the source's column has."""
    hierarchy: tuple[Text | tuple[Text, ...], ...] | None = None
    """Levels of groups, the coarsest first, e.g. `[state, county, tract]`: the last is `group_by`, and the table `groups` has
    a column for each. Readers get every level from the finest, at no cost. Where a county's key is unique in its state alone,
    write `[state, [state, county], tract]`. For kinds gram and theil_sen, the latter with `group_counts`."""
    probabilities: tuple[Annotated[Number, Field(ge=0, le=1)], ...] | None = None
    """Which quantiles, e.g. `[0.25, 0.5, 0.75]`."""
    expected_rows: WholeNumber | None = None
    """A public guess of the number of rows (in a group, if there are groups). Some defaults and the planner use it; privacy
    does not depend on it."""

    @field_validator("errors", mode="before")
    @classmethod
    def _known_errors(cls, value: Any) -> Any:
        """Refuse in one sentence what is neither of two shapes."""
        by = value.get("cluster") if isinstance(value, dict) and set(value) == {"cluster"} else None
        if value is None or value == "hc1" or isinstance(value, ClusterErrors) or (isinstance(by, str) and by):
            return value
        raise ValueError("expected hc1 or {cluster: column}.")

    @model_validator(mode="before")
    @classmethod
    def _group_of_hierarchy(cls, given: Any) -> Any:
        """Make groups by the last level, unless group_by says so itself."""
        finest = finest_group(given.get("hierarchy")) if isinstance(given, dict) else None
        return given if finest is None or given.get("group_by") is not None else {**given, "group_by": [finest]}

    @model_validator(mode="after")
    def _own_keys(self) -> ReleaseName:
        for key, kinds in KEYS.items():
            if getattr(self, key) is not None and self.kind not in kinds:
                raise ValueError(f"{key} is for kind {' and '.join(kinds)}; this one is of kind {self.kind}.")
        if self.hierarchy is not None:
            check_levels(self)
        if self.kind == "regression" and self.response is None:
            raise ValueError("kind regression needs release.response, the column to explain.")
        if (self.group_by is None) != (self.groups is None):
            raise ValueError(
                "group_by and groups go together: the list of groups must be public, not found in the data."
            )
        if isinstance(self.groups, tuple) and not all(is_key(part) for part in _parts(self.groups)):
            raise ValueError("groups: expected text, whole numbers or true/false.")
        if self.group_by is not None and len(set(self.group_by)) < len(self.group_by):
            raise ValueError("group_by: expected distinct columns.")
        self._check_errors()
        if self.kind == "theil_sen":
            self._check_line()
        if self.kind == "quantiles" and not self.probabilities:
            raise ValueError("kind quantiles needs release.probabilities, e.g. [0.25, 0.5, 0.75].")
        return self

    def _check_errors(self) -> None:
        if self.errors is None and self.errors_share is not None:
            raise ValueError("errors_share is for release.errors: add errors: hc1, or remove this key.")
        if self.errors is not None and self.kind == "gram" and self.regressions is None:
            raise ValueError("errors: kind gram needs release.regressions, the formulas that they are for.")
        if self.errors is not None and self.group_by is not None:
            raise ValueError(
                "errors are not for releases by group: residuals are of one regression. Remove this key, or group_by."
            )

    def _check_line(self) -> None:
        if self.x is None or self.y is None or self.x == self.y:
            raise ValueError("kind theil_sen needs release.x and release.y, two different columns.")
        if self.cuts is not None and (not self.cuts or len(set(self.cuts)) < len(self.cuts)):
            raise ValueError("cuts: expected distinct numbers.")
        if self.group_counts is not None and self.group_by is None:
            raise ValueError("group_counts is for lines by group: give group_by and groups, or remove this key.")
        if self.candidates is not None and not self.candidates[0] < self.candidates[1]:
            raise ValueError("candidates: expected two numbers, the first below the second.")

    @cached_property
    def listed_groups(self) -> ListedGroups:
        """The public list of groups as it is written, in its order. A path is read here."""
        if self.group_by is None or self.groups is None:
            return ListedGroups((), ())
        keys = self._listed_keys(self.group_by) if self.levels is None else [key[-1:] for key in self.levels.keys]
        if len({tuple(map(category_label, key)) for key in keys}) < len(keys):
            raise ConfError("release.groups: a group is listed twice.")
        if not 0 < len(keys) <= MOST_GROUPS:
            raise ConfError(f"release.groups: {len(keys)} groups; expected 1 to {MOST_GROUPS:,}.")
        return ListedGroups(self.group_by, tuple(keys))

    @cached_property
    def levels(self) -> Hierarchy | None:
        """The levels of the groups, with the keys of all of them as they are written; None where there is no hierarchy."""
        if self.hierarchy is None:
            return None
        names = level_names(self.hierarchy)
        found = Hierarchy(names, tuple(self._listed_keys(names)))
        try:
            found.check(within_others(self.hierarchy))
        except ValueError as error:
            raise ConfError(f"release.groups: {error}") from None
        return found

    def _listed_keys(self, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """Read these columns of the list of groups."""
        rows: Any = _read_groups(self.groups, columns) if isinstance(self.groups, str) else self.groups
        keys = [_inline_key(row, columns) for row in rows]
        if not all(is_key(part) for key in keys for part in key):
            raise ConfError("release.groups: expected text, whole numbers or true/false, and no nulls.")
        if any(len(key) != len(columns) for key in keys):
            raise ConfError(
                f"release.groups: expected {len(columns)} values for each group, one for each of {', '.join(columns)}."
            )
        return keys

    @cached_property
    def group_keys(self) -> tuple[tuple[str, ...], ...]:
        """The keys of the listed groups as text."""
        return tuple(tuple(map(category_label, key)) for key in self.listed_groups.keys)

    @property
    def groups_digest(self) -> str:
        """The digest of the list itself, wherever it was written."""
        return digest_of_groups(self.group_keys)


def _parts(groups: tuple[Any, ...]) -> Iterator[Any]:
    for key in groups:
        yield from key.values() if isinstance(key, dict) else key if isinstance(key, tuple) else (key,)


def _inline_key(row: Any, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """Read the key of a group that the conf lists, or that a file has."""
    if not isinstance(row, dict):
        return row if isinstance(row, tuple) else (row,)
    lacking = [name for name in columns if name not in row]
    if lacking:
        raise ConfError(f"release.groups: a group has no {lacking[0]}; expected {', '.join(columns)} for each.")
    return tuple(row[name] for name in columns)


def digest_of_groups(keys: Sequence[tuple[str, ...]]) -> str:
    """Hash keys as text: no two lists have the same digest."""
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()


def _read_groups(path: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    try:
        if path.lower().endswith(".csv"):
            with Path(path).open(newline="", encoding="utf-8") as file:
                table = list(csv.DictReader(file))
            return [tuple(row[name] for name in columns) for row in table]
        import pyarrow.parquet as pq

        found = pq.ParquetFile(path).read(columns=list(columns))
        return list(zip(*(found[name].to_pylist() for name in columns), strict=True))
    except OSError as error:
        raise ConfError(f"release.groups={path!r}: {error.strerror or 'cannot be read'}.") from None
    except (KeyError, ValueError, TypeError):
        raise ConfError(f"release.groups={path!r}: expected a CSV or Parquet file with {', '.join(columns)}.") from None
