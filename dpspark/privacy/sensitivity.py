"""The sensitivity of the second-moment matrix S = Σ z zᵀ: every constant of the privacy proof is in this file.

Rows z = (1, numeric in [-1, 1], one-hot blocks), or with a row norm z = (1, u) with ‖u‖ <= radius. The noise has one of
two shapes, and each needs its own norm of the change in S:

    spherical  N(0, σ²) on every entry of the upper triangle           l2 norm of the upper triangle
    symmetric  N(0, σ²) on the diagonal, N(0, σ²/2) off it (GOE)       Frobenius norm of the symmetric matrix

Writing P = ‖z‖², Q = ‖z'‖², c = z·z' and e = Σ (z_i² − z'_i²)², a replaced row changes S by
Frobenius² = P² + Q² − 2c² and upper² = (Frobenius² + e) / 2; an added row is the case z' = 0.

Why vertices suffice (replaced row in a box): as a function of one numeric coordinate x = z_i, with a = Σ_{j≠i} z_j² >= 1
from the intercept and b = z'_i², both squared norms are (a quartic in x²: k·x⁴ + (2a − m·b)·x²) + (linear in x), where
(k, m) = (1, 2) or (2, 4). The even part vanishes at 0, is convex in x² and is >= 0 at x² = 1, so it is largest at
x² = 1; the linear part is largest at x = ±1. So every numeric coordinate is ±1 at the maximum.

Blocks of products (core/products.py). Of a block of products a row has one coordinate that is not 0: its category's, where the
number's own value stands, in [-1, 1], or the 1 of its pair of categories. So ‖z‖² <= s with s counting one more for each block,
however many categories it has, and a row of ±1 attains it.
Vertices still suffice for a replaced row: let r coordinates of z be the number x (its own and one for each of its blocks where
the row has a category; these categories and the intercept are r others that are 1, so that a >= r), 1 + l of them where z' has
them, too, l <= r − 1. With d = (1 + l)·z'_i, |d| <= r, the even part is r²·x⁴ + (2a·r − 2d²)·x², and with e added
(r² + r)·x⁴ + (2a·r − 2d² − 2(1 + l)·z'_i²)·x²: convex in x², 0 at 0, and at x² = 1 at least r² + 2r² − 2r² = r² or, with e, at
least r² − r >= 0.

Products of numbers and powers gain nothing: where every number is at its bound so are they, and all coordinates are ±1 at once.

Several rows. A record (a person, where a unit is protected) may change m = `rows_per_record` rows: a <= m of them leave and
b <= m come, a and b not equal as a rule. Pair off as many as possible: at most m changes, each of one row that is added,
removed or replaced ("either", or "added" where one of a and b is 0). Every constant here is m times that of one row, because
norms, ranks, scores and depths of the whole change are at most the sums of those of its m steps.

Several groups. The rows of one record may be spread over groups, m_g of them in group g with Σ m_g <= m, and each group has a
mechanism for m rows of its own. Group g's part of the loss is then m_g/m of the budget or less:
    pure, exponential or Laplace   Σ (m_g/m)·ε <= ε
    zCDP                           Σ (m_g/m)²·ρ <= ρ, as squares of parts are less than the square of the whole
    Gaussian, (ε, δ)               the matrices of all groups are one vector: √Σ (m_g·Δ)² <= m·Δ
Where rows also move between groups, a row that leaves one and another that enters the next are two changes of one added row
each, 2m in all: the functions with `moves` or `moved` in them, or half the budget for each group.
The one thing that grows with the number of groups is the sampler's distance from a rounded Gaussian (`Sensitivity.groups`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from dpspark.core.domain import SCORE_STEPS, Clip, Domain
from dpspark.core.records import Change, Clusters, Records
from dpspark.core.scores import ScoreAxes

Shape = Literal["spherical", "symmetric"]

# Below this many unit coordinates the symmetric shape has the smaller slope errors on a box with added rows.
SPHERICAL_FROM = 5


@dataclass(frozen=True)
class Sensitivity:
    """The distance that one record can move S, in units where a full coordinate is 1.0, and the shape of the noise for it."""

    value: float
    shape: Shape
    count_is_public: bool
    reason: str
    groups: int = 1  # how many matrices may change, of a release that has one for each group


def second_moment(domain: Domain, change: Change, rows_per_record: int = 1) -> Sensitivity:
    """Compute the largest change of S when one record is added, removed or replaced.

    `change` is what happens to the record's row: it is added (or removed), replaced by another, or either, as when a
    filter lets only one of two records through; only where it is always replaced is the number of rows public.
    `rows_per_record` rows may change at once: m equal rows attain m times the change. Weighted rows w·zzᵀ attain the
    largest weight times the change; as w can be 0, `change` must not be "replaced".
    """
    shape = _shape(domain, change)
    of = _ball_squared if domain.row_norm is not None else _box_squared
    kinds: list[Change] = ["added", "replaced"] if change == "either" else [change]
    squared = max(of(domain, shape, kind) for kind in kinds)
    value = most_weight(domain, change, rows_per_record) * _root_up(squared)
    return Sensitivity(value, shape, change == "replaced", _reason(domain, change, rows_per_record))


def group_moments(domain: Domain, records: Records) -> Sensitivity:
    """Compute the largest change of the matrices of all groups together, or of the one matrix where there are no groups."""
    if records.moves:
        return moved_between_groups(domain, records.rows)
    found = second_moment(domain, records.change, records.rows)
    return in_groups(found, records.rows) if records.grouped else found


def group_moments_l1(domain: Domain, records: Records) -> tuple[Change, float]:
    """Compute the same in the l1 norm, and say what happens to each row.

    One that leaves a group and one that enters the next are two.
    """
    if records.moves:
        return "added", second_moment_l1(domain, "added", 2 * records.rows)
    return records.change, second_moment_l1(domain, records.change, records.rows)


def in_groups(sensitivity: Sensitivity, rows_per_record: int) -> Sensitivity:
    """Say the same of matrices of many groups at once: the rows of a record, each only added or removed, may be in as many.

    √Σ (m_g·Δ)² <= m·Δ: what all groups together move is largest where they are one. A replaced record's rows do not stay in
    their groups by themselves: see `moved_between_groups`.
    """
    return replace(sensitivity, groups=rows_per_record)


def most_weight(domain: Domain, change: Change, rows_per_record: int) -> float:
    """Count the rows that change with one record, each as often as it can count.

    A norm of w·zzᵀ − w'·z'z'ᵀ is convex in (w, w'), so it is largest at a corner: both at the top (replaced) or one of
    them 0 (added).
    """
    if domain.weight is None:
        return rows_per_record
    if change == "replaced":
        raise ValueError("a weighted row may have weight 0: it is added, removed or replaced")
    return rows_per_record * domain.weight.most


def clipped_l2(domain: Domain, change: Change, rows_per_record: int = 1) -> float:
    """Compute the largest l2 change of the clipped counts. An added row moves one side of each column; a replaced one both.

    And the number of rows, where it is counted with them.
    """
    squared = len(domain.numeric) * (1 if change == "added" else 2) + (not domain.first_entry_counts)
    return most_weight(domain, change, rows_per_record) * _root_up(squared)


def clipped_l1(domain: Domain, change: Change, rows_per_record: int = 1) -> float:
    """Compute the same in the l1 norm."""
    moved = len(domain.numeric) * (1 if change == "added" else 2) + (not domain.first_entry_counts)
    return most_weight(domain, change, rows_per_record) * moved


def row_count(change: Change, rows_per_record: int = 1) -> int:
    """Compute the largest change of the number of rows.

    Each row of a record is one more or one less, or has another in its place, which moves nothing.
    """
    return 0 if change == "replaced" else rows_per_record


def group_counts(norm: str, records: Records) -> float:
    """Compute the largest change of the numbers of rows of all groups, in the l1 or l2 norm.

    A row that comes or goes moves one number by 1; one that is replaced inside its group moves none. A row that leaves a group
    for another moves two numbers by 1: 2 in l1, √2 in l2. With m rows m times as much, all of them in the same groups being the
    worst. A person who is replaced by one with rows elsewhere moves rows even where no single row can: as if they moved.
    """
    if records.public_rows:
        return 0.0
    moved = records.moves or (records.change == "either" and records.rows > 1)
    return records.rows * ((2.0 if norm == "l1" else _root_up(2.0)) if moved else 1.0)


def line_cells(norm: str, records: Records) -> float:
    """Compute the largest change of counts of rows in cells, over all groups together, in the l1 or l2 norm.

    A row is in one cell, by itself and its group's released line. One that comes or goes moves one count by 1; one that is
    replaced, in its group or another, leaves a cell and enters another: 2 in l1, √2 in l2. With m rows m times as much.
    """
    return records.rows * ((2.0 if norm == "l1" else _root_up(2.0)) if records.replaced else 1.0)


def rank_distance(probability: float, change: Change, rows_per_record: int = 1) -> float:
    """Compute the largest change of | #{values below r} − probability·#{values} | at any r.

    An added value moves the difference by 1 − p if it is below r, by −p if not: max(p, 1 − p) at most. A replaced one
    keeps the second count and moves the first by at most 1; a value that becomes null is a removed one. Some r moves up
    by that much while another moves down, so that the exponential mechanism's factor of 2 is needed.
    """
    return rows_per_record * (max(probability, 1 - probability) if change == "added" else 1.0)


def values_beyond(rows_per_record: int = 1) -> int:
    """Compute the largest change of max(0, A(c) − k, k − A(c−1)) at any cell c: A(c) values are above it, k is public.

    An added value raises A(c) by 1 for each c below it, and by 0 for others; a removed one, or one that becomes null, lowers
    it likewise; a replaced one moves it by −1, 0 or 1. So each of the three terms moves by 1 at most, and so does the largest
    of them. With m rows, m: whether they are added or replaced. The argument is on A, which knows no number of values: as a
    rank from below the target is n − k, which an added value moves, and the ranks with it.

    One added value above two cells moves a cell with A(c) > k away and one with A(c−1) < k nearer, so that the exponential
    mechanism's factor of 2 is needed. Mirrored, with the values below a cell, the same holds.
    """
    return rows_per_record


def beyond_spread(rows_per_record: int = 1) -> int:
    """Bound how far the changes at two cells can differ: epsilon of a draw is γ times it."""
    return 2 * values_beyond(rows_per_record)


def rank_spread(probability: float, change: Change, rows_per_record: int = 1) -> float:
    """Bound how far the changes of that distance at two cells can differ: epsilon of a draw is γ times it."""
    return 2 * rank_distance(probability, change, rows_per_record)


def groups_drawn_apart(records: Records) -> int:
    """Count the groups that one record can change, for a mechanism that draws in each group apart.

    A record that moves changes two. Each of them has its part of the budget, and each draw is charged.
    """
    return 2 if records.moves else 1


def pair_rank_spread(matchings: int, rows_per_record: int = 1, moves: bool = False) -> int:
    """Compute, for Theil–Sen, the most by which the changes of |below − above| at two edges can differ.

    A row is in one pair of each matching at most; whether it is added or replaced, one value moves from one side of an edge
    to the other, in each matching (mechanisms/lines/pairs.py has the coupling). That is 2 at one edge, and −2 at another. A
    record that moves between groups does so in both.
    """
    return 4 * matchings * rows_per_record * (2 if moves else 1)


def all_pairs_rank_spread(rows_per_record: int = 1) -> int:
    """Compute the same with all pairs, for each of the other rows.

    Only for a replaced row and a public number of rows.
    """
    return 4 * rows_per_record


def depth_spread(change: Change, rows_per_record: int = 1, moves: bool = False) -> int:
    """Compute the spread of changes of the regression depth.

    An added row raises the depth of a line by 0 or 1; a replaced one moves it by −1, 0 or 1.

    A record that leaves one group and enters another lowers depths here and raises them there: 1 each, 2 together.
    """
    return rows_per_record * (2 if moves or change != "added" else 1)


def score_spread(change: Change, rows_per_record: int = 1, moves: bool = False) -> int:
    """Compute the spread of changes of max(|Σψ|, |Σψφ|) with |ψ| <= 1 and |φ| <= 1.

    An added row moves it by −1 to 1, a replaced one by −2 to 2.

    As with the depth, a record that moves between groups costs as much as one that is replaced.
    """
    return rows_per_record * (4 if moves or change != "added" else 2)


def centred_products(rows_per_record: int = 1) -> int:
    """Bound the change of Σ(x − x̄)(y − ȳ) and of Σ(x − x̄)², of values in [0, 1].

    An added row moves them by n/(n + 1), a replaced one by 1 − 1/n.
    """
    return rows_per_record


def sums_l1(rows_per_record: int = 1) -> int:
    """Compute the l1 change of the count, Σ(x − ½) and Σ(y − ½) together.

    It is 1 + ½ + ½ for an added row, 0 + 1 + 1 for a replaced one.
    """
    return 2 * rows_per_record


def rounded_products(rows_per_record: int = 1) -> int:
    """Count the steps that cutting such a sum to whole steps adds: one in each group that a record has rows in."""
    return rows_per_record


def rounded_sums(rows_per_record: int = 1) -> int:
    """Count the same for the two sums beside a count, which is whole."""
    return 2 * rows_per_record


ROUNDED_LEVEL = 1  # step, where the level of a line is cut: one group, whose number of rows stays


def student_loss(noise: float, decay: float) -> float:
    """Compute the epsilon of Student noise with 2 degrees of freedom, scaled to the decay-smooth sensitivity over `noise`.

    Its density is ∝ (2 + t²)^(−3/2). A centre that moves by one sensitivity moves t by `noise`, and |d log density / dt| =
    3|t|/(2 + t²) is 3/(2√2) at most, at t = √2. A scale that grows by e^decay costs |1 − 3t²/(2 + t²)|·decay, 2·decay at most,
    as t grows.
    """
    return 3 * noise / (2 * math.sqrt(2)) + 2 * decay


def student_split(epsilon: float) -> tuple[float, float]:
    """Find the noise and the decay that cost half of epsilon each. The split is public, and nearly flat around the best."""
    return epsilon / 2 * (2 * math.sqrt(2) / 3), epsilon / 4


# Of the sums that a line's interval is made of (mechanisms/lines/spread.py): those that matter most have the least noise.
X_WEIGHT, SQUARE_WEIGHT, RESIDUAL_WEIGHT = 0.7, 1.0, 1.5


def rounded_spread(records: Records) -> int:
    """Count the steps that rounding adds to these sums: each of a row's four parts by itself, in every group with rows."""
    return 4 * records.groups


def spread_l1(change: Change, rows_per_record: int = 1, moves: bool = False) -> float:
    """Compute the l1 change of Σ(1, a·t, b·(t² − ½), c·(ρ − ½)) together.

    t in [−1, 1], ρ in [0, 1], a, b and c the weights above, a <= 2b.

    Added: 1 + a·|t| + b·|t² − ½| + c/2, largest at t = ±1. Replaced: |t − t'|·(a + b·|t + t'|) is largest where t = 1 and
    t' = −a/2b, the number of rows stays, ρ goes from 0 to 1. A record that moves is added to one group, removed from another.
    """
    added = 1 + X_WEIGHT + SQUARE_WEIGHT / 2 + RESIDUAL_WEIGHT / 2
    replaced = (2 * SQUARE_WEIGHT + X_WEIGHT) ** 2 / (4 * SQUARE_WEIGHT) + RESIDUAL_WEIGHT
    if moves:
        return rows_per_record * max(2 * added, replaced)
    return rows_per_record * {"added": added, "replaced": replaced, "either": max(added, replaced)}[change]


def spread_l2(change: Change, rows_per_record: int = 1, moves: bool = False) -> float:
    """Compute the same in the l2 norm. Replaced: (t − t')²·(a² + b²·(t + t')²) is largest at 1 and −1 if b <= 2a."""
    added = 1 + X_WEIGHT**2 + SQUARE_WEIGHT**2 / 4 + RESIDUAL_WEIGHT**2 / 4
    replaced = 4 * X_WEIGHT**2 + RESIDUAL_WEIGHT**2
    if moves:
        return rows_per_record * _root_up(max(2 * added, replaced))
    return rows_per_record * _root_up({"added": added, "replaced": replaced, "either": max(added, replaced)}[change])


def moved_moment(domain: Domain, rows_per_record: int = 1) -> Sensitivity:
    """Bound second moments of many groups at once, when a record may be replaced in its group or move to another one."""
    squared = max(_replaced_box_squared(domain, "spherical"), 2 * _box_squared(domain, "spherical", "added"))
    value = most_weight(domain, "either", rows_per_record) * _root_up(squared)
    return Sensitivity(value, "spherical", False, _reason(domain, "either", rows_per_record) + ", in its group or two")


def line_moments(domain: Domain, records: Records) -> Sensitivity:
    """Bound the second moments of all groups that have a line: Gaussian noise is drawn for all of them together."""
    if records.moves:
        return moved_moment(domain, records.rows)
    return second_moment(domain, records.change, records.rows)


def line_moments_l1(domain: Domain, records: Records) -> float:
    """Bound the same in the l1 norm, of each group: a record that moves changes two, which have half the budget each."""
    return second_moment_l1(domain, "either" if records.moves else records.change, records.rows)


def moved_between_groups(domain: Domain, rows_per_record: int = 1) -> Sensitivity:
    """Bound matrices of many groups at once: a record is replaced in its group, or leaves it for another.

    Two matrices change by one row each: √2 times an added row. A row replaced in place moves no more than that: the products of
    two rows have a non-negative inner product, in either norm.
    """
    added = second_moment(domain, "added", rows_per_record)
    reason = added.reason + ", and another one in another group"
    value = added.value * _root_up(2.0) * (1 + 1e-15)
    return Sensitivity(value, added.shape, False, reason, groups=2 * rows_per_record)


def _shape(domain: Domain, change: Change) -> Shape:
    if domain.row_norm is not None:
        return "symmetric"
    if change != "added":
        return "spherical"
    return "spherical" if unit_coordinates(domain) >= SPHERICAL_FROM else "symmetric"


def unit_coordinates(domain: Domain) -> int:
    """Count the most coordinates of one row that can be ±1 at once.

    They are the intercept, each numeric column, one of each block of categories and one of each block of products.
    """
    return 1 + len(domain.numeric) + len(domain.blocks) + len(domain.products)


def _box_squared(domain: Domain, shape: Shape, change: Change) -> float:
    if change == "replaced":
        return _replaced_box_squared(domain, shape)
    # ‖zzᵀ‖_F = ‖z‖² <= s; upper² = (‖z‖⁴ + Σ z_i⁴) / 2 <= (s² + s) / 2. Both attained by a row of ±1.
    s = unit_coordinates(domain)
    return s * s if shape == "symmetric" else s * (s + 1) / 2


def _replaced_box_squared(domain: Domain, shape: Shape) -> float:
    """Enumerate the vertices: k numeric signs flipped; blocks keep, change or (if single) lose their category.

    A block with two categories that differs has c = 0 and e = 2, which beats having a row without any category (smaller
    Q, e = 1). A block of one category can only be kept or lost; all lost by the same row, which makes P² + Q² largest.
    """
    if domain.products:
        return _replaced_products_squared(domain, shape)
    numeric = len(domain.numeric)
    plural = sum(len(block.terms) > 1 for block in domain.blocks)
    single = len(domain.blocks) - plural
    k = np.arange(numeric + 1)[:, None, None]
    kept = np.arange(plural + 1)[None, :, None]
    lost = np.arange(single + 1)[None, None, :]
    p = unit_coordinates(domain)
    q = p - lost
    c = 1 + (numeric - 2 * k) + kept + (single - lost)
    frobenius = p * p + q * q - 2 * c * c
    e = 2 * (plural - kept) + lost
    squared = frobenius if shape == "symmetric" else (frobenius + e) / 2
    return float(squared.max())


def _replaced_products_squared(domain: Domain, shape: Shape) -> float:
    """Bound the same with blocks of products, b blocks in all: Frobenius² <= 2s² − 2c² and e <= 2b, as 2 is a block's most.

    At a vertex c is a whole number. Where all blocks differ it is 1 plus a sign for each number, which is not 0 if the numbers
    are even in number: then c² >= 1. Where a block is the same e is less by 2, and where a row has no category of one
    P or Q is s − 1 at most, so that Frobenius² <= 2s² − 2s + 1. So 2s² + 2b, less 2 if the numbers are even in number, is the
    most of Frobenius² + e; attained where every block has two categories. The first alone is 2s² at most.
    """
    s, blocks = unit_coordinates(domain), len(domain.blocks) + len(domain.products)
    if shape == "symmetric":
        return 2.0 * s * s
    return float(s * s + blocks - (len(domain.numeric) % 2 == 0))


def _ball_squared(domain: Domain, shape: Shape, change: Change) -> float:
    """Compute the squared Frobenius norm for z = (1, u), ‖u‖ <= r.

    Added: ‖z‖² = 1 + r². Replaced: P² + Q² − 2c² grows in both norms, and c = 1 + u·u' can be made 0 if r >= 1, else is
    at least 1 − r². A capped row is still inside its box, where ‖z‖² <= s.
    """
    assert domain.row_norm is not None
    assert shape == "symmetric"
    r2 = domain.row_norm.radius**2
    b2 = 1 + r2
    s = unit_coordinates(domain)
    if domain.row_norm.mode == "cap" and s < b2:
        return s * s if change == "added" else 2.0 * s * s
    squared = b2 * b2 if change == "added" else 2 * b2 * b2 - 2 * max(0.0, 1 - r2) ** 2
    return squared * (1 + 1e-14)  # past the roundings of a short float expression


def second_moment_l1(domain: Domain, change: Change, rows_per_record: int = 1) -> float:
    """Compute the largest l1 norm of the upper triangle's change: for one joint draw of Laplace noise on all entries."""
    kinds: list[Change] = ["added", "replaced"] if change == "either" else [change]
    of = _ball_l1 if domain.row_norm is not None else _box_l1
    return most_weight(domain, change, rows_per_record) * max(of(domain, kind) for kind in kinds) * (1 + 1e-12)


def _box_l1(domain: Domain, change: Change) -> float:
    """Added: Σ_{i<=j} |z_i z_j| <= s(s + 1)/2. Replaced: with d_i = |z_i − z'_i|/2 and s_i = |z_i + z'_i|/2, d_i + s_i <= 1,
    an entry changes by at most 2(d_i s_j + s_i d_j), a diagonal one by 4 d_i s_i. Summed over numeric columns and the
    intercept (d = 0) that is 2x(1 + m − x) + 2Σ d_i (1 − d_i) with x = Σ d_i, largest for equal d_i. A block that differs
    has one coordinate in each row; entries between its two are 0 in both.

    With products: entries of numbers and the intercept alone as before, and every other one by the triangle inequality, which
    is what it is where all blocks differ.
    """
    s = unit_coordinates(domain)
    if change == "added":
        return s * (s + 1) / 2
    m, blocks = len(domain.numeric), len(domain.blocks) + len(domain.products)
    best = 0.0
    for differ in range(blocks if domain.products else 0, blocks + 1):
        same = blocks - differ
        fixed = 2 * (1 + m) * differ + 2 * same * differ + differ * (differ - 1) + 2 * differ
        # 2x(1 + m − x) + 2(x − x²/m) + 2x·same, a parabola in x on [0, m].
        slope, bend = 2 * (2 + m + same), 2 * (1 + 1 / m) if m else 1.0
        x = min(float(m), slope / (2 * bend))
        best = max(best, fixed + (slope * x - bend * x * x if m else 0.0))
    return best


def _ball_l1(domain: Domain, change: Change) -> float:
    """Added: ((Σ|z_i|)² + Σ z_i²)/2 with Σ|u_i| <= √(coordinates)·r. Replaced: (Σ_ij |Δ_ij| + Σ_i |Δ_ii|)/2, the first at most
    width·‖Δ‖_F, the second at most 2·(1 + r²).
    """
    assert domain.row_norm is not None
    radius, coordinates = domain.row_norm.radius, unit_coordinates(domain) - 1
    if change == "added":
        return ((1 + math.sqrt(coordinates) * radius) ** 2 + 1 + radius**2) / 2
    frobenius = math.sqrt(_ball_squared(domain, "symmetric", "replaced"))
    return (domain.width * frobenius + 2 * (1 + radius**2)) / 2


def squared_row_norm(domain: Domain) -> float:
    """Compute the largest ‖z‖²."""
    s = float(unit_coordinates(domain))
    if domain.row_norm is None:
        return s
    ball = (1 + domain.row_norm.radius**2) * (1 + 1e-14)
    return min(s, ball) if domain.row_norm.mode == "cap" else ball


def least_eigenvalue_steps(squared_norm: float, slack: float, step: float) -> int:
    """Count the steps that one row moves λ_min(S), or the way from tr S to a constant, floored to a grid of `step`.

    By Weyl's inequality, and as a row's trace is its squared norm: B², added, removed or replaced. `slack` is the error of the
    eigenvalue solver, which may be in both; flooring to the grid is 1 step more.
    """
    return math.ceil((squared_norm + 2 * slack) / step * (1 + 1e-12)) + 1


# The grid of a released λ_min, and what its solver may be wrong by: some 1e-15 of the trace, which is below this share of
# λ_min's sensitivity up to 10¹¹ rows.
EIGENVALUE_STEPS = 2.0**20
EIGENVALUE_SLACK = 1e-3


@dataclass(frozen=True)
class RegressionSensitivity:
    """The distances that one record can move each of a regression's statistics, in units where a full coordinate is 1.0.

    With x the row's intercept and regressors, ‖x‖² <= B², and y its response, |y| <= 1. For an added row all of them are
    attained at once, by ‖x‖ = B and |y| = 1, so that they compose to the norm of their sum without slack.
    """

    squares: Sensitivity  # of Σ x xᵀ
    cross: float  # of Σ x y, l2: a replaced row can turn B into −B
    response: float  # of Σ y²: between 0 and 1 for each row, added or replaced
    least_eigenvalue: float  # of λ_min(Σ x xᵀ): by Weyl's inequality B², added or replaced
    longest: float  # B

    @property
    def solved_eigenvalue(self) -> float:
        """The distance that λ_min moves as a solver finds it and as it is rounded to its grid."""
        return self.least_eigenvalue * (1 + EIGENVALUE_SLACK) + 1 / EIGENVALUE_STEPS


def group_statistics(domain: Domain, records: Records) -> RegressionSensitivity:
    """Bound the statistics of the regressions of all groups together, or of the one regression where there are no groups."""
    if records.moves:
        return moved_statistics(domain, records.rows)
    found = regression_statistics(domain, records.change, records.rows)
    return replace(found, squares=in_groups(found.squares, records.rows)) if records.grouped else found


def regression_statistics(domain: Domain, change: Change, rows_per_record: int = 1) -> RegressionSensitivity:
    """Bound the statistics of one regression, the response being the last column of `domain`."""
    b2 = squared_row_norm(domain.regressors)
    longest = _root_up(b2)
    m = rows_per_record
    return RegressionSensitivity(
        squares=_regressor_squares(domain, change, m),
        cross=m * longest * (1.0 if change == "added" else 2.0),
        response=float(m),
        least_eigenvalue=m * b2,
        longest=longest,
    )


def moved_statistics(domain: Domain, rows_per_record: int = 1) -> RegressionSensitivity:
    """Bound the same for many groups at once, where a record is replaced in its group or leaves it: the larger, for each.

    A record that moves changes two groups' statistics by one row each: √2 times an added row.
    """
    stays = regression_statistics(domain, "either", rows_per_record)
    added = regression_statistics(domain, "added", rows_per_record)
    root = _root_up(2.0) * (1 + 1e-15)
    # In the Frobenius norm, where an added row is ‖x‖²: in place it moves no more than in two groups.
    most = root * rows_per_record * squared_row_norm(domain.regressors)
    reason = added.squares.reason + ", and another one in another group"
    squares = Sensitivity(most, "symmetric", False, reason, groups=2 * rows_per_record)
    return RegressionSensitivity(
        squares=squares,
        cross=max(stays.cross, root * added.cross),
        response=root * added.response,
        least_eigenvalue=root * added.least_eigenvalue,
        longest=added.longest,
    )


def _regressor_squares(domain: Domain, change: Change, m: int) -> Sensitivity:
    """Bound Σ x xᵀ as any second-moment matrix; but with the response included, the intercept is a coordinate like others."""
    regressors = domain.regressors
    if domain.row_norm is None or not domain.row_norm.include_response:
        return second_moment(regressors, change, m)
    b2 = squared_row_norm(regressors)
    value = b2 if change == "added" else _root_up(2 * b2 * b2)
    return Sensitivity(m * value, "symmetric", False, _reason(domain, change, m))


def residual_meat(regressors: Domain, change: Change, rows_per_record: int = 1) -> Sensitivity:
    """Bound Σ v·x xᵀ with v = (r² − R²/2)/(R²/2) of residuals that are clipped to ±R: in units of R²/2.

    `regressors` are the columns of x, the intercept before them. |v| <= 1 whatever r is, so an added row moves the sum by
    ‖x xᵀ‖ at most: ‖x‖² in the Frobenius norm, √(s(s + 1)/2) of the upper triangle of a row of s unit coordinates. Without
    the −R²/2 it would be twice as far; it comes back as R²/2 times the matrix Σ x xᵀ that is released anyway.

    A replaced row moves it by v·x xᵀ − v'·x'x'ᵀ, at most twice that by the triangle inequality; the same x with r from 0
    (v = −1) to R (v = 1) attains it. So the shape of the noise is that of an added row in either case.

    R and the coefficients that residuals are of are published before, each within its own part of the budget: the bound
    holds for any values of them, which is what adaptive composition asks for.
    """
    most = squared_row_norm(regressors)
    box = regressors.row_norm is None
    shape: Shape = "spherical" if box and unit_coordinates(regressors) >= SPHERICAL_FROM else "symmetric"
    added = most if shape == "symmetric" else _root_up(most * (most + 1) / 2)
    value = rows_per_record * added * (1.0 if change == "added" else 2.0)
    return Sensitivity(value, shape, False, _reason(regressors, change, rows_per_record))


def meats_together(each: Sequence[Sensitivity]) -> float:
    """Bound the meats of several regressions as one vector: a record moves all of them at once, √Σ Δ²."""
    return _root_up(math.fsum(one.value**2 for one in each) * (1 + 1e-14))


def clipped_gradient(clip: Clip, width: int, change: Change, rows_per_record: int = 1) -> float:
    """Bound a sum of clipped gradients: l2 for a ball, l1 for a box. A replaced row can turn its gradient round."""
    one = clip.size if clip.shape == "ball" else clip.size * width
    return rows_per_record * one * (1.0 if change == "added" else 2.0) * (1 + 1e-12)


def moved_gradient(clip: Clip, width: int, records: Records) -> float:
    """The same for many groups at once: a record that moves between two is as one that is replaced."""
    return clipped_gradient(clip, width, "replaced" if records.moves else records.change, records.rows)


@dataclass(frozen=True)
class ResidualSensitivity:
    """The distances that one record can move sums of residuals clipped to ±c, in units of c and of c²."""

    cross: float  # of Σ x·clip(r), l2
    response: float  # of Σ clip(r)²


def clipped_residuals(domain: Domain, change: Change, rows_per_record: int = 1) -> ResidualSensitivity:
    """Bound the sums of clipped residuals of a regression, whatever its coefficients are, once they are released.

    A row adds x·clip(r) with ‖x‖ <= B and |clip(r)| <= c: B·c. Of a replaced one, the same x may have −c and c: twice that.
    clip(r)² is between 0 and c², added or replaced. The clip is a whole number of the grid's steps, and what is clipped is
    rounded to them, so that no rounding goes past it.
    """
    longest = _root_up(squared_row_norm(domain.regressors))
    times = 1.0 if change == "added" else 2.0
    return ResidualSensitivity(rows_per_record * longest * times, float(rows_per_record))


def row_gradient(longest: float, radius: float) -> float:
    """The longest gradient x·(x·θ − y) of one row's squared error: ‖x‖ <= B = `longest`, |y| <= 1, ‖θ‖ <= `radius`."""
    return longest * (1 + longest * radius)


NORM_SLACK = 2  # steps that the norm of a cluster's sum may be off by: it is rounded, and computed with floats


def row_score(axes: ScoreAxes, weights: Sequence[float]) -> float:
    """Bound √Σ (w_j·v_j)² over the axes j, with v the score of one row, in steps: r times its place on each axis.

    The residual r is SCORE_STEPS at most, and a place is within ±1, as whole steps after rounding. In a box the intercept and
    each number count in full. Of a block one category is 1 and the others are 0, or all are 0: the worst of these, where
    rounding adds half a step to each axis. With a row norm every axis counts in full.
    """
    total, half = 0.0, math.sqrt(len(weights)) / 2 * max(weights)
    for places, block in axes.columns():
        if not block or axes.regressors.row_norm is not None:
            total += math.fsum(weights[at] ** 2 for at in places)
            continue
        sizes = [(weights[at] / axes.extents[at]) ** 2 for at in places]
        zero = [size * axes.means[at] ** 2 for size, at in zip(sizes, places, strict=True)]
        one = [size * (1 - axes.means[at]) ** 2 for size, at in zip(sizes, places, strict=True)]
        total += math.fsum(zero) + max(0.0, *(b - a for a, b in zip(zero, one, strict=True)))
    return (math.sqrt(total) * SCORE_STEPS + half) * (1 + 1e-12)


def projected_square(distance: float) -> float:
    """Compute the largest ‖ssᵀ − ttᵀ‖_F of two vectors in the unit ball that are at most `distance` apart.

    With A = ‖s‖² >= B = ‖t‖² and d = ‖s − t‖ its square is (A − B)²/2 + d²·(A + B) − d⁴/2. That rises with A, so A = 1; and it
    is convex in B, so that B is at one of its ends: 1, which gives d·√(2 − d²/2), or (1 − d)², t along s, which gives 2d − d².
    The second is larger up to d = 2/3. The first rises up to d = √2, where s and t are orthogonal: √2, and never more.

    What it is for each unit of distance falls with the distance: several steps in one cluster move less than in several.
    """
    d = min(distance, math.sqrt(2))
    return (2 * d - d * d if d <= 2 / 3 else d * math.sqrt(2 - d * d / 2)) * (1 + 1e-12)


LEAST_STEP = 2.0**-20  # of a bound that is far beyond one row: there is more noise than needed then, on a fine grid


def cluster_step(clusters: Clusters, width: int, ratio: float) -> float:
    """Bound, in units of C², the change of Σ s_g·s_gᵀ over clusters g by one step, in the Frobenius norm.

    t_g is the sum of the scores of a cluster's rows, on axes with public weights, and s_g = P(t_g) its projection onto the ball
    of radius C, which is SCORE_STEPS steps of s_g. Every s_g is within that ball, as whole numbers. `ratio` is row_score over
    C.

    Clusters that are people: one s·sᵀ that comes or goes, C² at most.

    Others: a row that comes or goes moves one t_g by row_score at most. A projection onto a ball moves no farther than what is
    projected; rounding moves each coordinate of two points by 1.5 steps at most, as a rounded point that would be out of the
    ball is cut towards zero instead; half a step more is for the floats of the projection.
    """
    if clusters.whole:
        return 1.0
    slack = 2 * math.sqrt(width) / SCORE_STEPS
    return max(projected_square(ratio + slack), LEAST_STEP)


def cluster_steps(clusters: Clusters) -> float:
    """Bound the number of such steps that one record takes, as their norms add up.

    Clusters that are people: one for each who is added; a person who is replaced changes s·sᵀ to t·tᵀ, √2·C² at most.

    Others: one for each row that is added, two for one that is replaced, as it may leave one cluster and enter another. Twice
    as far in one cluster moves no more than two clusters: see `projected_square`.
    """
    if clusters.whole:
        return clusters.people * (math.sqrt(2) * (1 + 1e-12) if clusters.replaced else 1.0)
    return clusters.records.rows * (2.0 if clusters.replaced else 1.0)


def row_scores_moved(clusters: Clusters) -> int:
    """Bound the change of Σ max(0, ‖t_g‖ − c) over clusters g, for any c, in scores of a row (row_score).

    max(0, ‖·‖ − c) moves no farther than its vector: by one score for a row, by two for a replaced one, as it may leave one
    cluster and enter another. Of clusters that are people, one norm goes and another comes: the difference is at most the
    larger. The same holds of the vector of Σ |t_gj| over axes j, in the l2 norm.
    """
    return clusters.records.rows * (2 if clusters.replaced and not clusters.whole else 1)


def norm_step(score: float) -> int:
    """Bound, in steps, how far a row with such a score moves the norm of its cluster's sum, which is rounded."""
    return math.ceil(score + NORM_SLACK)


def excess_spread(clusters: Clusters) -> int:
    """Bound, in scores of a row, how far the changes of the distance of such a sum from a target can differ at two c.

    Epsilon of a draw is γ times it: at one c the distance can rise while it falls at another.
    """
    return 2 * row_scores_moved(clusters)


def squares_moved(clusters: Clusters) -> int:
    """Bound the change of Σ clip(r, ±R)² in units of R²: 0 to 1 for each row, so that a replaced one moves it by 1, too."""
    return clusters.records.rows


def cluster_count(clusters: Clusters) -> int:
    """Compute the largest change of the number of clusters that have rows: as many may go as come, so it is not doubled."""
    return clusters.count


def _root_up(squared: float) -> float:
    root = math.sqrt(squared)
    return root if Fraction(root) ** 2 >= Fraction(squared) else math.nextafter(root, math.inf)


def _reason(domain: Domain, change: Change, rows_per_record: int) -> str:
    rows = (
        f"row norm at most {domain.row_norm.radius:g}"
        if domain.row_norm
        else f"{unit_coordinates(domain)} unit coordinates"
    )
    what = {"added": "added or removed", "replaced": "replaced", "either": "added, removed or replaced"}[change]
    weight = f" of weight at most {domain.weight.most:g}" if domain.weight else ""
    return f"{rows}; {rows_per_record} row{'s' if rows_per_record > 1 else ''}{weight} {what} with one record"
