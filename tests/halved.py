"""A pytest plugin that halves one function of privacy/sensitivity.py before anything else imports it.

`DPSPARK_HALVED=depth_spread python -m pytest -p tests.halved tests/mechanisms` must fail: some attack sees the constant.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import dpspark.privacy.sensitivity as sensitivity

# Steps of rounding that no table reaches: a centred sum moves by less than 1, and the sums of a level are whole steps.
NEVER_REACHED = ("rounded_products", "rounded_sums")

COUNTS = ("groups_drawn_apart",)  # whole numbers that parts of a budget are made by: one group instead of two


def constants() -> list[str]:
    """List the functions of the file that other files may use, and that some table attains."""
    return [
        name
        for name, found in vars(sensitivity).items()
        if callable(found)
        and getattr(found, "__module__", "") == sensitivity.__name__
        and name[0] not in "_ABCDEFGRS"
        and name not in NEVER_REACHED
    ]


def halve(value: Any) -> Any:
    """Halve what is a size, and leave what is not."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        sizes = [
            each.name
            for each in dataclasses.fields(value)
            if each.name not in ("groups", "shape", "reason", "count_is_public")
        ]
        return dataclasses.replace(value, **{name: halve(getattr(value, name)) for name in sizes})
    if isinstance(value, tuple):
        return tuple(map(halve, value))
    return value / 2 if isinstance(value, int | float) and not isinstance(value, bool) else value


def halved(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        found = function(*arguments, **named)
        return max(1, found // 2) if function.__name__ in COUNTS else halve(found)

    return run


if "DPSPARK_HALVED" in os.environ:
    setattr(sensitivity, os.environ["DPSPARK_HALVED"], halved(getattr(sensitivity, os.environ["DPSPARK_HALVED"])))
