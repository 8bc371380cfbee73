"""A published release in the hands of an analyst. Everything computed from it is post-processing: no cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.options import Asked
from dpspark.analysis.pca import Components
from dpspark.analysis.result import Result
from dpspark.analysis.subsets import Ranking
from dpspark.bundle.storage import Place, near
from dpspark.errors import ConfError, NotOfThisKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpspark.published.description import Description
    from dpspark.smoothing.result import SmoothedGroups

ContentT = TypeVar("ContentT", bound=Content)
ResultT = TypeVar("ResultT", bound=Result)


class Release(Generic[ContentT, ResultT]):
    """A release of any kind: its place, its certificate, its tables, and what can be asked of it."""

    _has: ClassVar[str]  # what its kind is asked for

    def __init__(self, content: ContentT):
        self.content = content

    @property
    def path(self) -> Place:
        """The place where it was published."""
        return self.content.path

    @property
    def manifest(self) -> dict[str, Any]:
        """The certificate: all of manifest.json."""
        return self.content.manifest

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The tables, as published."""
        return self.content.published_tables

    @property
    def kind(self) -> str:
        """The kind of release: gram, regression, theil_sen or quantiles."""
        return self.content.kind

    def regress(
        self,
        formula: str | None = None,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
        errors: str | None = None,
        group: Mapping[str, Any] | None = None,
    ) -> ResultT:
        """Compute least squares from what was released, with 95% intervals unless `level` says otherwise.

        A release of kind gram serves any formula; `interval` is delta (the default) or bootstrap, `repair` as in `repaired`.
        `errors` are classical, with equal variances assumed, or hc1 (the default) where the release holds what they need.
        A release of another kind returns what it holds, needs no formula, and refuses what does not apply to it.
        `group` chooses one of a release by group, e.g. {"state": "09"}: of any level, where it has a hierarchy.
        """
        if group is not None:
            found: ResultT = self.only(**group).regress(formula, level, repair=repair, interval=interval, errors=errors)
            return found
        return self._regress(Asked(formula, level, repair, interval, errors))

    def _regress(self, asked: Asked) -> ResultT:
        raise NotImplementedError

    def all_subsets(
        self, response: str, columns: Sequence[str] | None = None, max_terms: int | None = None, top: int = 10
    ) -> Ranking:
        """Rank every regression of a response on a subset of the columns, by a BIC that knows the privacy noise."""
        return self._matrix().all_subsets(response, columns, max_terms, top)

    def pca(self, k: int | None = None, scale: bool = False, level: float = 0.95) -> Components:
        """Compute the first k principal components, with bands for the noise.

        They are those of the covariance with each column in half-ranges of its bounds, so that units do not matter; with
        `scale=True`, of the correlation matrix. A categorical column stands for its columns less the first, as in a formula.
        """
        return self._matrix().pca(k, scale, level)

    def _matrix(self) -> GramContent:
        """Give the content of a release of kind gram; of other kinds, raise an error that says what they have."""
        raise self._no_matrix()

    def group(self, **keys: Any) -> Any:
        """Choose what was released of one group."""
        raise self._no_groups()

    def only(self, **keys: Any) -> Any:
        """The same, as a release of that group, whatever the kind."""
        raise self._no_groups()

    def _no_groups(self) -> ConfError:
        return ConfError(
            f"{str(self.path)!r} is not a release by group: it has no groups to choose from. Use it as it is, or "
            "release with release.group_by."
        )

    def report(
        self,
        path: str | Path,
        *,
        regress: str | Sequence[str] = (),
        url: str | None = None,
        smoothed: SmoothedGroups | str | Path | None = None,
        map: str | Path | None = None,
        map_key: str | None = None,
    ) -> Path:
        """Write one HTML page that shows it all; `regress` are formulas, `url` a ledger whose balance is shown too.

        `smoothed` adds what `smooth` returned, or its directory; `map` a public GeoJSON of the areas, whose property
        `map_key` names them (default: the name of the group column).
        """
        from dpspark.report import write_report
        from dpspark.report.areas import areas_of

        areas = areas_of(self.content, smoothed, map, map_key)
        return write_report(self.content, path, [regress] if isinstance(regress, str) else regress, url, areas)

    def describe(self) -> Description:
        """Describe what it holds and what can be asked of it: columns, bounds, definitions, and means with their noise where
        it has them. Print the description, or take its `to_dict()`."""
        from dpspark.published.description import describe

        return describe(self.content)

    def smooth(
        self,
        covariates: Any = None,
        level: float = 0.95,
        *,
        formula: str | None = None,
        suppress_cv: float | None = None,
    ) -> SmoothedGroups:
        """Estimate every group of a release by group with the help of all others, with intervals, at no cost.

        `covariates` are public columns of the groups, by their keys: a CSV or Parquet file, a mapping or a data frame. A column
        `rows` is taken for their numbers of rows. `formula` says which regression, of matrices by group.
        Estimates whose standard error is more than `suppress_cv` times themselves are marked; by default a third.
        """
        from dpspark.smoothing.release import smooth_content

        return smooth_content(self.content, covariates, level, formula, suppress_cv)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what was released, as matplotlib Axes."""
        from dpspark.published.plots import plot_content

        return plot_content(self.content, ax)

    def _no_matrix(self, what: str = "matrix") -> ConfError:
        return NotOfThisKind(
            f"{str(self.path)!r} is a release of kind {self.kind}: it has no {what}. Release kind gram for that.\n"
            f"This one has {self._has} and describe()."
        )

    def __getattr__(self, name: str) -> Any:
        from dpspark.published.gram import GramRelease

        if not name.startswith("_") and hasattr(GramRelease, name):
            raise self._no_attribute(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _no_attribute(self, name: str) -> ConfError:
        """Say that only a matrix has this."""
        return Release._no_matrix(self, name)

    def _repr_html_(self) -> str:
        from dpspark.published.notebook import content_parts
        from dpspark.show.html import as_html

        return as_html(content_parts(self.content))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.content.name}, {near(self.path)!r})"

    def __str__(self) -> str:
        return repr(self)
