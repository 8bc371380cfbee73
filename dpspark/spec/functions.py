"""The functions that `where` and `expr` may use, with an example of each: what the reference prints, and what tests run.

All are functions of one row's values alone, with the same answer every time, and of a type that Spark knows. What Spark's
plan has in the end is judged again, by Spark's own classes: dpspark.judge.
"""

from __future__ import annotations

import re

# Examples have the columns x, y (numbers), n (a whole number), s (text), d (a date) and t (a time).
FUNCTIONS: dict[str, dict[str, str]] = {
    "conditions": {
        **{"case": "case when x > 1 then 1 else 0 end", "if": "if(x > 1, 1, 0)", "coalesce": "coalesce(x, 0)"},
        **{"nvl": "nvl(x, 0)", "ifnull": "ifnull(x, 0)", "nullif": "nullif(x, 0)", "nanvl": "nanvl(x, 0)"},
        **{"isnull": "isnull(x)", "isnotnull": "isnotnull(x)", "isnan": "isnan(x)"},
        **{"greatest": "greatest(x, y)", "least": "least(x, y)"},
    },
    "numbers": {
        **{"abs": "abs(x)", "sign": "sign(x)", "signum": "signum(x)", "negative": "negative(x)", "mod": "mod(n, 7)"},
        **{
            "pmod": "pmod(n, 7)",
            "floor": "floor(x)",
            "ceil": "ceil(x)",
            "ceiling": "ceiling(x)",
            "round": "round(x, 1)",
        },
        **{"bround": "bround(x, 1)", "rint": "rint(x)", "sqrt": "sqrt(x)", "cbrt": "cbrt(x)", "pow": "pow(x, 2)"},
        **{"power": "power(x, 2)", "exp": "exp(x)", "expm1": "expm1(x)", "ln": "ln(x)", "log": "log(2, x)"},
        **{
            "log10": "log10(x)",
            "log2": "log2(x)",
            "log1p": "log1p(x)",
            "hypot": "hypot(x, y)",
            "pi": "pi()",
            "e": "e()",
        },
        **{"sin": "sin(x)", "cos": "cos(x)", "tan": "tan(x)", "cot": "cot(x)", "asin": "asin(x)", "acos": "acos(x)"},
        **{"atan": "atan(x)", "atan2": "atan2(x, y)", "sinh": "sinh(x)", "cosh": "cosh(x)", "tanh": "tanh(x)"},
        **{"degrees": "degrees(x)", "radians": "radians(x)", "width_bucket": "width_bucket(x, 0, 10, 5)"},
        **{"try_divide": "try_divide(x, y)", "bit_count": "bit_count(n)"},
    },
    "types": {"cast": "cast(s as int)", "try_cast": "try_cast(s as int)"},
    "text": {
        **{"lower": "lower(s)", "upper": "upper(s)", "initcap": "initcap(s)", "trim": "trim(s)", "ltrim": "ltrim(s)"},
        **{
            "rtrim": "rtrim(s)",
            "length": "length(s)",
            "char_length": "char_length(s)",
            "substring": "substring(s, 1, 2)",
        },
        **{"substr": "substr(s, 1, 2)", "left": "left(s, 2)", "right": "right(s, 2)", "concat": "concat(s, 'x')"},
        **{"startswith": "startswith(s, 'a')", "endswith": "endswith(s, 'a')", "contains": "contains(s, 'a')"},
        **{"replace": "replace(s, 'a', 'b')", "instr": "instr(s, 'a')", "locate": "locate('a', s)"},
        **{"lpad": "lpad(s, 3, ' ')", "rpad": "rpad(s, 3, ' ')"},
    },
    "dates and times": {
        **{
            "year": "year(d)",
            "quarter": "quarter(d)",
            "month": "month(d)",
            "weekofyear": "weekofyear(d)",
            "day": "day(d)",
        },
        **{
            "dayofmonth": "dayofmonth(d)",
            "dayofweek": "dayofweek(d)",
            "weekday": "weekday(d)",
            "dayofyear": "dayofyear(d)",
        },
        **{"hour": "hour(t)", "minute": "minute(t)", "second": "second(t)", "extract": "extract(hour from t)"},
        **{"date_part": "date_part('hour', t)", "date_trunc": "date_trunc('hour', t)", "trunc": "trunc(d, 'MM')"},
        **{"to_date": "to_date(s)", "to_timestamp": "to_timestamp(s)", "unix_timestamp": "unix_timestamp(t)"},
        **{"datediff": "datediff(d, t)", "date_diff": "date_diff(d, t)", "date_add": "date_add(d, 1)"},
        **{"date_sub": "date_sub(d, 1)", "add_months": "add_months(d, 1)", "months_between": "months_between(d, t)"},
        **{"timestampdiff": "timestampdiff(hour, d, t)", "last_day": "last_day(d)", "make_date": "make_date(n, 1, 1)"},
    },
}
NAMES = frozenset(name for group in FUNCTIONS.values() for name in group)
OPERATORS = "+ - * / % div || = <> < <= > >= <=> and or not in, between, is null, like, ilike, rlike ::"
# Where a comment ends, parsers do not agree: expressions have none.
COMMENT = re.compile(r"--|/\*|\*/")

# Words that a text can have where it becomes a date or a time, and that mean the time of the run.
MOMENTS = ("now", "today", "yesterday", "tomorrow")
TRIMMED = "".join(map(chr, range(0x21))) + "\x7f"  # what Spark leaves out around such a word


def is_moment(text: str) -> bool:
    """Tell whether a text means the time of the run, where it becomes a date or a time."""
    return text.strip(TRIMMED).lower().startswith(MOMENTS)
