"""Every mechanism, by the kind of release that it is for; the default of each kind first.

To add one: write its file, add its sensitivity to privacy/sensitivity.py, list its class here, and write its attack with a
broken copy (audit/), its test and its section of the documents. tests/mechanisms/test_registry.py fails on what is missing.
"""

from __future__ import annotations

from dpspark.mechanisms.base import Mechanism
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.mechanisms.counts.groups import GroupCounts
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.mechanisms.errors.clip import ResidualBounds
from dpspark.mechanisms.errors.score_bounds import ScoreBounds
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.inverse_wishart import InverseWishartGram
from dpspark.mechanisms.gram.johnson_lindenstrauss import JohnsonLindenstraussGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.mechanisms.gram.wishart import WishartGram
from dpspark.mechanisms.lines.all_pairs import AllPairsLines
from dpspark.mechanisms.lines.auto import AutoLines
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.depth import DepthLines
from dpspark.mechanisms.lines.exponential import ExponentialLines
from dpspark.mechanisms.lines.gradient_descent import DescentLines
from dpspark.mechanisms.lines.gram import GramLines
from dpspark.mechanisms.lines.huber import HuberLines
from dpspark.mechanisms.lines.interval import PaidInterval
from dpspark.mechanisms.lines.smooth_sensitivity import SmoothLines
from dpspark.mechanisms.lines.sufficient_statistics import SufficientLines
from dpspark.mechanisms.lines.widened import WidenedLines
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism
from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles
from dpspark.mechanisms.quantiles.percentile import PercentileBounds
from dpspark.mechanisms.quantiles.rank import RankBounds
from dpspark.mechanisms.regression.adassp import AdaSsp
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.mechanisms.regression.gradient_descent import GradientDescent
from dpspark.mechanisms.regression.gram_ridge import GramRidge
from dpspark.mechanisms.regression.objective import ObjectivePerturbation
from dpspark.mechanisms.regression.refined import Refined
from dpspark.mechanisms.regression.ssp import Ssp

REGISTRY: dict[str, tuple[type[Mechanism], ...]] = {
    "gram": (GaussianGram, LaplaceGram, WishartGram, JohnsonLindenstraussGram, InverseWishartGram),
    "regression": (GramRidge, Refined, AdaSsp, Ssp, ObjectivePerturbation, GradientDescent),
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
EXTRAS: dict[str, type[Mechanism]] = {
    extra.name: extra for extra in (ClippedCounts, RowCount, GroupCounts, PaidInterval, ResidualBounds, ScoreBounds)
}

# The methods that find private bounds, by name; the default first.
BOUNDS: dict[str, type[BoundsMechanism]] = {method.name: method for method in (RankBounds, PercentileBounds)}


EARLIER_BOUNDS = PercentileBounds.name  # the only method of version 0.2, whose specs and manifests do not name it


def bounds_method(name: str | None) -> type[BoundsMechanism]:
    """Find the method that a manifest's private bounds were found by. A name that is not listed is a KeyError."""
    return BOUNDS[EARLIER_BOUNDS if name is None else name]


def mechanisms_of(kind: str) -> tuple[type[Mechanism], ...]:
    """List the mechanisms of a kind of release, the default first."""
    return REGISTRY[kind]


def mechanism_named(kind: str, name: str) -> type[Mechanism]:
    """Find a mechanism. A name that is not listed is a KeyError, whoever wrote it."""
    for mechanism in REGISTRY[kind]:
        if mechanism.name == name:
            return mechanism
    raise KeyError(name)


def lines() -> tuple[type[LineMechanism], ...]:
    """List the mechanisms of lines, as what they have beyond others."""
    return tuple(each for each in REGISTRY["theil_sen"] if issubclass(each, LineMechanism))


def line_of_kernel(kernel: str) -> type[LineMechanism] | None:
    """Find what draws lines by a kernel, as manifests name it. A stranger's manifest may have any: None."""
    drawing = (each for line in lines() for each in line.drawn_by())
    return next((each for each in drawing if each.kernel_name == kernel), None)


def regression_named(name: str) -> type[RegressionMechanism]:
    """Find a mechanism of regressions, as what it has beyond others: readers of a release ask it."""
    found = mechanism_named("regression", name)
    assert issubclass(found, RegressionMechanism)
    return found
