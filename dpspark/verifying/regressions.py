"""The cost of one released regression, of any mechanism, from its scales."""

from __future__ import annotations

import math

from dpspark.core.domain import Clip, Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Change, Records
from dpspark.exact.gradient import GRADIENT_BITS
from dpspark.mechanisms.regression.objective import tilted_delta
from dpspark.mechanisms.regression.statistics import EIGENVALUE_SLACK, EIGENVALUE_STEPS
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.cost import Cost, Stage, gaussian_cost, pure_cost, same
from dpspark.privacy.sensitivity import RegressionSensitivity, clipped_gradient, moved_statistics, regression_statistics
from dpspark.verifying.matrices import FLOATING, check_count, one_row, profile_cost, squares_mu

THIRDS = 3  # Wang and Kalaja give each of the three releases a third of epsilon


def regression(name: str, facts: Facts, domain: Domain, records: Records, claimed: Budget, stage: str) -> Stage:
    if domain.response is None:
        raise Garbled("release.response is missing")
    if name == "gradient_descent":
        change: Change = records.change
        return descent(facts, domain.width - 1, change, records.rows, claimed, stage, 2.0**GRADIENT_BITS)
    bound = (
        moved_statistics(domain, records.rows)
        if records.moves
        else regression_statistics(domain, records.change, records.rows)
    )
    if name == "objective":
        return _objective(facts, domain, records, bound, claimed, stage)
    if name not in ("gram_ridge", "ssp", "adassp"):
        raise Garbled("mechanism.name is of no regression that is known here")
    cost, differs = _statistics(facts, domain, bound, records.groups)
    if facts.text("calibration") in ("wang", "kalaja"):
        differs += _papers(facts, bound, claimed)
    return Stage(stage, bound.squares.value, "of Σ x xᵀ", cost, claimed, tuple(differs))


def _statistics(facts: Facts, domain: Domain, bound: RegressionSensitivity, groups: int) -> tuple[Cost, list[str]]:
    noise, stated = facts.part("noise"), facts.part("sensitivity")
    check_count(noise.flag("count_is_exact"), bound.squares.count_is_public)
    diagonal, off, cross = (noise.positive(key) for key in ("diagonal_std", "off_diagonal_std", "cross_std"))
    width, steps = domain.width - 1, domain.steps_per_row
    squared = squares_mu(bound.squares, diagonal, off) ** 2 + (bound.cross / cross) ** 2
    draws = [(width, diagonal * steps), (width * (width - 1) // 2, off * steps), (width, cross * steps)]
    found = {"squares": bound.squares.value, "cross": bound.cross, "response": bound.response}
    if noise.has("response_std"):
        squared += (bound.response / noise.positive("response_std")) ** 2
        draws.append((1, noise.positive("response_std") * steps))
    if noise.has("least_eigenvalue_std"):
        found["least_eigenvalue"] = bound.least_eigenvalue * (1 + EIGENVALUE_SLACK) + 1 / EIGENVALUE_STEPS
        squared += (found["least_eigenvalue"] / noise.positive("least_eigenvalue_std")) ** 2
        draws.append((1, noise.positive("least_eigenvalue_std") * EIGENVALUE_STEPS))
    distance = min(1.0, sum(distance_from_rounded(count * groups, sigma) for count, sigma in draws if count))
    mu = math.sqrt(squared)
    differs = [f"sensitivity of {key}" for key, value in found.items() if not same(stated.number(key), value)]
    differs += [key for key, value in (("mu", mu), ("rho", squared / 2)) if not same(facts.number(key), value)]
    return gaussian_cost(mu, distance), differs


def _papers(facts: Facts, bound: RegressionSensitivity, claimed: Budget) -> list[str]:
    """The noise that Wang's, or Kalaja's, text asks for: more than the guarantee needs."""
    if claimed.epsilon is None or not claimed.delta:
        raise Garbled("this mechanism has epsilon and delta, and its budget has not")
    wang = facts.text("calibration") == "wang"
    wall = math.log(6 / claimed.delta) if wang else 2 * math.log(3.75 / claimed.delta)
    times = math.sqrt(wall) * THIRDS / claimed.epsilon
    noise = facts.part("noise")
    off = times * bound.squares.value / (math.sqrt(2) if wang and bound.squares.shape == "symmetric" else 1)
    least = {
        "diagonal_std": times * bound.squares.value,
        "off_diagonal_std": off,
        "cross_std": times * bound.cross,
        "least_eigenvalue_std": times * bound.least_eigenvalue,
    }
    return [f"noise: less than the paper's {key}" for key, std in least.items() if noise.number(key) < std * (1 - 1e-9)]


def _objective(
    facts: Facts, domain: Domain, records: Records, bound: RegressionSensitivity, claimed: Budget, stage: str
) -> Stage:
    if records.rows != 1:
        raise Garbled("objective is proved for one row a record")
    intervals = facts.part("intervals")
    share = intervals.positive("epsilon_share")
    if claimed.epsilon is None or not claimed.delta or not share < 1:
        raise Garbled("objective: its budget has no epsilon and delta, or its intervals take all")
    ridge, sigma, radius = (facts.positive(key) for key in ("ridge", "sigma", "radius"))
    longest = bound.longest
    gradient = longest * (1 + longest * radius)
    statistics, differs = _statistics(intervals, domain, bound, records.groups)
    stated = facts.part("sensitivity")
    if not (same(stated.number("value"), gradient) and same(stated.number("longest_row"), longest)):
        differs.append("sensitivity")
    if not facts.part("noise").equals(intervals.part("noise")):
        differs.append("noise: not that of the intervals")
    if facts.text("calibration", "exact", "theorem") == "theorem":
        epsilon, delta = one_row(Budget((1 - share) * claimed.epsilon, (1 - share) * claimed.delta), records)
        wanted = gradient * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
        if not (sigma >= wanted * (1 - 1e-9) and ridge >= 2 * longest**2 / epsilon * (1 - 1e-9)):
            differs.append("calibration: less than the theorem asks for")

    def one_added(epsilon: float) -> float:
        return tilted_delta(epsilon - math.log1p(longest**2 / ridge), gradient / sigma)

    tilt = profile_cost(one_added, records)

    def delta_at(epsilon: float) -> float:
        """Basic composition at the shares that are stated."""
        return min(1.0, tilt.delta_at((1 - share) * epsilon) + statistics.delta_at(share * epsilon))

    return Stage(stage, gradient, "l2 of one row's gradient", Cost(delta_at), claimed, tuple(differs), (FLOATING,))


def descent(
    facts: Facts, width: int, change: Change, rows: int, claimed: Budget, stage: str, unit: float, groups: int = 1
) -> Stage:
    """Noise in every coordinate of every step's sum of clipped gradients; `unit` grid steps are 1.0."""
    shape = facts.part("clip").text("shape", "ball", "box")
    clip = Clip(shape, facts.part("clip").positive("size"))  # type: ignore[arg-type]
    steps, scale = facts.whole("steps"), facts.positive("scale")
    sensitivity = clipped_gradient(clip, width, change, rows)
    differs = () if same(facts.part("sensitivity").number("value"), sensitivity) else ("sensitivity",)
    if shape == "box":
        cost = pure_cost([steps * sensitivity / scale])
        return Stage(stage, sensitivity, "l1 of one step's gradient", cost, claimed, differs)
    mu = math.sqrt(steps) * sensitivity / scale
    cost = gaussian_cost(mu, distance_from_rounded(steps * width * groups, scale * unit))
    return Stage(stage, sensitivity, "l2 of one step's gradient", cost, claimed, differs)
