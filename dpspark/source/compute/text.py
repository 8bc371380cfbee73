"""Functions of text. Positions and lengths count code points; only the space U+0020 is trimmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def length(kind: Any, one: Any) -> Any:
    return pc.utf8_length(one)


def concatenate(kind: Any, *parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string()))  # null if one is


def cut(kind: Any, one: Any, start: int, stop: int | None) -> Any:
    """Cut as Python's slices do."""
    return pc.utf8_slice_codeunits(one, start=start, stop=stop)


def trim(kind: Any, one: Any, ends: str) -> Any:
    function = {"both": pc.ascii_trim, "left": pc.ascii_ltrim, "right": pc.ascii_rtrim}[ends]
    return function(one, characters=" ")


def starts_with(kind: Any, one: Any, part: str) -> Any:
    return pc.starts_with(one, pattern=part)


def ends_with(kind: Any, one: Any, part: str) -> Any:
    return pc.ends_with(one, pattern=part)


def contains(kind: Any, one: Any, part: str) -> Any:
    return pc.match_substring(one, pattern=part)


def matches(kind: Any, one: Any, pattern: str) -> Any:
    """Match a regular expression in RE2's words, that LIKE was translated to."""
    return pc.match_substring_regex(one, pattern=pattern)


def replace(kind: Any, one: Any, part: str, by: str) -> Any:
    return pc.replace_substring(one, pattern=part, replacement=by)


KERNELS: dict[str, Callable[..., Any]] = {
    **{"length": length, "concat": concatenate, "cut": cut, "trim": trim, "starts_with": starts_with},
    **{"ends_with": ends_with, "contains": contains, "matches": matches, "replace": replace},
}
