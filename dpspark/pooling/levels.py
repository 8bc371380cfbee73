"""Matrices of coarser levels, such as counties and states: sums of those of the finest groups, with the noise of sums.

Post-processing: no cost. A row is in one finest group, and the noises of groups are independent: variances add up. Each level
is the sum of the level below, rounded once, so that what is published of the parts adds up to the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dpspark.analysis.content.base import refuse_damaged
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.keys import keys_in
from dpspark.bundle.files import HIERARCHY
from dpspark.core.domain import category_label
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.noise_model import noise_to_manifest
from dpspark.mechanisms.gram.noisy import AdditiveNoise, noise_from_manifest, sum_of_noises
from dpspark.pooling.sums import SUMMED, sum_alike
from dpspark.source.group_keys import key_label
from dpspark.source.hierarchy import Hierarchy

Tables = dict[str, pa.Table]
Keys = tuple[Any, ...]  # of a group: its own, after those of the levels above


class LevelContent(GroupedContent):
    """The matrices of one coarser level, one for each of its groups."""

    groups: Sequence[Keys]
    finest_groups: Sequence[int]  # how many are in each group
    noise: AdditiveNoise  # of one of them

    @classmethod
    def of(cls, content: GroupedContent, level: str) -> LevelContent:
        """Add up a release's matrices for every group of a level."""
        hierarchy = _hierarchy(content, level)
        names, groups = hierarchy.up_to(level), hierarchy.groups(level)
        with refuse_damaged(content.path):
            blocks = _level_blocks(_finest_blocks(content, hierarchy), hierarchy, level)
        keyed = {name: _with_keys(content, names, groups, [each[name] for each in blocks]) for name in blocks[0]}
        found = cls(content.path, _level_manifest(content, hierarchy, level), keyed)
        found.groups, found.finest_groups, found.noise = groups, hierarchy.sizes(level).tolist(), _noise(content)
        return found

    def one(self, keys: Mapping[str, Any]) -> GramContent:
        """Choose one group, whose noise is that of a sum."""
        place = find_group(self.group_by, self.groups, keys)
        group = dict(zip(self.group_by, map(category_label, self.groups[place]), strict=True))
        rows = {name: table.num_rows // len(self.groups) for name, table in self.tables.items()}
        tables = {
            name: table.slice(place * rows[name], rows[name]).drop_columns(list(self.group_by))
            for name, table in self.tables.items()
        }
        return GramContent(self.path, self.manifest_of(place), tables, group)

    def manifest_of(self, place: int) -> dict[str, Any]:
        """The manifest of one group: its noise is the sum of those of its finest groups."""
        return with_noise(self.manifest, self.noise, self.finest_groups[place])


def level_group(content: GroupedContent, keys: Mapping[str, Any]) -> GramContent:
    """Add up the matrices of one group of the level that the keys name; no other group is computed."""
    hierarchy = content.hierarchy
    assert hierarchy is not None
    level = [name for name in hierarchy.coarser if name in keys][-1]
    place = find_group(hierarchy.up_to(level), hierarchy.groups(level), keys)
    members = [i for i, at in enumerate(hierarchy.places(level).tolist()) if at == place]
    inside = Hierarchy(hierarchy.names, tuple(hierarchy.keys[i] for i in members))
    with refuse_damaged(content.path):
        blocks = _finest_blocks(content, hierarchy)
        (tables,) = _level_blocks([blocks[i] for i in members], inside, level)
        key = hierarchy.groups(level)[place]
        group = dict(zip(hierarchy.up_to(level), map(category_label, key), strict=True))
        return GramContent(content.path, with_noise(content.manifest, _noise(content), len(members)), tables, group)


def names_a_level(content: GroupedContent, keys: Mapping[str, Any]) -> bool:
    """Tell whether keys are of a level above the groups."""
    found = content.hierarchy
    return found is not None and bool(keys) and set(keys) <= set(found.coarser)


def find_group(names: Sequence[str], groups: Sequence[Keys], keys: Mapping[str, Any]) -> int:
    """Find the place of a group on its level, the last of the names. Keys of levels above may be left out if it is alone."""
    if names[-1] not in keys or not set(keys) <= set(names):
        beside = f"; {', '.join(names[:-1])} may be given, too" if len(names) > 1 else ""
        raise ConfError(f"group: expected {names[-1]}{beside}.")
    wanted = {names.index(name): key_label(value) for name, value in keys.items()}
    found = [i for i, key in enumerate(groups) if all(category_label(key[at]) == text for at, text in wanted.items())]
    shown = ", ".join(f"{name}={value!r}" for name, value in keys.items())
    if not found:
        raise ConfError(f"group: {shown} is not among the groups.")
    if len(found) > 1:
        raise ConfError(f"group: {len(found)} groups have {shown}. Give {', '.join(names[:-1])} too.")
    return found[0]


def with_noise(manifest: dict[str, Any], noise: AdditiveNoise, count: int) -> dict[str, Any]:
    """Put the noise of a sum of so many groups into a manifest."""
    summed = noise if count == 1 else sum_of_noises([noise] * count)
    return {**manifest, "mechanism": {**manifest["mechanism"], "noise": noise_to_manifest(summed)}}


def _hierarchy(content: GroupedContent, level: str) -> Hierarchy:
    found = content.hierarchy
    if found is None:
        raise ConfError(f"level {level!r}: this release has no levels. Release with release.hierarchy.")
    if level not in found.coarser:
        raise ConfError(f"level {level!r}; expected one of {', '.join(found.coarser)}.")
    return found


def _noise(content: GroupedContent) -> AdditiveNoise:
    found = noise_from_manifest(content.manifest["mechanism"]["noise"])
    if not isinstance(found, AdditiveNoise):
        raise ConfError("levels: the noise of these matrices grows with them, and that of a sum is not known.")
    return found


def _finest_blocks(content: GroupedContent, hierarchy: Hierarchy) -> list[Tables]:
    """Cut the tables into those of the groups, whose rows are together and in the order of the hierarchy."""
    by, count = list(content.group_by), len(hierarchy.keys)
    found: list[Tables] = [{} for _ in range(count)]
    finest = [key[-1] for key in hierarchy.keys]
    for name in SUMMED:
        table = content.tables.get(name)
        if table is None or not keys_in(table, by):
            continue
        rows = table.num_rows // count
        if table[by[0]].to_pylist() != [key for key in finest for _ in range(rows)]:
            raise ValueError("other groups than those of the hierarchy")
        table = table.drop_columns(by)
        for i, tables in enumerate(found):
            tables[name] = table.slice(i * rows, rows)
    return found


def _level_blocks(blocks: list[Tables], hierarchy: Hierarchy, level: str) -> list[Tables]:
    """Add up level after level, from the finest to the one that is wanted."""
    for name in reversed(hierarchy.coarser[hierarchy.names.index(level) :]):
        children = hierarchy.children(name)
        blocks = [
            {table: sum_alike([blocks[i][table] for i in below]) for table in blocks[below[0]]} for below in children
        ]
    return blocks


def _with_keys(
    content: GroupedContent, names: Sequence[str], groups: Sequence[Keys], blocks: Sequence[pa.Table]
) -> pa.Table:
    """Put the keys of the groups before their rows."""
    stacked, rows = pa.concat_tables(blocks), blocks[0].num_rows
    fields = [content.published_tables[HIERARCHY].schema.field(name) for name in names]
    columns = [pa.array([key[i] for key in groups for _ in range(rows)], field.type) for i, field in enumerate(fields)]
    return pa.table([*columns, *stacked.columns], schema=pa.schema([*fields, *stacked.schema]))


def _level_manifest(content: GroupedContent, hierarchy: Hierarchy, level: str) -> dict[str, Any]:
    """Take the release's manifest for one whose groups are those of a level; it is for readers in memory alone."""
    manifest, types = content.manifest, content.published_tables[HIERARCHY].schema
    names = hierarchy.up_to(level)
    asked = {key: value for key, value in manifest["spec"]["release"].items() if key != "hierarchy"}
    asked |= {"group_by": list(names), "groups": {"count": len(hierarchy.groups(level))}}
    named = {**manifest["release"], "group_types": {name: str(types.field(name).type) for name in names}}
    return {**manifest, "release": named, "spec": {**manifest["spec"], "release": asked}}
