"""refined: noisy statistics once, then the residuals of what they say, clipped where nearly all of them are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.errors import ConfError
from dpspark.exact.residuals import ExactSums, Residual
from dpspark.mechanisms.base import GAUSSIAN, Currency, Problem
from dpspark.mechanisms.regression.base import (
    NoisyRegression,
    PlannedNoise,
    Rows,
    StatisticsMechanism,
    has_response,
)
from dpspark.mechanisms.regression.refinement import RefinedNoise, RefinedSolver, Refinement
from dpspark.mechanisms.regression.residual_clip import ResidualClip
from dpspark.mechanisms.regression.residual_noise import ResidualNoise
from dpspark.mechanisms.regression.ridge import RidgeRule, weak_rule
from dpspark.mechanisms.regression.statistics import GaussianStatistics, NoisyStatistics, Shares
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import largest_mu_beside
from dpspark.privacy.cost import Cost, joint_cost, same
from dpspark.privacy.events import ROUNDED_UP, Event, Gaussian
from dpspark.privacy.noise import LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import (
    RegressionSensitivity,
    ResidualSensitivity,
    clipped_residuals,
    regression_statistics,
)

# Of mu²: the matrix and a rough Σ x y first, then Σ x·clip(r) and Σ clip(r)². Chosen on public sets, and nearly flat.
SQUARES, CROSS, RESIDUAL_CROSS, RESIDUAL_RESPONSE = 0.40, 0.05, 0.54, 0.01
FIRST = Shares(squares=SQUARES / (SQUARES + CROSS), cross=CROSS / (SQUARES + CROSS))
CLIP_SHARE, CLIP_SHARE_OF_RHO = 0.05, 1 / 64  # of epsilon, or of rho, for the clip
RIDGE_SHARE = 0.4  # of E‖E‖: less than for one step, as the second one takes back most of what a ridge shrinks
NAME = "residual"


@dataclass(frozen=True)
class Refined(StatisticsMechanism):
    """Noisy statistics, and a step from what they say by the noisy sums of clipped residuals.

    Privacy
        Unit         one record: its rows are added, removed or replaced
        Requires     every row inside `domain` (bounds.grid_rows); each residual clipped (residuals.ResidualSums)
        Sensitivity  sensitivity.regression_statistics of the first step, sensitivity.values_beyond of the clip's utility,
                     sensitivity.clipped_residuals of the second step, in units of the clip
        Guarantee    mu² = Σ (sensitivity / sigma)² of both steps, and a pure draw between them: (epsilon, delta) by the better
                     of budget.joint_delta and zCDP, or rho. Coefficients and clip are released before they are used: each
                     step may depend on those before it
        Source       adaptive composition: Zhu, Dong & Wang (2022), Theorem 10, and Bun & Steinke (2016), Lemma 1.7; near are
                     Brown et al. (2024) and Pilanci & Wainwright (2016) without privacy
        Public       column names, bounds, every sigma in units of the clip, the clip's rank, the ridge rule; the number of rows
                     only if `count_is_public`
        Excluded     timing
        Tested by    tests/mechanisms/test_refined.py
    """

    name: ClassVar[str] = "refined"
    words: ClassVar[str] = (
        "Gaussian noise was added to the sums that the regression needs, and then to those of its clipped residuals; where "
        "they are clipped was drawn, and sizes that fit better were exponentially more likely."
    )
    currencies: ClassVar[tuple[Currency, ...]] = GAUSSIAN
    by_group: ClassVar[bool] = False
    clip: ResidualClip
    residuals: ResidualNoise
    rule: RidgeRule
    route: str

    @classmethod
    def check_groups(cls, options: Any) -> None:
        raise ValueError(
            "refined is not for regressions by group: groups are rarely large enough for a second step. Use gram_ridge."
        )

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: Any = None) -> Self:
        domain, records = problem.domain, problem.records
        first = regression_statistics(domain, records.change, records.rows)
        second = clipped_residuals(domain, records.change, records.rows)
        clip = ResidualClip.for_epsilon(records.rows, _clip_epsilon(budget))

        def distance_at(mu: float) -> float:
            return cls.at(domain, first, second, clip, mu, "analytic").distance

        found = cls.at(domain, first, second, clip, *largest_mu_beside(budget, clip.epsilon, distance_at))
        known = domain.regressors.known
        return replace(found, rule=weak_rule(found.statistics.noise, domain.width - 1, known, RIDGE_SHARE))

    @classmethod
    def at(
        cls,
        domain: Domain,
        first: RegressionSensitivity,
        second: ResidualSensitivity,
        clip: ResidualClip,
        mu: float,
        route: str,
    ) -> Self:
        """Calibrate with the finest grid on which all of this noise can be drawn."""
        statistics = GaussianStatistics.at(domain, first, mu * math.sqrt(SQUARES + CROSS), route, FIRST)
        residuals = ResidualNoise.at(second, mu, (RESIDUAL_CROSS, RESIDUAL_RESPONSE))
        largest, used = max(residuals.cross_std, residuals.response_std), statistics.domain
        while used.bits > 0 and largest * used.steps_per_row > LARGEST_SIGMA:
            used = used.with_bits(used.bits - 1)
        if not largest * used.steps_per_row <= LARGEST_SIGMA:
            raise ConfError(f"The budget asks for noise of {largest:g} clips, which cannot be drawn. Use a larger one.")
        return cls(replace(statistics, domain=used), clip, residuals, RidgeRule("weak"), route)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        has_response(problem)
        domain, records = problem.domain, problem.records
        if records.grouped:
            raise Garbled("refined is not for regressions by group")
        first = regression_statistics(domain, records.change, records.rows)
        noise = facts.part("noise")
        residuals = ResidualNoise(
            clipped_residuals(domain, records.change, records.rows),
            noise.positive("residual_cross_std"),
            noise.positive("residual_response_std"),
        )
        return cls(
            GaussianStatistics.from_facts(domain, first, facts.part("start")),
            ResidualClip.from_facts(records.rows, facts.part("clip")),
            residuals,
            RidgeRule.from_facts(facts.part("ridge")),
            facts.text("calibration"),
        )

    @property
    def passes(self) -> int:
        return 3

    @property
    def mu(self) -> float:
        return math.hypot(self.statistics.mu, self.residuals.mu)

    @property
    def distance(self) -> float:
        return min(1.0, self.statistics.distance + self.residuals.distance(self.domain))

    @property
    def statistics_noise(self) -> RefinedNoise:
        noise = self.residuals
        return RefinedNoise(
            **asdict(self.statistics.noise),
            residual_cross_std=noise.cross_std,
            residual_response_std=noise.response_std,
        )

    @property
    def solver(self) -> RefinedSolver:
        return RefinedSolver(self.rule, self.clip.rank)

    @classmethod
    def solver_of(cls, mechanism: Mapping[str, Any]) -> RefinedSolver:
        return RefinedSolver(RidgeRule.from_manifest(mechanism["ridge"]), int(mechanism["clip"]["rank"]))

    @classmethod
    def noise_of(cls, mechanism: Mapping[str, Any]) -> RefinedNoise:
        return RefinedNoise(**mechanism["noise"])

    @classmethod
    def check_shape(cls, mechanism: Any) -> None:
        if not hasattr(mechanism.ridge, "kind"):
            raise ValueError("expected a rule for the ridge")
        clip = getattr(mechanism, "clip", None)
        if not (isinstance(clip, dict) and isinstance(clip.get("rank"), int) and clip["rank"] > 0):
            raise ValueError("expected a rank of the clip")
        extra = getattr(mechanism.noise, "model_extra", None) or {}
        stds = [extra.get(key) for key in ("residual_cross_std", "residual_response_std")]
        if not all(isinstance(std, float | int) and 0 < std < 1e60 for std in stds):
            raise ValueError("expected the noise of residuals")

    def release(self, rows: Rows, noise: NoiseSource, report: Callable[[str], None]) -> NoisyRegression:
        gram = rows.gram(self.domain)
        report("adding noise")
        released = self.statistics.release(gram, noise)
        first = released.given(self.domain)
        residual = Residual.of(self.domain, self.solver.start(first))
        report("pass 2 of 3: the size of residuals")
        drawn = self.clip.draw(rows.residual_histograms(self.domain, {NAME: residual}), NAME, noise)
        clip = self.solver.clip(drawn, first, residual.coefficients, self.residuals.cross_std)
        report("pass 3 of 3: their sums")
        second = self.refine(residual, clip, rows.residual_sums(self.domain, residual, clip), noise)
        statistics = replace(released, noise=second.noise, refinement=second)
        return NoisyRegression(self.solver.solve(statistics.given(self.domain)), statistics)

    def refine(self, residual: Residual, clip: float, sums: ExactSums, noise: NoiseSource) -> Refinement:
        """Draw the noise of the second step, once, and add it."""
        of, steps = self.residuals, self.domain.steps_per_row
        *cross, response = sums.reveal()
        draws = noise.discrete_gaussian(of.cross_std * steps, len(cross))
        more = noise.discrete_gaussian(of.response_std * steps, 1)[0]
        start = residual.coefficients
        noisy = [(value + draw) / steps * clip for value, draw in zip(cross, draws, strict=True)]
        return Refinement(start, clip, np.array(noisy), (response + more) / steps * clip**2, self.statistics_noise)

    def events(self) -> tuple[Event, ...]:
        return Gaussian.of(self.mu * ROUNDED_UP, self.distance), *self.clip.events()

    def cost(self) -> Cost:
        """Price both steps and the draw between them together."""
        return joint_cost(self.mu, self.distance, self.clip.epsilon)

    def differences(self, stated: Facts) -> tuple[str, ...]:
        start, found = stated.part("start"), []
        told = {key: stated.part("noise").number(key) for key in ("diagonal_std", "off_diagonal_std", "cross_std")}
        if any(start.part("noise").number(key) != value for key, value in told.items()):
            found.append("noise: not that of the start")
        sensitivity = stated.part("sensitivity")
        for key, value in asdict(self.residuals.sensitivity).items():
            if not same(sensitivity.number(f"residual_{key}"), value):
                found.append(f"sensitivity of residual_{key}")
        for key, value in (("mu", self.mu), ("rho", self.rho)):
            if not same(stated.number(key), value):
                found.append(key)
        return (*self.statistics.differences(start), *self.clip.differences(stated.part("clip")), *found)

    @property
    def rho(self) -> float:
        return self.mu**2 / 2 + self.clip.epsilon**2 / 8

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.statistics.sensitivity.squares.value, "of Σ x xᵀ"

    def facts(self) -> dict[str, Any]:
        of = self.residuals.sensitivity
        return {
            "sampler": "exact discrete Gaussian in two steps, and an exponential mechanism between them, each drawn once",
            "calibration": self.route,
            "sampler_distance": self.distance,
            "mu": self.mu,
            "rho": self.rho,
            "start": self.statistics.facts(),
            "clip": self.clip.facts(),
            "sensitivity": {
                "residual_cross": of.cross,
                "residual_response": of.response,
                "unit": "the clip, and its square",
            },
            "noise": asdict(self.statistics_noise),
            "ridge": self.rule.to_manifest(),
        }

    def noise_in_words(self) -> str:
        return f"{super().noise_in_words()}; {self.residuals.cross_std:.4g} clips on Σ x·residual"

    def planned_noise(self) -> PlannedNoise:
        noise = self.statistics.noise
        note = f"then {self.residuals.cross_std:.4g} times a clip that about {self.clip.rank:,} residuals are beyond; 3 passes"
        return PlannedNoise(noise.off_diagonal_std, noise.cross_std, note)

    def with_second_step(self, statistics: NoisyStatistics, theta: np.ndarray, sigma2: float) -> NoisyStatistics:
        """Plan it as if the start were off by its standard errors, and the residuals were normal."""
        squares, noise, law = statistics.squares, self.statistics_noise, statistics.squares_noise
        inverse, rows = np.linalg.pinv(squares), max(float(squares[0, 0]), 2.0 * self.clip.rank)
        around = law.along(theta, squares) + noise.cross_std**2 * np.eye(len(theta))
        off = np.sqrt(np.maximum(np.diag(inverse @ around @ inverse), 0.0))
        headroom = self.solver.headroom(statistics, self.residuals.cross_std)
        size = headroom * math.sqrt(max(sigma2, 1e-300)) * float(ndtri(1 - self.clip.rank / (2 * rows)))
        omega = law.along(off, squares) + (noise.residual_cross_std * size) ** 2 * np.eye(len(theta))
        df = max(rows - len(theta), 1.0)
        response = sigma2 * df + float(off @ squares @ off) - float(np.trace(inverse @ omega))
        step = Refinement(theta - off, size, squares @ off, response, noise)
        return replace(statistics, noise=noise, refinement=step)

    def quieter(self, times: float) -> Self:
        return replace(self, statistics=self.statistics.quieter(times), residuals=self.residuals.quieter(times))


def _clip_epsilon(budget: Budget) -> float:
    if budget.rho is not None:
        return math.sqrt(8 * CLIP_SHARE_OF_RHO * budget.rho)
    assert budget.epsilon is not None
    return CLIP_SHARE * budget.epsilon
