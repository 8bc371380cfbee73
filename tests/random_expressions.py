"""Random expressions as text, and rows of edge values to evaluate them on."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dpspark.source.spark_types import arrow_type

TYPES = {
    **{"i8": "tinyint", "i16": "smallint", "i": "int", "j": "int", "k": "bigint", "l": "bigint", "f": "float"},
    **{"x": "double", "y": "double", "p": "decimal(10,2)", "q": "decimal(38,18)", "s": "string", "r": "string"},
    **{"u": "string", "b": "boolean", "c": "boolean", "d": "date", "e": "date", "t": "timestamp", "v": "timestamp"},
    **{"n": "timestamp_ntz", "Age": "int", "month": "int"},
}
LAST = {bits: (1 << bits - 1) - 1 for bits in (8, 16, 32, 64)}
WHOLE = {bits: [0, 1, -1, 2, 3, 7, 10, -7, 100, n, -n - 1, n - 1, -n] for bits, n in LAST.items()}
LONGS = [*WHOLE[64], *WHOLE[32], (1 << 53) + 1, (1 << 24) + 1, -(1 << 53) - 1, 1 << 31, 1 << 62, 123456789012345678]
DOUBLES = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 4503599627370497.5, 0.1, 0.2, 0.3, 100.0),
    *(float("nan"), float("inf"), float("-inf"), 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308),
    *(9223372036854775807.0, -9223372036854775808.0, 1e19, -1e19, 2147483647.5, -2147483648.9, 2147483648.0, 1e15),
    *(9007199254740993.0, 127.9, 128.0, -129.5, 3.4028235e38, 3.5e38, 1e-46, 2.0e-3, 16777217.0, 0.7, 65536.5, 1 / 3),
]
STRINGS = [
    *("", " ", "a", "A", "F", "M", "ab", "abc", "a b", " a ", "  x", "x  ", "\ta\t", "a\nb", "é", "e\u0301", "ß", "SS"),
    *("İ", "i", "ı", "I", "😀", "a😀b", "\U0010ffff", "\ufffd", "\uff5e", "日本語", "Σς", "%", "_", "a%b", "a_b", "'"),
    *("ſ", "\u212a", "k", "K", "ﬁ", "fi", "FI", "i\u0307", "ss", "ﬀ", "ff"),
    *("12", " 12 ", "-7", "+7", "1.9", "-1.9", ".", "-", "+", "1.", ".5", "-.5", "1e3", "0x10", "0x1p3", "1d", "2F"),
    *("NaN", "nan", "+NaN", "-inf", "Infinity", "inf", "+Infinity", "1e400", "-1e400", "1e-400", "2147483648"),
    *("-2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0" * 30 + "1", "1 2"),
    *("128", "-128", "32768", "1_000", "１２", "12\x00", "\x7f5", "\u00a05", "1.5.2", "true", "2020-01-01", "+-5"),
    *("0.1", "123456789012345678901234567890", "4.9e-324", "2.4703282292062328e-324", "1e+5", "1E5", "e5", "1e"),
    *("\u00851", "1.7976931348623159e308", "1e99", "1.5", "1e-99", "-0", "-0.0", "0x1.8p1", "1__0", "1e5f", "1 f"),
]
PRICES = [
    *("0", "0.01", "-0.01", "1", "1.5", "2.50", "-2.5", "99999999.99"),
    *("-99999999.99", "100", "0.1", "12345678.9", "0.03", "0.04", "0.05"),
]
LARGE = [
    *("0", "1", "-1", "0.000000000000000001", "99999999999999999999.999999999999999999"),
    *("2.5", "-0.1", "9007199254740993", "0.3"),
]
DAYS = [
    *(0, 1, -1, 59, 60, 365, 789, 18262, 19000, 19723),
    *(-719162, -719163, -719528, -800000, 2932896, -141427, 11016),
]
FAR_DAYS = [*DAYS, LAST[32], -LAST[32] - 1, 95026236, -96465292, 100000000]
TIMES = [day * 86_400_000_000 + part for day in DAYS for part in (0, -1, 43_200_000_001)]
FAR_TIMES = [*TIMES, LAST[64], -LAST[64] - 1, LAST[64] - 10**12, 1_700_000_000_123_456, -2_208_988_800_000_001]

# A weight, then what is written; ~ is a space within a word. A letter in braces is another expression: a number,
# a condition, a text, a date or a time; a word in braces, or several in parentheses, is one of a list.
GRAMMAR = {
    "n": """
        2   {column}
        0.5 {number}
        6   {n}{op}{n}
        0.7 -{n}
        0.1 + {n}
        1.5 {(abs sign signum floor ceil ceiling sqrt rint round negative)}({n})
        2   {(nvl ifnull coalesce nullif nanvl greatest least mod pmod)}({n}, {n})
        0.5 {(coalesce greatest least)}({n}, {n}, {n})
        0.2 {(pow power)}({n}, {(2 2.0 2e0)})
        0.2 round({n}, {(0 1 2)})
        0.7 if({b}, {n}, {n})
        0.7 case when {b} then {n} when {b} then {n} else {n} end
        0.4 case {n} when {n} then {n} end
        1.2 cast({n} as {type})
        0.7 cast({s} as {type})
        0.3 cast({b} as {type})
        0.3 ({n})::{type}
        0.4 {(length char_length)}({s})
        0.6 {part}({d})
        0.2 {part}({t})
        0.4 {(hour minute second)}({t})
        0.2 extract({(year MONTH day hour quarter)} from {t})
        0.3 {(datediff date_diff)}({d}, {d})
        0.5 {(p p i8 i16 cast(i8~as~decimal(5,2)))}{(/ ~/~)}{(p i8 3 100 7.0 0 0.03 -12S -1.5)}""",
    "b": """
        1   {(b c b c true false null)}
        3   {n}{sign}{n}
        1   {s}{sign}{s}
        0.5 {d}{sign}{d}
        0.3 {t}{sign}{t}
        0.2 {b}{sign}{b}
        1   {column}{sign}{number}
        0.5 {number}{sign}cast({column} as {type})
        1   cast({column} as {type}){sign}{number}
        0.4 {column}{sign}{s}
        0.2 {text}{sign}{n}
        0.4 {(d e)}{sign}{day}
        0.4 {(t v n)}{sign}{moment}
        3   {b} {(and or AND Or)} {b}
        1   {(not ! NOT)} {b}
        0.5 {n} {not}in ({n}, {n})
        0.3 {s} {not}in ({s}, {s}, {s})
        0.2 {d} {not}in ({d}, {d})
        0.5 {n} {not}in ({number}, {number}, {number}, {number})
        0.2 {column} in ({number}, {number}, {number}, {number}, {number}, {number}, {number}, {number}, 1, 2, 3, 4)
        0.3 {(s r)} {not}in ({text}, {text}, {text})
        0.8 {n} {not}between {n} and {n}
        0.2 {s} {not}between {s} and {s}
        0.2 {d} {not}between {day} and {day}
        0.4 {n} is {not}null
        0.3 {s} is {not}null
        0.3 {b} is {not}{(true false null)}
        0.3 {(isnull isnotnull)}({n})
        0.3 isnan({n})
        0.7 {s} {not}like {like}
        0.5 {(startswith endswith contains)}({s}, {text})
        0.3 cast({n} as boolean)
        0.3 {(coalesce nvl greatest)}({b}, {b})""",
    "s": """
        2   {(s r u S)}
        0.5 {text}
        1   {s}{(|| ~||~)}{s}
        0.5 concat({s}, {s}, {s})
        1   {(substring substr)}({s}, {place}, {place})
        0.5 substring({s}, {place})
        0.7 {(left right)}({s}, {place})
        1   {(trim ltrim rtrim)}({s})
        0.5 replace({s}, {text}, {text})
        0.7 {(coalesce nvl nullif greatest least)}({s}, {s})
        0.5 case when {b} then {s} else {s} end
        0.3 if({b}, {s}, {s})
        0.4 cast({n} as string)
        0.2 cast({b} as string)""",
    "d": """
        3   {(d e D to_date(t) cast(n~as~date))}
        0.5 {day}
        1   {(date_add date_sub)}({d}, {(1 -1 365 i i8 i16 month)})
        0.5 to_date({t})
        0.7 {(coalesce nullif greatest least)}({d}, {d})
        0.5 if({b}, {d}, {d})""",
    "t": """
        3   {(t v t n T)}
        0.5 {(coalesce nullif greatest least)}({(t v)}, {(t v)})
        0.5 if({b}, {(t v)}, {(t v)})""",
}
WORDS = {
    "column": "i8 i16 i j k l f x y p q I X `k` age month",
    "number": "0 1 -1 2 3 7 -2147483648 2147483647 2147483648 -9223372036854775808 9223372036854775807 1.5 0.5 -2.50 100 0.0"
    " 1e3 -1e-3 2.5D -0.0D 3L 5S 6Y 1e308 0.1 .5 16777217 9223372036854775808 12345678901234567890.5 null 0.1D 1.0",
    "op": "+ - * / % ~+~ ~-~ ~*~ ~/~ ~%~ ~div~",
    "sign": "= != < <= > >= ~=~ ~==~ ~<>~ ~!=~ ~<~ ~<=~ ~>~ ~>=~ ~<=>~",
    "type": "tinyint smallint int bigint float double long DOUBLE decimal(10,2) decimal(20,~0) byte",
    "part": "year quarter month day dayofmonth dayofweek weekday dayofyear weekofyear",
    "text": "'a' '' '~' 'é' 'F' 'abc' '-7' '1.5' '😀' '12' 'ß' 'ab' 'A' '%' 'a~b' 'ss' 'SS' 'fi' 'k' 'K' 'i'",
    "like": "'a%' '%b' '%a%' 'a_b' '_' '%' '' '%%' 'a' '_%b' 'a.b' '%é' '😀' '__' 'a%b' '(%' 'a%%b_'",
    "day": "date'2020-02-29' date~'0001-01-01' '2020-01-01' date'1970-01-01'",
    "moment": "'2020-01-01' '1970-01-01~00:00:00' '2023-11-14~22:13:20.123456' timestamp'1582-10-14~12:00:00.5'"
    " date'1970-01-01'",
    "place": "-4 -3 -2 -1 0 1 2 3 4 5",
}
RULES = {
    kind: [(float(line.split(None, 1)[0]), line.split(None, 1)[1]) for line in text.strip().splitlines()]
    for kind, text in GRAMMAR.items()
}


class Writer:
    """Writes expressions; operands stand in parentheses or not by chance, so that precedence is tested too."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def write(self, kinds: str = "nnnnnnbbbbbbssdt", depth: int | None = None) -> str:
        depth = self.rng.randint(1, 4) if depth is None else depth
        return self._rule(self.rng.choice(kinds), depth)

    def _rule(self, kind: str, depth: int) -> str:
        rules = RULES[kind][:2] if depth <= 0 else RULES[kind]
        rule = self.rng.choices([text for _, text in rules], [weight for weight, _ in rules])[0]
        written = re.sub(r"\{(\(.*?\)|\w+)\}", lambda found: self._part(found[1], depth), rule)
        return written.replace("--", "- -")

    def _part(self, name: str, depth: int) -> str:
        if name == "not":
            return self.rng.choice(["", "not "])
        if name in RULES:
            inner = self._rule(name, depth - 1)
            return inner if self.rng.random() < 0.5 else f"({inner})"
        words = name[1:-1] if name.startswith("(") else WORDS[name]
        return self.rng.choice(words.split(" ")).replace("~", " ")


def edge_rows(rows: int, seed: int) -> dict[str, Any]:
    """Columns of all types: each edge value once at least, nulls, and every pair of two columns by chance."""
    rng = random.Random(seed)
    pools: dict[str, list[Any]] = {
        **{"tinyint": WHOLE[8], "smallint": WHOLE[16], "int": WHOLE[32], "bigint": LONGS, "float": DOUBLES},
        **{"double": DOUBLES, "string": STRINGS, "boolean": [True, False], "date": FAR_DAYS},
        **{"timestamp": FAR_TIMES, "timestamp_ntz": FAR_TIMES},
        **{"decimal(10,2)": [Decimal(one) for one in PRICES], "decimal(38,18)": [Decimal(one) for one in LARGE]},
    }
    found = {}
    for name, kind in TYPES.items():
        pool = [*range(13)] if name == "month" else [*range(120)] if name == "Age" else pools[kind]
        values = [*pool, *(rng.choice([*pool, None]) for _ in range(rows))][:rows]
        rng.shuffle(values)
        found[name] = pa.array(values, arrow_type(kind))
    return found
