"""Functions of text. Positions and lengths count code points; only the space U+0020 is trimmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def length(kind: Any, one: Any) -> Any:
    if _is_utf8(one):
        return pc.utf8_length(one)
    return pa.array(
        [None if text is None else len(_characters(text)) for text in one.cast(pa.binary()).to_pylist()], kind
    )


def _is_utf8(texts: Any) -> bool:
    """Parquet promises it, but a file may break the promise."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _characters(text: bytes) -> list[bytes]:
    """Cut bytes as Spark does, which believes the first byte of each character and looks at no other."""
    found, at = [], 0
    while at < len(text):
        first = text[at]
        size = 2 if 0xC2 <= first <= 0xDF else 3 if 0xE0 <= first <= 0xEF else 4 if 0xF0 <= first <= 0xF4 else 1
        found.append(text[at : at + size])
        at += size
    return found


def concatenate(kind: Any, *parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string()))  # null if one is


def cut(kind: Any, one: Any, start: int, stop: int | None) -> Any:
    """Cut as Python's slices do."""
    if _is_utf8(one):
        return pc.utf8_slice_codeunits(one, start=start, stop=stop)
    texts = one.cast(pa.binary()).to_pylist()
    parts = [None if text is None else b"".join(_characters(text)[start:stop]) for text in texts]
    return pa.array(parts, pa.binary()).view(kind)


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
