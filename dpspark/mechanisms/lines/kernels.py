"""Every mechanism of lines by the name of its kernel, as manifests have it."""

from __future__ import annotations

from dpspark.mechanisms.lines.all_pairs import AllPairsLines
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.depth import DepthLines
from dpspark.mechanisms.lines.exponential import ExponentialLines
from dpspark.mechanisms.lines.gradient_descent import DescentLines
from dpspark.mechanisms.lines.gram import GaussianMoments, LaplaceMoments
from dpspark.mechanisms.lines.huber import HuberLines
from dpspark.mechanisms.lines.smooth_sensitivity import SmoothLines
from dpspark.mechanisms.lines.sufficient_statistics import SufficientLines
from dpspark.mechanisms.lines.widened import WidenedLines

LINES: tuple[type[LineMechanism], ...] = (
    HuberLines,
    DepthLines,
    ExponentialLines,
    AllPairsLines,
    WidenedLines,
    SmoothLines,
    SufficientLines,
    DescentLines,
    GaussianMoments,
    LaplaceMoments,
)


def line_of_kernel(kernel: str) -> type[LineMechanism] | None:
    """Find a mechanism by its kernel. A stranger's manifest may have any: None."""
    return next((line for line in LINES if line.kernel_name == kernel), None)
