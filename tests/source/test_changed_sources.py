"""A source that changes under the job: nothing is drawn or staged, and the same release goes on when it is at rest."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from object_store import Bucket

import dpspark
from dpspark.core.domain import Numeric
from dpspark.errors import SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.privacy.noise import OpenDPNoise
from dpspark.source.parquet import ParquetSource, open_parquet, open_source
from dpspark.source.reading import Reading, read_rows
from dpspark.source.stamps import SourceChanged
from dpspark.spark import direct


class NeverDrawn(OpenDPNoise):
    """Fails the test if anything is drawn; a secret for the order of rows is no draw."""

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        raise AssertionError("noise was drawn")

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        raise AssertionError("noise was drawn")

    def below(self, limit: int) -> int:
        raise AssertionError("noise was drawn")

    def uniforms(self, count: int) -> Any:
        raise AssertionError("noise was drawn")


def other_file(path: Path) -> Path:
    """Another file of the same size, layout and time: two values have changed places."""
    table = pq.read_table(path)
    first, second = table["income"][0].as_py(), table["income"][1].as_py()
    income = [second, first, *table["income"].to_pylist()[2:]]
    other = path.with_name("other.tmp")
    pq.write_table(
        table.set_column(table.schema.get_field_index("income"), "income", [income]), other, row_group_size=6000
    )
    with path.open("rb") as a, other.open("rb") as b:
        assert a.read() != b.read()
    assert other.stat().st_size == path.stat().st_size
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    return other


def replaced(path: Path) -> None:
    other_file(path).replace(path)


def overwritten(path: Path) -> None:
    """In place, with its old time put back."""
    was, other = path.stat(), other_file(path)
    path.write_bytes(other.read_bytes())
    other.unlink()
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (was.st_ino, was.st_mtime_ns)


def swapped_and_put_back(path: Path) -> None:
    kept = path.with_name("kept.tmp")
    other = other_file(path)
    path.rename(kept)
    other.rename(path)
    kept.replace(path)


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def appended(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


CHANGES: list[Callable[[Path], None]] = [
    replaced,
    overwritten,
    swapped_and_put_back,
    truncated,
    appended,
    Path.unlink,
]


def refused(conf: dict[str, Any], spark: Any, change: Callable[[], None], at: str = "reading") -> str:
    """The message of a release whose source changes at a step. Nothing must be drawn, staged or charged twice."""

    def report(step: str) -> None:
        if step.startswith(at):
            change()

    with pytest.raises(SourceError, match="changed while it was read") as found:
        dpspark.release(conf, spark=spark, noise=NeverDrawn(), report=report)
    (balance,) = Ledger(conf["ledger"]["url"]).balances("people")
    assert [entry.state for entry in balance.entries] == ["reserved"]
    assert found.value.exit_code == 4
    return str(found.value)


def named(change: Callable[[Path], None]) -> str:
    return change.__name__


@pytest.mark.parametrize("change", CHANGES, ids=named)
def test_every_change_is_noticed(people: Path, change: Any) -> None:
    """Kills: a stamp without the inode or without the time of its change, which nobody can set."""
    source = open_parquet(str(people), [Numeric("income", 0, 1)])
    source.check_unchanged()
    change(people)
    with pytest.raises(SourceError, match="changed while it was read"):
        source.check_unchanged()


@pytest.mark.parametrize(
    "change", [replaced, *(pytest.param(one, marks=pytest.mark.slow) for one in CHANGES[1:])], ids=named
)
def test_between_listing_and_reading(spark: Any, conf: dict[str, Any], people: Path, change: Any) -> None:
    """Kills: a check before reading alone, or after the noise; a reservation that the next run does not find."""
    before = people.read_bytes()
    message = refused(conf, spark, lambda: change(people))
    assert message.startswith(f"{people} changed")
    assert not any(path.name != "income@1.lock" for path in Path(conf["output"]["path"], ".staging").iterdir())
    people.write_bytes(before)
    done = dpspark.release(conf, spark=spark)
    (balance,) = Ledger(conf["ledger"]["url"]).balances("people")
    assert [entry.id for entry in balance.entries] == [done.manifest["ledger"]["id"]]


BY_GROUP = {"release": {"name": "income", "version": "1", "group_by": ["sex"], "groups": ["F", "M"]}}


@pytest.mark.parametrize(
    ("more", "change"),
    [
        ({"where": "age > 20"}, replaced),
        pytest.param({"where": "age > 20"}, truncated, marks=pytest.mark.slow),
        pytest.param(BY_GROUP, Path.unlink, marks=pytest.mark.slow),
    ],
)
def test_files_that_spark_reads(
    spark: Any, conf: dict[str, Any], people: Path, more: dict[str, Any], change: Any
) -> None:
    columns = {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 2e5}}
    refused({**conf, "columns": columns, **more}, spark, lambda: change(people))


def test_between_two_passes(spark: Any, conf: dict[str, Any], people: Path) -> None:
    """Bounds found in one file, and a matrix of another. The noise of the bounds was drawn, and no one saw it."""
    conf["columns"]["income"] = {"bounds": "private", "search": [0, 1e6]}

    class Once(NeverDrawn):
        below = OpenDPNoise.below  # the bounds'

    def report(step: str) -> None:
        if step.startswith("reading"):
            replaced(people)

    with pytest.raises(SourceError, match="changed while it was read"):
        dpspark.release(conf, spark=spark, noise=Once(), report=report)


def test_before_bounds_are_drawn(spark: Any, conf: dict[str, Any], people: Path) -> None:
    conf["columns"]["income"] = {"bounds": "private", "search": [0, 1e6]}
    refused(conf, spark, lambda: replaced(people), at="finding bounds")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Runs something while tasks stand still after their first row group."""
    begun, go = tmp_path / "begun", tmp_path / "go"

    def gated(*arguments: Any) -> Iterator[Any]:
        rows = read_rows(*arguments)
        yield next(rows)
        begun.touch()
        end = time.monotonic() + 60
        while not go.exists() and time.monotonic() < end:
            time.sleep(0.02)
        yield from rows

    monkeypatch.setattr(direct, "read_rows", gated)  # a nested function: it travels to the tasks as it is
    threads: list[threading.Thread] = []

    def meanwhile(act: Callable[[], None]) -> None:
        def wait_and_act() -> None:
            while not begun.exists():
                time.sleep(0.02)
            act()
            go.touch()

        threads.append(threading.Thread(target=wait_and_act, daemon=True))
        threads[-1].start()

    yield meanwhile
    begun.touch()
    go.touch()
    for thread in threads:
        thread.join(60)


@pytest.mark.parametrize("change", [truncated, pytest.param(replaced, marks=pytest.mark.slow)], ids=named)
def test_in_the_middle_of_a_file(spark: Any, conf: dict[str, Any], people: Path, gate: Any, change: Any) -> None:
    """A truncated file that is mapped into memory kills the worker that reads it: the message is the same."""
    gate(lambda: change(people))
    assert refused(conf, spark, lambda: None).startswith(f"{people} changed")


def test_a_task_notices_by_itself(people: Path) -> None:
    """Before the driver's last look, on machines that have other inodes too: when it opens a file, and at its end."""
    column = Numeric("income", 0, 1)
    (part,) = open_parquet(str(people), [column]).parts
    elsewhere = replace(part, stamp=replace(part.stamp, here="other inodes"))
    rows = read_rows(Reading((column,)), elsewhere, [0, 1])
    next(rows)
    with pytest.raises(SourceChanged):
        next(read_rows(Reading((column,)), replace(part, layout="another footer"), [0]))
    os.utime(people)
    with pytest.raises(SourceChanged):
        list(rows)
    with pytest.raises(SourceChanged):
        next(read_rows(Reading((column,)), elsewhere, [0]))


def test_values_in_directories_are_not_in_the_message(people: Path) -> None:
    folder = people.parent / "data" / "place=Secretville"
    folder.mkdir(parents=True)
    moved = people.rename(folder / "a.parquet")
    source = open_parquet(str(people.parent / "data"), [])
    moved.unlink()
    with pytest.raises(SourceError, match=r"place=…/a\.parquet changed") as found:
        source.check_unchanged()
    assert "Secretville" not in str(found.value)


@pytest.mark.parametrize(
    ("when", "change"),
    [
        ("mid-read", "replaced"),
        *(pytest.param("listed", how, marks=pytest.mark.slow) for how in ("replaced", "deleted")),
    ],
)
def test_objects_of_s3(
    spark: Any, conf: dict[str, Any], people: Path, bucket: Bucket, gate: Any, when: str, change: str
) -> None:
    """By ETag and time: S3 has whole seconds, within which an object may be written twice."""
    bucket.put("people/a.parquet", people)
    conf["source"] = {"parquet": bucket.address("people")}
    other = other_file(people)

    def act() -> None:
        bucket.put("people/a.parquet", other) if change == "replaced" else bucket.delete("people/a.parquet")

    gate(act if when == "mid-read" else lambda: None)
    message = refused(conf, spark, act if when == "listed" else lambda: None)
    assert message.startswith(f"s3://{bucket.name}/people/a.parquet changed")
    bucket.put("people/a.parquet", people)
    assert dpspark.release(conf, spark=spark).kind == "gram"


def test_an_object_that_is_written_twice_in_a_second(bucket: Bucket, people: Path) -> None:
    """Kills: a stamp without the ETag: S3 has whole seconds."""
    other = other_file(people)

    def seconds() -> int:
        return bucket.files.get_file_info(f"{bucket.name}/a.parquet").mtime_ns // 10**9

    for _ in range(100):
        bucket.put("a.parquet", people)
        source, before = open_source(bucket.address("a.parquet"), [], {}), seconds()
        bucket.put("a.parquet", other)
        if seconds() == before:
            break
    assert seconds() == before
    assert source is not None
    with pytest.raises(SourceError, match="changed while it was read"):
        source.check_unchanged()


def test_objects_of_s3_in_a_frame(spark: Any, conf: dict[str, Any], people: Path, bucket: Bucket) -> None:
    bucket.put("people/a.parquet", people)
    conf = {**conf, "source": {"parquet": bucket.address("people")}, "where": "age > 20"}
    refused(conf, spark, lambda: bucket.put("people/a.parquet", other_file(people)))


def test_a_store_that_does_not_answer_is_no_change(bucket: Bucket, people: Path) -> None:
    """And no go-ahead either."""
    bucket.put("a.parquet", people)
    found = open_source(bucket.address("a.parquet"), [], {})
    assert found is not None
    found.check_unchanged()
    (part,) = found.parts
    assert part.store is not None
    dead = replace(part.store, options=(("endpoint_override", "127.0.0.1:1"), ("scheme", "http")))
    with pytest.raises(SourceError, match="whether it changed cannot be told"):
        ParquetSource((replace(part, store=dead),)).check_unchanged()
