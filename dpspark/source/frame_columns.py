"""The columns of a Spark frame of Parquet files, over all their footers: for each one type that holds every file's values.

Files need not agree: a number may be a float in some and a double in others. Types that cannot be made one without loss, and
those that Spark does not have, are refused here, before anything is charged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dpspark.errors import SourceError
from dpspark.source.spark_types import arrow_type

DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
FLOATS = ("halffloat", "float", "double")
NESTED = ("array<", "struct<", "map<")
ONE_TYPE = "Write the files with one type for it, or leave it out."


class Layout(NamedTuple):
    """The columns of one file, of those that the release reads."""

    columns: tuple[tuple[str, str], ...]  # names and types
    directories: tuple[str, ...]  # the keys of its directories (key=value)
    old_times: tuple[str, ...] = ()  # columns of dates and times in an older calendar or format
    strange: bool = (
        False  # a Spark may fail on the whole file, at a type of some column; or spells its directories otherwise
    )


@dataclass(frozen=True)
class FrameColumns:
    """The columns of a frame of all files, and how they must be read."""

    types: Mapping[str, str]  # Spark's, of the columns in files
    directories: tuple[str, ...]
    spellings: Mapping[str, tuple[str, ...]]  # of the names, in the files
    old_times: frozenset[
        str
    ]  # of the names: columns of dates and times that only Spark's own reader reads as Spark does
    by_tasks: bool  # Spark's own reader would fail, or read something else: our tasks read the files


def merge_layouts(
    layouts: Mapping[Layout, str], names: Iterable[str], numbers: Collection[str], in_store: bool = False
) -> FrameColumns:
    """Find one type for each column. `layouts` has a file for each layout, for messages.

    `names` are the columns as the conf writes them; those in `numbers` are used as numbers alone, and so may be doubles.
    """
    keys = {key for layout in layouts for key in layout.directories}
    folded = _fold_names(sorted(keys), "the directories' names")
    own = {name.lower(): name for name in names}
    found: dict[str, dict[str, str]] = {}
    spellings: dict[str, tuple[str, ...]] = {}
    for layout, file in layouts.items():
        here = _fold_names((name for name, _ in layout.columns), file)
        given = {key.lower() for key in layout.directories}
        for low in here:
            if low in folded and low not in given:
                raise SourceError(
                    f"column {here[low]!r}: in some files a column, in others the name of a directory ({here[low]}=…). "
                    "Make it one of them in all."
                )
        for name, kind in layout.columns:
            if name.lower() not in folded:
                called = own.setdefault(name.lower(), name)
                found.setdefault(called, {}).setdefault(kind, file)
                spellings[called] = tuple(dict.fromkeys((*spellings.get(called, ()), name)))
    types = {name: _choose_type(name, kinds, name in numbers) for name, kinds in found.items()}
    # Spark refuses to read directories of different keys together, and may regard case if it is set to.
    differ = len({layout.directories for layout in layouts}) > 1 or any(len(each) > 1 for each in spellings.values())
    differ = differ or any(layout.strange for layout in layouts)
    by_tasks = in_store or differ or any(set(found[name]) not in ({types[name]}, {"null"}) for name in types)
    for name, kind in types.items():
        if by_tasks and arrow_type(kind) is None:
            raise _no_type(name, kind, "cannot be read here, where tasks read the files")
    spelt_old = {name for layout in layouts for name in layout.old_times}
    old = frozenset(name for name, each in spellings.items() if spelt_old.intersection(each))
    return FrameColumns(types, tuple(sorted(keys)), spellings, old, by_tasks)


def _fold_names(names: Iterable[str], where: str) -> dict[str, str]:
    """Map lower-case names to names. Refuse two that differ in case alone: Spark takes them for one."""
    folded: dict[str, str] = {}
    for name in names:
        if name.lower() in folded:
            raise SourceError(
                f"column {name!r}: {where} has more than one of that name, but for case, and Spark does not regard case.\n"
                "Rename one."
            )
        folded[name.lower()] = name
    return folded


def _choose_type(name: str, kinds: Mapping[str, str], is_number: bool) -> str:
    """Choose the type that holds the values of all files; double for numbers. `kinds` has a file for each type."""
    (first, a), *others = kinds.items()
    if not others and (arrow_type(first) is not None or first.startswith(NESTED)):
        return first
    if is_number:
        return "double"
    common = common_type(kinds)
    if common is not None:
        return common
    unknown = next((kind for kind in kinds if _has_no_type(kind)), None)
    if unknown is not None:
        raise _no_type(name, unknown, "Spark has not")
    second, b = next((kind, file) for kind, file in others if common_type([first, kind]) is None or len(others) == 1)
    raise SourceError(
        f"column {name!r}: its type is {first} in {a}, and {second} in {b}; not every value of one fits the other.\n{ONE_TYPE}"
    )


def _has_no_type(kind: str) -> bool:
    return arrow_type(kind) is None and not kind.startswith(NESTED) and kind not in (*FLOATS, "null")


def _no_type(name: str, kind: str, why: str) -> SourceError:
    way = "Leave it out of where and expr."
    if kind.startswith("timestamp["):
        pandas = f'from pandas: df["{name}"] = df["{name}"].dt.as_unit("us")'
        way = f"Write it as timestamp[us] ({pandas}), or leave it out of where and expr."
    return SourceError(f"column {name!r}: its type is {kind}, which {why}.\n{way}")


def common_type(kinds: Iterable[str]) -> str | None:
    """Find the smallest of Spark's types that holds every value of these exactly; None if there is none."""
    left = {kind for kind in kinds if kind != "null"}
    if not left:
        return "int"  # as Spark reads a column of nulls
    if len(left) == 1 and arrow_type(next(iter(left))) is not None:
        return next(iter(left))
    whole = [kind for kind in left if kind in DIGITS]
    floats = [kind for kind in left if kind in FLOATS]
    decimals = [re.fullmatch(r"decimal\((\d+),(-?\d+)\)", kind) for kind in left - {*whole, *floats}]
    if None in decimals or (decimals and floats):
        return None
    if decimals:
        return _common_decimal([(int(found[1]), int(found[2])) for found in decimals if found], whole)
    widest = max((DIGITS[kind] for kind in whole), default=0)
    if not floats:
        return next(kind for kind in whole if DIGITS[kind] == widest)
    if widest > DIGITS["int"]:
        return None  # not every bigint is a double
    return "double" if "double" in floats or widest > DIGITS["smallint"] else "float"


def _common_decimal(decimals: list[tuple[int, int]], whole: list[str]) -> str | None:
    sizes = [*decimals, *((DIGITS[kind], 0) for kind in whole)]
    scale = max(scale for _, scale in sizes)
    digits = max(precision - scale for precision, scale in sizes) + scale
    return f"decimal({digits},{scale})" if digits <= 38 and scale >= 0 else None


def schema_text(columns: FrameColumns) -> str:
    """Write a schema for Spark's reader. It looks at no other columns, so their types may be unknown to it."""
    return ", ".join(f"`{_quote(name)}` {kind}" for name, kind in columns.types.items())


def _quote(name: str) -> str:
    return name.replace("`", "``")
