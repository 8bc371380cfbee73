"""Every mechanism, by the kind of release that it is for; the default of each kind first.

To add one: write its file, add its sensitivity to privacy/sensitivity.py, list its class here, and write its attack with a
broken copy (audit/), its test and its section of the documents. tests/mechanisms/test_registry.py fails on what is missing.
"""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

from dpspark.mechanisms.base import ANY, Limits, Mechanism, NoOptions, option
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.mechanisms.descent_noise import CLIP, STEPS
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.inverse_wishart import InverseWishartGram
from dpspark.mechanisms.gram.johnson_lindenstrauss import JohnsonLindenstraussGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.mechanisms.gram.wishart import WishartGram
from dpspark.mechanisms.regression.adassp import AdaSsp
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.mechanisms.regression.gradient_descent import GradientDescent
from dpspark.mechanisms.regression.gram_ridge import GramRidge
from dpspark.mechanisms.regression.objective import ObjectivePerturbation
from dpspark.mechanisms.regression.ssp import Ssp

# Kinds and mechanisms that are not classes of their own yet.
_CELLS = Limits("How many steps the public grid of values has.", whole=True, least=2, most=2**20)
_MATCHINGS = Limits("How many random pairings of the rows.", whole=True, least=1, most=1000)


def _declared(kind: str, name: str, currencies: Any, options: dict[str, Limits] | None = None, **more: Any) -> Any:
    fields = [(key, Any, option(limits)) for key, limits in (options or {}).items()]
    made = make_dataclass("Options", fields, frozen=True) if options else NoOptions
    return type(
        name, (Mechanism,), {"kind": kind, "name": name, "words": "", "currencies": currencies, "Options": made, **more}
    )


REGISTRY: dict[str, tuple[type[Mechanism], ...]] = {
    "gram": (
        GaussianGram,
        LaplaceGram,
        WishartGram,
        JohnsonLindenstraussGram,
        InverseWishartGram,
    ),
    "regression": (GramRidge, AdaSsp, Ssp, ObjectivePerturbation, GradientDescent),
    "theil_sen": (
        _declared("theil_sen", "auto", ANY, target=None),
        _declared("theil_sen", "depth", ANY, {"cells": _CELLS}, target="median"),
        _declared("theil_sen", "huber", ANY, {"cells": _CELLS, "clip": CLIP}, target="mean"),
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
        _declared("theil_sen", "gradient_descent", ANY, {"steps": STEPS, "clip": CLIP}, target="mean"),
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


def regression_named(name: str) -> type[RegressionMechanism]:
    """Find a mechanism of regressions, as what it has beyond others: readers of a release ask it."""
    found = mechanism_named("regression", name)
    assert issubclass(found, RegressionMechanism)
    return found
