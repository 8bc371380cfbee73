"""A conf to fill in, written from the names and types of a source's columns alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import yaml

from dpspark.bundle.names import plain_name
from dpspark.core.domain import INTERCEPT
from dpspark.errors import ConfError
from dpspark.source.column_list import SourceColumn
from dpspark.spec.conf_file import TODO, check_plain, parse_yaml

HEAD = """\
# A release of second moments, for any regression of these columns. Written from their names and types: no data was read.
#
# Replace every TODO. Bounds and categories must be public: known without looking at the data, from a codebook or a form.
# Values beyond them are clipped, which biases; wide ones mean more noise. Where no upper bound is known, use the line with
# `upper: private` instead: it pays a tenth of the budget to find one, within a range that is public. At epsilon 1 that takes
# 40,000 rows for each such column; with fewer, it may clip too much. Remove columns that nobody needs.
source:
  parquet: {path}{zone}

columns:"""
ZONE = """
  timezone: UTC                  # of day(), hour() and the like of timestamps; or a region such as Europe/Berlin"""
TAIL = """
# nulls: drop_row                # a row without one of the values is dropped; midpoint puts a column's middle there
# where: "..."                   # only rows for which this holds, e.g. "age >= 18"

privacy:
  epsilon: 1.0                   # the smaller, the more private, and the more noise
  delta: 1.0e-9                  # far below one in the number of records
  neighbours: add_remove         # hides whether a record is there at all; replace_one hides its values
  # unit: {{column: person_id, max_rows: 3}}    # if people may have several rows: protects a person, not a row

release:
  name: {name}
  version: "1"                   # new data, or a changed conf, is a new version
  kind: gram                     # one matrix for all regressions
  # expected_rows: 100000        # a public guess, for `dpspark plan` and for private bounds

ledger:
  url: "sqlite:///ledger.db"
  dataset: {name}

output:
  path: releases
"""
LIMITS = f"{{lower: {TODO}, upper: {TODO}}}"
LONGEST_NAME = 1000  # YAML ends the keys of a line at 1,024 characters
CATEGORIES = f"{{categories: {TODO}}}"
PRIVATE = f"{{lower: {TODO}, upper: private, search: [{TODO}, {TODO}]}}"


def draft(path: str, columns: Sequence[SourceColumn], name: str) -> str:
    """The text of the conf."""
    taken = {column.name for column in columns}
    lines = [line for column in columns for line in ("", *_lines(column, taken))]
    used = [kind for column in columns if _problem(column) is None for kind in column.types]
    zone = ZONE if any(map(pa.types.is_timestamp, used)) else ""
    return HEAD.format(path=quoted(path), zone=zone) + "\n".join(lines) + "\n" + TAIL.format(name=quoted(name))


def name_for(path: str) -> str:
    """A name for the release and its dataset: the last part of the path that is no pattern."""
    for part in reversed(re.split(r"[/\\]", path.partition("?")[0])):
        plain = re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFKC", part.removesuffix(".parquet"))).strip("-._")
        if plain and not re.search(r"[*?\[=:]", part):
            try:
                return plain_name(plain)
            except ValueError:
                continue
    return "release"


def _lines(column: SourceColumn, taken: set[str]) -> list[str]:
    name, problem = quoted(column.name), _problem(column)
    if problem is not None:
        return [f"  # {name}: left out: {problem}"]
    if column.of_directories:
        return [
            f"  # {name}: from the names of directories. Categories, quoted if they are text; or {LIMITS} for numbers",
            f"  {name}: {CATEGORIES}",
        ]
    kind, types = column.types[0], pa.types
    shown = f"  # {name}: {_shown(kind)}."
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_boolean(kind):
        return [f"{shown} 0 or 1: nothing to fill in", f"  {name}: {{lower: 0, upper: 1}}"]
    if _is_text(kind):
        return [
            f"{shown} The values that count, such as [F, M]; all others are null. Remove it if it is free text or an id",
            f"  {name}: {CATEGORIES}",
        ]
    if types.is_date(kind) or types.is_timestamp(kind):
        year = _free(f"{column.name}_year", taken)
        return [
            f"{shown} Its year, such as 1900 and 2030; month() and day() can be had too",
            f"  {quoted(year)}: {{expr: {quoted(_year_of(column.name))}, lower: {TODO}, upper: {TODO}}}",
        ]
    hint = {
        "whole": "The least and the greatest that can be, such as 0 and 120; of codes: {categories: [1, 2, 3]}",
        "float": "The least and the greatest that can be, such as 0.0 and 250000.0",
        "decimal": "The least and the greatest that can be, such as 0.00 and 9999.99",
    }["whole" if types.is_integer(kind) else "decimal" if types.is_decimal(kind) else "float"]
    return [f"{shown} {hint}", f"  {name}: {LIMITS}", f"  # {name}: {PRIVATE}"]


def _problem(column: SourceColumn) -> str | None:
    """Say why a column cannot be in a conf, or in a release; None if it can."""
    try:
        check_plain(column.name)
    except ConfError:
        return "its name cannot be written down. Rename it"
    if len(quoted(column.name)) > LONGEST_NAME:
        return "its name is too long for YAML. Rename it"
    if not column.name or column.name == INTERCEPT:
        return "its name is empty. Rename it" if not column.name else "its name stands for the intercept. Rename it"
    if column.twice:
        return "a file has two columns of that name. Rename one"
    if not column.in_all:
        return "not in all files"
    families = {_family(kind) for kind in column.types}
    if len(families) > 1:
        return f"its type is not the same in all files: {', '.join(map(_shown, column.types))}"
    if families == {None}:
        nanoseconds = pa.types.is_timestamp(column.types[0])
        kind = "timestamp in nanoseconds, which Spark has not" if nanoseconds else _shown(column.types[0])
        return f"its type is {kind}. Store what you need of it as numbers, dates or text"
    return None


def _family(kind: Any) -> str | None:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_date(kind) or (types.is_timestamp(kind) and kind.unit != "ns"):  # Spark has no nanoseconds
        return "date"
    return "text" if _is_text(kind) else None


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()


def _shown(kind: Any) -> str:
    """A type without what is in it: names of fields may be anything."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if _is_text(kind):
        return "text"
    return str(kind) if pa.types.is_decimal(kind) else re.split(r"[<\[]", str(kind), maxsplit=1)[0]


def _year_of(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name)
    return f"year({name if plain else '`' + name.replace('`', '``') + '`'})"


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def quoted(text: str) -> str:
    """Text as a conf's YAML has it, on one line: plain where every reader takes it for itself."""
    plain = re.fullmatch(r"[^\W\d][\w-]*|[\w./-]*/[\w./-]*", text) and not text.startswith("-")
    if plain and parse_yaml(text, "name") == text == yaml.safe_load(text):
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf")).rstrip("\n")
