"""The keys of public groups: they have the same type in the release as in the source.

A list of groups may come from a file without types (CSV). A key then counts as a number if its text is how that number is
written: "1", and "1.0" as pandas writes whole numbers beside nulls, but never "01". Types are compared; values of the source
are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpspark.core.domain import category_label
from dpspark.errors import ConfError, SourceError
from dpspark.source.spark_types import ARROW

KEY_TYPES = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
TYPES = {name: ARROW[name] for name in KEY_TYPES}  # Spark's names
WHOLE = re.compile(r"(-?[1-9][0-9]*|0)(\.0+)?")
EXACT = {pa.float32(): 1 << 24, pa.float64(): 1 << 53}  # up to here every whole number is a float of its own
FALSE = ("f", "false", "n", "no", "0")
BLANKS = "".join(map(chr, range(0x21))) + "\x7f"  # that Spark leaves out around a number
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
DIRECTORY = {"text": "string", "integer": "bigint", "boolean": "boolean"}

Key = str | int | bool | float


@dataclass(frozen=True)
class ListedGroups:
    """The public list: its columns, and the keys of each group as they were written."""

    names: tuple[str, ...]
    keys: tuple[tuple[Key, ...], ...]

    def kind(self, name: str) -> str:
        """Tell which keys a column has in the list: integer or boolean if all of them are, text otherwise."""
        kinds = {describe_kind(key[self.names.index(name)]) for key in self.keys}
        return kinds.pop() if len(kinds) == 1 else "text"

    def with_types(self, kinds: Mapping[str, str]) -> ReleasedGroups:
        """Convert the keys to the source's types (Spark's names of them). Refuse keys that do not fit."""
        columns = [
            [_convert_key(name, key[i], TYPES[kinds[name]]) for key in self.keys] for i, name in enumerate(self.names)
        ]
        values = tuple(zip(*columns, strict=True))
        if len(set(values)) < len(values):
            raise ConfError("release.groups: a group is listed twice.")
        return ReleasedGroups(self.names, tuple(TYPES[kinds[name]] for name in self.names), values)

    def check_types(self, kinds: Mapping[str, str | None]) -> None:
        """Refuse keys that do not fit, in the columns whose types are known by now."""
        for i, name in enumerate(self.names):
            kind = TYPES.get(kinds.get(name) or "")
            for key in self.keys if kind is not None else ():
                _convert_key(name, key[i], kind)


@dataclass(frozen=True)
class ReleasedGroups:
    """The public list as the release has it: names and types of the columns, and the keys of each group."""

    names: tuple[str, ...] = ()
    types: tuple[Any, ...] = ()
    values: tuple[tuple[Key, ...], ...] = ((),)

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The keys as text, with which rows are compared."""
        return tuple(tuple(map(category_label, key)) for key in self.values)


NO_GROUPS = ReleasedGroups()


def describe_kind(key: Key) -> str:
    if isinstance(key, bool):
        return "boolean"
    return "text" if isinstance(key, str) else "integer"


def is_key(value: Any) -> bool:
    """Tell whether a list may have this key: text, whole numbers, true and false."""
    return value.is_integer() if isinstance(value, float) else isinstance(value, str | int | bool)


def parse_key(value: Any, kind: Any) -> Key | None:
    """Convert a key, however it is written, to a released column's type; None if it does not fit."""
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    if isinstance(value, bool) or not is_key(value):
        return None
    if isinstance(value, str):
        found = WHOLE.fullmatch(value)
        if found is None:
            return None
        value = int(found[1])
    whole = int(value)
    if kind in EXACT:
        return float(whole) if abs(whole) <= EXACT[kind] else None
    most = 1 << kind.bit_width - 1
    return whole if -most <= whole < most else None


def _convert_key(name: str, key: Key, kind: Any) -> Key:
    found = parse_key(key, kind)
    if found is not None:
        return found
    shown, shape = describe_type(kind), describe_kind(key)
    if pa.types.is_string(kind):
        raise SourceError(
            f"release.groups: {name} has {shape} keys, and its type in the source is text.\n"
            'Write them as the source has them, as text: "01" is another group than 1.'
        )
    how = {"boolean": "true or false", "integer": "whole numbers within its range, without leading zeros"}
    raise SourceError(
        f"release.groups: {key!r} is {shape}, and no key of {name}, whose type in the source is {shown}.\n"
        f"Write {how['boolean' if pa.types.is_boolean(kind) else 'integer']}."
    )


def describe_type(kind: Any) -> str:
    return "text" if pa.types.is_string(kind) else "boolean" if pa.types.is_boolean(kind) else str(kind)


def key_text(quoted: str, kind: str) -> str:
    """Write SQL for the text of a key of this type (one of TYPES). A number with a fraction is no key: null."""
    if kind not in ("float", "double"):
        return f"cast({quoted} as string)"
    whole = f"{quoted} = floor({quoted}) and abs({quoted}) <= {EXACT[TYPES[kind]]}"
    return f"if({whole}, cast(cast({quoted} as bigint) as string), null)"


def directory_text(quoted: str, kind: str) -> str:
    """Write the same SQL for a column that directories' names give. They have no type: `kind` is the list's."""
    if kind == "bigint":
        whole = f"cast({quoted} as double) = cast({quoted} as bigint)"
        return f"if({whole}, cast(cast({quoted} as bigint) as string), null)"
    return f"cast(cast({quoted} as {kind}) as string)"


def directory_key(text: str, kind: str) -> str | None:
    """Write a key that a directory's name gives as the SQL of `directory_text` does; None for what is no key."""
    if text == NULL_PARTITION:
        return None
    if kind == "boolean":
        word = text.strip(BLANKS).lower()
        return "true" if word in ("t", "true", "y", "yes", "1") else "false" if word in FALSE else None
    if kind != "bigint":
        return text
    found = re.fullmatch(r"([-+]?[0-9]+)(\.0*)?", text.strip(BLANKS))
    whole = None if found is None else int(found[1])
    return None if whole is None or not -(1 << 63) <= whole < 1 << 63 else str(whole)


def find_type(name: str) -> Any:
    """Find a type of TYPES by its name in a manifest, which is Arrow's."""
    return next(kind for kind in TYPES.values() if str(kind) == name)


def same_key(table: Any, column: str, value: Any) -> Any:
    """Mark the rows of a released table that have this key, however it is written: 3, "3" and, of floats, "3.0"."""
    value = value.item() if hasattr(value, "item") else value
    kind = table[column].type
    key = category_label(value) if pa.types.is_string(kind) else parse_key(value, kind)
    return pc.equal(table[column], pa.scalar(key, kind))


def key_label(value: Any) -> str:
    """Write a key of a released table as text, also if it comes from a data frame."""
    return category_label(value.item() if hasattr(value, "item") else value)
