"""Theil–Sen by pairs: who is in how many, what a new record does to them, and the laws of the three private medians."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import linprog

from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen, Runs, draw_edge, runs
from dpspark.mechanisms.lines.pairs import all_pairs, matchings, values_at
from dpspark.mechanisms.lines.plane import Plane
from dpspark.mechanisms.lines.smooth_sensitivity import SmoothTheilSen, smooth_sensitivity, student
from dpspark.mechanisms.lines.widened import WidenedTheilSen, widened_runs
from dpspark.privacy.budget import Budget, zcdp_rho
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.sensitivity import pair_rank_spread
from tests.lines import calibrate
from tests.robust_laws import RANDOM, chi_squared, edge_law, loss, lower_bound

PLANE = Plane((0.0, 1.0), (0.0, 1.0))
Matching = frozenset[frozenset[int]]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 10])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_a_record_is_in_at_most_k_pairs(n: int, k: int) -> None:
    """Kills: pairs drawn with replacement, overlapping halves, a pair of a record with itself."""
    for label in range(20):
        first, second = matchings(n, k, RANDOM.stream("pairs", label))
        assert len(first) == len(second) == k * (n // 2)
        assert (first != second).all()
        assert max(Counter([*first.tolist(), *second.tolist()]).values(), default=0) <= k
        for matching in range(k):
            part = slice(matching * (n // 2), (matching + 1) * (n // 2))
            assert len({*first[part].tolist(), *second[part].tolist()}) == 2 * (n // 2)


def test_all_pairs() -> None:
    first, second = all_pairs(5)
    assert len({frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)}) == 10
    assert all(len(part) == 0 for part in all_pairs(1))


def near_perfect(records: tuple[int, ...]) -> list[Matching]:
    """All of them, each as often as the others."""
    if len(records) < 2:
        return [frozenset()]
    if len(records) % 2:
        return [m for out in records for m in near_perfect(tuple(r for r in records if r != out))]
    first, rest = records[0], records[1:]
    return [
        m | {frozenset({first, other})} for other in rest for m in near_perfect(tuple(r for r in rest if r != other))
    ]


def drawn_matching(n: int, label: int) -> Matching:
    first, second = matchings(n, 1, RANDOM.stream("drawn", label))
    return frozenset(map(frozenset, zip(first.tolist(), second.tolist(), strict=True)))


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_matchings_are_uniform(n: int) -> None:
    """Kills: a shuffle that favours some. χ², false alarm 1e-6."""
    possible = {m: i for i, m in enumerate(near_perfect(tuple(range(n))))}
    drawn = np.bincount([possible[drawn_matching(n, i)] for i in range(3000)], minlength=len(possible))
    assert chi_squared(drawn, np.full(len(possible), 1 / len(possible))) > 1e-6


def coupled_within(before: list[Matching], after: list[Matching], moves: int) -> bool:
    """Whether two uniform laws have a coupling in which |below − above| never moves by more than `moves`.

    A removed pair moves it by 1, an added one too. A question of flow: only pairs of matchings that are near may carry any.
    """
    near = [(i, j) for i, a in enumerate(before) for j, b in enumerate(after) if len(a ^ b) <= moves]
    if not near:
        return False
    rows = len(before) + len(after)
    flow = np.zeros((rows, len(near)))
    for at, (i, j) in enumerate(near):
        flow[i, at] = flow[len(before) + j, at] = 1
    supply = np.concatenate([np.full(len(before), 1 / len(before)), np.full(len(after), 1 / len(after))])
    return linprog(np.zeros(len(near)), A_eq=flow, b_eq=supply).status == 0


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_a_new_record_moves_one_pair_of_a_matching(n: int) -> None:
    """Kills: add/remove stability claimed without the coupling. n odd: a pair comes (1); n even: one is replaced (2)."""
    before, after = near_perfect(tuple(range(n))), near_perfect(tuple(range(n + 1)))
    assert coupled_within(before, after, 1 if n % 2 else 2)


def test_to_cut_before_the_shuffle_is_not_stable() -> None:
    """OpenDP #2950: an odd table's last record is dropped, then the rest is shuffled. From 5 to 6 rows three pairs move."""
    cut = near_perfect((0, 1, 2, 3))  # of five rows
    assert not coupled_within(cut, near_perfect(tuple(range(6))), 2)
    assert coupled_within(cut, near_perfect(tuple(range(6))), 3)


def mixture(mechanism: ExponentialTheilSen, x: np.ndarray, y: np.ndarray, exponent: float) -> np.ndarray:
    """The exact law of the first anchor's edge, over all matchings (k = 1)."""
    rows = mechanism.plane.rows(x, y)
    laws = []
    for matching in near_perfect(tuple(range(len(rows)))):
        ends = np.array([sorted(pair) for pair in matching], dtype=np.int64).reshape(-1, 2)
        (values,) = values_at(rows, (ends[:, 0], ends[:, 1]), mechanism.plane.anchors[:1], (0.0, 1.0), mechanism.cells)
        laws.append(edge_law(mechanism, values, exponent))
    return np.mean(laws, axis=0)


def test_added_and_replaced_records_cost_epsilon() -> None:
    """By the exact law, over all matchings, on small tables."""
    rng = np.random.default_rng(0)
    mechanism = ExponentialTheilSen(PLANE, 1.0 / pair_rank_spread(1), 1, cells=6)
    for _ in range(40):
        n = int(rng.integers(1, 7))
        x, y = (rng.choice([0, 0.25, 0.5, 0.75, 1.0, *rng.random(2)], n + 1) for _ in range(2))
        whole = mixture(mechanism, x, y, mechanism.exponent)
        without = mixture(mechanism, x[:-1], y[:-1], mechanism.exponent)
        instead = mixture(mechanism, x[1:], y[1:], mechanism.exponent)  # the first record became the last
        assert loss(whole, without) <= 1.0
        assert loss(without, instead) <= 1.0


def zigzag(n: int) -> tuple[np.ndarray, np.ndarray]:
    """At x = 0, lines of records (0, 1), (2, 3)... are below the candidates, those of (1, 2), (3, 4)... above."""
    return np.linspace(0.3, 0.7, n), np.where(np.arange(n) % 2, 0.9, 0.1)


def test_pairing_by_a_public_order_is_not_private() -> None:
    """The mutant: neighbours in a sorted (or publicly hashed) order are paired. One insertion re-pairs everybody."""
    mechanism = ExponentialTheilSen(
        Plane((0.0, 1.0), (0.0, 1.0), cuts=(0.0, 1.0)), 1.0 / pair_rank_spread(1), 1, cells=1
    )

    def public(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        rows = mechanism.plane.rows(x, y)
        even = np.arange(0, len(rows) - 1, 2)
        return edge_law(mechanism, values_at(rows, (even, even + 1), (0.0,), (0.0, 1.0), 1)[0])

    def with_first(data: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return np.append(data[0], 0.0), np.append(data[1], 0.5)

    assert loss(public(*zigzag(20)), public(*with_first(zigzag(20)))) > 1.5
    secret = [mixture(mechanism, *data, mechanism.exponent) for data in (zigzag(8), with_first(zigzag(8)))]
    assert loss(*secret) <= 1.0


def tight_values(cells: int, moved: bool, copies: int = 1) -> np.ndarray:
    """Many at both ends, two at a tenth; one goes from the left end to the right one."""
    left, right = (29, 31) if moved else (30, 30)
    return np.repeat([0, cells // 10, cells], [left * copies, 2 * copies, right * copies])


@pytest.mark.parametrize("k", [1, 10])
def test_the_law_is_tight(k: int) -> None:
    """Kills: 2k for 4k in the exponent. k values move at once; p25 and p75 have half of epsilon each."""
    cells = 4000
    mechanism = calibrate("exponential", PLANE, Budget(1.0, 0.0), Records("replaced"), matchings=k, cells=cells).kernel
    assert isinstance(mechanism, ExponentialTheilSen)
    pair = [tight_values(cells, moved, k) for moved in (False, True)]
    one = loss(*(edge_law(mechanism, values) for values in pair))
    assert 0.45 < one <= 0.5
    assert loss(*(edge_law(mechanism, values, 2 * mechanism.exponent) for values in pair)) > 0.5
    # Both anchors at the tight pair: together at most epsilon; with all of epsilon for each (Alabi's code), twice that.
    assert 0.9 < 2 * one <= 1.0


def test_audit_of_real_draws() -> None:
    """Kills: a doubled exponent anywhere between calibration and the drawn edges. Joint event of two anchors; seeded.

    The pair and the event (both edges left of the tenth) were fixed beforehand.
    """
    cells, n = 10, 10_000
    laws = [
        calibrate("exponential", PLANE, Budget(e, 0.0), Records("replaced"), cells=cells).kernel for e in (1.0, 2.0)
    ]

    def shown(mechanism: ExponentialTheilSen) -> float:
        hits = []
        for moved in (False, True):
            stream = RANDOM.stream("audit", int(moved))
            of = mechanism.runs(tight_values(cells, moved, 10))
            inside = [draw_edge(of, mechanism.exponent, stream) <= cells // 10 for _ in range(2 * n)]
            hits.append(sum(a and b for a, b in zip(inside[::2], inside[1::2], strict=True)))
        return lower_bound((hits[0], hits[1]), n)

    claimed, doubled = (shown(law) for law in laws if isinstance(law, ExponentialTheilSen))
    assert 0.1 < claimed <= 1.0
    assert doubled > 1.0


def test_calibration_composes_the_anchors() -> None:
    """Kills: epsilon for each anchor; epsilon²/2 for epsilon²/8; a moving record counted once; m rows as one."""

    def kernel(budget: Budget, records: Records, **options: object) -> ExponentialTheilSen:
        made = calibrate("exponential", PLANE, budget, records, **options).kernel
        assert isinstance(made, ExponentialTheilSen)
        return made

    plain = kernel(Budget(1.0, 0.0), Records("added"))
    assert plain.exponent == pytest.approx(0.5 / 40)
    assert plain.exponent < 0.5 / 40
    assert kernel(Budget(1.0, 0.0), Records("replaced", 3)).exponent == pytest.approx(0.5 / 120)
    assert kernel(Budget(1.0, 0.0), Records("replaced", moves=True)).exponent == pytest.approx(0.5 / 80)
    in_rho = kernel(Budget(rho=0.02), Records("added")).exponent * 40
    assert 2 * in_rho**2 / 8 == pytest.approx(0.02)
    both = kernel(Budget(8.0, 1e-2), Records("added")).exponent * 40
    assert both == pytest.approx(max(4.0, math.sqrt(8 * zcdp_rho(8.0, 1e-2) / 2)))
    single = Plane((0.0, 1.0), (0.0, 1.0), cuts=(0.3,))
    alone = calibrate("exponential", single, Budget(1.0, 0.0), Records("added")).kernel
    assert isinstance(alone, ExponentialTheilSen)
    assert alone.exponent == pytest.approx(1 / 40)
    with pytest.raises(ConfError, match="too little"):
        kernel(Budget(1e-12, 0.0), Records("added"))


def test_public_rows_are_required_where_they_are_used() -> None:
    """Kills: all pairs, or smooth sensitivity, while the number of rows is private."""
    for name in ("all_pairs", "smooth_sensitivity"):
        for records in (Records("added"), Records("either"), Records("replaced", moves=True)):
            with pytest.raises(ConfError, match="public"):
                calibrate(name, PLANE, Budget(1.0, 0.0), records)  # type: ignore[arg-type]


def test_all_pairs_cost_epsilon() -> None:
    """By the exact law; a replaced record is in n − 1 pairs."""
    rng = np.random.default_rng(4)
    kernel = calibrate("all_pairs", PLANE, Budget(1.0, 0.0), Records("replaced"), cells=8).kernel
    assert isinstance(kernel, ExponentialTheilSen)
    for _ in range(60):
        n = int(rng.integers(2, 9))
        x, y = rng.random(n + 1), rng.integers(0, 2, n + 1).astype(float)
        laws = []
        for part in (slice(0, n), slice(1, n + 1)):
            rows = PLANE.rows(x[part], y[part])
            (values,) = values_at(rows, all_pairs(n), (0.25,), (0.0, 1.0), 8)
            laws.append(edge_law(kernel, values, kernel.exponent / (n - 1)))
        assert loss(*laws) <= 0.5


def drawn_laws(
    kernel: ExponentialTheilSen, x: np.ndarray, y: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> list[np.ndarray]:
    """The exact law of each anchor's edge as `fit` itself asks for it: its runs, its exponent."""
    asked: list[tuple[Runs, float]] = []

    def caught(of: Runs, exponent: float, stream: Stream) -> int:
        asked.append((of, exponent))
        return draw_edge(of, exponent, stream)

    with monkeypatch.context() as patched:
        patched.setattr("dpspark.mechanisms.lines.exponential.draw_edge", caught)
        kernel.fit(x, y, RANDOM, "law")
    weights = [np.exp(-exponent * np.repeat(losses, sizes)) for (_, sizes, losses), exponent in asked]
    return [part / part.sum() for part in weights]


@pytest.mark.parametrize("n", [4, 5, 6])
def test_all_pairs_of_a_fit_cost_epsilon(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: an exponent divided by n − 2, on a hard pair. A record over the first anchor is in n − 1 pairs: all of them go
    from one end of the candidates to the other, and the other pairs lie at a tenth.
    """
    kernel = calibrate("all_pairs", PLANE, Budget(1.0, 0.0), Records("replaced"), cells=20).kernel
    assert isinstance(kernel, ExponentialTheilSen)
    x, flat = np.append(np.linspace(0.05, 0.95, n - 1), 0.25), np.full(n - 1, 0.1)
    one, other = (drawn_laws(kernel, x, np.append(flat, end), monkeypatch)[0] for end in (0.0, 1.0))
    assert 0.5 * (n - 2) / (n - 1) < loss(one, other) <= 0.5


@pytest.mark.parametrize("name", ["exponential", "all_pairs", "widened", "smooth_sensitivity"])
def test_streams_of_a_fit_are_its_own(name: str) -> None:
    """Kills: one stream for the pairs, the coins and the draws, whose words would then depend on each other."""
    kernel = calibrate(name, PLANE, Budget(1.0, 0.0), Records("replaced")).kernel
    used: list[tuple[str | bytes | int, ...]] = []

    class Watched(KeyedRandom):
        def stream(self, *labels: str | bytes | int) -> Stream:
            used.append(labels)
            return super().stream(*labels)

    kernel.fit(np.linspace(0, 1, 9), np.linspace(0, 1, 9), Watched(bytes(32)), "group", 1)
    assert all(labels[1:] == ("group", 1) for labels in used)
    assert len(used) == len(set(used)) == {"all_pairs": 1, "smooth_sensitivity": 3}.get(name, 2)


def brute_losses(values: np.ndarray, cells: int, width: int) -> np.ndarray:
    plain = np.array([abs(int((values < r).sum()) - int((values > r).sum())) for r in range(cells + 1)])
    return np.array([plain[max(0, r - width) : r + width + 1].min() for r in range(cells + 1)])


@pytest.mark.parametrize("width", [0, 1, 3, 50])
def test_runs_are_the_losses_of_every_edge(width: int) -> None:
    """Kills: an off-by-one edge, a value that counts on both sides, a width that moves only one half."""
    rng, cells = np.random.default_rng(2), 20
    for n in (0, 1, 2, 3, 8, 15):
        values = rng.integers(0, cells + 1, n) if n != 8 else np.repeat([0, 20], 4)
        first, sizes, losses = widened_runs(runs(values, cells), width, cells)
        keep = sizes > 0
        assert first[keep].tolist() == [0, *(np.cumsum(sizes[keep])[:-1]).tolist()]
        assert np.repeat(losses, sizes).tolist() == brute_losses(values, cells, width).tolist()


@pytest.mark.parametrize("width", [0, 2])
def test_draws_follow_the_law(width: int) -> None:
    """χ² of real draws against brute force; false alarm 1e-6. A doubled exponent is seen."""
    cells, rng = 30, np.random.default_rng(5)
    values = np.concatenate([rng.integers(8, 20, 25), [3, 3, 3, 29]])
    mechanism = WidenedTheilSen(PLANE, 0.3, 1, cells, width)
    stream = RANDOM.stream("chi", width)
    drawn = np.bincount([draw_edge(mechanism.runs(values), 0.3, stream) for _ in range(10_000)], minlength=cells + 1)
    weights = np.exp(-0.3 * brute_losses(values, cells, width))
    assert chi_squared(drawn, weights / weights.sum()) > 1e-6
    assert chi_squared(drawn, weights**2 / (weights**2).sum()) < 1e-6


def test_ties_and_far_lines() -> None:
    """A pair with one x is left out, or goes to an end by a coin that knows nothing of it; steep lines are clipped."""
    rows = PLANE.rows(np.array([0.5, 0.5, 0.5, 0.500001]), np.array([0.1, 0.9, 0.4, 0.0]))
    ends = np.array([0, 0, 2]), np.array([1, 2, 3])
    kept = values_at(rows, ends, (0.0, 1.0), (0.0, 1.0), 100)
    assert [part.tolist() for part in kept] == [[100], [0]]
    coins = [values_at(rows, ends, (0.0,), (0.0, 1.0), 100, RANDOM.stream("ties", i))[0] for i in range(200)]
    assert {len(part) for part in coins} == {3}
    assert 60 < sum(int(part[0]) for part in coins) / 100 < 140


def slow_smooth(values: np.ndarray, k: int, decay: float, cells: int, inclusive: bool = True) -> float:
    """From the formula, one index at a time. Without `inclusive`: Alabi's reference code, which stops before t = (l+1)k."""
    z, middle = {i: int(v) for i, v in enumerate(values)}, (len(values) - 1) // 2

    def at(i: int) -> int:
        return z.get(i, 0 if i < 0 else cells)

    best = 0.0
    for others in range(len(values) + 2):
        q = (others + 1) * k
        widest = max(at(middle + t) - at(middle + t - q) for t in range(q + (1 if inclusive else 0)))
        best = max(best, math.exp(-decay * others) * widest)
    return best


def smooth_neighbours(seed: int, count: int, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng, pairs = np.random.default_rng(seed), []
    for _ in range(count):
        m = k * int(rng.integers(1, 8))
        values = np.sort(rng.choice([0, 100, *rng.integers(0, 101, 4)], m))
        other = values.copy()
        other[rng.choice(m, min(k, m), replace=False)] = rng.choice([0, 100, *rng.integers(0, 101, 2)], min(k, m))
        pairs.append((values, np.sort(other)))
    return pairs


@pytest.mark.parametrize("k", [1, 2])
def test_the_sensitivity_is_smooth(k: int) -> None:
    """Kills: the loop that misses t = (l+1)·k; a decay over values and not records. On 800 pairs a record apart."""
    decay = 0.3
    broken = 0
    for one, other in smooth_neighbours(1, 800, k):
        sizes = [float(smooth_sensitivity(part, k, decay, 100)) for part in (one, other)]
        assert sizes == pytest.approx([slow_smooth(part, k, decay, 100) for part in (one, other)])
        assert max(sizes) <= min(sizes) * math.exp(decay) * (1 + 1e-9)
        assert abs(int(one[(len(one) - 1) // 2]) - int(other[(len(one) - 1) // 2])) <= min(sizes) + 1e-9
        short = [slow_smooth(part, k, decay, 100, inclusive=False) for part in (one, other)]
        moved = abs(int(one[(len(one) - 1) // 2]) - int(other[(len(one) - 1) // 2]))
        broken += max(short) > min(short) * math.exp(decay) * (1 + 1e-9) or moved > min(short) + 1e-9
    assert broken > 0


def student_loss(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The largest log ratio of two scaled Student densities (2 degrees of freedom), given as (centre, scale)."""
    at = np.concatenate([np.linspace(-300, 400, 4001), 10.0 ** np.arange(3, 12), -(10.0 ** np.arange(3, 12))])
    logs = [-math.log(s) - 1.5 * np.log1p(((at - c) / s) ** 2 / 2) for c, s in (one, other)]
    return float(abs(logs[0] - logs[1]).max())


def test_smooth_sensitivity_costs_epsilon() -> None:
    """Kills: log10 for ln, the share of the decay left out, noise over epsilon. Exact densities of 400 neighbours.

    With a decay or a noise that is twice too large (as log10 makes it), some neighbours show more than epsilon.
    """
    epsilon, k = 1.0, 2
    kernel = calibrate("smooth_sensitivity", PLANE, Budget(2 * epsilon, 0.0), Records("replaced")).kernel  # two cuts
    assert isinstance(kernel, SmoothTheilSen)
    noise, decay = kernel.noise, kernel.decay
    assert 0.999 < 3 * noise / (2 * math.sqrt(2)) + 2 * decay <= epsilon

    def worst(noise: float, decay: float) -> float:
        losses = []
        for pair in smooth_neighbours(3, 400, k):
            ends = [
                (float(part[(len(part) - 1) // 2]), float(smooth_sensitivity(part, k, decay, 100)) / noise)
                for part in pair
            ]
            losses.append(student_loss(*ends))
        return max(losses)

    assert worst(noise, decay) <= epsilon
    assert worst(math.log(10) * noise, math.log(10) * decay) > epsilon


def test_student_noise() -> None:
    """Kills: one degree of freedom for two, a scale left out. Quartiles of T_2 are ±0.8165; false alarm 1e-6."""
    stream = RANDOM.stream("student")
    drawn = np.array([float(student(stream)) for _ in range(4000)])
    for quantile, chance in ((-0.8165, 0.25), (0.0, 0.5), (0.8165, 0.75), (2.92, 0.95)):
        assert abs((drawn < quantile).mean() - chance) < 5 * math.sqrt(chance * (1 - chance) / 4000)


def test_smooth_number_of_values_is_fixed() -> None:
    """Kills: pairs with one x that are dropped, which would show how many there are."""
    kernel = SmoothTheilSen(PLANE, 0.3, 0.1, 4)
    for data in (np.full(6, 0.5), np.linspace(0, 1, 6)):
        rows = PLANE.rows(data, data)
        ends = matchings(6, 4, RANDOM.stream("fixed"))
        (values, _) = values_at(rows, ends, PLANE.anchors, (0.0, 1.0), kernel.cells, RANDOM.stream("coins"))
        assert len(values) == 12


def test_enumeration_of_matchings_is_complete() -> None:
    assert [len(near_perfect(tuple(range(n)))) for n in range(7)] == [1, 1, 1, 3, 3, 15, 15]
    assert len(set(itertools.chain(near_perfect(tuple(range(5)))))) == 15


@pytest.mark.parametrize("budget", [Budget(1.0, 0.0), Budget(6.0, 0.0), Budget(rho=0.2)], ids=str)
def test_smooth_sensitivity_has_no_more_than_its_epsilon(budget: Budget) -> None:
    """Kills: noise half of what is needed. Student noise with d = 2: epsilon = s(d + 1)/(2√d) + decay·d, for each cut."""
    mechanism = calibrate("smooth_sensitivity", Plane((0.0, 1.0), (0.0, 1.0)), budget, Records("replaced"))
    kernel = mechanism.kernel
    assert isinstance(kernel, SmoothTheilSen)
    each = kernel.noise * 3 / (2 * math.sqrt(2)) + 2 * kernel.decay
    allowed = budget.epsilon / 2 if budget.epsilon is not None else math.sqrt(2 * 0.2 / 2)
    assert 0.999 * allowed <= each <= allowed
