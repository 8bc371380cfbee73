"""The cost of a released matrix, of any mechanism, from its scales."""

from __future__ import annotations

import math

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Records
from dpspark.mechanisms.gram.adaptive import LARGEST_TRACE, SOLVER_ERROR
from dpspark.mechanisms.gram.projection import theorem_ridge
from dpspark.mechanisms.gram.wishart import theorem_degrees
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.cost import Cost, Stage, gaussian_cost, pure_cost, same
from dpspark.privacy.profiles import for_one_row, gaussian_pair_delta, wishart_delta
from dpspark.privacy.sensitivity import (
    Sensitivity,
    moved_between_groups,
    second_moment,
    second_moment_l1,
    squared_row_norm,
)

FLOATING = "the sampler is floating point: its law is checked, not the last bits of its draws"


def matrix(name: str, facts: Facts, domain: Domain, records: Records, claimed: Budget, stage: str) -> Stage:
    if name == "gaussian":
        return _gaussian(facts, domain, records, claimed, stage)
    if name == "laplace":
        return _laplace(facts, domain, records, claimed, stage)
    if records.rows != 1 or domain.weight is not None:
        raise Garbled(f"{name} is proved for one row a record, of weight 1")
    if name == "wishart":
        return _wishart(facts, domain, records, claimed, stage)
    if facts.has("adaptive"):
        return _adaptive(name, facts, domain, records, claimed, stage)
    return _projected(name, facts, domain, records, claimed, stage)


def squares_mu(bound: Sensitivity, diagonal: float, off_diagonal: float) -> float:
    """Σ (change / sigma)² over the upper triangle is largest where the norm that bounds the change has most weight."""
    if bound.shape == "spherical":
        return bound.value / min(diagonal, off_diagonal)
    # A tie by the definition of the symmetric shape: off the diagonal sigma is rounded up.
    return bound.value / min(diagonal, off_diagonal * math.sqrt(2))


def _gaussian(facts: Facts, domain: Domain, records: Records, claimed: Budget, stage: str) -> Stage:
    bound = (
        moved_between_groups(domain, records.rows)
        if records.moves
        else second_moment(domain, records.change, records.rows)
    )
    noise = facts.part("noise")
    noise.text("law", "gaussian")
    diagonal, off = noise.positive("diagonal_std"), noise.positive("off_diagonal_std")
    check_count(noise.flag("count_is_exact"), bound.count_is_public)
    mu = squares_mu(bound, diagonal, off)
    entries = domain.width * (domain.width + 1) // 2 * records.groups
    distance = distance_from_rounded(entries, min(diagonal, off) * domain.steps_per_row)
    # In the entry of a stage, rho is its budget's.
    differs = _unlike(facts, {"mu": mu, **({"rho": mu**2 / 2} if stage == "gram" else {})}, bound.value)
    norm = "l2 of the upper triangle" if bound.shape == "spherical" else "Frobenius"
    return Stage(stage, bound.value, norm, gaussian_cost(mu, distance), claimed, differs)


def _laplace(facts: Facts, domain: Domain, records: Records, claimed: Budget, stage: str) -> Stage:
    # A row leaves one group and another one enters the next: two rows, each as if added.
    change, rows = ("added" if records.moves else records.change), records.rows * (2 if records.moves else 1)
    sensitivity = second_moment_l1(domain, change, rows)
    noise = facts.part("noise")
    noise.text("law", "laplace")
    check_count(noise.flag("count_is_exact"), change == "replaced")
    stds = [noise.positive(key) / math.sqrt(2) for key in ("diagonal_std", "off_diagonal_std")]
    scale = min(facts.positive("scale"), *stds)
    differs = _unlike(facts, {"scale": max(facts.positive("scale"), *stds)}, sensitivity)
    return Stage(stage, sensitivity, "l1 of the upper triangle", pure_cost([sensitivity / scale]), claimed, differs)


def check_count(exact: bool, public: bool) -> None:
    if exact and not public:
        raise Garbled("the number of rows is published without noise, and a record can change it")


def one_row(claimed: Budget, records: Records) -> tuple[float, float]:
    """What one added row must meet; a replaced one is two of them."""
    if claimed.epsilon is None or not claimed.delta:
        raise Garbled("this mechanism has epsilon and delta, and its budget has not")
    return for_one_row(claimed.epsilon, claimed.delta, records.replaced)


def profile_cost(delta_at_one_row: object, records: Records) -> Cost:
    """From the profile of one added row; for a replaced one by group privacy: (2ε, (1 + e^ε)·δ)."""
    profile = delta_at_one_row
    assert callable(profile)
    if not records.replaced:
        return Cost(profile)
    return Cost(lambda epsilon: min(1.0, (1 + math.exp(min(epsilon / 2, 700))) * profile(epsilon / 2)))


def _wishart(facts: Facts, domain: Domain, records: Records, claimed: Budget, stage: str) -> Stage:
    norm, degrees, scale = squared_row_norm(domain), facts.whole("degrees_of_freedom"), facts.positive("scale")
    epsilon, delta = one_row(claimed, records)
    differs = list(_unlike(facts, {"mean_removed": degrees * scale}, norm))
    if facts.text("calibration", "exact", "theorem") == "theorem":
        enough = degrees >= theorem_degrees(domain.width, epsilon, delta) and scale >= norm * (1 - 1e-12)
        differs += [] if enough else ["calibration: less noise than the theorem asks for"]
    noise = facts.part("noise")
    noise.text("law", "wishart")
    std = math.sqrt(degrees) * scale
    if not (same(noise.positive("off_diagonal_std"), std) and same(noise.positive("diagonal_std"), math.sqrt(2) * std)):
        differs.append("noise: not of that scale and those degrees of freedom")
    effective = degrees - domain.width + 1
    cost = profile_cost(lambda at: wishart_delta(at, effective, norm / scale), records)
    return Stage(stage, norm, "squared l2 of a row", cost, claimed, tuple(differs), (FLOATING,))


def _projected(name: str, facts: Facts, domain: Domain, records: Records, claimed: Budget, stage: str) -> Stage:
    ridge = facts.positive("ridge_removed")
    cost, differs = _projection(name, facts, domain, records, claimed, ridge)
    norm = squared_row_norm(domain)
    return Stage(stage, norm, "squared l2 of a row", cost, claimed, differs, (FLOATING,))


def _projection(
    name: str, facts: Facts, domain: Domain, records: Records, claimed: Budget, ridge: float
) -> tuple[Cost, tuple[str, ...]]:
    """Of a draw around S + ridge·I, before any lowering of the ridge."""
    if name not in ("johnson_lindenstrauss", "inverse_wishart"):
        raise Garbled("mechanism.name is of no matrix that is known here")
    norm, degrees = squared_row_norm(domain), facts.whole("degrees_of_freedom")
    epsilon, delta = one_row(claimed, records)
    differs = list(_unlike(facts, {}, norm))
    if facts.text("calibration", "exact", "theorem") == "theorem":
        enough = ridge >= theorem_ridge(epsilon, delta, degrees, norm) * (1 - 1e-12)
        differs += [] if enough else ["calibration: less ridge than the theorem asks for"]
    noise = facts.part("noise")
    effective = degrees if name == "johnson_lindenstrauss" else degrees - domain.width - 3
    if noise.number("degrees") != effective or not same(noise.number("ridge"), facts.number("ridge_removed")):
        differs.append("noise: not of that ridge and those degrees of freedom")
    share = norm / (ridge + norm)
    return profile_cost(lambda at: gaussian_pair_delta(at, degrees, share), records), tuple(differs)


def _adaptive(name: str, facts: Facts, domain: Domain, records: Records, claimed: Budget, stage: str) -> Stage:
    """mechanisms.adaptive has the proof: a bound from Laplace noise, then a draw with the ridge lowered by it."""
    adaptive, norm = facts.part("adaptive"), squared_row_norm(domain)
    grid = adaptive.part("grid")
    share, step, scale = adaptive.positive("share"), grid.positive("step"), grid.positive("scale")
    if claimed.epsilon is None or not claimed.delta or not share < 1:
        raise Garbled("mechanism.adaptive: its budget has no epsilon and delta, or its share takes all")
    slack = SOLVER_ERROR * domain.width * LARGEST_TRACE
    sensitivity = math.ceil((norm + 2 * slack) / step * (1 + 1e-12)) + 1
    quantile = grid.whole("quantile", 0)
    failure = math.exp(-(quantile + 1) / scale) / (1 + math.exp(-1 / scale))
    before, ridge = adaptive.positive("ridge_before"), adaptive.number("ridge")
    bound = max(0.0, adaptive.number("released") - step * (quantile + sensitivity) - slack)
    rest = Budget((1 - share) * claimed.epsilon, (1 - share) * claimed.delta)
    cost, differs = _projection(name, facts, domain, records, rest, before)
    more = [
        *([] if grid.whole("sensitivity") == sensitivity else ["adaptive: the sensitivity"]),
        *([] if adaptive.number("lower_bound") <= bound * (1 + 1e-9) else ["adaptive: the lower bound"]),
        *([] if ridge >= (before - bound) * (1 - 1e-9) and ridge >= 0 else ["adaptive: the lowered ridge"]),
        *([] if same(ridge, facts.number("ridge_removed")) or ridge == facts.number("ridge_removed") else ["ridge"]),
    ]

    def delta_at(epsilon: float) -> float:
        spent = sensitivity / scale
        return min(1.0, failure + cost.delta_at(epsilon - spent)) if epsilon > spent else 1.0

    return Stage(stage, norm, "squared l2 of a row", Cost(delta_at), claimed, (*differs, *more), (FLOATING,))


def _unlike(facts: Facts, found: dict[str, float], sensitivity: float) -> tuple[str, ...]:
    """Numbers of the manifest that are not those recomputed."""
    keys = [key for key, value in found.items() if not same(facts.number(key), value)]
    if not same(facts.part("sensitivity").number("value"), sensitivity):
        keys.append("sensitivity")
    return tuple(keys)
