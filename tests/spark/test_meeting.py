"""Where people's rows meet, without Spark: for every secret, what is kept of a person depends on that person's rows alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dpspark.core.domain import Domain, Numeric, PersonKey
from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.parquet import open_parquet
from dpspark.spark import meeting
from dpspark.spark.meeting import Sent, choose_rows, numbers_of, pack_rows, place_rows, settle, tasks_of, unpack_met
from dpspark.spark.persons import ContributionCap
from dpspark.spark.row_order import RowOrder, canonical
from tests.persons import kept_rows

Row = tuple[Any, float, float]  # a person, and two values
Kept = dict[Any, Counter[tuple[float, float]]]


def random(number: int = 0) -> KeyedRandom:
    return KeyedRandom(number.to_bytes(32, "big"))


def keep(rows: list[Row], most: int, secret: int, layout: np.random.Generator | None = None) -> Kept:
    """What stays of each person, with the rows wherever they are: dealt out to tasks and sent in packs of any size."""
    order = np.arange(len(rows)) if layout is None else layout.permutation(len(rows))
    rows = [rows[i] for i in order]
    people = pa.array([row[0] for row in rows])
    ids = people if pa.types.is_integer(people.type) else people.cast(pa.large_binary())
    words = [np.array([row[i] for row in rows], dtype=float) for i in (1, 2)]
    cut = 0 if layout is None else int(layout.integers(0, len(rows) + 1))
    by = RowOrder(random(secret))
    prints, packs = by.fingerprints(words), []
    for task, first, part in ((3, 0, slice(0, cut)), (1, 5, slice(cut, len(rows)))):
        sent = Sent(task, first, np.arange(len(prints[part]), dtype=np.uint32), prints[part], ids[part])
        cuts = set() if layout is None else set(layout.integers(1, len(rows) + 1, 3).tolist())
        ends = sorted({min(end, len(prints[part])) for end in (*cuts, len(rows))} - {0})
        packs += [value.as_buffer() for value in pack_rows(sent, ends)]
    met = unpack_met(packs, pa.types.is_integer(people.type))
    assert met.places.tolist() == [*place_rows(3, 0, cut).tolist(), *place_rows(1, 5, len(rows) - cut).tolist()]
    chosen = choose_rows(met, most, by)
    gone = set(chosen.gone.tolist())
    if len(chosen.asked):
        told = [canonical(word[chosen.asked]) for word in words]
        gone |= set(chosen.asked[~settle(chosen.classes, chosen.stays, told)].tolist())
    found: Kept = {}
    for i, (person, *values) in enumerate(rows):
        if i not in gone:
            found.setdefault(person, Counter())[tuple(values)] += 1  # type: ignore[index]
    return found


def weaken(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """Fingerprints that collide again and again, as they may for some secret."""
    strong = RowOrder.fingerprints
    monkeypatch.setattr(RowOrder, "fingerprints", lambda self, words: strong(self, words) & np.uint64((1 << bits) - 1))


def by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the first rows stay, wherever they happen to be."""
    monkeypatch.setattr(RowOrder, "fingerprints", lambda self, words: np.arange(len(words[0]), dtype=np.uint64))


def by_place_among_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: of rows with one fingerprint those stay that happen to come first."""
    weaken(monkeypatch, 1)
    monkeypatch.setitem(globals(), "settle", lambda classes, stays, words: stays)


def tiny_tables(seed: int) -> tuple[list[Row], list[list[Row]]]:
    """Four people with up to six rows, some of them equal; and what one more person may have."""
    rng = np.random.default_rng(seed)

    def of(person: str, count: int) -> list[Row]:
        return [(person, *rng.integers(0, 3, 2).astype(float).tolist()) for _ in range(count)]  # type: ignore[misc]

    others = [row for i in range(4) for row in of(f"p{i}", int(rng.integers(1, 7)))]
    return others, [[], of("z", 1), of("z", 6), of("z", 30)]


def check_stability(secrets: int = 60, most: int = 2) -> None:
    layout = np.random.default_rng(5)
    for secret in range(secrets):
        others, wholes = tiny_tables(secret)
        alone = keep(others, most, secret)
        sizes = Counter(row[0] for row in others)
        assert {person: sum(kept.values()) for person, kept in alone.items()} == {
            p: min(n, most) for p, n in sizes.items()
        }
        for theirs in wholes:
            found = [keep(others + theirs, most, secret, layout) for _ in range(3)]
            assert found[0] == found[1] == found[2]  # wherever the rows are
            kept = found[0].pop("z", Counter())
            assert sum(kept.values()) == min(most, len(theirs))
            assert found[0] == alone


@pytest.mark.parametrize("bits", [64, 2, 1, 0])
def test_others_keep_their_rows_for_every_secret(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person added, removed or replaced, in any layout, with fingerprints that collide too. Kills: an order by position."""
    if bits < 64:
        weaken(monkeypatch, bits)
    check_stability()


@pytest.mark.parametrize("mutate", [by_position, by_place_among_equals])
def test_an_order_by_position_is_caught(mutate: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        check_stability()


def test_rows_of_people_whose_hashes_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: people who are told apart by a hash: two of them would share one cap."""
    monkeypatch.setattr(RowOrder, "people", lambda self, ids: np.zeros(len(ids), dtype=np.uint64))
    monkeypatch.setattr(RowOrder, "meeting", lambda self, ids, parts: np.zeros(len(ids), dtype=np.uint16))
    check_stability(20)


def test_the_same_rows_as_in_frames() -> None:
    """Kills: an order of its own in either way. Whole numbers and text; no collisions here, so that both must agree."""
    rng = np.random.default_rng(3)
    for secret in range(20):
        number = rng.integers(-5, 5, 200)
        rows = [(int(n), *rng.integers(0, 4, 2).astype(float).tolist()) for n in number]
        found = keep(rows, 3, secret, rng)  # type: ignore[arg-type]
        table = pa.table({"x": [r[1] for r in rows], "y": [r[2] for r in rows], "person": [str(r[0]) for r in rows]})
        (batch,) = table.sort_by([(name, "ascending") for name in ("person", "x", "y")]).combine_chunks().to_batches()
        cap = ContributionCap(3, random(secret))
        words = [batch.column(i).to_numpy() for i in (0, 1)]
        framed: Kept = {}
        for part in [*cap.add(batch.column(2), batch, words), *cap.finish()]:
            for row in part.to_pylist():
                framed.setdefault(int(row["person"]), Counter())[row["x"], row["y"]] += 1
        assert found == framed


def test_each_row_is_as_likely_as_the_others() -> None:
    """Kills: a hash without the secret. Seven rows of which four are equal, 1500 secrets; χ², false alarm 1e-6."""
    rows: list[Row] = [("p", x, 0.0) for x in (0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0)]
    drawn: Counter[float] = Counter()
    pairs = 0
    for secret in range(1500):
        found = keep(rows, 2, secret)["p"]
        for (value, _), count in found.items():
            drawn[value] += count
        pairs += found == {(1.0, 0.0): 2}
    assert stats.chisquare([drawn[v] for v in range(4)], np.array([1, 4, 1, 1]) * 3000 / 7).pvalue > 1e-6
    assert stats.binomtest(pairs, 1500, 6 / 21).pvalue > 1e-6


def test_a_person_with_a_hundred_thousand_rows() -> None:
    rng = np.random.default_rng(1)
    rows = [("p", *values) for values in rng.integers(0, 300, (100_000, 2)).astype(float).tolist()]
    found = keep([*rows, ("q", 1.0, 2.0)], 3, 0)
    assert sum(found["p"].values()) == 3
    assert found["q"] == {(1.0, 2.0): 1}
    assert found == keep([("q", 1.0, 2.0), *reversed(rows)], 3, 0)


def test_numbers_of_every_size_are_people() -> None:
    """Kills: a difference of two ids that runs over."""
    ids = [-(2**63), 2**63 - 1, 0, -1, 2**63 - 1, -(2**63)]
    found = keep([(i, 0.0, 0.0) for i in ids for _ in range(3)], 2, 0)
    assert {person: sum(kept.values()) for person, kept in found.items()} == dict.fromkeys(set(ids), 2)


def test_places() -> None:
    places = place_rows(70_000, 2**33, 3)
    assert tasks_of(places).tolist() == [70_000] * 3
    assert numbers_of(places).tolist() == [2**33, 2**33 + 1, 2**33 + 2]


def test_nothing_to_choose() -> None:
    by = RowOrder(random())
    for whole in (True, False):
        assert len(unpack_met([], whole).places) == 0
        assert len(choose_rows(unpack_met([], whole), 3, by).gone) == 0
    assert keep([("p", 0.0, 0.0)] * 3, 3, 0) == {"p": Counter({(0.0, 0.0): 3})}
    assert meeting.Chosen().gone.tolist() == []


@pytest.mark.parametrize("bits", [64, 2])
def test_files_in_any_layout(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that tasks do, without Spark. Kills: words of other rows than those that are asked for; numbers off by one."""
    if bits < 64:
        weaken(monkeypatch, bits)
    rng = np.random.default_rng(2)
    x, y = (rng.choice([0.0, 0.25, 0.5, np.nan], 900) for _ in range(2))
    table = pa.table({"x": x, "y": y, "id": pa.array(rng.integers(0, 90, 900), mask=rng.random(900) < 0.1)})
    found = []
    for layout, row_group in ((0, 900), (1, 70), (2, 7)):
        path = tmp_path / f"{layout}.parquet"
        order = np.random.default_rng(layout).permutation(900)
        pq.write_table(table.take(pa.array(order)), path, row_group_size=row_group)
        columns = (Numeric("x", 0, 1), Numeric("y", 0, 1))
        files = open_parquet(str(path), (*columns, PersonKey("id")))
        kept = kept_rows(files, Domain(columns), "id", 3, b"s" * 32)
        found.append(Counter(tuple(row.values()) for batch in kept for row in batch.to_pylist()))
    counts = table.to_pandas().dropna().groupby("id").size().clip(upper=3)
    assert found[0] == found[1] == found[2]
    assert sum(found[0].values()) == counts.sum()
