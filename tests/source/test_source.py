"""Finding Parquet files, dealing them out, and refusing what does not fit from the schema alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.core.domain import Categorical, Numeric, Weight
from dpspark.errors import SourceError
from dpspark.source.listing import find_files
from dpspark.source.parquet import open_parquet
from dpspark.source.reading import Reading, read_rows
from dpspark.source.stores import local_path

X = Numeric("x", 0, 1)


def write(path: Path, table: pa.Table, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def test_expressions_against_the_footers(tmp_path: Path) -> None:
    """A column that only an expression reads must be in some file, in any case, or be a directory's."""
    write(tmp_path / "day=1" / "a.parquet", pa.table({"x": [0.5], "Age": [3]}))
    write(tmp_path / "day=2" / "b.parquet", pa.table({"x": [0.5]}))
    open_parquet(str(tmp_path), [X], {"where": {"AGE", "day", "x"}})
    with pytest.raises(SourceError, match="where: no column 'wealth' in the source"):
        open_parquet(str(tmp_path), [X], {"where": {"age", "wealth"}})


def test_messages_about_a_weight(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.parquet", pa.table({"x": [0.5], "t": ["text"]})))
    with pytest.raises(SourceError, match=r"weight\.column='w': no such column"):
        open_parquet(path, [X, Weight("w", 5)])
    with pytest.raises(SourceError, match=r"weight\.column='t': its type is text"):
        open_parquet(path, [X, Weight("t", 5)])


def test_file_directory_and_glob(tmp_path: Path) -> None:
    table = pa.table({"x": [0.5]})
    for name in ("a.parquet", "b.parquet", "sub/c.parquet", "_hidden.parquet", ".also.parquet", "_temporary/d.parquet"):
        write(tmp_path / name, table)
    (tmp_path / "_SUCCESS").touch()

    def names(path: str) -> list[str]:
        return [Path(file).name for file, _ in find_files(path)[1]]

    assert names(str(tmp_path)) == ["a.parquet", "b.parquet", "c.parquet"]
    assert names(str(tmp_path / "a.parquet")) == ["a.parquet"]
    assert names(str(tmp_path / "[ab].parquet")) == ["a.parquet", "b.parquet"]
    assert names(str(tmp_path / "**" / "*.parquet")) == ["a.parquet", "b.parquet", "c.parquet"]


def test_no_file_is_read_twice(tmp_path: Path) -> None:
    """Kills: a glob that matches a directory and its files, or a link, counting a record twice."""
    real = write(tmp_path / "d" / "sub" / "a.parquet", pa.table({"x": [0.5]}))
    (tmp_path / "d" / "link.parquet").symlink_to(real)
    (tmp_path / "d" / "loop").symlink_to(tmp_path / "d")
    for path in ("d", "d/**", "d/*", "d/sub*"):
        assert len(find_files(str(tmp_path / path))[1]) == 1, path


def test_odd_file_names(tmp_path: Path) -> None:
    for name in ("with space.parquet", "per%20cent.parquet", "é+#.parquet", "[1].parquet"):
        write(tmp_path / name, pa.table({"x": [0.5]}))
        assert len(open_parquet(str(tmp_path / name), [X]).parts) == 1
    assert local_path("file:///a%20b/c") == "/a b/c"
    assert local_path("s3://bucket/key") is None
    assert local_path("plain/path") == "plain/path"


def test_one_big_file_is_spread_over_all_cores(tmp_path: Path) -> None:
    """Kills: one task a file."""
    path = write(tmp_path / "big.parquet", pa.table({"x": [0.5] * 1000}), row_group_size=100)
    source = open_parquet(str(path), [X])
    tasks = source.tasks(cores=4)
    assert len(tasks) == 4
    assert sorted(group for task in tasks for _, groups in task for group in groups) == list(range(10))
    assert max(sum(len(groups) for _, groups in task) for task in tasks) == 3
    assert len(source.tasks(cores=64)) == 10


def test_hive_directories_give_columns(tmp_path: Path) -> None:
    for state, year in (("CA", "2020"), ("T%20X", "2021"), ("__HIVE_DEFAULT_PARTITION__", "2020"), ("NY", "2020")):
        write(tmp_path / f"state={state}" / f"year={year}" / "p.parquet", pa.table({"x": [0.5, 0.75]}))
    columns = [X, Categorical("state", ("CA", "T X")), Numeric("year", 2000, 2030)]
    source = open_parquet(str(tmp_path), columns)
    given = [dict(part.directory_values) for part in source.parts]
    assert len(given) == 4
    assert {(g["state"], g["year"]) for g in given} == {(0, 2020), (1, 2021), (-1, 2020)}
    batch = next(read_rows(Reading(tuple(columns)), source.parts[0], [0]))
    assert batch.to_pydict() == {"c0": [0.5, 0.75], "c1": ["CA", "CA"], "c2": [2020.0, 2020.0]}
    globbed = open_parquet(str(tmp_path / "state=CA" / "*" / "*.parquet"), [X, Numeric("year", 2000, 2030)])
    assert dict(globbed.parts[0].directory_values) == {"year": 2020}


def test_hive_text_with_bounds_is_refused_without_showing_it(tmp_path: Path) -> None:
    write(tmp_path / "state=Secretland" / "p.parquet", pa.table({"x": [0.5]}))
    with pytest.raises(SourceError) as caught:
        open_parquet(str(tmp_path), [Numeric("state", 0, 1)])
    assert "Secretland" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (X, pa.array(["a"])),
        (X, pa.array(["a"]).dictionary_encode()),
        (X, pa.array([1], pa.timestamp("us"))),
        (X, pa.array([1], pa.date32())),
        (X, pa.array([[1.0]])),
        (X, pa.array([{"a": 1}])),
        (X, pa.array([b"a"])),
        (X, pa.array([None], pa.null())),
        (Categorical("x", ("a",)), pa.array([1])),
        (Categorical("x", (1,)), pa.array(["a"])),
        (Categorical("x", (1,)), pa.array([1.0])),
        (Categorical("x", (True,)), pa.array([1])),
        (Categorical("x", (1,)), pa.array([True])),
        (Categorical("x", ("a",)), pa.array([b"a"])),
    ],
    ids=str,
)
def test_types_are_refused_from_the_schema(tmp_path: Path, column: Numeric | Categorical, values: pa.Array) -> None:
    path = write(tmp_path / "t.parquet", pa.table({"x": values}))
    with pytest.raises(SourceError, match=r"columns\.x"):
        open_parquet(str(path), [column])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array(["a"]).dictionary_encode(), "its type is text; .*\nGive it categories, or cast"),
        (
            pa.array([1], pa.date32()),
            r"its type is date32.*\nUse a number of it: a column with expr: \"year\(x\)\", or",
        ),
        (pa.array([1], pa.timestamp("us")), r"its type is timestamp.*year\(x\)"),
    ],
    ids=["text", "date", "timestamp"],
)
def test_a_refused_type_is_in_plain_words(tmp_path: Path, values: pa.Array, words: str) -> None:
    """Kills: dictionary<values=string, ...> for text; categories as the way out for a date."""
    path = write(tmp_path / "t.parquet", pa.table({"x": values}))
    with pytest.raises(SourceError, match=f"(?s){words}"):
        open_parquet(str(path), [X])


@pytest.mark.parametrize("reversed_", [False, True])
@pytest.mark.parametrize(
    ("column", "fits", "other", "shown"),
    [
        (X, pa.array([1.0]), pa.array(["a"]), ("double", "text")),
        (X, pa.array([1]), pa.array([1], pa.date32()), ("int64", r"date32\[day\]")),
        (Categorical("x", ("a",)), pa.array(["a"]).dictionary_encode(), pa.array([1]), ("text", "int64")),
        (Categorical("x", (1,)), pa.array([1]), pa.array([1.0]), ("int64", "double")),
        (Weight("x", 5.0), pa.array([1.0]), pa.array(["a"]), ("double", "text")),
    ],
    ids=str,
)
def test_types_that_differ_are_named_with_a_file_of_each(
    tmp_path: Path, column: Any, fits: pa.Array, other: pa.Array, shown: tuple[str, str], reversed_: bool
) -> None:
    """Fails on 0.2.0: "its type is text. Give it categories", without a file, and without a word of the other type."""
    first, second = ("b", "a") if reversed_ else ("a", "b")
    write(tmp_path / f"{first}.parquet", pa.table({"x": fits}))
    write(tmp_path / f"{second}.parquet", pa.table({"x": other}))
    words = rf"its type is {shown[0]} in \S*{first}\.parquet, and {shown[1]} in \S*{second}\.parquet\.\nWrite the files"
    with pytest.raises(SourceError, match=words):
        open_parquet(str(tmp_path), [column])


def test_refusals(tmp_path: Path) -> None:
    good = write(tmp_path / "good.parquet", pa.table({"x": [0.5], "y": ["secret-value"]}))
    with pytest.raises(SourceError, match=r"columns\.z: no such column.*\nIt has: x, y"):
        open_parquet(str(good), [Numeric("z", 0, 1)])
    with pytest.raises(SourceError, match="no such file"):
        open_parquet(str(tmp_path / "absent"), [X])
    with pytest.raises(SourceError, match="no such file"):
        open_parquet(str(tmp_path / "absent*.parquet"), [X])
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no Parquet files"):
        open_parquet(str(tmp_path / "empty"), [X])
    (tmp_path / "text.parquet").write_text("secret-value")
    with pytest.raises(SourceError, match="not readable as Parquet") as caught:
        open_parquet(str(tmp_path / "text.parquet"), [X])
    assert "secret-value" not in str(caught.value)
    twice = pa.table([[1.0], [2.0]], names=["x", "x"])
    with pytest.raises(SourceError, match="2 columns of that name"):
        open_parquet(str(write(tmp_path / "twice.parquet", twice)), [X])
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    with pytest.raises(SourceError, match="Delta"):
        open_parquet(str(tmp_path / "delta"), [X])


def test_a_file_that_lacks_a_column_is_named(tmp_path: Path) -> None:
    write(tmp_path / "d" / "a.parquet", pa.table({"x": [0.5]}))
    write(tmp_path / "d" / "k=secret" / "b.parquet", pa.table({"y": [0.5]}))
    with pytest.raises(SourceError, match=r"b\.parquet") as caught:
        open_parquet(str(tmp_path / "d"), [X])
    assert "secret" not in str(caught.value)


def test_unicode_and_dotted_column_names(tmp_path: Path) -> None:
    names = ["größe", "a.b", "a", "年齢", "with space"]
    path = write(tmp_path / "t.parquet", pa.table({name: [float(i)] for i, name in enumerate(names)}))
    columns = [Numeric(name, 0, 9) for name in names]
    part = open_parquet(str(path), columns).parts[0]
    batch = next(read_rows(Reading(tuple(columns)), part, [0]))
    assert [array[0].as_py() for array in batch.columns] == [0, 1, 2, 3, 4]
    assert all(size > 0 for size in part.row_group_bytes)


def test_nanoseconds_are_refused_with_a_way_from_pandas(tmp_path: Path) -> None:
    """Fails on 0.2.0: it did not say how. What pandas writes by default is in nanoseconds."""
    write(tmp_path / "t.parquet", pa.table({"x": [0.5], "at": pa.array([1], pa.timestamp("ns"))}))
    source = open_parquet(str(tmp_path / "t.parquet"), [X], {"where": {"at"}})
    with pytest.raises(SourceError, match=r'df\["at"\] = df\["at"\]\.dt\.as_unit\("us"\)'):
        source.frame_columns()
