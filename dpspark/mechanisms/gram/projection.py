"""Matrices drawn around S + ridge · I: what Johnson-Lindenstrauss projections and inverse-Wishart draws share."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Limits, Problem, unlike
from dpspark.mechanisms.gram.adaptive import LeastEigenvalue
from dpspark.mechanisms.gram.floating import FloatingGram, calibration_of, checked, checked_facts
from dpspark.mechanisms.gram.noise_model import noise_to_manifest
from dpspark.mechanisms.gram.noisy import NoisyGram, SamplingNoise
from dpspark.mechanisms.gram.sampling import scaled_matrix, to_grid
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import Cost, same
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.profiles import for_one_row, gaussian_pair_delta, ridge_for
from dpspark.privacy.sensitivity import squared_row_norm

# The noise has a part that grows with S / √degrees and one that does not: enough degrees make the first negligible.
DEGREES_PER_ROW = 100
DEFAULT_DEGREES = 10**9
LARGEST_DEGREES = 10**12
ADAPTIVE = Limits(
    "The part of the budget that buys a private lower bound of the least eigenvalue, to lower the ridge by.",
    above=0,
    below=1,
)


@dataclass(frozen=True)
class ProjectedGram(FloatingGram):
    """A draw around S + ridge · I, published less its ridge; with `adaptive`, the ridge is lowered where the data allow it.

    Privacy
        Unit         one row; add or remove one, or replace one (group privacy)
        Requires     every row inside `domain` (bounds.grid_rows), ‖z‖² <= sensitivity.squared_row_norm
        Sensitivity  sensitivity.squared_row_norm(domain)
        Guarantee    (epsilon, delta) by profiles.gaussian_pair_delta, or by the paper's theorem; adaptive.LeastEigenvalue
                     has the argument for a lowered ridge
        Source       Sheffet, Private Approximations of the 2nd-Moment Matrix, Theorems 3.1 and 5.1
        Public       column names, bounds, degrees, ridge; never the number of rows
        Excluded     timing; the sampler is floating point
        Tested by    tests/mechanisms/test_sheffet.py, tests/mechanisms/test_adaptive.py
    """

    adds_up: ClassVar[bool] = False  # the noise grows with the matrix
    degrees_option: ClassVar[str]  # the option that gives the degrees of freedom
    degrees: int
    ridge: float  # before any lowering
    adaptive: LeastEigenvalue | None = None

    @classmethod
    def check_groups(cls, options: Any) -> None:
        if options.adaptive is not None:
            raise ValueError("mechanism.adaptive is not for releases by group. Remove this key.")

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: Any = None) -> Self:
        options, domain = options or cls.Options(), checked(problem).domain
        degrees = cls._degrees(problem, getattr(options, cls.degrees_option))
        assert budget.epsilon is not None
        assert budget.delta is not None
        share, replaced = options.adaptive or 0.0, problem.records.replaced
        one = for_one_row((1 - share) * budget.epsilon, (1 - share) * budget.delta, replaced)
        ridge = (theorem_ridge if options.calibration == "theorem" else ridge_for)(
            *one, degrees, squared_row_norm(domain)
        )
        adaptive = (
            LeastEigenvalue.for_budget(domain, share, share * budget.epsilon, share * budget.delta) if share else None
        )
        return cls(domain, budget, replaced, options.calibration or "exact", degrees, ridge, adaptive)

    @classmethod
    def _degrees(cls, problem: Problem, given: int | None) -> int:
        width, rows = problem.domain.width, problem.expected_rows
        if given is None:
            given = min(LARGEST_DEGREES, DEGREES_PER_ROW * rows) if rows else DEFAULT_DEGREES
            given = max(given, 10 * width)
        if not width + 3 < given <= LARGEST_DEGREES:
            raise ConfError(
                f"mechanism.{cls.degrees_option}={given}; expected more than the matrix's {width} columns + 3, and at most "
                f"{LARGEST_DEGREES:.0e}."
            )
        return given

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        checked_facts(cls.name, problem, claimed)
        adaptive = LeastEigenvalue.from_facts(problem.domain, facts.part("adaptive")) if facts.has("adaptive") else None
        ridge = facts.positive("ridge_removed") if adaptive is None else facts.part("adaptive").positive("ridge_before")
        return cls(
            problem.domain,
            claimed,
            problem.records.replaced,
            calibration_of(facts),
            facts.whole("degrees_of_freedom"),
            ridge,
            adaptive,
        )

    @classmethod
    def unlike_options(cls, asked: Facts, facts: Facts) -> tuple[str, ...]:
        """Its degrees of freedom may be an option of another name, and a ridge is lowered only where that was asked for."""
        found = super().unlike_options(asked, facts.overlaid({cls.degrees_option: facts.whole("degrees_of_freedom")}))
        given = asked.number("adaptive") if asked.has("adaptive") else None
        share = facts.part("adaptive").number("share") if facts.has("adaptive") else None
        return found if given == share else (*found, "adaptive")

    @property
    @abstractmethod
    def noise(self) -> SamplingNoise:
        """Before any data: with the ridge that is not lowered, the most noise that there can be."""

    @abstractmethod
    def draw(self, around: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """Draw a matrix whose mean is `around`."""

    def noise_in_words(self) -> str:
        return super().noise_in_words() + (", which may be lowered (adaptive)" if self.adaptive else "")

    def delta(self, epsilon: float) -> float:
        """Compute the draw's, for one row added or removed and the ridge as it is before any lowering."""
        norm = squared_row_norm(self.domain)
        return gaussian_pair_delta(epsilon, self.degrees, norm / (self.ridge + norm))

    def cost(self) -> Cost:
        draw = super().cost()
        return draw if self.adaptive is None else self.adaptive.with_draw(draw)

    def lowered(self, bound: float) -> Self:
        """Make the mechanism of the draw, from released things alone."""
        return replace(self, ridge=max(0.0, self.ridge - bound), adaptive=None)

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw, once; the known mean of what was added is taken off again. If adaptive, the bound is drawn first."""
        if self.adaptive is not None:
            return self._release_lowered(self.adaptive, gram, noise)
        eye = np.eye(self.domain.width)
        drawn = self.draw(scaled_matrix(gram) + self.ridge * eye, noise)
        return NoisyGram(self.domain, to_grid(self.domain, drawn - self.ridge * eye), self.noise)

    def _release_lowered(self, adaptive: LeastEigenvalue, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        released = adaptive.release(gram, noise)
        bound = adaptive.bound(released)
        mechanism = self.lowered(bound)
        found = {
            "released": released * adaptive.step,
            "lower_bound": bound,
            "ridge_before": self.ridge,
            "ridge": mechanism.ridge,
        }
        facts = {"ridge_removed": mechanism.ridge, "adaptive": {**adaptive.facts(), **found}}
        return replace(mechanism.release(gram, noise), facts=facts)

    def facts(self) -> dict[str, Any]:
        value, norm = self.sensitivity_in_words()
        return {
            "sampler": "Wishart by Bartlett's decomposition, in floating point, drawn once",
            "calibration": self.calibration,
            "degrees_of_freedom": self.degrees,
            "ridge_removed": self.ridge,
            "sensitivity": {"value": value, "norm": norm},
            **({} if self.adaptive is None else {"adaptive": self.adaptive.facts()}),
        }

    def differences(self, stated: Facts) -> tuple[str, ...]:
        found = list(unlike({"sensitivity": self.facts()["sensitivity"]}, stated))
        removed, drawn = stated.number("ridge_removed"), self
        if self.adaptive is not None:
            found += self.adaptive.differences(stated.part("adaptive"), self.ridge, self.budget)
            lowered = stated.part("adaptive").number("ridge")
            drawn = replace(self, ridge=lowered)
            found += [] if lowered == removed or same(removed, lowered) else ["ridge"]
        if unlike(noise_to_manifest(drawn.noise), stated.part("noise")):
            found.append("noise: not of that ridge and those degrees of freedom")
        if self.calibration == "theorem" and self.ridge < self._theorem_ridge() * (1 - 1e-12):
            found.append("calibration: less ridge than the theorem asks for")
        return tuple(found)

    def _theorem_ridge(self) -> float:
        assert self.budget.epsilon is not None
        assert self.budget.delta is not None
        whole = (self.budget.epsilon, self.budget.delta)
        one = for_one_row(*(whole if self.adaptive is None else self.adaptive.rest(self.budget)), self.replaced)
        return theorem_ridge(*one, self.degrees, squared_row_norm(self.domain))


def theorem_ridge(epsilon: float, delta: float, degrees: int, squared_norm: float) -> float:
    """Theorems 3.1 and 5.1: w² = 4B²(√(2r·ln(4/delta)) + ln(4/delta)) / epsilon, for delta < 1/e."""
    if not delta < math.exp(-1):
        raise ConfError(f"calibration theorem: delta={delta:g} for one row; the theorem is for delta < 1/e.")
    wall = math.log(4 / delta)
    return 4 * squared_norm * (math.sqrt(2 * degrees * wall) + wall) / epsilon
