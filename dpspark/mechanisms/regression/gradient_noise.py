"""The noise of gradient descent: in every coordinate of every step's sum of clipped gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpspark.core.domain import Clip
from dpspark.core.facts import Facts
from dpspark.core.records import Change
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded, largest_mu
from dpspark.privacy.cost import Cost, gaussian_cost, pure_cost, same
from dpspark.privacy.events import ROUNDED_UP, Event, Gaussian, Pure
from dpspark.privacy.laws import GAUSSIAN, LAPLACE, Law, law_for
from dpspark.privacy.sensitivity import clipped_gradient

if TYPE_CHECKING:
    from dpspark.privacy.noise import NoiseSource


def clip_shape(budget: Budget) -> Literal["ball", "box"]:
    """Choose what gradients are clipped to: a box, for Laplace noise, where a budget is pure; else a ball."""
    return "box" if law_for(budget) is LAPLACE else "ball"


@dataclass(frozen=True)
class GradientNoise:
    """Noise of one scale on the sums of `steps` gradients, each of `width` coordinates, on a grid of `unit` steps for 1.0.

    Gradients that are clipped to a ball have Gaussian noise, those that are clipped to a box Laplace noise.
    """

    steps: int
    width: int
    clip: Clip
    sensitivity: float  # of one step's sum
    scale: float  # sigma or Laplace scale, in units of 1.0
    unit: float
    route: str = ""

    @classmethod
    def for_budget(
        cls, steps: int, width: int, clip: Clip, change: Change, rows_per_record: int, unit: float, budget: Budget
    ) -> GradientNoise:
        """The least noise within the budget. Each step may depend on those before it."""
        sensitivity = clipped_gradient(clip, width, change, rows_per_record)
        if clip.shape == "box":
            assert budget.epsilon is not None
            scale = sensitivity * steps / budget.epsilon * (1 + 1e-12)
            return cls(steps, width, clip, sensitivity, scale, unit, "pure")

        def distance_at(mu: float) -> float:
            return cls(steps, width, clip, sensitivity, sensitivity * math.sqrt(steps) / mu, unit).distance

        mu, route = largest_mu(budget, distance_at)
        sigma = sensitivity * math.sqrt(steps) / mu * (1 + 1e-12) if mu > 0 else math.inf
        return cls(steps, width, clip, sensitivity, sigma, unit, route)

    @classmethod
    def from_facts(cls, facts: Facts, width: int, change: Change, rows_per_record: int, unit: float) -> GradientNoise:
        """Read it back from a manifest."""
        shape = facts.part("clip").text("shape", "ball", "box")
        clip = Clip(shape, facts.part("clip").positive("size"))  # type: ignore[arg-type]
        sensitivity = clipped_gradient(clip, width, change, rows_per_record)
        steps, scale = facts.whole("steps"), facts.positive("scale")
        return cls(steps, width, clip, sensitivity, scale, unit, facts.text("calibration"))

    @property
    def law(self) -> Law:
        return GAUSSIAN if self.clip.shape == "ball" else LAPLACE

    @property
    def grid_scale(self) -> float:
        """The scale in steps of the grid."""
        return self.scale * self.unit

    @property
    def grid_std(self) -> float:
        """The standard deviation of one coordinate's noise, in steps of the grid."""
        return self.law.std(self.grid_scale)

    @property
    def drawable(self) -> bool:
        return self.grid_scale <= self.law.largest

    @property
    def distance(self) -> float:
        """Total variation between all the noise and rounded Gaussians."""
        return distance_from_rounded(self.steps * self.width, self.grid_scale)

    @property
    def sampler_distance(self) -> float:
        """The same, of noise that is meant to be Gaussian."""
        return self.distance if self.law is GAUSSIAN else 0.0

    @property
    def mu(self) -> float:
        return math.sqrt(self.steps) * self.sensitivity / self.scale

    def events(self) -> tuple[Event, ...]:
        if self.law is GAUSSIAN:
            return (Gaussian.of(self.mu * ROUNDED_UP, self.distance),)
        return (Pure(self.sensitivity / self.scale * ROUNDED_UP, self.steps),)

    def cost(self) -> Cost:
        """Price it as it was calibrated: the event's rounding up would be too much for a delta below 1e-30."""
        if self.law is GAUSSIAN:
            return gaussian_cost(self.mu, self.distance)
        return pure_cost([self.steps * self.sensitivity / self.scale])

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states of it and is not so."""
        return () if same(stated.part("sensitivity").number("value"), self.sensitivity) else ("sensitivity",)

    def draw(self, noise: NoiseSource) -> list[int]:
        """Draw one step's noise, in steps of the grid."""
        return self.law.draw(noise, self.grid_scale, self.width)

    def simulate(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw numbers like it, in units of 1.0: a simulation, which protects nothing."""
        return self.scale * (rng.standard_normal(shape) if self.law is GAUSSIAN else rng.laplace(0.0, 1.0, shape))
