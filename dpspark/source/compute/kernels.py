"""The kernels of compiled expressions, by name. Each takes the Arrow type of its result, its inputs and its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpspark.source.compute import arithmetic, casts, conditions, dates, text

KERNELS: dict[str, Callable[..., Any]] = {
    **arithmetic.KERNELS,
    **conditions.KERNELS,
    **casts.KERNELS,
    **text.KERNELS,
    **dates.KERNELS,
}
