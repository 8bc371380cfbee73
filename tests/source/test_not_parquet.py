"""A source that is not Parquet: what it is, and a way on that really works."""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from object_store import Bucket

import dpspark
from dpspark.errors import SourceError
from dpspark.source.column_list import list_columns
from dpspark.source.parquet import open_parquet, open_source

SECRET = "Rumpelstiltskin"
CSV = f"name,age\n{SECRET},30\n{SECRET},40\n".encode()
JSON = f'{{"name": "{SECRET}", "age": 30}}\n{{"name": "{SECRET}", "age": 40}}\n'.encode()
LIST = b"[" + JSON.replace(b"\n", b",")[:-1] + b"]"
FILES = {
    "people.csv": (CSV, "CSV"),
    "people.csv.gz": (gzip.compress(CSV), "CSV"),
    "people.tsv": (CSV.replace(b",", b"\t"), "CSV"),
    "people.parquet": (CSV, "CSV"),
    "people.jsonl": (JSON, "JSON"),
    "people": (JSON, "JSON"),
    "people.json": (LIST, "a JSON array"),
    "people.data": (b"PK\x03\x04" + CSV, "an archive"),
    "people.xlsx": (b"PK\x03\x04" + CSV, "an Excel workbook"),
    "people.gz": (gzip.compress(CSV), "gzip-compressed"),
    "people.avro": (b"Obj\x01" + CSV, "Avro"),
    "people.dta": (b"<stata_dta>" + CSV, "Stata"),
    "README": (SECRET.encode(), "text"),
    "nothing.parquet": (b"", "an empty file"),
    "key.parquet": (b"PARE" + CSV + b"PARE", "encrypted Parquet"),
    "cut.parquet": (b"PAR1" + CSV, "Parquet that is cut short or damaged"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_it_is(tmp_path: Path, bucket: Bucket, name: str) -> None:
    """Fails on 0.2.0: "not readable as Parquet (ArrowInvalid)". Kills: an error that quotes the file."""
    content, expected = FILES[name]
    (tmp_path / name).write_bytes(content)
    bucket.put(name, content)
    for look in (
        lambda: open_parquet(str(tmp_path / name), []),
        lambda: list_columns(str(tmp_path / name)),
        lambda: open_source(bucket.address(name), [], {}),
    ):
        with pytest.raises(SourceError, match=f"not readable as Parquet: it is {re.escape(expected)}\\.\n") as refused:
            look()
        assert SECRET not in str(refused.value)
        assert len(str(refused.value).splitlines()) == 2


def test_what_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"\0\1\2" + SECRET.encode())
    with pytest.raises(SourceError, match=r"not readable as Parquet \(ArrowInvalid\)"):
        open_parquet(str(tmp_path), [])


def written(folder: Path, kind: str) -> Path:
    table = pa.table({"name": [SECRET] * 2, "age": [30, 40]})
    path = folder / f"people.{kind}"
    if kind == "orc":
        orc.write_table(table, path)
    elif kind == "feather":
        feather.write_feather(table, path)
    else:
        path.write_bytes({"csv": CSV, "csv.gz": gzip.compress(CSV), "json": JSON, "list": LIST}[kind])
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "json", "list", "orc", "feather"])
def test_the_way_works(spark: Any, conf: dict[str, Any], tmp_path: Path, kind: str) -> None:
    """The command converts it, and what it says of Spark's reader reads it."""
    path = written(tmp_path, kind)
    conf["columns"] = {"age": {"lower": 0, "upper": 100}}
    with pytest.raises(SourceError) as refused:
        dpspark.release({**conf, "source": {"parquet": str(path)}})
    command = re.search(r"Convert it once: (python -c \".*?\")", str(refused.value))
    assert command is not None
    _, *arguments = shlex.split(command[1])
    subprocess.run([sys.executable, *arguments], check=True, cwd=tmp_path, timeout=120)
    assert pq.read_table(tmp_path / "people.parquet").column("age").to_pylist() == [30, 40]
    assert open_parquet(str(tmp_path / "people.parquet"), []).parts
    reader = re.search(r"dpspark\.release\(conf, source=(spark\.read\..*)\)\.$", str(refused.value))
    assert (reader is None) == (kind in ("feather", "json", "list"))
    if reader is not None:
        code = reader[1].replace("age int, …", "name string, age int")
        made = dpspark.release(conf, eval(code, {"spark": spark}))  # noqa: S307  our own message
        assert made.path
