"""Numbers written as text, read as Spark's casts read them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.source.compute.arrays import null_where, values_of

# White space and control characters are left out at both ends; digits after a point are, too.
WHOLE = (
    r"(?s)\A[\x00-\x20\x7f]*(?P<sign>[+-]?)(?P<number>0*(?P<digits>[0-9]{0,20})(?P<point>\.[0-9]*)?)[\x00-\x20\x7f]*\z"
)
# Few digits and a small exponent: pyarrow's own parser rounds these right, and none is too large for it.
NUMBER = r"(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?"
PLAIN = rf"(?s)\A[\x00-\x20]*(?:\+(?P<plus>{NUMBER})|(?P<other>-?{NUMBER}))[\x00-\x20]*\z"
PERHAPS = r"\A[\x00-\x20]*(?:[-+.0-9]|(?i:inf|nan))"  # nothing else is a number
# What Java takes beside, after it has left out what is up to a space.
JAVA = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
JAVA_HEX = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
JAVA_WORDS = re.compile(r"[+-]?(?:NaN|Infinity)")
SPARK_WORDS = {"inf", "+inf", "infinity", "+infinity", "-inf", "-infinity", "nan"}
CONTROL = "".join(map(chr, range(0x21)))


def integers_in(texts: Any, kind: Any) -> Any:
    """Read whole numbers; null if there is none, or if it does not fit."""
    found = pc.extract_regex(texts, WHOLE)
    sign, number, digits = (pc.struct_field(found, [name]) for name in ("sign", "number", "digits"))
    length = pc.binary_length(digits)
    usable = pc.fill_null(pc.and_(pc.not_equal(number, ""), pc.less_equal(length, 19)), False)
    written = pc.if_else(pc.and_(usable, pc.greater(length, 0)), digits, "0")
    size = values_of(pc.cast(pc.fill_null(written, "0"), pa.uint64()))
    negative = values_of(pc.equal(sign, "-"))
    limits = np.iinfo(kind.to_pandas_dtype())
    fits = values_of(usable) & (size <= np.where(negative, np.uint64(limits.max + 1), np.uint64(limits.max)))
    whole = np.where(negative, np.uint64(0) - size, size).astype(np.int64).astype(kind.to_pandas_dtype())
    return null_where(pa.array(~fits), pa.array(whole, kind))


def doubles_in(texts: Any) -> Any:
    """Read doubles; null if there is none."""
    found = pc.extract_regex(texts, PLAIN)
    plus, other = (pc.struct_field(found, [name]) for name in ("plus", "other"))
    plain = pc.is_valid(found)
    written = pc.if_else(plain, pc.if_else(pc.equal(plus, ""), other, plus), pa.scalar(None, pa.string()))
    numbers = pc.cast(written, pa.float64())
    odd = pc.and_not(pc.fill_null(pc.match_substring_regex(texts, PERHAPS), False), plain)
    places = np.flatnonzero(values_of(odd))
    if not len(places):
        return numbers
    written_oddly = texts.take(pa.array(places)).cast(pa.binary()).to_pylist()  # bytes: they need not be UTF-8
    read = pa.array([_java_double(one.decode(errors="replace")) for one in written_oddly], pa.float64())
    return pc.replace_with_mask(numbers, odd, read)


def _java_double(text: str) -> float | None:
    """Read what Java's own parser takes for a double, or Spark's words beside."""
    bare = text.strip(CONTROL)
    number, hexadecimal = JAVA.fullmatch(bare), JAVA_HEX.fullmatch(bare)
    if number:
        return float(number[1])
    if hexadecimal:
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return float("-inf") if bare.startswith("-") else float("inf")
    return float(bare) if JAVA_WORDS.fullmatch(bare) or bare.lower() in SPARK_WORDS else None
