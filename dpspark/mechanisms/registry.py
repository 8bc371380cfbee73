"""Every mechanism, by the kind of release that it is for; the default of each kind first.

To add one: write its file, add its sensitivity to privacy/sensitivity.py, list its class here, and write its attack with a
broken copy (audit/), its test and its section of the documents. tests/mechanisms/test_registry.py fails on what is missing.
"""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

from dpspark.mechanisms.base import ANY, CALIBRATION, Limits, Mechanism, NoOptions, option
from dpspark.mechanisms.descent_noise import CLIP, STEPS
from dpspark.mechanisms.gram.base import GramMechanism, GramOptions
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.mechanisms.regression.adassp import AdaSsp
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.mechanisms.regression.gradient_descent import GradientDescent
from dpspark.mechanisms.regression.gram_ridge import GramRidge
from dpspark.mechanisms.regression.objective import ObjectivePerturbation
from dpspark.mechanisms.regression.ssp import Ssp

# Kinds and mechanisms that are not classes of their own yet.
_DEGREES = Limits("Of the Wishart or inverse Wishart law.", whole=True, least=1)
_ADAPTIVE = Limits(
    "The part of the budget that buys a private lower bound of the least eigenvalue, to lower the ridge by.",
    above=0,
    below=1,
)
_REPAIR = GramOptions.__dataclass_fields__["repair"].metadata["limits"]
_CELLS = Limits("How many steps the public grid of values has.", whole=True, least=2, most=2**20)
_MATCHINGS = Limits("How many random pairings of the rows.", whole=True, least=1, most=1000)


def _declared(kind: str, name: str, currencies: Any, options: dict[str, Limits] | None = None, **more: Any) -> Any:
    fields = [(key, Any, option(limits)) for key, limits in (options or {}).items()]
    made = make_dataclass("Options", fields, frozen=True) if options else NoOptions
    return type(
        name, (Mechanism,), {"kind": kind, "name": name, "words": "", "currencies": currencies, "Options": made, **more}
    )


_BOTH = ("both",)


def _no_adaptive_by_group(cls: Any, options: Any) -> None:
    if options.adaptive is not None:
        raise ValueError("mechanism.adaptive is not for releases by group. Remove this key.")


REGISTRY: dict[str, tuple[type[Mechanism], ...]] = {
    "gram": (
        GaussianGram,
        LaplaceGram,
        _declared(
            "gram",
            "wishart",
            _BOTH,
            {
                "calibration": CALIBRATION,
                "degrees_of_freedom": _DEGREES,
                "scale": Limits("Of the Wishart law, in units of the scaled matrix.", above=0),
                "repair": _REPAIR,
            },
            tells_rows=True,
            check_options=GramMechanism.__dict__["check_options"],
            safe_repair=True,
            exact_sampler=False,
            one_row=True,
        ),
        _declared(
            "gram",
            "johnson_lindenstrauss",
            _BOTH,
            {
                "calibration": CALIBRATION,
                "rows": Limits("How many random rows the data are projected to.", whole=True, least=1),
                "adaptive": _ADAPTIVE,
                "repair": _REPAIR,
            },
            tells_rows=True,
            safe_repair=False,
            check_options=GramMechanism.__dict__["check_options"],
            check_groups=classmethod(_no_adaptive_by_group),
            exact_sampler=False,
            one_row=True,
        ),
        _declared(
            "gram",
            "inverse_wishart",
            _BOTH,
            {"calibration": CALIBRATION, "degrees_of_freedom": _DEGREES, "adaptive": _ADAPTIVE, "repair": _REPAIR},
            tells_rows=True,
            safe_repair=False,
            check_options=GramMechanism.__dict__["check_options"],
            check_groups=classmethod(_no_adaptive_by_group),
            exact_sampler=False,
            one_row=True,
        ),
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
