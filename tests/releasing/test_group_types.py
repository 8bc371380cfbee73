"""Columns of groups have, in a release, the type that they have in the source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.errors import ConfError, SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.verifying.verification import verify
from tests.commands import exit_code

ROWS = 400
KINDS: dict[str, dict[str, Any]] = {
    "gram": {"kind": "gram"},
    "regression": {"kind": "regression", "response": "y"},
    "theil_sen": {"kind": "theil_sen", "x": "x", "y": "y", "expected_rows": 100},
    "quantiles": {"kind": "quantiles", "probabilities": [0.5]},
}
TYPES = {
    "int64": (pa.int64(), [1, 20, 300], pa.int64()),
    "int16": (pa.int16(), [1, 20, -300], pa.int16()),
    "uint8": (pa.uint8(), [1, 20, 200], pa.int16()),  # what Spark reads it as
    "bool": (pa.bool_(), [True, False], pa.bool_()),
    "text": (pa.string(), ["01", "1", "a b"], pa.string()),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["u", "v"], pa.string()),
    "double": (pa.float64(), [1.0, 20.0, -3.0], pa.float64()),
    "float": (pa.float32(), [1.0, 20.0, 0.0], pa.float32()),
}


def source(tmp_path: Path, kind: Any, keys: list[Any], fill: Any = None) -> tuple[str, pd.DataFrame]:
    """Rows of each key, whose y is about 0.2, 0.5, 0.8, ...; and of none."""
    rng = np.random.default_rng(1)
    code = rng.integers(0, len(keys) + 1, ROWS * (len(keys) + 1))
    x = rng.uniform(0, 1, len(code))
    y = np.clip(0.2 + 0.3 * (code % 3) + rng.normal(0, 0.01, len(code)), 0, 1)
    table = pa.table({"k": pa.array([fill if c == len(keys) else keys[c] for c in code], kind), "x": x, "y": y})
    path = tmp_path / "people.parquet"
    pq.write_table(table, path)
    return str(path), pd.DataFrame({"k": keys, "level": [0.2 + 0.3 * (i % 3) for i in range(len(keys))]})


def by_key(conf: dict[str, Any], path: str, groups: Any, kind: str = "quantiles", **changes: Any) -> dict[str, Any]:
    release = {"name": "by-key", "version": "1", "group_by": ["k"], "groups": groups, **KINDS[kind]}
    return {
        **conf,
        "source": {"parquet": path},
        "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
        "privacy": {"epsilon": 20.0, "delta": 1e-9} if kind in ("gram", "regression") else {"epsilon": 20.0},
        "release": {**release, **changes},
        "mechanism": {},
    }


@pytest.mark.spark35
@pytest.mark.parametrize("kind", TYPES)
def test_keys_have_the_type_of_the_source(spark: Any, conf: dict[str, Any], tmp_path: Path, kind: str) -> None:
    """Joined to one's own table without a cast, every group has its own estimate. Fails on 0.2.0: all keys were text, and
    floats were refused."""
    stored, keys, released = TYPES[kind]
    path, own = source(tmp_path, stored, keys)
    rel = dpspark.release(by_key(conf, path, keys), spark=spark)
    assert rel.tables["quantiles"].schema.field("k").type == released
    assert rel.manifest["release"]["group_types"] == {"k": str(released)}
    found = rel.quantiles().query("column == 'y'").merge(own, on="k")
    assert len(found) == len(keys)
    assert np.allclose(found["estimate"], found["level"], atol=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_of_every_kind(
    spark: Any, conf: dict[str, Any], tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one group of it, by an integer or by text. Fails on 0.2.0: all keys were text."""
    path, _ = source(tmp_path, pa.int32(), [1, 20, 300])
    rel = dpspark.release(by_key(conf, path, [1, 20, 300, 4], kind), spark=spark)
    assert {table.schema.field("k").type for table in rel.tables.values()} == {pa.int32()}
    assert {*next(iter(rel.tables.values()))["k"].to_pylist()} == {1, 20, 300, 4}
    rel.report(tmp_path / "report.html")
    rel._repr_html_()
    rel.plot() if kind in ("theil_sen", "quantiles") else rel.group(k=20).plot()
    for form in ("csv", "json", "r"):
        assert exit_code("convert", str(rel.path), "--to", form, "--out", str(tmp_path / form)) == 0
    assert exit_code("verify", str(rel.path)) == 0
    capsys.readouterr()
    if kind == "quantiles":
        return
    assert repr(rel.group(k=20)) == repr(rel.group(k="20")) == repr(rel.group(k=np.int64(20)))
    formula = ["y ~ x"] if kind == "gram" else []
    assert exit_code("regress", str(rel.path), *formula, "--group", "k=20", "--json") == 0
    assert json.loads(capsys.readouterr().out)
    with pytest.raises(ConfError, match="not among the groups"):
        rel.group(k="020")


@pytest.mark.parametrize("written", ["parquet", "csv", "csv of floats", "inline floats", "inline text"])
def test_lists_that_say_the_same(spark: Any, conf: dict[str, Any], tmp_path: Path, written: str) -> None:
    """Whole-numbered floats, as pandas makes of integers with nulls, are keys. Fails on 0.2.0: refused, or no row found."""
    path, own = source(tmp_path, pa.int64(), [1, 20, 300])
    groups: Any = [1.0, 20.0, 300.0] if written == "inline floats" else ["1", "20", "300"]
    if not written.startswith("inline"):
        frame = pd.DataFrame({"k": [1, 20, 300]})
        frame = frame if written == "csv" else frame.astype(float)
        groups = str(tmp_path / f"groups.{written[:3]}")
        frame.to_csv(groups, index=False) if written[:3] == "csv" else frame.to_parquet(groups)
    rel = dpspark.release(by_key(conf, path, groups), spark=spark)
    found = rel.quantiles().query("column == 'y'").merge(own, on="k")
    assert exit_code("verify", str(rel.path)) == 0
    assert rel.tables["quantiles"]["k"].type == pa.int64()
    assert np.allclose(found["estimate"], found["level"], atol=0.1)


def test_a_float_with_a_fraction_is_in_no_group(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """1.5 is not 1, and neither are NaN and infinities. Kills the mutant that casts to a whole number."""
    keys = [1.5, float("nan"), float("inf"), 1e300]
    path, _ = source(tmp_path, pa.float64(), keys)
    frame = spark.read.parquet(path)
    from dpspark.spark.frames import select_columns
    from dpspark.spec.spec import load_spec

    spec = load_spec(by_key(conf, path, [1, 0, 2]))
    found = select_columns(spark, frame, spec.domain.read_columns, None, listed=spec.release.listed_groups)
    assert {row["c2"] for row in found.frame.select("c2").distinct().collect()} == {None}


@pytest.mark.parametrize(
    ("stored", "keys", "groups", "message"),
    [
        (pa.int64(), [1, 2], ["01", "02"], r"'01' is text, and no key of k, whose type in the source is int64"),
        (pa.int64(), [1, 2], [True, False], "is boolean, and no key of k, whose type in the source is int64"),
        (pa.int8(), [1, 2], [1, 300], r"300 is integer, and no key of k, whose type in the source is int8"),
        (pa.string(), ["01", "02"], [1, 2], r"k has integer keys, and its type in the source is text"),
        (
            pa.bool_(),
            [True, False],
            ["yes", "no"],
            r"'yes' is text, and no key of k, whose type in the source is boolean",
        ),
        (pa.float64(), [1.0, 2.0], [2**53 + 2, 1], "no key of k, whose type in the source is double"),
        (pa.date32(), [1, 2], ["1970-01-02"], r"release.group_by: k: its type is date.*\n.*cast\(k as string\)"),
    ],
)
@pytest.mark.parametrize("files", [True, False])
def test_types_that_disagree_are_named_before_the_charge(
    spark: Any, conf: dict[str, Any], tmp_path: Path, stored: Any, keys: Any, groups: Any, message: str, files: bool
) -> None:
    """Fails on 0.2.0: it published noise for every group, since no row was in any."""
    path, _ = source(tmp_path, stored, keys)
    asked = by_key(conf, path, groups)
    frame = None if files else spark.read.parquet(path)
    with pytest.raises(SourceError, match=message):
        dpspark.release(asked, frame, spark)
    assert Ledger(conf["ledger"]["url"]).find("people", "by-key", "1") is None
    if files:
        from dpspark.releasing.opening import open_files
        from dpspark.spec.spec import load_spec

        with pytest.raises(SourceError, match=message):
            open_files(load_spec(asked))


@pytest.mark.parametrize(
    ("expr", "groups", "released"),
    [
        ("case when x < 0.5 then 'low' else 'high' end", ["low", "high"], pa.string()),
        ("x < 0.5", [True, False], pa.bool_()),
        ("if(x < 0.5, 1, 2)", [1, 2], pa.int32()),
        ("floor(x * 2)", [0, 1], pa.int64()),
        ("if(x < 0.5, 1.0D, 2.0D)", [1, 2], pa.float64()),
    ],
)
@pytest.mark.parametrize("kind", ["gram", "theil_sen", "quantiles"])
def test_groups_by_an_expression(
    spark: Any, conf: dict[str, Any], tmp_path: Path, kind: str, expr: str, groups: list[Any], released: Any
) -> None:
    """Fails on 0.2.0: text was refused with "its type is text; expected text", other types ended in an executor's error,
    lines did not find the column, bounds or categories had to be given, and `verify` missed the key among the columns."""
    path, _ = source(tmp_path, pa.int64(), [1])
    asked = by_key(conf, path, groups, kind, group_by=["band"])
    asked["columns"] |= {"band": {"expr": expr}}
    rel = dpspark.release(asked, spark=spark)
    table = next(iter(rel.tables.values()))
    assert table["band"].type == released
    assert not any(name.startswith("band") for name in rel.manifest["terms"])
    assert not [check for check in verify(rel.path).checks if check.result == "failed"]
    if kind == "quantiles":
        x = rel.quantiles().query("column == 'x'").set_index("band")["estimate"]
        assert np.allclose(sorted(x), [0.25, 0.75], atol=0.1)


def test_names_of_directories_are_what_the_list_says(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """They have no type of their own: numbers, if the list has numbers. Fails on 0.2.0: 2 did not find k=02."""
    for i, name in enumerate(("01", "02")):
        folder = tmp_path / "people" / f"k={name}"
        folder.mkdir(parents=True)
        y = np.full(500, 0.2 + 0.5 * i)
        pq.write_table(pa.table({"x": y, "y": y}), folder / "part.parquet")
    for groups, kind in (([1, 2], pa.int64()), (["01", "02"], pa.string())):
        rel = dpspark.release(by_key(conf, str(tmp_path / "people"), groups, version=str(kind)), spark=spark)
        table = rel.quantiles().query("column == 'y'")
        assert rel.tables["quantiles"]["k"].type == kind
        assert np.allclose(table["estimate"], [0.2, 0.7], atol=0.1)
        assert table["k"].tolist() == groups


def test_two_keys_of_two_types(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """Fails on 0.2.0: both were text."""
    path, _ = source(tmp_path, pa.int64(), [1, 2])
    table = pq.read_table(path)
    pq.write_table(table.append_column("s", pa.array(["a", "b"] * (table.num_rows // 2))), path)
    asked = by_key(conf, path, [[1, "a"], [2, "b"]], "gram", group_by=["k", "s"])
    rel = dpspark.release(asked, spark=spark)
    assert rel.groups().to_dict("records") == [{"k": 1, "s": "a"}, {"k": 2, "s": "b"}]
    with pytest.raises(ConfError, match="--group k=1 --group s=a"):
        rel.regress("y ~ x")
