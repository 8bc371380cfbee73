"""Columns of numbers and names in few characters, for a page with tens of thousands of groups."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import takewhile

import numpy as np


def doubles(values: np.ndarray) -> str:
    """Pack doubles with every bit."""
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def singles(values: np.ndarray) -> str:
    """Pack seven digits; more than the page shows."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def small_numbers(values: np.ndarray) -> str:
    """Pack whole numbers from 0 to 255."""
    return base64.b64encode(np.ascontiguousarray(values, "u1").tobytes()).decode()


def names(values: Sequence[str]) -> list[int | str]:
    """Each name as what it shares with the one before (how many characters) and what comes after that."""
    found: list[int | str] = []
    before = ""
    for value in values:
        alike = (a == b for a, b in zip(before, value, strict=False))
        shared = sum(takewhile(bool, alike))
        found += [shared, value[shared:]]
        before = value
    return found
