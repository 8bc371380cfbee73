"""What R is to read, byte by byte where no R is at hand. tests/interop/test_other_tools.py asks R itself."""

from __future__ import annotations

import gzip
import math
import struct

import numpy as np
import pyarrow as pa
import pytest

from dpspark.interop.rds import Matrix, rds


def test_the_same_value_is_the_same_file() -> None:
    """Kills: a time in the file, by which two copies of a release would differ."""
    table = pa.table({"a": ["x", None], "b": [1.5, math.nan]})
    value = {"a": [1, 2.5], "b": {"c": None, "d": "é"}, "t": table, "m": Matrix(np.eye(2), ["r", "s"], ["c", "d"])}
    assert rds(value) == rds(value)
    assert rds(value)[4:8] == b"\0\0\0\0"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, struct.pack(">iii", 10, 1, 1)),
        (2, struct.pack(">iid", 14, 1, 2.0)),
        ("é", struct.pack(">iiii", 16, 1, 9 | 8 << 12, 2) + "é".encode()),
        (None, struct.pack(">i", 254)),
        ([], struct.pack(">ii", 19, 0)),
        ([1, None], struct.pack(">iiiid", 19, 2, 14, 1, 1.0) + struct.pack(">i", 254)),
    ],
)
def test_plain_values(value: object, expected: bytes) -> None:
    """Kills: a truth value as a number; text without its encoding; None as something."""
    content = gzip.decompress(rds(value))
    assert content[:2] == b"X\n"
    assert content[14:] == expected


def test_no_number_is_rs_na() -> None:
    """Kills: a missing number as a NaN, which R tells apart."""
    content = gzip.decompress(rds(pa.table({"b": pa.array([1.0, None])})))
    assert struct.pack(">iid", 14, 2, 1.0) + bytes.fromhex("7ff00000000007a2") in content


@pytest.mark.parametrize("value", ["a\0b", "\ud800", 10**400])
def test_what_r_cannot_hold(value: object) -> None:
    with pytest.raises((ValueError, OverflowError)):
        rds({"a": value})


def test_a_matrix_goes_by_columns() -> None:
    """Kills: a matrix turned on its side, which a symmetric one does not show."""
    content = gzip.decompress(rds(Matrix(np.array([[1.0, 2.0], [3.0, 4.0]]), ["r", "s"], ["c", "d"])))
    assert struct.pack(">i4d", 4, 1.0, 3.0, 2.0, 4.0) in content


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([3, -7], pa.int64()), struct.pack(">iiii", 13, 2, 3, -7)),  # integers
        (pa.array([2**31, 5], pa.int64()), struct.pack(">iidd", 14, 2, 2.0**31, 5.0)),  # doubles hold them
        (pa.array([-(2**31)], pa.int64()), struct.pack(">iid", 14, 1, -(2.0**31))),  # R's NA among integers
        (pa.array([2**53 + 1], pa.int64()), struct.pack(">i", 16)),  # text: no double is that number
        (pa.array([True, False]), struct.pack(">iiii", 10, 2, 1, 0)),  # logicals
    ],
)
def test_keys_keep_their_type(column: pa.Array, expected: bytes) -> None:
    """Kills: keys that are rounded. Fails on 0.2.0, but for the second and the third: all were doubles."""
    found = gzip.decompress(rds(pa.table({"k": column})))
    assert expected in found
    assert (b"9007199254740993" in found) == (column[0].as_py() == 2**53 + 1)
