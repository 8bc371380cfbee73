"""Compiled expressions against Spark: the same types, and the same values to the last bit, or no compilation."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpspark.source.compute.compile import NotCompiled, compile_expression, compile_filter
from dpspark.source.compute.program import Program, keep_mask
from tests.compute_differential import differences, kept_rows
from tests.random_expressions import TYPES, Writer, edge_rows

ROWS = 220
# Where texts are easily read otherwise, or values are at an edge. Each agrees with Spark, or is left to it.
NASTY = """
not b = c
not b and c
! b or c
not i = j
not (i = j) = c
i between 1 and 2
j between 1 and 10 or b
i not between 1 and 2 and c
b between false and true = c
i between 1 and 2 = true
-i * j
- - i
-i8
- -2147483648
-2147483648
-9223372036854775808
-(2147483648)
2147483647 + 1
-x
i - -1
i -1
i-1
-1::string
-i::bigint
-5 % 3
i % j * 2
i * j % 7
i + j * k
i - j - k
x / y / 2
x / y * 2
k div l * 2
s || r || u
i + 1 || s
s || 'a' = 'ab'
i = j = b
b = c = b
i < j = c
i == j
i <=> null
x <=> y
not x <=> y
null = i
null or b
null and b
i in (1, null)
i in (null)
null in (1)
i not in (1, null)
x in (0.0D, 1.0D, 2.0D, 3.0D, 4.0D, 5.0D, 6.0D, 7.0D, 8.0D, 9.0D, 10.0D, 11.0D)
x in (-0.0D)
x in (cast('NaN' as double))
x = cast('NaN' as double)
x > cast('NaN' as double)
x >= cast('nan' as double)
x < cast('inf' as double)
f in (0.1, 0.2)
f = 0.1
f = 0.1D
f = cast(0.1 as float)
f + k
f * 2
f / 2
f % 0.5
x % y
x % 0
-x % 3
i % -1
k % -1
k % 0
k div 0
k div -1
i8 + i8
i8 * i8
i16 - i8
i8 + 1
-i8
abs(i8)
abs(k)
abs(x)
pmod(i8, i8)
pmod(i, -7)
pmod(k, l)
pmod(x, y)
x / 0
i / j
0 / 0
0.0D / 0
greatest(x, y)
least(x, y)
greatest(0.0D, x)
greatest(-0.0D, x, 0.0D)
least(i, null)
greatest(s, r)
greatest(b, c)
greatest(d, e)
nanvl(x, 0)
nanvl(x, null)
nanvl(f, 0)
nanvl(f, y)
nullif(i, 1.0)
nullif(s, '')
nullif(1, i)
coalesce(null, i)
coalesce(i, 1.5)
coalesce(p, 1)
coalesce(p, x)
coalesce(i8, k)
coalesce(f, k)
if(b, 1, 2.5)
if(b, 1, null)
if(i, 1, 2)
case when b then 1 when c then 2.5 else 3e0 end
case i when 1 then 'a' when 1.0 then 'b' else 'c' end
case when x > 1 then p else i end
case x when cast('nan' as double) then 1 else 0 end
p + 1
p * 2.5
p - i
p * k
p * x
p + q
-p
-q
abs(q)
p = 1
p > i
p < q
p = 0.1
p >= 99999999.99
cast(p as int)
cast(p as tinyint)
cast(p as double)
cast(q as double)
cast(q as float)
cast(p as boolean)
cast(p as decimal(12, 3))
cast(p as decimal(9, 1))
cast(k as decimal(10, 2))
cast(k as decimal(38, 0))
cast(i as decimal)
p + cast(1 as int)
p + (1)
p + +1
p + floor(1)
p + round(1)
p + 1L
p + 100Y
p / 100
p / 3
p / 0
p / i8
p % 3
p / 7.0
i > 1.5
k > 9223372036854775807.5
k = 9223372036854775808
k < -9223372036854775808.5
i8 = 128
i8 > 1000
k = 9007199254740993
k = 9007199254740993D
cast(k as double) = 9007199254740992
cast(k as float) = 16777217
cast(cast(k as float) as double)
cast(i as float) > 16777216
cast(i as float) * 1.0D
cast(x as int)
cast(x as bigint)
cast(x as smallint)
cast(x as tinyint)
cast(x as float)
cast(f as int)
cast(f as double)
cast(x as boolean)
cast(i as tinyint)
cast(k as int)
cast(b as int)
cast(b as double)
cast(b as string)
cast(i as string)
cast(s as int)
cast(s as bigint)
cast(s as smallint)
cast(s as tinyint)
cast(s as double)
cast(r as double) > 1
cast(s as float)
cast(s as boolean)
cast(s as date)
cast(x as string)
floor(x)
ceil(x)
floor(f)
ceil(k)
floor(p)
round(x)
round(f)
round(-x, 0)
round(x, 2)
round(i, -1)
round(p)
rint(x)
sqrt(x)
sqrt(k)
sign(x)
sign(p)
sign(i)
pow(x, 2)
pow(i, 2)
pow(f, 2.0)
pow(x, 3)
exp(x)
isnan(x)
isnan(f)
isnan(i)
isnull(x)
b is true
b is not true
b is not false
i is null is null
i is not null = b
length(s)
length(s || r)
substring(s, 0)
substring(s, 0, 2)
substring(s, 1, 1)
substring(s, -2)
substring(s, -2, 1)
substring(s, -5, 3)
substring(s, -5, 5)
substring(s, -5, 6)
substring(s, 2, 0)
substring(s, 2, -1)
substring(s, 2147483647, 2147483647)
substring(s, -2147483648, 2147483647)
left(s, 2)
left(s, -1)
right(s, 2)
right(s, 0)
trim(s)
ltrim(s)
rtrim(s)
lower(s)
upper(s) = 'SS'
lower(s) = 'i'
s like 'a%'
s like 'a_b'
s like '%a%b%'
s like '_'
s like '__'
s like 'a.b'
s not like '%'
s like ''
s like 'A'
s ilike 'a'
s rlike 'a'
contains(s, '')
startswith(s, 'a')
endswith(s, ' ')
replace(s, '', 'x')
replace(s, 'a', '')
replace(s, 'aa', 'b')
s < r
s >= 'é'
s in ('a', 'ß', '')
s = 'a ' or s = ' a'
s = 1
i = '1'
i = 'a'
d = '2020-01-01'
d > '2020-01'
d between '1970-01-01' and '2020-01-01'
d in ('2020-01-01')
d = date'2020-01-01'
d < timestamp'2020-01-01 00:00:00'
t >= '2020-01-01'
t < '2020-01-01 00:00:00.5'
t < '2020-01-01T00:00:00'
t >= date'1970-01-01'
t = timestamp'1970-01-01 00:00:00'
n < '2020-01-01'
n < timestamp'2020-01-01 00:00:00'
t < n
t = d
to_date(t) = date'1970-01-01'
cast(t as date) <= date'1969-12-31'
to_date(t) in (date'1970-01-01', date'2020-01-01')
year(d)
year(t) = 1970
month(n)
weekofyear(d)
dayofweek(d)
weekday(t)
dayofyear(d)
quarter(d)
hour(t)
minute(t)
second(n)
hour(d)
extract(year from d)
extract(second from t)
date_part('month', t)
date_add(d, i)
date_sub(d, 1)
date_add(t, -1)
date_add(d, k)
d + 1
d - e
datediff(d, e)
datediff(d, t)
datediff('2020-01-01', d)
Age >= 18 and AGE < 65
`month` between 1 and 6
month in (1, 2, 3)
true
1
'a'
1.50
.5 * i
1e3
1.5e-3D
3S + i8
1 = 1.0
'a' in ('a', 'b')
'a' < 'b' and b
date'2020-01-01' > d
""".strip().splitlines()


def random_expressions(seed: int, count: int, timezone: str) -> list[str]:
    """Write random expressions; those that compile."""
    writer, found = Writer(seed), []
    while len(found) < count:
        text = writer.write()
        if compiles(text, timezone):
            found.append(text)
    return found


def compiles(text: str, timezone: str = "UTC") -> bool:
    try:
        compile_expression(text, TYPES, timezone)
    except NotCompiled:
        return False
    return True


@pytest.mark.spark35
@pytest.mark.parametrize(("seed", "timezone"), [(1, "UTC"), (2, "+05:30")])
def test_random_expressions_are_sparks(spark: Any, tmp_path: Path, seed: int, timezone: str) -> None:
    """Kills: any kernel, conversion or precedence that differs from Spark's by one bit of one row."""
    texts = random_expressions(seed, 1200, timezone)
    assert differences(spark, texts, edge_rows(ROWS, seed), timezone, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_many_more_random_expressions(spark: Any, tmp_path: Path, seed: int) -> None:
    timezone = ["UTC", "+05:30", "-18:00", "+00:01"][seed % 4]
    texts = random_expressions(seed, 2000, timezone)
    assert differences(spark, texts, edge_rows(ROWS, seed), timezone, tmp_path) == []


@pytest.mark.spark35
@pytest.mark.parametrize("timezone", ["UTC", "-09:30", "Europe/Berlin"])
def test_nasty_expressions_are_sparks(spark: Any, tmp_path: Path, timezone: str) -> None:
    texts = [text for text in NASTY if compiles(text, timezone)]
    assert len(texts) > 200
    assert differences(spark, texts, edge_rows(ROWS, 3), timezone, tmp_path) == []


@pytest.mark.spark35
def test_filters_keep_the_rows_that_spark_keeps(spark: Any, tmp_path: Path) -> None:
    """Spark's own filter goes by the file's statistics too."""
    writer, columns = Writer(5), edge_rows(ROWS, 5)
    texts = [text for text in (writer.write("b", 2) for _ in range(80)) if compiles(text)][:40]
    for text, kept in zip(texts, kept_rows(spark, texts, columns, tmp_path), strict=True):
        mask = keep_mask(compile_expression(text, TYPES, "UTC"), columns, ROWS)
        assert np.array_equal(np.arange(ROWS) if mask is None else np.flatnonzero(mask), kept), text


def test_parts_of_arrays_and_rows_alone() -> None:
    """Kills: a kernel that forgets where a slice begins, or that is right only beside nulls; what cannot be pickled."""
    columns = edge_rows(ROWS, 6)
    warnings.simplefilter("error")  # numpy's, too, would come from what a row holds
    for text in random_expressions(6, 300, "UTC"):
        program: Program = pickle.loads(pickle.dumps(compile_expression(text, TYPES, "UTC")))  # noqa: S301
        whole = program.run({name: columns[name] for name in program.columns}, ROWS)
        for start, rows in ((3, 150), (0, 0), *((row, 1) for row in range(0, ROWS, 37))):
            part = program.run({name: columns[name].slice(start, rows) for name in program.columns}, rows)
            assert repr(_bits(part)) == repr(_bits(whole.slice(start, rows))), text


def _bits(array: Any) -> list[Any]:
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if pa.types.is_date(array.type) else pa.int64())
    return array.to_pylist()


NO_TEXT = [
    b"\xff",
    b"a\xff\xfeb",
    b" 1\xff",
    b"\xe2\x82",
    b"1\xf0",
    b"nan\x80",
    b"\x80\x80",
    b"12",
    b"",
    b"\xc3",
    b"\xc0\x80",
    None,
]


def test_bytes_that_are_no_text(spark: Any, tmp_path: Path) -> None:
    """Parquet forbids them, but no reader looks: they end no task. Spark itself may read beyond a broken one."""
    rows = len(NO_TEXT)
    array = pa.Array.from_buffers(pa.string(), rows, pa.array(NO_TEXT, pa.binary()).buffers())
    columns = {**edge_rows(rows, 7), "s": array, "r": array, "u": array}
    nasty = [text for text in NASTY if compiles(text)]
    for text in [*nasty, *random_expressions(7, 500, "UTC")]:
        compile_expression(text, TYPES, "UTC").run(columns, rows)
    texts = [text for text in nasty if re.match(r"length|trim|cast\(s|s (in|=|<|>=)", text)]
    assert differences(spark, texts, columns, "UTC", tmp_path) == []


def test_near_dates_have_the_parts_that_far_ones_have() -> None:
    """Near dates go through pyarrow's own kernels, unless a far one is among them."""
    days = np.arange(-1_000_000, 1_000_000, 13, dtype=np.int32)
    near, far = (pa.array(np.append(days, last).astype(np.int32)).cast(pa.date32()) for last in (0, 1 << 30))
    for part in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear"):
        program = compile_expression(f"{part}(d)", TYPES, "UTC")
        quick, slow = (program.run({"d": array}, len(array)).slice(0, len(days)) for array in (near, far))
        assert quick.equals(slow), part


def test_a_null_is_not_kept() -> None:
    program = compile_filter("i > 1", TYPES, "UTC")
    mask = keep_mask(program, {"i": pa.array([2, None, 0], pa.int32())}, 3)
    assert mask is not None
    assert mask.tolist() == [True, False, False]
    assert keep_mask(program, {"i": pa.array([2, 3], pa.int32())}, 2) is None
    with pytest.raises(NotCompiled, match="int as a condition"):
        compile_filter("i + 1", TYPES, "UTC")
