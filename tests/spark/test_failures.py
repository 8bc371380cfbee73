"""What is said of a pass that failed: whose fault it is, Spark's own names for it, and never a value."""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import dpspark
from dpspark.cli.main import main
from dpspark.errors import DpsparkError, SourceError
from dpspark.spark.failures import PassFailed, condition, explain_failure, failure_of, task_error

SECRET = "Rumpelstiltskin"


def failed(run: Callable[[], Any]) -> DpsparkError:
    with pytest.raises(Exception) as raised:  # noqa: PT011  whatever Spark raises
        run()
    return explain_failure(raised.value)


def in_python(error: Callable[[], Exception]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                raise error()
            yield batch

    return read


@pytest.mark.spark35
def test_a_file_that_spark_cannot_read(spark: Any, tmp_path: Path) -> None:
    """Fails on 0.2.0: "The source could not be read to the end (Py4JJavaError)"."""
    folder = tmp_path / "k=secret"
    folder.mkdir()
    pq.write_table(pa.table({"delay": pa.array([1.5] * 50)}), folder / "a.parquet")
    told = failed(spark.read.schema("delay float").parquet(str(folder)).collect)
    assert isinstance(told, SourceError)
    old = spark.version.startswith("3.")
    name = "SchemaColumnConvertNotSupported" if old else "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH"
    assert re.search(rf"k=…/a\.parquet could not be read by Spark \([\w ]*{name}", str(told))
    assert "column 'delay': DOUBLE in the file, float expected" in str(told)
    assert "secret" not in str(told)
    gone = spark.read.parquet(str(folder))
    (folder / "a.parquet").unlink()
    name = "FileNotFound" if old else r"FAILED_READ_FILE\.FILE_NOT_EXIST\)"
    assert re.search(rf"could not be read by Spark \([\w ]*{name}", str(failed(gone.collect)))


def test_an_expression_that_fails_on_a_value(spark: Any) -> None:
    """Kills: the text of Spark's error, which quotes the value."""
    for text, name in ((f"raise_error('{SECRET}')", "USER_RAISED_EXCEPTION"), ("assert_true(id < 0)", "USER_RAISED")):
        told = failed(spark.range(3).selectExpr(text).collect)
        assert told.exit_code == 4
        assert f"Spark could not compute a row of the source ({name}" in str(told)
        assert SECRET not in f"{told} {vars(told)}"


def test_a_fault_of_sparks(spark: Any) -> None:
    """The source is not blamed, and causes are named by their classes. Fails on 0.2.0."""
    wrong = spark.range(0, 3, 1, 1).mapInArrow(
        lambda batches: iter([pa.record_batch([pa.array([SECRET])], ["x"])]), "x bigint"
    )
    told = failed(wrong.collect)
    assert isinstance(told, PassFailed)
    assert told.exit_code == 1
    assert str(told).startswith("Spark failed while it worked (UNSUPPORTED_CALL")
    assert "source" not in str(told)
    assert any(".java:" in line or ".scala:" in line for line in told.details)
    assert SECRET not in f"{told} {told.details}"


def test_causes_without_a_condition(spark: Any) -> None:
    """As when the sockets of Python workers are gone."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        spark._jvm.java.nio.file.Files.readString(spark._jvm.java.io.File(f"/{SECRET}").toPath())
    assert condition(raised.value) == "NoSuchFileException"
    told = explain_failure(raised.value)
    assert "Spark failed while it worked (NoSuchFileException)" in str(told)
    assert SECRET not in f"{told} {failure_of(raised.value)}"


def test_a_fault_of_ours(spark: Any) -> None:
    """Fails on 0.2.0: "a batch of rows could not be read to the end (KeyError)"."""
    for error, words in (
        (lambda: KeyError(SECRET), r"dpspark failed at a task (KeyError): its own fault, not the source's"),
        (lambda: task_error("a batch of rows", TypeError(SECRET)), "dpspark failed at a batch of rows (TypeError)"),
    ):
        told = failed(spark.range(0, 3, 1, 1).mapInArrow(in_python(error), "id bigint").collect)
        assert words in str(told)
        assert told.exit_code == 1
        assert SECRET not in f"{told} {vars(told)}"


@pytest.mark.parametrize(
    ("error", "words", "code"),
    [
        (KeyError(SECRET), "dpspark failed at people/a.parquet (KeyError): its own fault", 1),
        (pa.ArrowMemoryError(SECRET), "A task ran out of memory at people/a.parquet (ArrowMemoryError)", 1),
        (OSError(SECRET), "people/a.parquet could not be read to the end (OSError)", 4),
        (FileNotFoundError(SECRET), "people/a.parquet could not be read to the end (FileNotFoundError)", 4),
        (pa.ArrowInvalid(SECRET), "people/a.parquet could not be read to the end (ArrowInvalid)", 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_whose_fault_it_is(error: Exception, words: str, code: int) -> None:
    told = explain_failure(task_error("people/a.parquet", error))
    assert words in str(told)
    assert told.exit_code == code


@pytest.mark.parametrize(
    ("master", "told_of"), [("local[2]", True), ("local", True), ("spark://h:7077", False), ("yarn", False)]
)
def test_a_module_that_executors_lack(master: str, told_of: bool, monkeypatch: Any) -> None:
    """Fails on 0.2.0: a session of one's own on a local master was told of spark-submit alone."""
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", types.SimpleNamespace(master=master))
    told = str(explain_failure(RuntimeError("ModuleNotFoundError: No module named 'pyarrow'")))
    assert told.startswith("The executors cannot import pyarrow. Give spark-submit the package")
    assert (f"PYSPARK_PYTHON={sys.executable}" in told) == told_of
    assert len(told.splitlines()) == 2


def test_more_is_told_to_those_who_ask(
    spark: Any, conf: dict[str, Any], tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    """By --debug and -v: names and lines of Spark's code. Fails on 0.2.0: neither tells more."""
    pq.write_table(pa.table({"x": [SECRET] * 5}), tmp_path / "a.parquet")
    conf["source"] = {"parquet": str(tmp_path / "a.parquet"), "reader": "spark"}
    conf["columns"] = {"x": {"categories": ["a"]}}
    conf["where"] = "x <> 'a'"
    original = dpspark.spark.frames.open_spark_parquet

    def broken(*arguments: Any) -> Any:
        frame, text = original(*arguments)
        return frame.selectExpr("raise_error(x) as y", "x").where("isnull(y)").drop("y"), text

    monkeypatch.setattr("dpspark.releasing.opening.open_spark_parquet", broken)
    (tmp_path / "conf.json").write_text(json.dumps(conf))
    with pytest.raises(SystemExit) as left:
        main(["release", str(tmp_path / "conf.json"), "--debug", "-v"])
    assert left.value.code == 4
    shown = capsys.readouterr().err
    assert "[USER_RAISED_EXCEPTION]" in shown
    assert "  at org.apache.spark" in shown
    assert shown.count("Spark's error: ") == 2  # in the log, and by --debug
    assert SECRET not in shown
