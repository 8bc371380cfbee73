"""DPGradDescent: gradient descent on a line's two values, with noise in every gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from dpspark.core.domain import Clip
from dpspark.core.facts import Facts
from dpspark.mechanisms.base import option
from dpspark.mechanisms.lines.base import (
    COVER,
    LineMechanism,
    LineProblem,
    Target,
    enough,
    is_pure,
)
from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, line_fit
from dpspark.mechanisms.options import LINE_CLIP, steps_option
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded, largest_mu
from dpspark.privacy.events import ROUNDED_UP, Event, Gaussian, Pure
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.sensitivity import moved_gradient

UNIT = 1 << 20  # steps of 1.0 of a gradient's coordinates
STRIDE = 0.35  # of the first step, in units of the candidates' range
STEPS, CLIP = 20, 0.3
Law = Literal["gaussian", "laplace"]
GAUSSIAN: Law = "gaussian"
LAPLACE: Law = "laplace"


@dataclass(frozen=True)
class DescentLine:
    """`steps` times: each record's gradient clipped, summed exactly, noise added, the two values moved.

    Privacy
        Unit         one record: its rows are added, removed or replaced (`records` says which), in one group or several
        Requires     each record's gradient clipped, then cut to whole steps towards 0
        Sensitivity  sensitivity.clipped_gradient, of one step; a record that moves between groups counts as replaced
        Guarantee    gaussian: mu = √steps·sensitivity / scale, or rho; laplace: epsilon = steps·sensitivity / scale, pure
        Source       Alabi et al., Differentially Private Simple Linear Regression, DPGradDescent
        Public       bounds, anchors, steps, clip, scale; never the number of rows
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_moments.py
    """

    plane: Plane
    law: Law
    scale: float  # of the noise in each coordinate and step, in units of 1.0
    clip: Clip
    steps: int = 20

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows, stream = self.plane.rows(x, y), random.stream("draws", *labels)
        low, high = self.plane.candidate_range
        values = np.full(2, (low + high) / 2)
        seen, kept = 0.0, []
        for step in range(self.steps):
            noisy = self.noisy_gradient(rows, values, stream)
            seen += float(noisy @ noisy)
            # AdaGrad with one length for both (Ward, Wu & Bottou, 2020): it needs no number of rows.
            stride = STRIDE * (high - low) / math.sqrt(seen) if seen > 0 else 0.0
            values = np.clip(values - stride * noisy, low, high)
            if step >= self.steps // 2:
                kept.append(values)
        mean = np.mean(kept, axis=0)
        return line_fit(self.plane, self.plane.joint_anchors, (float(mean[0]), float(mean[1])))

    grid: ClassVar[None] = None

    def quieter(self, times: float) -> Self:
        return replace(self, scale=self.scale / times)

    @property
    def std(self) -> float:
        """The standard deviation of the noise in each coordinate."""
        return self.scale * (math.sqrt(2) if self.law == "laplace" else 1.0)

    def noisy_gradient(self, rows: Rows, values: np.ndarray, stream: Stream) -> np.ndarray:
        draw = stream.discrete_gaussian if self.law == "gaussian" else stream.discrete_laplace
        scale = Fraction(self.scale) * UNIT
        return np.array([(total + draw(scale)) / UNIT for total in clipped_gradient_sum(self, rows, values)])


def clipped_gradient_sum(of: DescentLine, rows: Rows, values: np.ndarray) -> list[int]:
    """Add up in whole steps. Elementwise arithmetic, so that a record's gradient does not depend on the others."""
    first, last = of.plane.joint_anchors
    share = (rows.x / FINE - first) / (last - first)
    weights = np.stack([1 - share, share])
    residual = values[0] * weights[0] + values[1] * weights[1] - rows.y / FINE
    gradient = weights * residual * UNIT
    most = of.clip.size * UNIT
    if of.clip.shape == "box":
        gradient = np.clip(gradient, -most, most)
    else:
        size = np.sqrt(gradient[0] ** 2 + gradient[1] ** 2)
        gradient = gradient * np.minimum(1.0, most * (1 - 2.0**-48) / np.maximum(size, 1.0))
    return [int(part.sum()) for part in np.trunc(gradient).astype(np.int64)]


@dataclass(frozen=True)
class DescentOptions:
    """The options of `gradient_descent`."""

    steps: int | None = option(steps_option(f"Of a line, how many for each group; {STEPS} by default."))
    clip: float | None = option(LINE_CLIP)


@dataclass(frozen=True, kw_only=True)
class DescentLines(LineMechanism):
    """`gradient_descent`: for each group a DescentLine."""

    name: ClassVar[str] = "gradient_descent"
    kernel_name: ClassVar[str] = "gradient_descent"
    words: ClassVar[str] = "Gradients of single records were clipped, and noise was added to their sum in every step."
    target: ClassVar[Target] = "mean"
    Options: ClassVar[type] = DescentOptions
    line: DescentLine

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: DescentOptions) -> LineMechanism:
        steps, size = options.steps or STEPS, options.clip or CLIP
        if is_pure(budget):
            assert budget.epsilon is not None
            clip, law, route = Clip("box", size), LAPLACE, "pure"
            scale = moved_gradient(clip, 2, problem.records) * steps / enough(budget.epsilon * COVER)
        else:
            clip, law = Clip("ball", size), GAUSSIAN
            root = moved_gradient(clip, 2, problem.records) * math.sqrt(steps)
            entries = 2 * steps * problem.records.groups
            mu, route = largest_mu(budget, lambda mu: distance_from_rounded(entries, root / mu * UNIT))
            scale = root / enough(mu * COVER)
        line = DescentLine(problem.plane, law, scale, clip, steps)
        return cls(problem=problem, line=line, route=route, budget=budget, options=options)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        shape = facts.part("clip").text("shape", "ball", "box")
        clip = Clip(shape, facts.part("clip").positive("size"))  # type: ignore[arg-type]
        law = LAPLACE if shape == "box" else GAUSSIAN
        line = DescentLine(problem.plane, law, facts.positive("scale"), clip, facts.whole("steps"))
        return cls(problem=problem, line=line, route=facts.text("calibration"), budget=claimed, options=cls.Options())

    @classmethod
    def unlike_options(cls, asked: Facts, facts: Facts) -> tuple[str, ...]:
        found = super().unlike_options(asked, facts)
        clipped = asked.has("clip") and asked.number("clip") != facts.part("clip").number("size")
        return (*found, "clip") if clipped else found

    @property
    def sensitivity(self) -> float:
        """The most that one record moves the gradient of one step: in the l1 norm for a box, in the l2 norm for a ball."""
        return moved_gradient(self.line.clip, 2, self.records)

    def line_event(self) -> Event:
        loss, steps = self.sensitivity / self.line.scale * ROUNDED_UP, self.line.steps
        if self.line.law == LAPLACE:
            return Pure(loss, steps)
        distance = distance_from_rounded(2 * steps, self.line.scale * UNIT)
        return Gaussian.of(math.sqrt(steps) * loss, self.records.groups * distance)

    @property
    def _norm(self) -> str:
        return "l1" if self.line.law == LAPLACE else "l2"

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.sensitivity, f"{self._norm} of one step's gradient"

    def line_facts(self) -> dict[str, Any]:
        line = self.line
        return {
            "sampler": f"exact discrete {line.law.capitalize()} in each coordinate and step, from a secret drawn once",
            "calibration": self.route,
            "steps": line.steps,
            "clip": {"shape": line.clip.shape, "size": line.clip.size},
            "scale": line.scale,
            "sensitivity": {"value": self.sensitivity, "norm": self._norm, "of": "one step"},
        }
