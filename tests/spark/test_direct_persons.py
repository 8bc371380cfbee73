"""Persons in files that tasks read themselves: the same rows stay as through Spark, however the files are laid out."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.core.domain import Categorical, Domain, GroupKey, Numeric, PersonKey, Weight
from dpspark.exact.histogram import Axis
from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.group_keys import ListedGroups
from dpspark.source.parquet import open_parquet
from dpspark.source.reading import Reading
from dpspark.spark import direct_persons
from dpspark.spark.direct import DirectSource
from dpspark.spark.direct_persons import capped_files
from dpspark.spark.exact_sums import exact_count, exact_gram, exact_histogram
from dpspark.spark.frames import open_spark_parquet, select_columns
from dpspark.spark.group_gram import exact_grams
from dpspark.spark.groups import GroupList
from dpspark.spark.persons import cap_rows
from dpspark.spark.usable import Usable
from tests.noises import NoNoiseFixedSecret

pytestmark = pytest.mark.spark35
RANDOM = KeyedRandom(b"s" * 32)
X, Y, S = Numeric("x", -1, 1), Numeric("y", 0, 1), Categorical("s", ("a", "b'\\"))
LISTED = ListedGroups(("g",), ((1,), (2,), (9,)))
PLAIN = Domain((X, Y))
DOMAINS = {
    "numbers": PLAIN,
    "categories": Domain((X, S)),
    "categories alone": Domain((S,)),
    "midpoints": Domain((X, S, Y), "midpoint"),
    "weights": Domain((X, Y), weight=Weight("w", 3.0)),
    "groups": Domain((X, Y), keys=(GroupKey("g"),)),
    "large numbers": Domain((Numeric("big", 0, 2.0**62), S), "midpoint"),
}


def make_rows(seed: int = 4) -> pa.Table:
    """Rows of 200 people, one with 2000 of them; equal rows, nulls, NaNs, −0.0, unknown categories, no weights, no ids."""
    rng = np.random.default_rng(seed)
    number = np.concatenate([np.repeat(np.arange(200), rng.integers(1, 9, 200)), np.full(2000, 7)])
    rows = len(number)
    x = rng.choice([-0.0, 0.0, 0.25, 0.5, np.nan], rows)
    big = rng.choice([2**60, 2**60 + 1, 2**61], rows)
    columns = {
        "x": pa.array(x, mask=rng.random(rows) < 0.05),
        "y": pa.array(np.where(rng.random(rows) < 0.5, 0.5, rng.random(rows))),
        "s": pa.array(rng.choice(["a", "b'\\", "c", "d", None], rows).tolist(), pa.string()),
        "w": pa.array(rng.choice([0.0, 1.0, 2.0, -1.0], rows)),
        "g": pa.array(rng.integers(1, 4, rows), pa.int32()),
        "big": pa.array(big, mask=rng.random(rows) < 0.05),
        "id": pa.array(number, mask=rng.random(rows) < 0.02),
        "name": pa.array([None if n % 50 == 0 else f"{n} né" for n in number.tolist()]),
    }
    return pa.table(columns).take(pa.array(rng.permutation(rows)))


def write(folder: Path, table: pa.Table, files: int, row_group: int, seed: int = 0) -> str:
    """Write the rows, in another order for another seed, into some files; and an empty one."""
    folder.mkdir()
    table = table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))
    edges = np.linspace(0, table.num_rows, files + 1).astype(int)
    for i, (start, end) in enumerate(itertools.pairwise(edges)):
        pq.write_table(table.slice(start, end - start), folder / f"{seed}{files - i}.parquet", row_group_size=row_group)
    pq.write_table(table.slice(0, 0), folder / "empty.parquet")
    return str(folder)


def open_directly(path: str, domain: Domain, person: str) -> DirectSource:
    columns = (*domain.read_columns, PersonKey(person))
    files = open_parquet(path, columns)
    found = files.frame_columns()
    kinds = {
        **found.types,
        **dict.fromkeys((key.name for key in domain.keys if key.name in found.directories), "bigint"),
    }
    groups = {"groups": LISTED.with_types({"g": kinds["g"]})} if domain.keys else {}
    return DirectSource(files, Reading(columns, kinds, found.spellings), **groups)


def usable_of(domain: Domain, source: Any) -> Usable:
    return Usable(domain, GroupList.of(source.groups) if domain.keys else None)


def sums(spark: Any, source: Any, domain: Domain) -> Any:
    """Every sum of these rows, as integers: two passes, of other columns."""
    if domain.keys:
        found = exact_grams(spark, source, domain, GroupList.of(source.groups))
        return {code: gram.reveal() for code, gram in found.items()}
    count = exact_count(spark, source, domain, False)
    return exact_gram(spark, source, domain).reveal(), count.reveal()


def directly(spark: Any, path: str, domain: Domain, person: str, most: int = 3, own: bool = False) -> Any:
    source = open_directly(path, domain, person)
    with capped_files(spark, source, usable_of(domain, source), most, own, RANDOM) as capped:
        return sums(spark, capped, domain)


def through_spark(spark: Any, path: str, domain: Domain, person: str, most: int = 3, own: bool = False) -> Any:
    columns = (*domain.read_columns, PersonKey(person))
    files = open_parquet(path, columns)
    frame, text = open_spark_parquet(spark, path, files)
    source = select_columns(spark, frame, columns, None, text, None, LISTED if domain.keys else None)
    return sums(spark, cap_rows(spark, source, usable_of(domain, source), most, own, RANDOM), domain)


@pytest.mark.parametrize("name", DOMAINS)
def test_the_same_sums_as_through_spark(spark: Any, tmp_path: Path, name: str) -> None:
    """Kills: another order of rows; words that depend on types; −0.0, NaN or nulls that are one thing here, another there."""
    path = write(tmp_path / "rows", make_rows(), 3, 500)
    person, own = ("name", False) if name in ("weights", "midpoints") else ("id", name != "numbers")
    wanted = through_spark(spark, path, DOMAINS[name], person, 3, own)
    assert directly(spark, path, DOMAINS[name], person, 3, own) == wanted


@pytest.mark.parametrize(("files", "row_group", "seed"), [(1, 10_000, 1), (7, 100, 2)])
def test_the_same_rows_for_any_layout(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, row_group: int, seed: int
) -> None:
    """Kills: places that choose; ranks among equal rows by file; words that are asked of the wrong rows."""
    asked, answers = direct_persons._any_asked, []
    monkeypatch.setattr(direct_persons, "_any_asked", lambda verdicts: answers.append(asked(verdicts)) or answers[-1])
    table, domain = make_rows(), DOMAINS["midpoints"]
    wanted = directly(spark, write(tmp_path / "one", table, 2, 1000), domain, "id")
    assert directly(spark, write(tmp_path / "other", table, files, row_group, seed), domain, "id") == wanted
    assert answers == [True, True]  # there are equal rows of which some stay


@pytest.mark.parametrize(("most", "share"), [(1, "everybody"), (5000, "nobody")])
def test_everybody_and_nobody_over_the_cap(spark: Any, tmp_path: Path, most: int, share: str) -> None:
    table = make_rows()
    twice = pa.concat_tables([table, table])
    path = write(tmp_path / "rows", twice, 2, 1000)
    (_, count) = directly(spark, path, Domain((Y,)), "id", most)
    assert count == (200 if share == "everybody" else 2 * (table.num_rows - table["id"].null_count))


def test_no_rows_at_all(spark: Any, tmp_path: Path) -> None:
    """Kills: a task that does not run because none of its rows go; a source without row groups."""
    path = write(tmp_path / "rows", make_rows().slice(0, 0), 1, 10)
    assert directly(spark, path, PLAIN, "id") == ([0] * 6, 0)


def test_histograms_have_no_unusable_rows(spark: Any, tmp_path: Path) -> None:
    """Kills: a pass over some columns that counts rows which others make unusable, any number of them for one person."""
    table = pa.table({"x": [None] * 50 + [0.5], "y": [0.5] * 51, "id": [1] * 51})
    source = open_directly(write(tmp_path / "rows", table, 2, 10), PLAIN, "id")
    with capped_files(spark, source, Usable(PLAIN), 3, False, RANDOM) as capped:
        axis = Axis("y", 0.0, 1.0, 4)
        assert sum(exact_histogram(spark, capped, PLAIN.read_columns, [axis]).reveal("y")[1]) == 1


def test_ids_in_the_names_of_directories(spark: Any, tmp_path: Path) -> None:
    """Text as it is written, in both ways; the null of directories is no id."""
    table = make_rows().filter(pa.array(np.arange(make_rows().num_rows) < 1500))
    for i, name in enumerate(["7", "007", "né", "__HIVE_DEFAULT_PARTITION__"]):
        (tmp_path / "rows" / f"id={name}").mkdir(parents=True)
        pq.write_table(table.slice(300 * i, 300).drop_columns(["id"]), tmp_path / "rows" / f"id={name}" / "a.parquet")
    path = str(tmp_path / "rows")
    assert directly(spark, path, PLAIN, "id") == through_spark(spark, path, PLAIN, "id")
    assert directly(spark, path, Domain((Y,)), "id")[1] == 9


def test_a_killed_task_keeps_the_same_rows(spark: Any, tmp_path: Path) -> None:
    """Kills: a choice that a retry makes anew. Python workers die where rows are sent, asked for and read."""
    path = write(tmp_path / "rows", make_rows(), 2, 300)
    wanted = directly(spark, path, PLAIN, "id")
    folder = str(tmp_path)

    class Dies(Reading):
        def batches(self, part: Any, row_groups: list[int]) -> Iterator[Any]:
            from pyspark import TaskContext

            task = TaskContext.get()
            assert task is not None
            mark = os.path.join(folder, f"died-{task.stageId()}")
            yield from super().batches(part, row_groups)
            if task.partitionId() == 0 and not os.path.exists(mark):
                open(mark, "w").close()
                os._exit(1)

    source = open_directly(path, PLAIN, "id")
    reading = source.reading
    source = replace(source, reading=Dies(reading.columns, reading.types, reading.spellings))
    with capped_files(spark, source, Usable(PLAIN), 3, False, RANDOM) as capped:
        assert sums(spark, capped, PLAIN) == wanted
    assert len(list(tmp_path.glob("died-*"))) == 4  # sent, asked for, and read in two passes


def test_errors_do_not_quote_data(spark: Any, tmp_path: Path) -> None:
    class Breaks(Usable):
        def mask(self, values: Any) -> Any:
            raise ValueError("Rumpelstiltskin")

    source = open_directly(write(tmp_path / "rows", make_rows(), 1, 5000), PLAIN, "id")
    with ExitStack() as stack, pytest.raises(dpspark.DpsparkError) as caught:
        stack.enter_context(capped_files(spark, source, Breaks(PLAIN), 3, False, RANDOM))
    assert "Rumpelstiltskin" not in str(caught.value)
    assert caught.value.__context__ is None


def test_releases_read_files_directly(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """The same release either way; ids that tasks cannot compare go through Spark."""
    table = make_rows()
    paths = [write(tmp_path / "text", table, 2, 500)] * 2
    bytes_ = table.set_column(table.schema.get_field_index("name"), "name", table["name"].cast(pa.binary()))
    paths.append(write(tmp_path / "binary", bytes_, 1, 500))
    found = []
    for version, (path, reader) in enumerate(zip(paths, ("auto", "spark", "auto"), strict=True)):
        made = {
            **conf,
            "source": {"parquet": path, **({} if reader == "auto" else {"reader": reader})},
            "columns": {"x": {"lower": -1, "upper": 1}, "y": {"lower": 0, "upper": 1}},
            "privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "name", "max_rows": 3}},
            "release": {"name": "visits", "version": str(version)},
        }
        steps: list[str] = []
        rel = dpspark.release(made, spark=spark, noise=NoNoiseFixedSecret(), report=steps.append)
        found.append(rel.second_moment().to_numpy().tolist())
        assert any("finding each person's rows" in step for step in steps) == (version == 0)
    assert found[0] == found[1]
    assert found[0][0][0] == found[2][0][0]  # ids are other texts there, and as many rows stay
