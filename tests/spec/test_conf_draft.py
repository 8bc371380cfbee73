"""A conf written from a schema alone: nothing of the data in it, and nothing to be released before it is filled in."""

from __future__ import annotations

import datetime
import decimal
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpspark.cli.check import check_conf
from dpspark.cli.init import write_draft
from dpspark.errors import ConfError, OutputError, SourceError
from dpspark.source.column_list import SourceColumn, list_columns
from dpspark.spec.conf_file import parse_yaml
from dpspark.spec.draft import draft, name_for, quoted
from dpspark.spec.spec import load_spec

ODD = 'it\'s `"odd"'
SCHEMA = pa.schema(
    [
        ("age", pa.int16()),
        ("income", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("married", pa.bool_()),
        ("sex", pa.string()),
        ("job", pa.dictionary(pa.int32(), pa.string())),
        ("born", pa.date32()),
        ("seen at", pa.timestamp("us", "UTC")),
        ("größe", pa.float32()),
        ("a: b # c", pa.int64()),
        ("x\nsource: {parquet: elsewhere}", pa.int64()),
        ("yes", pa.int64()),
        ("null", pa.int64()),
        ("1e5", pa.int64()),
        ('it\'s `"odd"', pa.date32()),
        ("名前 😀", pa.string()),
    ]
)
UNUSABLE = pa.schema(
    [
        ("children", pa.list_(pa.int64())),
        ("address", pa.struct([("Rumpelstiltskin\nroad", pa.string())])),
        ("photo", pa.binary()),
        ("nothing", pa.null()),
        ("exactly", pa.timestamp("ns")),
        ("(intercept)", pa.int64()),
        ("", pa.int64()),
    ]
)


def rows(secret: int, word: str, count: int) -> dict[str, list[Any]]:
    day = datetime.date(1000 + secret % 1000, 1, 2)
    moment = datetime.datetime(1000 + secret % 1000, 3, 4)
    of: dict[Any, Any] = {pa.string(): word, pa.bool_(): True, pa.date32(): day, pa.float64(): secret + 0.25}
    of |= {pa.timestamp("us", "UTC"): moment, pa.decimal128(10, 2): decimal.Decimal(secret) + decimal.Decimal("0.75")}
    of |= {pa.dictionary(pa.int32(), pa.string()): word, pa.int16(): secret % 20011, pa.float32(): secret + 0.5}
    return {field.name: [of.get(field.type, secret)] * count for field in SCHEMA}


def write(path: Path, secret: int, word: str, count: int, **options: Any) -> Path:
    pq.write_table(pa.table(rows(secret, word, count), SCHEMA), path, **options)
    return path


def filled(text: str) -> str:
    text = text.replace("{categories: TODO}", "{categories: [F, M]}")
    return text.replace("lower: TODO, upper: TODO", "lower: 0, upper: 9")


def test_nothing_of_the_data_is_in_it(tmp_path: Path) -> None:
    """Kills: a bound, a category or a count taken from statistics or rows; bounds that other data would change.

    Statistics are in the first file, and striking; the second has other values, no statistics and more rows.
    """
    path = tmp_path / "people.parquet"
    write(path, 31415926, "Rumpelstiltskin", 4321)
    statistics = pq.ParquetFile(path).metadata.row_group(0).column(1).statistics
    assert (statistics.min, statistics.has_null_count) == (31415926.25, True)
    first = draft("people", list_columns(str(path)), "people")
    for found in ("3141", "5926", "Rumpel", "4321", "1926", str(31415926 % 20011)):
        assert found not in first
    write(path, 27182818, "Godot", 777, write_statistics=False, compression="none")
    assert draft("people", list_columns(str(path)), "people") == first


def test_no_row_is_read(tmp_path: Path) -> None:
    """Kills: reading a page to guess bounds or categories: of these only the footer is whole."""
    path = write(tmp_path / "people.parquet", 5, "F", 1000)
    first = draft("people", list_columns(str(path)), "people")
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(b"PAR1" + b"\xff" * (len(content) - footer - 4) + content[-footer:])
    with pytest.raises((pa.ArrowException, OSError)):
        pq.read_table(path)
    assert draft("people", list_columns(str(path)), "people") == first


def test_refused_until_filled_in(tmp_path: Path) -> None:
    """Kills: a draft that could be released; a message that does not name what is open; names that YAML changes."""
    path, conf = write(tmp_path / "people.parquet", 5, "F", 10), tmp_path / "conf.yaml"
    told = write_draft(str(path), str(conf), None, False)
    assert "16 columns" in told
    text = conf.read_text()
    open_ones = text.count("TODO") - sum(line.count("TODO") for line in text.splitlines() if "#" in line[:4])
    with pytest.raises(ConfError, match=rf"^columns\.age\.lower is still TODO, and {open_ones - 1} more\. Fill in"):
        check_conf(str(conf), ())
    conf.write_text(filled(text))
    assert "every column fits" in check_conf(str(conf), ())
    spec = load_spec(conf)
    dates = ("born", "seen at", ODD)
    expected = [f"{name}_year" if name in dates else name for name in SCHEMA.names]
    assert list(spec.columns) == expected
    assert spec.columns["married"].upper == 1
    assert spec.columns['it\'s `"odd"_year'].expr == 'year(`it\'s ``"odd"`)'
    assert (spec.release.name, spec.ledger.dataset) == ("people", "people")
    assert list(yaml.safe_load(conf.read_text())["columns"]) == expected  # other readers of YAML agree


def test_private_bounds_as_offered(tmp_path: Path) -> None:
    """Kills: a commented alternative that is not what a conf takes."""
    path, conf = write(tmp_path / "people.parquet", 5, "F", 10), tmp_path / "conf.yaml"
    write_draft(str(path), str(conf), None, False)
    text = filled(conf.read_text()).replace("  income: {lower: 0, upper: 9}\n  # income:", "  income:")
    conf.write_text(text)
    with pytest.raises(ConfError, match=r"columns\.income\.lower is still TODO, and 2 more"):
        load_spec(conf)
    conf.write_text(
        text.replace(
            "lower: TODO, upper: private, search: [TODO, TODO]}", "lower: 0, upper: private, search: [0, 1e6]}"
        )
    )
    income = load_spec(conf).columns["income"]
    assert (income.search, income.private_sides) == ((0, 1e6), ("upper",))


def test_a_category_may_be_called_todo() -> None:
    """Kills: refusing a conf for a word that its data may well have."""
    with pytest.raises(ConfError, match="unknown key"):
        load_spec({"columns": {"state": {"categories": ["TODO", "done"]}}, "nothing": 1})
    conf = {"columns": {"state": {"categories": ["TODO", "done"]}}, "privacy": {"rho": 1}, "ledger": {"dataset": "d"}}
    assert load_spec({**conf, "release": {"name": "a", "version": "1"}}).columns["state"].categories == ("TODO", "done")


def test_columns_that_cannot_be_used(tmp_path: Path) -> None:
    """Kills: an unusable column as a key; no reason for it; the names of fields inside a type, which may be anything."""
    pq.write_table(pa.table({"age": [1], **{f.name: pa.nulls(1, f.type) for f in UNUSABLE}}), tmp_path / "a.parquet")
    text = draft("a", list_columns(str(tmp_path)), "a")
    assert list(load_spec(yaml.safe_load(filled(text))).columns) == ["age"]
    for name, why in (
        ("children", "its type is list."),
        ("address", "its type is struct."),
        ("photo", "its type is binary."),
        ("nothing", "its type is null."),
        ("exactly", "its type is timestamp in nanoseconds"),
        ('"(intercept)"', "its name stands for the intercept"),
        ('""', "its name is empty"),
    ):
        assert f"  # {name}: left out: {why}" in text
    assert "Rumpelstiltskin" not in text


def test_timestamps_have_a_zone() -> None:
    """Said where it matters, and only there. Fails on 0.2.0: days were those of the machine's zone, without a word."""
    for kind, said in ((pa.timestamp("us", "UTC"), True), (pa.timestamp("ms"), True), (pa.date32(), False)):
        text = draft("p.parquet", [SourceColumn("at", (kind,))], "a")
        assert yaml.safe_load(text)["source"] == {"parquet": "p.parquet", **({"timezone": "UTC"} if said else {})}
    unusable = draft("p.parquet", [SourceColumn("at", (pa.timestamp("ns"),))], "a")
    assert "timezone" not in unusable


def test_several_files(tmp_path: Path) -> None:
    """Kills: taking one file for all; values of directories' names, which are data."""
    for year, columns in (("2023", {"age": [1], "wage": [1.0], "kind": ["a"]}), ("2024", {"age": [1.5], "kind": [1]})):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table(columns), tmp_path / f"year={year}" / "a.parquet")
    text = draft("people", list_columns(str(tmp_path)), "people")
    assert list(yaml.safe_load(text)["columns"]) == ["age", "year"]
    assert "# wage: left out: not in all files" in text
    assert "# kind: left out: its type is not the same in all files: text, int64" in text
    assert "2023" not in text
    assert list_columns(str(tmp_path / "*" / "*.parquet")) == list_columns(str(tmp_path))


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_name_is_quoted(name: str) -> None:
    """Kills: a name that YAML takes for something else, or that ends a line, and a comment with it."""
    shown = quoted(name)
    assert len(shown.splitlines()) == 1
    assert parse_yaml(shown, "name") == yaml.safe_load(shown) == name
    text = draft(name, [SourceColumn("age", (pa.int64(),)), SourceColumn(name, (pa.binary(),))], "people")
    found = parse_yaml(text, "conf")
    assert list(found["columns"]) == ["age"]
    assert found["source"] == {"parquet": name}


def test_never_written_over(tmp_path: Path) -> None:
    path, conf = write(tmp_path / "people.parquet", 5, "F", 10), tmp_path / "conf.yaml"
    conf.write_text("mine")
    with pytest.raises(OutputError, match="is there already"):
        write_draft(str(path), str(conf), None, False)
    assert conf.read_text() == "mine"
    write_draft(str(path), str(conf), "other", True)
    assert load_spec(yaml.safe_load(filled(conf.read_text()))).release.name == "other"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("people.parquet", "people"),
        ("data/people/", "people"),
        ("data/people/*.parquet", "people"),
        ("s3://bucket/census 2020/year=2020/*", "census-2020"),
        ("s3://bucket/p?region=eu", "p"),
        ("***", "release"),
        ("größe", "größe"),
        (".", "release"),
    ],
)
def test_names_by_paths(path: str, name: str) -> None:
    assert name_for(path) == name


def test_what_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("Rumpelstiltskin")
    for path, words in (
        ("s3a://bucket/people", "only Spark knows"),
        (str(tmp_path / "none"), "no such file"),
        (str(tmp_path / "text.parquet"), "not readable as Parquet"),
    ):
        with pytest.raises(SourceError, match=words) as caught:
            write_draft(path, str(tmp_path / "conf.yaml"), "n", False)
        assert "Rumpelstiltskin" not in str(caught.value)
    with pytest.raises(ConfError, match="a key or password in it") as refused:
        write_draft("s3://user:hunter2@bucket/x", str(tmp_path / "conf.yaml"), "n", False)
    assert not re.search("hunter2", str(refused.value))
    with pytest.raises(ConfError, match=r"--name: got '\.\./x'"):
        write_draft(str(tmp_path), str(tmp_path / "conf.yaml"), "../x", False)
