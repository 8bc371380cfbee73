"""Constants with the types that Spark gives them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from dpspark.source.compute.coercion import decimal_type
from dpspark.source.compute.program import Literal
from dpspark.source.compute.tokens import NotCompiled

SUFFIX = re.compile(r"(?i)(BD|[LSYDF])$")
BITS = {"Y": ("tinyint", 8), "S": ("smallint", 16), "L": ("bigint", 64)}
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
MICROSECOND = timedelta(microseconds=1)


def number(text: str) -> Literal:
    """Type a number, with its sign, by how it is written."""
    found = SUFFIX.search(text)
    suffix = found[1].upper() if found else ""
    bare = text[: len(text) - len(suffix)]
    exponent, point = "e" in bare.lower(), "." in bare
    if suffix in BITS:
        kind, bits = BITS[suffix]
        if exponent or point or not -(1 << (bits - 1)) <= int(bare) < 1 << (bits - 1):
            raise NotCompiled(f"{text} is read by Spark")
        return Literal(int(bare), kind)
    if suffix == "D" or (exponent and not suffix):
        return _double(text, bare)
    if suffix:
        raise NotCompiled(f"{text} is read by Spark")
    if point:
        return _decimal(bare)
    value = int(bare)
    for kind, bits in (("int", 32), ("bigint", 64)):
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return Literal(value, kind)
    return _decimal(bare)


def _double(text: str, bare: str) -> Literal:
    value = float(bare)
    if value in (float("inf"), float("-inf")):
        raise NotCompiled(f"{text} is read by Spark")
    return Literal(value, "double")


def _decimal(bare: str) -> Literal:
    value = Decimal(bare) or Decimal(bare.lstrip("-"))  # Spark's decimals have one zero
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return Literal(value, decimal_type(max(len(digits), -exponent), -exponent))


def moment(kind: str, text: str, offset: int | None) -> Literal:
    """A date or a time written out in full; `offset` is the session's, in seconds, None if it changes with the season."""
    try:
        if kind == "date" and DATE.fullmatch(text):
            return Literal(days_of(text), "date")
        if kind == "timestamp" and offset is not None:
            return Literal(micros_of(text) - offset * 1_000_000, "timestamp")
        if kind == "timestamp_ntz":
            return Literal(micros_of(text), "timestamp_ntz")
    except ValueError:
        pass
    raise NotCompiled(f"{kind} {text!r} is read by Spark")


def days_of(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def micros_of(text: str) -> int:
    if DATE.fullmatch(text):
        return days_of(text) * 86_400_000_000
    if not TIME.fullmatch(text):
        raise ValueError
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // MICROSECOND


def offset_of(timezone: str) -> int | None:
    """The seconds that a zone is ahead of UTC; None if that changes with time, or is not known."""
    if timezone == "UTC":
        return 0
    found = OFFSET.fullmatch(timezone)
    return None if found is None else (1 if found[1] == "+" else -1) * (int(found[2]) * 3600 + int(found[3]) * 60)
