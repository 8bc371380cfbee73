"""Random expressions as text, and rows of edge values to evaluate them on."""

from __future__ import annotations

import random
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
WHOLE = {
    bits: [
        0,
        1,
        -1,
        2,
        3,
        7,
        10,
        -7,
        100,
        (1 << bits - 1) - 1,
        -(1 << bits - 1),
        (1 << bits - 1) - 2,
        1 - (1 << bits - 1),
    ]
    for bits in (8, 16, 32, 64)
}
LONGS = [*WHOLE[64], *WHOLE[32], (1 << 53) + 1, (1 << 24) + 1, -(1 << 53) - 1, 1 << 31, 1 << 62, 123456789012345678]
DOUBLES = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 4503599627370497.5, 0.1, 0.2, 0.3, 100.0),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        5e-324,
        -5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        -1e308,
    ),
    *(9223372036854775807.0, -9223372036854775808.0, 1e19, -1e19, 2147483647.5, -2147483648.9, 2147483648.0, 1e15),
    *(9007199254740993.0, 127.9, 128.0, -129.5, 3.4028235e38, 3.5e38, 1e-46, 2.0e-3, 16777217.0, 0.7, 65536.5, 1 / 3),
]
STRINGS = [
    *("", " ", "a", "A", "F", "M", "ab", "abc", "a b", " a ", "  x", "x  ", "\ta\t", "a\nb", "é", "e\u0301", "ß", "SS"),
    *(
        "İ",
        "i",
        "ı",
        "I",
        "😀",
        "a😀b",
        "\U0010ffff",
        "\ufffd",
        "\uff5e",
        "日本語",
        "ω",
        "Σς",
        "%",
        "_",
        "a%b",
        "a_b",
        "'",
    ),
    *(
        "12",
        " 12 ",
        "-7",
        "+7",
        "1.9",
        "-1.9",
        ".",
        "-",
        "+",
        "",
        "1.",
        ".5",
        "-.5",
        "1e3",
        "0x10",
        "0x1p3",
        "1d",
        "2F",
        "NaN",
    ),
    *("nan", "+NaN", "-inf", "Infinity", "inf", "+Infinity", "1e400", "-1e400", "1e-400", "2147483648", "-2147483648"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "000000000000000000000000000001", "1 2"),
    *(
        "128",
        "-128",
        "32768",
        "1_000",
        "１２",
        "12\x00",
        "\x7f5",
        "\u00a05",
        "1.5.2",
        "true",
        "2020-01-01",
        "1.7976931348623159e308",
    ),
    *(
        "0.1",
        "123456789012345678901234567890",
        "4.9e-324",
        "2.4703282292062328e-324",
        "1e+5",
        "1E5",
        "e5",
        "1e",
        "+-5",
        "\x851",
    ),
]
PRICES = [
    *("0", "0.01", "-0.01", "1", "1.5", "2.50", "-2.5", "99999999.99", "-99999999.99", "100", "0.1", "12345678.9")
]
LARGE = [
    "0",
    "1",
    "-1",
    "0.000000000000000001",
    "99999999999999999999.999999999999999999",
    "2.5",
    "-0.1",
    "9007199254740993",
    "0.3",
]
DAYS = [
    0,
    1,
    -1,
    59,
    60,
    365,
    789,
    18262,
    19000,
    19723,
    -719162,
    -719163,
    -719528,
    -800000,
    2932896,
    2932897,
    -141427,
    11016,
]
FAR_DAYS = [*DAYS, (1 << 31) - 1, -(1 << 31), 95026236, -96465292, 100000000]
TIMES = [day * 86_400_000_000 + part for day in DAYS for part in (0, -1, 43_200_000_001)]
FAR_TIMES = [*TIMES, (1 << 63) - 1, -(1 << 63), (1 << 63) - 1 - 10**12, 1_700_000_000_123_456, -2_208_988_800_000_001]


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


class Writer:
    """Writes expressions; operands stand in parentheses or not by chance, so that precedence is tested too."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def any(self, depth: int = 4) -> str:
        kind = self.pick((self.number, 6), (self.condition, 6), (self.text, 2), (self.date, 1), (self.time, 0.4))
        return kind(depth)

    def pick(self, *choices: tuple[Any, float]) -> Any:
        return self.rng.choices([one for one, _ in choices], [weight for _, weight in choices])[0]

    def one(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def inner(self, kind: Any, depth: int) -> str:
        found = kind(depth - 1)
        return found if self.rng.random() < 0.5 else f"({found})"

    def space(self, sign: str) -> str:
        return sign if sign[0] in "=<>!+*/%|" and self.rng.random() < 0.2 else f" {sign} "

    def number_literal(self) -> str:
        return self.one(
            *(
                "0",
                "1",
                "-1",
                "2",
                "3",
                "7",
                "-2147483648",
                "2147483647",
                "2147483648",
                "-9223372036854775808",
                "9223372036854775807",
            ),
            *(
                "1.5",
                "0.5",
                "-2.50",
                "100",
                "0.0",
                "1e3",
                "-1e-3",
                "2.5D",
                "-0.0D",
                "3L",
                "5S",
                "6Y",
                "1e308",
                "0.1",
                ".5",
                "16777217",
            ),
            *("9223372036854775808", "12345678901234567890.5", "null", "0.1D", "1.0"),
        )

    def column(self) -> str:
        return self.one("i8", "i16", "i", "j", "k", "l", "f", "x", "y", "p", "q", "I", "X", "`k`", "age", "month")

    def number(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.12:
            return self.column() if self.rng.random() < 0.75 else self.number_literal()
        n, b, s, d = (
            lambda kind=kind: self.inner(kind, depth) for kind in (self.number, self.condition, self.text, self.date)
        )
        return self.pick(
            *((lambda sign=sign: f"{n()}{self.space(sign)}{n()}", 1) for sign in ("+", "-", "*", "/", "%", "div")),
            (lambda: f"-{n()}".replace("--", "- -"), 0.7),
            (lambda: f"+ {n()}", 0.1),
            (
                lambda: (
                    f"{self.one('abs', 'sign', 'signum', 'floor', 'ceil', 'ceiling', 'sqrt', 'rint', 'round', 'negative')}({n()})"
                ),
                1.5,
            ),
            (
                lambda: (
                    f"{self.one('nvl', 'ifnull', 'coalesce', 'nullif', 'nanvl', 'greatest', 'least', 'mod', 'pmod')}({n()}, {n()})"
                ),
                2,
            ),
            (lambda: f"{self.one('coalesce', 'greatest', 'least')}({n()}, {n()}, {n()})", 0.5),
            (lambda: f"{self.one('pow', 'power')}({n()}, 2)", 0.2),
            (lambda: f"round({n()}, {self.one('0', '1', '2')})", 0.2),
            (lambda: f"if({b()}, {n()}, {n()})", 0.7),
            (lambda: f"case when {b()} then {n()} when {b()} then {n()} else {n()} end", 0.7),
            (lambda: f"case {n()} when {n()} then {n()} end", 0.4),
            (lambda: f"cast({n()} as {self.number_type()})", 1.2),
            (lambda: f"cast({self.pick((b, 1), (s, 2))()} as {self.number_type()})", 1),
            (lambda: f"({n()})::{self.number_type()}", 0.3),
            (lambda: f"{self.one('length', 'char_length')}({s()})", 0.4),
            (lambda: f"{self.date_function()}({self.pick((d, 3), (lambda: self.time(depth - 1), 1))()})", 0.8),
            (lambda: f"{self.one('hour', 'minute', 'second')}({self.time(depth - 1)})", 0.4),
            (
                lambda: f"extract({self.one('year', 'MONTH', 'day', 'hour', 'quarter')} from {self.time(depth - 1)})",
                0.2,
            ),
            (lambda: f"{self.one('datediff', 'date_diff')}({d()}, {d()})", 0.3),
        )()

    def number_type(self) -> str:
        return self.one(
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "long",
            "DOUBLE",
            "decimal(10,2)",
            "decimal(20, 0)",
            "byte",
        )

    def date_function(self) -> str:
        return self.one(
            "year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear"
        )

    def condition(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.07:
            return self.one("b", "c", "b", "c", "true", "false", "null", "i is null", "x > 0", "s = 'a'")
        b = lambda: self.inner(self.condition, depth)  # noqa: E731
        kind = self.pick((self.number, 6), (self.text, 2), (self.date, 1), (self.time, 0.5), (self.condition, 0.3))
        a = lambda: self.inner(kind, depth)  # noqa: E731
        s = lambda: self.inner(self.text, depth)  # noqa: E731
        sign = self.one("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
        return self.pick(
            (lambda: f"{a()}{self.space(sign)}{a()}", 5),
            (lambda: f"{self.column()}{self.space(sign)}{self.number_literal()}", 1),
            (lambda: f"{self.number_literal()}{self.space(sign)}cast({self.column()} as {self.number_type()})", 0.5),
            (lambda: f"cast({self.column()} as {self.number_type()}){self.space(sign)}{self.number_literal()}", 1),
            (lambda: f"{b()} {self.one('and', 'or', 'AND', 'Or')} {b()}", 3),
            (lambda: f"{self.one('not', '!', 'NOT')} {b()}", 1),
            (lambda: f"{a()} {self.one('', 'not ')}in ({', '.join(a() for _ in range(self.rng.randint(1, 4)))})", 1),
            (
                lambda: (
                    f"{self.number(depth - 1)} in ({', '.join(self.number_literal() for _ in range(self.rng.randint(1, 14)))})"
                ),
                0.5,
            ),
            (
                lambda: (
                    f"{self.one('s', 'r')} {self.one('', 'not ')}in ({', '.join(self.text_literal() for _ in range(self.rng.randint(1, 14)))})"
                ),
                0.3,
            ),
            (lambda: f"{a()} {self.one('', 'not ')}between {a()} and {a()}", 1),
            (lambda: f"{a()} is {self.one('', 'not ')}null", 0.7),
            (lambda: f"{b()} is {self.one('', 'not ')}{self.one('true', 'false')}", 0.3),
            (lambda: f"{self.one('isnull', 'isnotnull')}({a()})", 0.3),
            (lambda: f"isnan({self.inner(self.number, depth)})", 0.3),
            (lambda: f"{s()} {self.one('', 'not ')}like {self.pattern()}", 0.7),
            (lambda: f"{self.one('startswith', 'endswith', 'contains')}({s()}, {self.text_literal()})", 0.5),
            (lambda: f"cast({self.inner(self.number, depth)} as boolean)", 0.3),
            (lambda: f"{self.one('coalesce', 'nvl', 'greatest')}({b()}, {b()})", 0.3),
            (
                lambda: (
                    f"{self.one('d', 'e')}{self.space(sign)}{self.one(chr(39) + '2020-01-01' + chr(39), 'date' + chr(39) + '1970-01-01' + chr(39))}"
                ),
                0.5,
            ),
            (lambda: f"{self.one('t', 'n', 'v')}{self.space(sign)}{self.moment_literal()}", 0.5),
        )()

    def moment_literal(self) -> str:
        return self.one(
            "'2020-01-01'",
            "'1970-01-01 00:00:00'",
            "'2023-11-14 22:13:20.123456'",
            "timestamp'1582-10-14 12:00:00.5'",
            "date'1970-01-01'",
        )

    def pattern(self) -> str:
        return self.one(
            "'a%'",
            "'%b'",
            "'%a%'",
            "'a_b'",
            "'_'",
            "'%'",
            "''",
            "'%%'",
            "'a'",
            "'_%b'",
            "'a.b'",
            "'%é'",
            "'😀'",
            "'__'",
            "'a%b'",
            "'(%'",
        )

    def text_literal(self) -> str:
        return self.one("'a'", "''", "' '", "'é'", "'F'", "'abc'", "'😀'", "'12'", "'ß'", "'ab'", "'A'", "'%'", "'a b'")

    def text(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.25:
            return self.one("s", "r", "u", "s", "r", "S", self.text_literal())
        s, b = (lambda kind=kind: self.inner(kind, depth) for kind in (self.text, self.condition))
        position = lambda: str(self.rng.randint(-4, 5))  # noqa: E731
        return self.pick(
            (lambda: f"{s()}{self.space('||')}{s()}", 1),
            (lambda: f"concat({s()}, {s()}, {s()})", 0.5),
            (lambda: f"{self.one('substring', 'substr')}({s()}, {position()}, {position()})", 1),
            (lambda: f"substring({s()}, {position()})", 0.5),
            (lambda: f"{self.one('left', 'right')}({s()}, {position()})", 0.7),
            (lambda: f"{self.one('trim', 'ltrim', 'rtrim')}({s()})", 1),
            (lambda: f"replace({s()}, {self.text_literal()}, {self.text_literal()})", 0.5),
            (lambda: f"{self.one('coalesce', 'nvl', 'nullif', 'greatest', 'least')}({s()}, {s()})", 0.7),
            (lambda: f"case when {b()} then {s()} else {s()} end", 0.5),
            (lambda: f"if({b()}, {s()}, {s()})", 0.3),
            (lambda: f"cast({self.pick((self.number, 2), (self.condition, 1))(depth - 1)} as string)", 0.5),
        )()

    def date(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.4:
            return self.one(
                "d", "e", "d", "e", "D", "date'2020-02-29'", "date '0001-01-01'", "to_date(t)", "cast(n as date)"
            )
        d, b = (lambda kind=kind: self.inner(kind, depth) for kind in (self.date, self.condition))
        return self.pick(
            (
                lambda: (
                    f"{self.one('date_add', 'date_sub')}({d()}, {self.one('1', '-1', '365', 'i', 'i8', 'i16', 'month')})"
                ),
                1,
            ),
            (lambda: f"to_date({self.time(depth - 1)})", 0.5),
            (lambda: f"{self.one('coalesce', 'nullif', 'greatest', 'least')}({d()}, {d()})", 0.7),
            (lambda: f"if({b()}, {d()}, {d()})", 0.5),
        )()

    def time(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.6:
            return self.one("t", "v", "t", "n", "T")
        zoned = self.rng.random() < 0.8
        t = (lambda: self.one("t", "v")) if zoned else (lambda: "n")
        return self.pick(
            (lambda: f"{self.one('coalesce', 'nullif', 'greatest', 'least')}({t()}, {t()})", 1),
            (lambda: f"if({self.inner(self.condition, depth)}, {t()}, {t()})", 1),
        )()
