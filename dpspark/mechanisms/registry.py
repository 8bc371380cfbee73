"""Every mechanism, by the kind of release that it is for; the default of each kind first.

To add one: write its file, add its sensitivity to privacy/sensitivity.py, list its class here, and write its attack with a
broken copy (audit/), its test and its section of the documents. tests/mechanisms/test_registry.py fails on what is missing.
"""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

from dpspark.mechanisms.base import ANY, GAUSSIAN, Limits, Mechanism, NoOptions, option
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.inverse_wishart import InverseWishartGram
from dpspark.mechanisms.gram.johnson_lindenstrauss import JohnsonLindenstraussGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.mechanisms.gram.wishart import WishartGram

# Kinds and mechanisms that are not classes of their own yet.
_CALIBRATION = Limits(
    "The exact privacy profile (the default), or the constants of the paper's theorem.", choices=("exact", "theorem")
)
_CELLS = Limits("How many steps the public grid of values has.", whole=True, least=2, most=2**20)
_MATCHINGS = Limits("How many random pairings of the rows.", whole=True, least=1, most=1000)
# Sums of gradients fit an int64 up to 8e10 rows.
_CLIP = Limits("Where one row's gradient, or residual, is cut off, in units of the bounds.", above=0, most=100)
_STEPS = Limits("How many, each a pass over the data; 50 by default.", whole=True, least=1, most=1000)


def _declared(kind: str, name: str, currencies: Any, options: dict[str, Limits] | None = None, **more: Any) -> Any:
    fields = [(key, Any, option(limits)) for key, limits in (options or {}).items()]
    made = make_dataclass("Options", fields, frozen=True) if options else NoOptions
    return type(
        name, (Mechanism,), {"kind": kind, "name": name, "words": "", "currencies": currencies, "Options": made, **more}
    )


_BOTH = ("both",)


def _adassp_currency(cls: Any, given: Any, options: Any) -> None:
    if given == "rho" and options.constants not in (None, "joint"):
        raise ValueError("mechanism adassp needs privacy.epsilon and privacy.delta.")
    Mechanism.check_currency.__func__(cls, given, options)  # type: ignore[attr-defined]


def _no_descent_by_group(cls: Any, options: Any) -> None:
    raise ValueError("gradient_descent is not for regressions by group. Use gram_ridge.")


REGISTRY: dict[str, tuple[type[Mechanism], ...]] = {
    "gram": (
        GaussianGram,
        LaplaceGram,
        WishartGram,
        JohnsonLindenstraussGram,
        InverseWishartGram,
    ),
    "regression": (
        _declared("regression", "gram_ridge", GAUSSIAN, tells_rows=True, pure_alternative="gradient_descent"),
        _declared(
            "regression",
            "adassp",
            GAUSSIAN,
            {
                "constants": Limits(
                    "One budget for all parts jointly (the default), or the papers' own noise.",
                    choices=("joint", "wang", "kalaja"),
                )
            },
            tells_rows=True,
            pure_alternative="gradient_descent",
            check_currency=classmethod(_adassp_currency),
        ),
        _declared("regression", "ssp", GAUSSIAN, tells_rows=True, pure_alternative="gradient_descent"),
        _declared(
            "regression",
            "objective",
            _BOTH,
            {
                "calibration": _CALIBRATION,
                "radius": Limits(
                    "Of the ball that solutions are kept in, in units of the bounds; 1 by default.", above=0, most=1e6
                ),
            },
            tells_rows=True,
            exact_sampler=False,
            one_row=True,
            rows_alternative="gram_ridge",
        ),
        _declared(
            "regression",
            "gradient_descent",
            ANY,
            {"steps": _STEPS, "clip": _CLIP},
            by_group=False,
            check_groups=classmethod(_no_descent_by_group),
        ),
    ),
    "theil_sen": (
        _declared("theil_sen", "auto", ANY, target=None),
        _declared("theil_sen", "depth", ANY, {"cells": _CELLS}, target="median"),
        _declared("theil_sen", "huber", ANY, {"cells": _CELLS, "clip": _CLIP}, target="mean"),
        _declared("theil_sen", "exponential", ANY, {"matchings": _MATCHINGS, "cells": _CELLS}, target="median"),
        _declared("theil_sen", "all_pairs", ANY, {"cells": _CELLS}, target="median"),
        _declared(
            "theil_sen",
            "widened",
            ANY,
            {
                "matchings": _MATCHINGS,
                "cells": _CELLS,
                "width": Limits(
                    "How near a value is as good as the best, as a share of the candidates' range.", above=0, most=1
                ),
            },
            target="median",
        ),
        _declared("theil_sen", "smooth_sensitivity", ANY, {"matchings": _MATCHINGS, "cells": _CELLS}, target="median"),
        _declared("theil_sen", "sufficient_statistics", ANY, target="mean"),
        _declared("theil_sen", "gradient_descent", ANY, {"steps": _STEPS, "clip": _CLIP}, target="mean"),
        _declared("theil_sen", "gram", ANY, target="mean"),
    ),
    "quantiles": (_declared("quantiles", "exponential", ANY),),
}

# What is paid for beside a release, by the name of its entry in a manifest's spending.
EXTRAS: dict[str, type[Mechanism]] = {extra.name: extra for extra in (ClippedCounts, RowCount)}


def mechanisms_of(kind: str) -> tuple[type[Mechanism], ...]:
    """List the mechanisms of a kind of release, the default first."""
    return REGISTRY[kind]


def mechanism_named(kind: str, name: str) -> type[Mechanism]:
    """Find a mechanism. A name that is not listed is a KeyError, whoever wrote it."""
    for mechanism in REGISTRY[kind]:
        if mechanism.name == name:
            return mechanism
    raise KeyError(name)
