"""Files that are not Parquet: recognised by their first bytes and names, refused with a way to convert them."""

from __future__ import annotations

import re
from typing import Any

from dpspark.errors import SourceError
from dpspark.source.stores import Store, as_os_errors

LOOKED_AT = 4096  # bytes
CONVERTED = (
    "Convert it once: "
    """python -c "import pyarrow.{module} as f, pyarrow.parquet as p; p.write_table(f.{read}, '{to}')\""""
)
THROUGH_SPARK = "; or release through Spark, from Python: dpspark.release(conf, source=spark.read.{reader})"
ELSEWHERE = "Write it as Parquet with the tool that made it, and give that."
PANDAS = """Convert it once: python -c "import pandas; pandas.{read}.to_parquet('{to}')"."""

# By the first bytes; then by the end of the name. What each is called, and how to get on.
BEGINS = (
    (b"ORC", "ORC"),
    (b"Obj\x01", "Avro"),
    (b"ARROW1", "Arrow IPC (Feather)"),
    (b"FEA1", "Feather"),
    (b"PARE", "encrypted Parquet"),
    (b"PAR1", "Parquet that is cut short or damaged"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x89HDF", "HDF5"),
    (b"<stata_dta>", "Stata"),
    (b"$FL2", "SPSS"),
    (b"$FL3", "SPSS"),
    (b"RDX", "an R workspace"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"(\xb5/\xfd", "zstd"),
    (b"\xfd7zXZ", "xz"),
)
ENDS = (
    (r"\.(csv|tsv|tab|psv)(\.\w+)?", "CSV"),
    (r"\.(json|jsonl|ndjson)(\.\w+)?", "JSON"),
    (r"\.xlsx", "an Excel workbook"),
    (r"\.dta", "Stata"),
    (r"\.sas7bdat", "SAS"),
    (r"\.(rds|rdata)", "an R workspace"),
    (r"\.(zip|tar|tgz|7z)", "an archive"),
)


def read_beginning(store: Store | None, path: str) -> bytes | None:
    """Read the beginning of a file; None if it cannot be read."""
    try:
        if store is None:
            with open(path, "rb") as file:
                return file.read(LOOKED_AT)
        with as_os_errors(), store.files.open_input_file(store.full(path)) as file:
            return bytes(file.read(LOOKED_AT))
    except OSError:
        return None


def recognise_format(path: str, begins: bytes) -> str | None:
    """Name the format of a file, without a byte of its content; None if it cannot be told."""
    if not begins:
        return "an empty file"
    by_name = next((name for end, name in ENDS if re.search(end + "$", path, re.I)), None)
    by_bytes = next((name for start, name in BEGINS if begins.startswith(start)), None)
    if by_bytes in ("gzip", "bzip2", "zstd", "xz"):
        return by_name if by_name in ("CSV", "JSON", "an R workspace") else f"{by_bytes}-compressed"
    if by_name == "JSON" and begins.lstrip()[:1] == b"[":
        return "a JSON array"
    if by_bytes is not None or by_name is not None:
        return by_bytes or by_name
    if begins.startswith(b"PK\x03\x04"):
        return "an archive"
    return _recognise_text(begins)


def _recognise_text(begins: bytes) -> str | None:
    if b"\0" in begins:
        return None
    try:
        text = begins.decode("utf-8-sig", "strict" if len(begins) < LOOKED_AT else "ignore")
    except UnicodeDecodeError:
        return None
    if text.lstrip()[:1] in ("{", "["):
        return "JSON" if text.lstrip()[:1] == "{" else "a JSON array"
    first = text.partition("\n")[0]
    return "CSV" if any(mark in first for mark in ",;\t|") else "text"


def unreadable_error(shown: str, path: str, begins: bytes | None, error: Exception) -> SourceError:
    """Make the error for a file that cannot be read as Parquet."""
    found = None if begins is None else recognise_format(path, begins)
    if found is None:
        return SourceError(f"{shown}: not readable as Parquet ({type(error).__name__}).\n{ELSEWHERE}")
    return SourceError(f"{shown}: not readable as Parquet: it is {found}.\n{_say_way(found, shown)}")


def _say_way(found: str, shown: str) -> str:
    """Say how to go on with a file of this format."""
    name = shown.rpartition("/")[2]
    stem = re.sub(r"(\.\w{1,8}){0,2}$", "", name)
    to = f"{stem}-2.parquet" if name == f"{stem}.parquet" else f"{stem}.parquet"
    ways: dict[str, Any] = {
        "CSV": ("csv", f"read_csv('{shown}')", f"csv('{shown}', header=True, schema='age int, …')"),
        "JSON": ("json", f"read_json('{shown}')", None),  # of which Spark may make several rows of a line
        "ORC": ("orc", f"read_table('{shown}')", f"orc('{shown}')"),
        "Arrow IPC (Feather)": ("feather", f"read_table('{shown}')", None),
        "Feather": ("feather", f"read_table('{shown}')", None),
    }
    if found in ways:
        module, read, reader = ways[found]
        convert = CONVERTED.format(module=module, read=read, to=to)
        return convert + ("" if reader is None else THROUGH_SPARK.format(reader=reader)) + "."
    readers = {"Stata": "read_stata", "SAS": "read_sas", "an Excel workbook": "read_excel", "a JSON array": "read_json"}
    if found in readers:
        return PANDAS.format(read=f"{readers[found]}('{shown}')", to=to)
    if found == "an empty file":
        return "Take it away, or give a glob that leaves it out."
    if found == "encrypted Parquet":
        return "Spark can read it, with its keys: use source.table or source.sql."
    if found.startswith("Parquet"):
        return "Write it again."
    if found == "text":
        return "If it does not belong to the data, give a glob that leaves it out (DIRECTORY/*.parquet)."
    return ELSEWHERE
