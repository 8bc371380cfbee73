"""Published matrices or regressions, one for each group, in the hands of an analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never

from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.options import Asked
from dpspark.errors import ConfError, NotOfThisKind
from dpspark.pooling.levels import LevelContent, level_group, names_a_level
from dpspark.published.gram import GramRelease
from dpspark.published.regression import RegressionRelease
from dpspark.published.release import Release

if TYPE_CHECKING:
    import pandas as pd


class GroupedRelease(Release[GroupedContent, Never]):
    """Published matrices or regressions, one for each group."""

    _has = "groups(), group(...)"

    @property
    def group_by(self) -> tuple[str, ...]:
        """The columns of the groups."""
        return self.content.group_by

    def groups(self) -> pd.DataFrame:
        """The groups, as a table."""
        first = next(iter(self.tables.values()))
        return first.select(list(self.group_by)).to_pandas().drop_duplicates(ignore_index=True)

    def group(self, **keys: Any) -> GramRelease | RegressionRelease:
        """The release of one group, e.g. group(state="CA"): all that a release of its kind can do.

        In a release with a hierarchy the keys say which level is meant.
        """
        return self.only(**keys)

    def only(self, **keys: Any) -> GramRelease | RegressionRelease:
        """The same, by the name that it has for every kind of release by group."""
        one = level_group(self.content, keys) if names_a_level(self.content, keys) else self.content.one(keys)
        return GramRelease(one) if isinstance(one, GramContent) else RegressionRelease(one)

    def level(self, name: str) -> GroupedRelease:
        """The matrices of a coarser level of the hierarchy, e.g. level("state"), as a release by group. No cost."""
        return GroupedRelease(LevelContent.of(self.content, name))

    def _regress(self, asked: Asked) -> Never:
        raise self.content.no_group_chosen()

    def _no_matrix(self, what: str = "matrix") -> ConfError:
        return self.content.no_group_chosen() if self.kind == "gram" else super()._no_matrix(what)

    def _no_attribute(self, name: str) -> ConfError:
        if self.kind != "gram":
            return super()._no_attribute(name)
        return NotOfThisKind(f"a release by group has no {name} of its own: choose a group first, with .group(...)")
