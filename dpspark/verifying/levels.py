"""Whether the table of levels is the one of the spec: its keys are public, and every coarser number is a sum by them."""

from __future__ import annotations

from collections.abc import Iterator

from dpspark.analysis.content.base import Content
from dpspark.bundle.files import HIERARCHY, levels
from dpspark.source.hierarchy import Hierarchy
from dpspark.spec.hierarchy import within_others
from dpspark.spec.release import digest_of_groups


def level_problems(release: Content) -> Iterator[str]:
    """Find what is wrong with the table of levels; nothing where there is none, and none was asked for."""
    names, found, asked = tuple(levels(release.manifest)), release.hierarchy, release.manifest["spec"]["release"]
    if (found is None) != (not names):
        yield f"{HIERARCHY}: {'missing' if found is None else 'the spec asks for no levels'}"
        return
    if found is None:
        return
    if found.names != names:
        yield f"{HIERARCHY}: its columns are not the levels of the spec"
        return
    try:
        found.check(within_others([each if isinstance(each, str) else tuple(each) for each in asked["hierarchy"]]))
    except ValueError as error:
        yield f"{HIERARCHY}: {error}"
    digests = [asked["groups"].get("levels_sha256")]
    if not all(isinstance(key[-1], str) for key in found.keys):
        # A list may write a whole number as "3.0": the second digest is of the keys as they are in the table. Text stays.
        digests.append(release.manifest["release"].get("levels_sha256"))
    if digest_of_groups(found.texts) not in digests:
        yield f"{HIERARCHY}: its keys are not those of the spec, in their order"
    elif not _same_groups(release, found):
        yield f"{HIERARCHY}: its groups are not those of the other tables"


def _same_groups(release: Content, found: Hierarchy) -> bool:
    """Compare the finest keys with those that another table has, whose own order was checked."""
    (finest,) = release.group_by
    keyed = next(table for table in release.tables.values() if finest in table.column_names)
    count = len(found.keys)
    rows = keyed.num_rows // count
    first = keyed[finest].take(list(range(0, keyed.num_rows, rows))).to_pylist()
    return first == [key[-1] for key in found.keys]
