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
from dpspark.mechanisms.lines.all_pairs import AllPairsLines
from dpspark.mechanisms.lines.auto import AutoLines
from dpspark.mechanisms.lines.depth import DepthLines
from dpspark.mechanisms.lines.exponential import ExponentialLines
from dpspark.mechanisms.lines.gradient_descent import DescentLines
from dpspark.mechanisms.lines.gram import GramLines
from dpspark.mechanisms.lines.huber import HuberLines
from dpspark.mechanisms.lines.smooth_sensitivity import SmoothLines
from dpspark.mechanisms.lines.sufficient_statistics import SufficientLines
from dpspark.mechanisms.lines.widened import WidenedLines
from dpspark.mechanisms.options import CLIP, STEPS
from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles

# Kinds and mechanisms that are not classes of their own yet.
_CALIBRATION = Limits(
    "The exact privacy profile (the default), or the constants of the paper's theorem.", choices=("exact", "theorem")
)


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
            {"steps": STEPS, "clip": CLIP},
            by_group=False,
            check_groups=classmethod(_no_descent_by_group),
        ),
    ),
    "theil_sen": (
        AutoLines,
        DepthLines,
        HuberLines,
        ExponentialLines,
        AllPairsLines,
        WidenedLines,
        SmoothLines,
        SufficientLines,
        DescentLines,
        GramLines,
    ),
    "quantiles": (ExponentialQuantiles,),
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
