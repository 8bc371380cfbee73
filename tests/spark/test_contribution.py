"""The cap on a person's rows, without Spark: what is kept, the same however rows arrive, and each row as likely as the next."""

from __future__ import annotations

import decimal
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpspark.core.domain import Categorical, Domain, GroupKey, Numeric, Weight
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.groups import GroupList
from dpspark.spark.persons import ContributionCap, row_keeper
from dpspark.spark.row_order import RowOrder
from dpspark.spark.usable import Usable


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
        found += cap.add(part.column("person"), part, seen(part))
        assert cap._held is None or cap._held.num_rows <= most  # what a task holds does not grow with a person
    found += cap.finish()
    return Counter(tuple(row.values()) for part in found for row in part.to_pylist())


def seen(rows: pa.RecordBatch) -> list[np.ndarray]:
    """What a release sees: doubles, and codes of categories."""
    columns = (rows.column(i) for i in range(rows.num_columns - 1))
    doubles = [pa.types.is_floating(column.type) for column in columns]
    return [
        rows.column(i).to_numpy(zero_copy_only=False)
        if double
        else np.array([ord(t) for t in rows.column(i).to_pylist()])
        for i, double in enumerate(doubles)
    ]


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
        ContributionCap(1, random()).add(pa.array(["a", "b", "a"]), batch, [np.arange(3.0)])
    for back in (["b", "c", "d"], ["c", "d", "b"]):
        cap = ContributionCap(1, random())
        cap.add(pa.array(["b", "b", "c"]), batch, [np.arange(3.0)])
        with pytest.raises(ValueError, match="not together"):
            cap.add(pa.array(back), batch, [np.arange(3.0)])


def test_words_of_values() -> None:
    """Kills: −0.0 apart from 0.0, a null apart from a NaN, unknown categories that differ, codes that are joined into one."""

    def equal(column: Numeric | Categorical, values: pa.Array) -> list[list[bool]]:
        usable = Usable(Domain((Numeric("x", 0, 1), column), "midpoint"))
        rows = pa.record_batch([pa.array([1.0] * len(values)), values], names=["c0", "c1"])
        prints = RowOrder(random()).fingerprints(usable.words(usable.values(rows)))
        return (prints[:, None] == prints).tolist()

    alike = [[True, True, False], [True, True, False], [False, False, True]]
    number, text = Numeric("y", 0, 1), Categorical("s", ("a", "b", "é"))
    assert equal(number, pa.array([0.0, -0.0, None])) == alike
    assert equal(number, pa.array([float("nan"), None, 1.0])) == alike
    assert equal(number, pa.array([-float("nan"), float("nan"), 0.0])) == alike
    assert equal(number, pa.array([2**60, 2**60 + 1, 2**61])) == alike  # one double
    assert equal(number, pa.array([decimal.Decimal("1.5"), decimal.Decimal("1.5"), None])) == alike
    assert equal(number, pa.array([True, True, None])) == alike
    assert equal(text, pa.array(["é", "é", "b"])) == alike
    assert equal(text, pa.array(["unknown", None, "a"])) == alike
    assert equal(text, pa.array(["b", "b", "a"]).dictionary_encode()) == alike
    assert equal(Categorical("s", (1, 2)), pa.array([7, None, 1])) == alike


def test_codes_are_joined_one_to_one() -> None:
    """Kills: two rows of categories that are one word; a word that runs over."""
    sizes = (2, 3, 4)
    columns = tuple(Categorical(f"s{i}", tuple(range(size))) for i, size in enumerate(sizes))
    usable = Usable(Domain(columns, "midpoint"))
    rows = np.array(list(itertools.product(*(range(-1, size) for size in sizes)))).T
    (word,) = usable.words(list(rows))
    assert len(np.unique(word)) == rows.shape[1] == 60
    wide = tuple(Categorical(f"s{i}", tuple(range(1000))) for i in range(9))
    usable = Usable(Domain((Numeric("x", 0, 1), *wide)))
    assert [len(together) for together in usable.layout] == [1, 6, 3]
    largest = usable.words([np.array([0.5]), *[np.array([999])] * 9])
    assert [int(word[0]) for word in largest[1:]] == [1001**6 - 1, 1001**3 - 1]


def test_whole_numbers_have_the_hash_of_their_text() -> None:
    """Kills: an order that depends on how an id is stored; a text that is cut off; bytes of a neighbour."""
    by, ids = RowOrder(random()), [0, -1, 7, 12345678, 123456789, -(2**63), 2**63 - 1]
    texts = [str(number) for number in ids]
    wanted = by.people(pa.array(texts)).tolist()
    assert by.people(pa.array(ids)).tolist() == wanted
    assert by.people(pa.array(["x", *texts, "y"]).slice(1, len(ids))).tolist() == wanted
    assert [int(by.people(pa.array([text]))[0]) for text in texts] == wanted
    odd = ["", "\0", "a", "a\0", "a" * 7, "a" * 8, "a" * 9, "a" * 16, "b" + "a" * 15, "é", "a" * 1000]
    assert len(set(by.people(pa.array(odd)).tolist())) == len(odd)
    assert by.people(pa.array([], pa.string())).tolist() == []


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
    assert usable.mask(usable.values(rows)).tolist() == expected
    by_value = Usable(domain, GroupList([("1",)]), by_value=True)
    assert by_value.mask(by_value.values(rows)).tolist()[:4] == [True] * 4
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
