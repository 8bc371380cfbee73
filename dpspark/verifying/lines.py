"""The cost of released lines and quantiles, from their exponents and scales. All groups together: a record is in one."""

from __future__ import annotations

import math
from dataclasses import replace

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Records
from dpspark.mechanisms.lines.calibrate import UNIT_SQUARE
from dpspark.mechanisms.lines.defaults import ROWS_PER_BUCKET
from dpspark.mechanisms.lines.gradient_descent import UNIT as GRADIENT_UNIT
from dpspark.mechanisms.lines.plane import FINE
from dpspark.mechanisms.lines.spread import SLACK
from dpspark.mechanisms.lines.spread import UNIT as SUMS_UNIT
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.cost import Cost, Stage, gaussian_cost, pure_cost, same
from dpspark.privacy.sensitivity import (
    all_pairs_rank_spread,
    centred_products,
    depth_spread,
    moved_moment,
    pair_rank_spread,
    rank_distance,
    score_spread,
    second_moment,
    second_moment_l1,
    spread_l1,
    spread_l2,
    sums_l1,
)
from dpspark.verifying.matrices import squares_mu
from dpspark.verifying.regressions import descent

KERNELS = {"gram": ("gaussian", "laplace")}  # of mechanisms that are not called like their kernel; auto: any
OFTEN = 2  # a record that moves changes two groups


def records_of_lines(spec: Facts, records: Records) -> Records:
    """In a table that is dealt out to secret buckets a replaced row may leave its own."""
    release = spec.part("release")
    if not release.has("group_by"):
        rows = release.whole("expected_rows") if release.has("expected_rows") else 1
        if rows > ROWS_PER_BUCKET and records.replaced:
            records = replace(records, moves=True)
    return replace(records, grouped=True)


def lines(facts: Facts, spec: Facts, domain: Domain, records: Records, claimed: Budget, stage: str) -> Stage:
    release, records = spec.part("release"), records_of_lines(spec, records)
    kernel, asked = facts.text("kernel"), spec.part("mechanism").text("name")
    if asked != "auto" and kernel not in KERNELS.get(asked, (asked,)):
        raise Garbled("mechanism.kernel is not of the mechanism that was asked for")
    cuts = len(release.items("cuts")) if release.has("cuts") else 2
    if kernel in ("exponential", "all_pairs", "widened", "depth", "huber"):
        return _drawn(kernel, facts, records, min(cuts, 2), claimed, stage)
    if kernel == "smooth_sensitivity":
        return _smooth(facts, records, min(cuts, 2), claimed, stage)
    if kernel == "sufficient_statistics":
        return _sufficient(facts, records, claimed, stage)
    if kernel == "gradient_descent":
        change = "replaced" if records.moves else records.change
        return descent(facts, 2, change, records.rows, claimed, stage, GRADIENT_UNIT, records.groups)
    return _moments(kernel, facts, records, claimed, stage)


def _need_public_rows(records: Records, kernel: str) -> None:
    if records.change != "replaced" or records.moves:
        raise Garbled(f"{kernel} needs a public number of rows, and a record can change it")


def _drawn(kernel: str, facts: Facts, records: Records, anchors: int, claimed: Budget, stage: str) -> Stage:
    """Exponential mechanisms: epsilon is the exponent times the most by which changes of two scores differ."""
    draws = 1 if kernel in ("depth", "huber") else anchors
    if kernel == "depth":
        spread = depth_spread(records.change, records.rows, records.moves)
    elif kernel == "huber":
        spread = score_spread(records.change, records.rows, records.moves)
    elif kernel == "all_pairs":
        _need_public_rows(records, kernel)
        spread = all_pairs_rank_spread(records.rows)
    else:
        spread = pair_rank_spread(facts.whole("matchings"), records.rows, records.moves)
    differs = [] if facts.whole("draws") == draws else ["draws"]
    differs += [] if facts.part("sensitivity").number("value") == spread else ["sensitivity"]
    each = facts.positive("exponent") * spread
    differs += [] if facts.positive("epsilon_each") >= each * (1 - 1e-9) else ["epsilon_each"]
    cost = pure_cost([each] * draws, exponential=True)
    return Stage(stage, spread, "spread of scores", cost, claimed, tuple(differs))


def _smooth(facts: Facts, records: Records, anchors: int, claimed: Budget, stage: str) -> Stage:
    _need_public_rows(records, "smooth_sensitivity")
    noise, decay = facts.positive("noise"), facts.positive("decay")
    differs = () if facts.whole("draws") == anchors else ("draws",)
    each = 3 * noise / (2 * math.sqrt(2)) + 2 * decay  # Student noise with 2 degrees of freedom
    return Stage(
        stage,
        facts.whole("matchings") * records.rows,
        "values of one record",
        pure_cost([each] * anchors),
        claimed,
        differs,
    )


def _sufficient(facts: Facts, records: Records, claimed: Budget, stage: str) -> Stage:
    public = records.change == "replaced" and not records.moves
    if facts.flag("rows_are_public") != public:
        raise Garbled("mechanism.rows_are_public does not agree with what a record changes")
    sums, level = centred_products(records.rows), records.rows if public else sums_l1(records.rows)
    each = [sums / facts.positive("scale")] * 2 + [level / facts.positive("level_scale")]
    return Stage(stage, sums, "of each centred sum", pure_cost(each * (OFTEN if records.moves else 1)), claimed)


def _moments(kernel: str, facts: Facts, records: Records, claimed: Budget, stage: str) -> Stage:
    if kernel == "laplace":
        change = "either" if records.moves else records.change
        sensitivity = second_moment_l1(UNIT_SQUARE, change, records.rows)
        differs = () if same(facts.part("sensitivity").number("value"), sensitivity) else ("sensitivity",)
        each = [sensitivity / facts.positive("scale")] * (OFTEN if records.moves else 1)
        return Stage(stage, sensitivity, "l1 of the upper triangle", pure_cost(each), claimed, differs)
    if kernel != "gaussian":
        raise Garbled("mechanism.kernel is of no line that is known here")
    bound = (
        moved_moment(UNIT_SQUARE, records.rows)
        if records.moves
        else second_moment(UNIT_SQUARE, records.change, records.rows)
    )
    diagonal, off = facts.positive("sigma"), facts.positive("off_diagonal_sigma")
    differs = () if same(facts.part("sensitivity").number("value"), bound.value) else ("sensitivity",)
    distance = distance_from_rounded(6 * records.groups, min(diagonal, off) * float(FINE) ** 2)
    cost = gaussian_cost(squares_mu(bound, diagonal, off), distance)
    return Stage(stage, bound.value, bound.shape, cost, claimed, differs)


def interval(facts: Facts, spec: Facts, records: Records, claimed: Budget) -> Stage:
    """The sums of rows, x, x² and residuals of each group."""
    records, stated = records_of_lines(spec, records), facts.part("sensitivity")
    scale, norm = facts.positive("scale"), stated.text("norm", "l1", "l2")
    bound = spread_l1 if norm == "l1" else spread_l2
    sensitivity = bound(records.change, records.rows, records.moves)
    groups = records.rows * (OFTEN if records.moves else 1)
    loss = (sensitivity + SLACK * groups / SUMS_UNIT) / scale
    distance = distance_from_rounded(4 * groups, scale * SUMS_UNIT)
    cost = pure_cost([loss]) if norm == "l1" else gaussian_cost(loss, distance)
    differs = () if same(stated.number("value"), sensitivity) else ("sensitivity",)
    return Stage("interval", sensitivity, norm, cost, claimed, differs)


def quantiles(
    facts: Facts,
    wanted: list[tuple[str, float]],
    records: Records,
    claimed: Budget,
    stage: str,
    ranges: dict[str, tuple[float, float]],
) -> Stage:
    """Each an exponential mechanism on ranks, of the columns and probabilities that were asked for."""
    found = facts.parts("quantiles")
    differs = []
    if [(each.text("column"), each.number("probability")) for each in found] != wanted:
        differs.append("quantiles: others than those asked for")
    if any(each.numbers("search") != ranges.get(each.text("column")) for each in found):
        differs.append("quantiles: other search ranges than those asked for")
    stated = facts.part("sensitivity")
    if (stated.text("change"), stated.whole("rows_per_record")) != (records.change, records.rows):
        differs.append("sensitivity")
    ranks = [rank_distance(each.number("probability"), records.change, records.rows) for each in found]
    each = [2 * one.positive("exponent") * rank for one, rank in zip(found, ranks, strict=True)]
    cost: Cost = pure_cost(each * (OFTEN if records.moves else 1), exponential=True)
    return Stage(stage, max(ranks, default=0.0), "distance of ranks", cost, claimed, tuple(differs))
