"""The cap on a person's rows, without Spark: what is kept, the same however rows arrive, and each row as likely as the next."""

from __future__ import annotations

import decimal
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpspark.core.domain import Categorical, Domain, GroupKey, Numeric, Weight
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.groups import GroupList
from dpspark.spark.persons import ContributionCap, Usable, content_words, row_keeper

KEY = b"k" * 16


def random(number: int = 0) -> KeyedRandom:
    return KeyedRandom(number.to_bytes(32, "big"))


def sorted_rows(people: list[str | None], *columns: list[Any]) -> pa.Table:
    """As a task gets them: by person, nulls first, then by values."""
    names = [f"c{i}" for i in range(len(columns))]
    table = pa.table({**dict(zip(names, map(pa.array, columns), strict=True)), "person": pa.array(people, pa.string())})
    return table.sort_by([("person", "ascending"), *((name, "ascending") for name in names)])


def kept(table: pa.Table, most: int, secret: KeyedRandom, batch: int = 1 << 20) -> Counter[tuple[Any, ...]]:
    cap, found = ContributionCap(most, secret), []
    for start in range(0, table.num_rows, batch):
        (part,) = table.slice(start, batch).combine_chunks().to_batches()
        found += cap.add(part.column("person"), part)
        assert cap._held is None or cap._held.num_rows <= most  # what a task holds does not grow with a person
    found += cap.finish()
    return Counter(tuple(row.values()) for part in found for row in part.to_pylist())


def many(seed: int = 1) -> tuple[list[str], list[float], list[str]]:
    rng = np.random.default_rng(seed)
    people = rng.choice([f"p{i}" for i in range(30)], 1500, p=np.append(np.full(29, 0.02), 0.42))
    return people.tolist(), rng.integers(0, 5, 1500).astype(float).tolist(), rng.choice(["a", "b"], 1500).tolist()


def test_at_most_so_many_of_each_person() -> None:
    """Kills: a cap of m + 1, or of m for all people together."""
    people, x, s = many()
    for most in (1, 3, 60):
        found = Counter()
        for row, count in kept(sorted_rows(people, x, s), most, random()).items():
            found[row[-1]] += count
        assert found == {person: min(count, most) for person, count in Counter(people).items()}


@pytest.mark.parametrize("batch", [1, 7, 100, 640])
def test_the_same_rows_however_they_arrive(batch: int) -> None:
    """Kills: a hash of positions; ranks that start anew in each batch; a person cut in two by a batch."""
    people, x, s = many()
    whole = kept(sorted_rows(people, x, s), 3, random())
    shuffled = np.random.default_rng(2).permutation(len(people))
    again = [[column[i] for i in shuffled] for column in (people, x, s)]
    assert kept(sorted_rows(*again), 3, random(), batch) == whole
    assert kept(sorted_rows(people, x, s), 3, random(1)) != whole


def test_others_do_not_matter() -> None:
    """Kills: a hash that is not a person's own, and one that another person's rows can change."""
    people, x, s = many()
    whole = kept(sorted_rows(people, x, s), 3, random())
    for gone in ("p3", "p29"):
        rest = [row for row in zip(people, x, s, strict=True) if row[0] != gone]
        found = kept(sorted_rows(*map(list, zip(*rest, strict=True))), 3, random(), 64)
        assert found == Counter({row: count for row, count in whole.items() if row[-1] != gone})


def test_each_row_is_as_likely_as_the_others() -> None:
    """Kills: a hash without the secret, the first rows of a person, equal rows that are kept together or not at all.

    Seven rows of which four are equal, over 1500 secrets. χ², false alarm 1e-6.
    """
    x = [0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0]
    drawn: Counter[float] = Counter()
    pairs = 0
    table = sorted_rows(["p"] * 7, x)
    for secret in range(1500):
        found = kept(table, 2, random(secret))
        for (value, _), count in found.items():
            drawn[value] += count
        pairs += found == {(1.0, "p"): 2}
    assert stats.chisquare([drawn[v] for v in range(4)], np.array([1, 4, 1, 1]) * 3000 / 7).pvalue > 1e-6
    assert stats.binomtest(pairs, 1500, 6 / 21).pvalue > 1e-6  # two of the four equal rows


def test_people_with_equal_rows_are_drawn_each_by_itself() -> None:
    """Kills: a hash without the person, which keeps the same rows of everybody."""
    people = [f"p{i}" for i in range(50) for _ in range(6)]
    batches = sorted_rows(people, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] * 50).combine_chunks().to_batches()
    keep = row_keeper(Usable(Domain((Numeric("x", 0, 5),))), 1, random())  # the id is not among the values
    found = Counter(value for part in keep(iter(batches)) for value in part.column(0).to_pylist())
    assert sum(found.values()) == 50
    assert max(found.values()) < 25


def test_null_ids() -> None:
    """Each is a person of its own: all are kept, whatever the cap."""
    found = kept(sorted_rows([None] * 5 + ["p"] * 5 + [""] * 4, [1.0] * 14), 2, random(), 3)
    assert found == {(1.0, None): 5, (1.0, "p"): 2, (1.0, ""): 2}


def test_rows_that_are_not_sorted_are_refused() -> None:
    """Kills: a plan that lost its sort, with which a person would get a cap's worth of rows again and again."""
    batch = pa.record_batch([pa.array([1.0, 2.0, 3.0])], names=["c0"])
    with pytest.raises(ValueError, match="not together"):
        ContributionCap(1, random()).add(pa.array(["a", "b", "a"]), batch)
    for back in (["b", "c", "d"], ["c", "d", "b"]):
        cap = ContributionCap(1, random())
        cap.add(pa.array(["b", "b", "c"]), batch)
        with pytest.raises(ValueError, match="not together"):
            cap.add(pa.array(back), batch)


def test_words_of_values() -> None:
    """Kills: a null that is a zero, −0.0 apart from 0.0, text or whole numbers beyond 2^53 that are one."""

    def equal(*columns: Any) -> list[list[bool]]:
        words = np.array(
            content_words(pa.record_batch(list(columns), names=[str(i) for i in range(len(columns))]), KEY)
        )
        return [
            [bool((words[:, i] == words[:, j]).all()) for j in range(words.shape[1])] for i in range(words.shape[1])
        ]

    alike = [[True, True, False], [True, True, False], [False, False, True]]
    assert equal(pa.array([0.0, -0.0, None])) == alike
    assert equal(pa.array([float("nan"), -float("nan"), 1.0])) == alike
    assert equal(pa.array([2**60, 2**60, 2**60 + 1])) == alike
    assert equal(pa.array(["é", "é", "e"])) == alike
    assert equal(pa.array(["", "", None])) == alike
    assert equal(pa.array([True, True, False])) == alike
    assert equal(pa.array([True, True, None])) == alike
    assert equal(pa.array(["b", "b", "c"]).dictionary_encode()) == alike
    assert equal(pa.array([decimal.Decimal("1.5"), decimal.Decimal("1.5"), None])) == alike
    assert equal(pa.array([None, None, 0], pa.int32()), pa.array([1, 1, 1])) == alike
    wide = [pa.array([1.0, 1.0, 1.0]) for _ in range(70)]
    assert equal(*wide[:-1], pa.array([0, 0, None], pa.int8())) == alike  # nulls beyond 64 columns


@pytest.mark.parametrize("nulls", ["drop_row", "midpoint"])
def test_rows_that_cannot_be_used_take_nobody_s_place(nulls: str) -> None:
    """Nulls that drop a row, unknown categories, groups that are not listed, weights of 0: left out before the cap."""
    domain = Domain(
        (Numeric("x", 0, 1), Categorical("s", ("a", "b"))),
        nulls,  # type: ignore[arg-type]
        weight=Weight("w", 5.0),
        keys=(GroupKey("g"),),
    )
    columns = [
        pa.array([0.5, None, float("nan"), 0.5, 0.5, 0.5, 0.5]),
        pa.array(["a", "a", "a", "c", "b", "b", "b"]),
        pa.array(["1", "1", "1", "1", "2", None, "1"]),
        pa.array([1, 1, 1, 1, 1, 1, 0]),
    ]
    rows = pa.record_batch(columns, names=["c0", "c1", "c2", "c3"])
    usable = Usable(domain, GroupList([("1",)]))
    expected = [True, *[nulls == "midpoint"] * 3, False, False, False]
    assert usable.mask(rows).tolist() == expected
    assert Usable(domain, GroupList([("1",)]), by_value=True).mask(rows).tolist()[:4] == [True] * 4
    batch = pa.record_batch([*columns, pa.array(["p"] * 7)], names=["c0", "c1", "c2", "c3", "c4"])
    found = [row for part in row_keeper(usable, 1, random())(iter([batch])) for row in part.to_pylist()]
    assert len(found) == 1
    assert list(found[0]) == ["c0", "c1", "c2", "c3"]  # the id goes no further
    assert found[0]["c2"] == "1"


def test_errors_do_not_quote_data() -> None:
    batch = pa.record_batch([pa.array(["secret value"]), pa.array(["someone"])], names=["c0", "c1"])
    with pytest.raises(RuntimeError) as caught:
        list(row_keeper(Usable(Domain((Numeric("x", 0, 1),))), 1, random())(iter([batch])))
    assert "secret value" not in str(caught.value)
    assert caught.value.__cause__ is None
