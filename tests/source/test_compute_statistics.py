"""Row groups are skipped only if their statistics prove that a filter keeps none of their rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.source.compute.compile import compile_expression
from dpspark.source.compute.program import keep_mask
from dpspark.source.compute.statistics import ColumnStatistics, can_skip, statistics_of

TYPES = {"i": "int", "k": "bigint", "x": "double", "f": "float", "d": "date", "s": "string", "t": "timestamp"}
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "i": (pa.int32(), [-3, -1, 0, 1, 2, 5]),
    "k": (pa.int64(), [-3, 0, 2, (1 << 53) + 1, 1 << 53]),
    "x": (pa.float64(), [-1.5, -0.0, 0.0, 1.0, 2.5, float("nan"), float("inf"), float("-inf")]),
    "f": (pa.float32(), [-1.5, 0.0, 1.0, 16777216.0, float("nan")]),
    "d": (pa.date32(), [-800000, 0, 1, 18262, 3000000]),
    "s": (pa.string(), ["", "a", "b", "é"]),
    "t": (pa.timestamp("us", "UTC"), [0, 1, -1, 10**15]),
}
CONSTANTS = {
    "i": ["-3", "-1", "0", "1", "2", "5", "1.5", "2147483648", "2.5D"],
    "k": ["-3", "0", "2", "9007199254740992", "9007199254740993", "9007199254740992D", "1.5"],
    "x": ["-1.5D", "0.0D", "-0.0D", "1", "2.5", "1e300"],
    "f": ["-1.5D", "0", "1", "16777216", "16777217D", "0.5"],
    "d": ["date'1970-01-01'", "'1970-01-02'", "date'2020-01-01'"],
    "s": ["''", "'a'", "'c'"],
    "t": ["'1970-01-01'", "date'2001-09-09'"],
}


def random_group(rng: random.Random) -> pa.Table:
    """A few rows, each column of values near each other, with nulls by chance, or of nulls alone."""
    rows, found = rng.randint(1, 4), {}
    for name, (kind, values) in VALUES.items():
        start = rng.randrange(len(values))
        near = values[start : start + rng.randint(1, 3)] + [None] * rng.choice([0, 0, 1, 9])
        found[name] = pa.array([rng.choice(near) for _ in range(rows)], kind)
    return pa.table(found)


def random_filter(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.6:
        one, other = (random_filter(rng, depth - 1) for _ in range(2))
        return rng.choice(
            [f"({one}) and ({other})", f"({one}) or ({other})", f"not ({one})", f"not (({one}) or ({other}))"]
        )
    name = rng.choice(list(VALUES))
    signs = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
    constant = lambda: rng.choice(CONSTANTS[name])  # noqa: E731
    forms = [
        *(f"{name} {rng.choice(signs)} {constant()}",) * 4,
        f"{constant()} {rng.choice(signs)} {name}",
        f"{name} {rng.choice(['', 'not '])}between {constant()} and {constant()}",
        f"{name} is {rng.choice(['', 'not '])}null",
        f"{name} <=> null",
        f"i {rng.choice(signs)} k",
        f"k {rng.choice(signs)} x",
        f"cast(k as double) {rng.choice(signs)} 9007199254740992D",
        f"cast(f as double) {rng.choice(signs)} 0.5D",
        f"-i {rng.choice(signs)} 1",
        f"i {rng.choice(['', 'not '])}in (0, 2, 7)",
        f"k in (9007199254740993, {constant() if name == 'k' else 3})",
        "d in (date'1970-01-01', date'2020-01-01')",
        f"isnan({rng.choice('xf')})",
    ]
    return rng.choice(forms)


def test_no_row_that_a_filter_keeps_is_skipped(tmp_path: Path) -> None:
    """Kills: statistics that forget NaN, nulls, both zeros, or how a bigint is rounded to a double."""
    rng, skipped, empty = random.Random(4), 0, 0
    for _ in range(120):
        table = random_group(rng)
        pq.write_table(table, tmp_path / "group.parquet")
        known = statistics_of(pq.ParquetFile(tmp_path / "group.parquet").metadata.row_group(0), TYPES)
        columns = {name: table.column(name).combine_chunks() for name in TYPES}
        for _ in range(60):
            program = compile_expression(random_filter(rng), TYPES, "UTC")
            mask = keep_mask(program, columns, len(table))
            kept = mask is None or bool(mask.any())
            empty += not kept
            if can_skip(program, known):
                skipped += 1
                assert not kept, program
    assert skipped > empty / 3  # statistics are of use


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        *(("i > 10", True), ("i > 9", False), ("i >= 10", False), ("i < 1", True), ("i <= 1", False), ("i = 11", True)),
        *(
            ("i = 5", False),
            ("i <> 5", False),
            ("i in (0, 11)", True),
            ("i between 11 and 20", True),
            ("i is null", True),
        ),
        *(("i is not null", False), ("not i <= 10", True), ("i > 10 or i < 1", True), ("i > 10 and s = 'a'", True)),
        *(("i > 10 or s = 'a'", False), ("i > 10.5", False), ("i > 2147483648", True), ("k > 5", True)),
        *(("k is null", False), ("x < 0", True), ("x > 100", False), ("x = 100", False), ("x < 100", False)),
        *(
            ("s is null", True),
            ("s = 'zzz'", False),
            ("nothing = 1", False),
            ("false", True),
            ("true", False),
            ("i > null", True),
        ),
    ],
)
def test_what_is_skipped(text: str, skipped: bool) -> None:
    """`i > 10.5` compares decimals, whose statistics are not read; NaN may be beside the largest x."""
    known = {
        "i": ColumnStatistics(rows=9, nulls=0, minimum=1, maximum=10),
        "k": ColumnStatistics(rows=9, nulls=9),
        "x": ColumnStatistics(rows=9, nulls=None, minimum=0.0, maximum=5.0),
        "s": ColumnStatistics(rows=9, nulls=0),
    }
    types = {**TYPES, "nothing": "int"}
    assert can_skip(compile_expression(text, types, "UTC"), known) is skipped


def test_statistics_are_read_only_where_they_are_sure(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "u": pa.array([1, 2, 3], pa.uint32()),
            "d": pa.array([3_000_000, 0, 1], pa.date32()),
            "x": [1.0, float("nan"), 2.0],
            "s": ["a", "b", None],
            "t": pa.array([0, 1, 2], pa.timestamp("us")),
        }
    )
    pq.write_table(table, tmp_path / "some.parquet")
    pq.write_table(table, tmp_path / "none.parquet", write_statistics=False)
    group = pq.ParquetFile(tmp_path / "some.parquet").metadata.row_group(0)
    found = statistics_of(group, ["i", "u", "d", "x", "s", "t", "missing"])
    assert found["i"] == ColumnStatistics(3, 1, 1, 3)
    assert found["d"] == ColumnStatistics(3, 0, 0, 3_000_000)
    assert found["x"] == ColumnStatistics(3, 0, 1.0, 2.0)
    assert [found[name] for name in "ust"] == [ColumnStatistics(3, 0), ColumnStatistics(3, 1), ColumnStatistics(3, 0)]
    assert "missing" not in found
    assert statistics_of(pq.ParquetFile(tmp_path / "none.parquet").metadata.row_group(0), ["i"]) == {}
