"""Open a published release."""

from __future__ import annotations

from typing import Any

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.content.opening import read_content
from dpspark.analysis.content.quantiles import QuantilesContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.bundle.storage import Place
from dpspark.published.gram import GramRelease
from dpspark.published.grouped import GroupedRelease
from dpspark.published.lines import LinesRelease
from dpspark.published.quantiles import QuantilesRelease
from dpspark.published.regression import RegressionRelease
from dpspark.published.release import Release

RELEASES: dict[type[Content], type[Release[Any, Any]]] = {
    GramContent: GramRelease,
    GroupedContent: GroupedRelease,
    LinesContent: LinesRelease,
    QuantilesContent: QuantilesRelease,
    RegressionContent: RegressionRelease,
}


def read_release(path: str | Place, *, as_published: bool = True) -> Release[Any, Any]:
    """Open a published release, of which every table must be as published unless that is yet to be checked."""
    return as_release(read_content(path, as_published=as_published))


def as_release(content: Content) -> Release[Any, Any]:
    """Put what a release holds into an analyst's hands."""
    return RELEASES[type(content)](content)
