"""The integer Gram matrix: exact whatever the cut, and beyond int64."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest

from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.exact.fixed_point import ExactGram, GramAccumulator, Wide, merge_partials


def gram_of(domain: Domain, columns: list[pa.Array], cuts: list[int]) -> list[int]:
    """Rows split into partials at `cuts`."""
    edges = [0, *cuts, len(columns[0])]
    partials = []
    for start, stop in itertools.pairwise(edges):
        accumulator = GramAccumulator(domain)
        accumulator.add([column.slice(start, stop - start) for column in columns], stop - start)
        partials.append(accumulator.finish())
    return ExactGram.from_partials(domain, partials).reveal()


def reference(domain: Domain, rows: list[list[float | None]]) -> list[int]:
    """One Python integer product after the other, for numeric columns."""
    width = domain.width
    total = [[0] * width for _ in range(width)]
    for row in rows:
        if any(value is None or value != value for value in row):
            continue
        q = [domain.one]
        for column, value in zip(domain.numeric, row, strict=True):
            assert value is not None
            t = (value - column.middle) * (domain.one / column.half)
            q.append(round(max(-domain.one, min(domain.one, t))))
        for i in range(width):
            for j in range(i, width):
                total[i][j] += q[i] * q[j]
    return [total[i][j] for i in range(width) for j in range(i, width)]


def test_equals_python_integers_for_any_cut() -> None:
    rng = np.random.default_rng(1)
    domain = Domain((Numeric("a", -2, 3), Numeric("b", 0, 1e6)))
    n = 20_000  # more than two blocks
    a, b = rng.normal(size=n), rng.lognormal(12, 2, n)
    b[::97] = np.nan
    expected = reference(domain, [list(pair) for pair in zip(a.tolist(), b.tolist(), strict=True)])
    columns = [pa.array(a), pa.array(b)]
    for cuts in ([], [1], [10_000], [8192], [5, 8191, 8192, 8193, 19_999], list(range(100, 20_000, 313))):
        assert gram_of(domain, columns, cuts) == expected


def test_full_blocks_of_extreme_rows_are_exact() -> None:
    """Kills: blocks one row too long for float64 (rows·4^bits > 2^53)."""
    domain = Domain((Numeric("a", 0, 1), Numeric("b", 0, 1)))
    n = 3 * domain.block_rows
    odd = np.ones(n)
    odd[0] = 0.5 + 2.0**-20  # one row just off the corner: its odd integers must survive the large sum
    got = gram_of(domain, [pa.array(odd), pa.array(np.ones(n))], [])
    one = domain.one
    q = 2
    assert got == [
        n * one**2,
        (n - 1) * one**2 + q * one,
        n * one**2,
        (n - 1) * one**2 + q * q,
        (n - 1) * one**2 + q * one,
        n * one**2,
    ]


def test_more_blocks_than_an_int64_holds() -> None:
    """Kills: a carry that comes too late or never. 1100 blocks of the largest rows add up past 2^63 on one task."""
    domain = Domain((Numeric("a", 0, 1),))
    blocks = 1100
    rows = pa.array(np.ones(domain.block_rows))
    accumulator = GramAccumulator(domain)
    for _ in range(blocks):
        accumulator.add([rows], domain.block_rows)
    got = ExactGram.from_partials(domain, [accumulator.finish()]).reveal()
    assert got == [blocks * domain.block_rows * domain.one**2] * 3
    assert got[0] > 2**63


def test_a_carry_starts_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a sum that is carried and kept."""
    monkeypatch.setattr("dpspark.exact.fixed_point.BLOCKS_BETWEEN_CARRIES", 2)
    domain = Domain((Numeric("a", 0, 1),))
    n = 7 * domain.block_rows
    assert gram_of(domain, [pa.array(np.zeros(n))], []) == [n * domain.one**2, -n * domain.one**2, n * domain.one**2]


@pytest.mark.parametrize("radius", [1.0, 7.3, 900.0])
def test_block_size_respects_projected_rows(radius: float) -> None:
    """Kills: a block size that forgets that projected rows are longer than 1."""
    domain = Domain((Numeric("a", -1, 1),), "midpoint", RowNorm("project", radius)).with_bits(20)
    assert domain.block_rows * (domain.one * max(1.0, radius)) ** 2 <= 2**53
    assert domain.block_rows >= 1024


def test_totals_beyond_int64() -> None:
    """Kills: int64 partial sums. 10^12 rows from synthetic partials."""
    domain = Domain((Numeric("a", 0, 1),))
    accumulator = GramAccumulator(domain)
    accumulator.add([pa.array([0.25, 1.0, 0.0])], 3)
    partial = accumulator.finish()
    once = ExactGram.from_partials(domain, [partial]).reveal()
    times = 40  # doubling merges: 2^40 copies of 3 rows
    for _ in range(times):
        partial = merge_partials([partial, partial], domain.width)
    got = ExactGram.from_partials(domain, [partial]).reveal()
    assert got == [value << times for value in once]
    assert max(got) > 2**63
    assert min(got) < -(2**63) or min(once) >= 0


def test_wide_integers_take_negative_numbers() -> None:
    wide = Wide.zero(2)
    values = np.array([-1, -(2**62), 2**62], dtype=np.int64)
    for _ in range(5):
        wide.add(values)
    assert Wide.from_bytes(wide.to_bytes()).to_integers() == [5 * int(v) for v in values]


def test_merge_of_nothing_is_zero() -> None:
    domain = Domain((Numeric("a", 0, 1), Categorical("s", ("x", "y"))))
    assert ExactGram.from_partials(domain, []).reveal() == [0] * 10


def test_exact_gram_keeps_its_values_to_itself() -> None:
    gram = ExactGram(Domain((Numeric("a", 0, 1),)), [123456789] * 3)
    assert "123456789" not in repr(gram) + str(gram)
    with pytest.raises(TypeError):
        pickle.dumps(gram)
