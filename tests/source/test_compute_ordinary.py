"""What ordinary confs say compiles; what is left to Spark says why, in a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpspark.source.compute.compile import NotCompiled, compile_expression, compiled_functions
from dpspark.spec.expressions import check_row_local
from dpspark.spec.functions import FUNCTIONS, NAMES
from tests.compute_differential import differences

TYPES = {
    **{"c0": "double", "age": "bigint", "educ": "int", "income": "double", "x": "decimal(10,2)", "sex": "string"},
    **{"state": "string", "d": "date", "t": "timestamp", "month": "int", "hours": "float", "employed": "boolean"},
    **{"pwgtp": "int", "year": "smallint", "zip": "string", "n": "tinyint"},
}
ORDINARY = """
c0 > -1
age >= 18 and age < 65
age between 18 and 64
sex = 'F'
sex <> 'M'
sex in ('F', 'M')
state in ('CA', 'NY')
state not in ('PR', 'GU', 'VI')
income is not null
income is not null and income > 0
age * age
age * age / 100
income / 1000
income / hours
case when educ >= 16 then 1 else 0 end
case when age < 30 then 'young' when age < 60 then 'middle' else 'old' end
case sex when 'F' then 1 when 'M' then 0 end
if(sex = 'F', 1, 0)
year(d) = 2024
year(t) = 2024 and month(t) <= 6
month(d)
quarter(d)
dayofweek(d) in (1, 7)
weekday(t) < 5
hour(t) between 9 and 17
hour(t) * 60 + minute(t)
datediff(d, date'2020-01-01')
datediff('2024-12-31', d)
d >= '2024-01-01' and d < '2025-01-01'
d between date'2024-01-01' and date'2024-12-31'
t >= '2024-01-01' and t < '2024-02-01 12:00:00'
date_add(d, 30) < date'2024-06-01'
cast(x as double) / 100
x / 100
x * 2
x > 0.5
x >= 100 and x < 200.50
coalesce(x, 0)
coalesce(income, 0.0)
nvl(hours, 0)
month between 1 and 6
year - age
2024 - year
age - 18
-income
greatest(income, 0)
least(hours, 80)
abs(income)
sqrt(age)
floor(age / 10)
floor(age / 10) * 10
round(income)
income * 0.001
cast(employed as int)
cast(sex = 'F' as int)
cast(income > 50000 as double)
employed
not employed
employed and age >= 18
cast(zip as int)
substring(zip, 1, 3)
left(zip, 3) = '941'
length(zip) = 5
trim(state) = 'CA'
state like 'N%'
concat(state, '-', zip)
state || zip
pwgtp / 100
pwgtp > 0
age % 10
age div 10
mod(age, 5) = 0
pow(age, 2)
nullif(educ, 0)
isnan(income)
not isnan(income) and not isnull(income)
income > 0 and (sex = 'F' or age > 30)
(age > 65) = employed
sign(income)
educ <=> null
zip = '94110' or zip = '94117'
startswith(zip, '94')
n + 1
`age` + 1
AGE > 17
age > 17.5
""".strip().splitlines()


def ordinary_rows(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    nulls = rng.random(rows) < 0.1
    whole = {"age": 100, "educ": 20, "pwgtp": 300, "month": 13, "year": 2030, "n": 127}
    arrow = {
        "age": pa.int64(),
        "educ": pa.int32(),
        "pwgtp": pa.int32(),
        "month": pa.int32(),
        "year": pa.int16(),
        "n": pa.int8(),
    }
    found = {name: pa.array(rng.integers(0, top, rows), arrow[name], mask=nulls) for name, top in whole.items()}
    found["c0"], found["income"] = (pa.array(rng.normal(0, 3, rows) * scale) for scale in (1, 1e4))
    found["hours"] = pa.array(rng.uniform(0, 80, rows).astype(np.float32), mask=nulls)
    found["x"] = (
        pa.array(rng.integers(0, 30000, rows))
        .cast(pa.decimal128(19, 0))
        .cast(pa.decimal128(21, 2))
        .cast(pa.decimal128(10, 2))
    )
    found["sex"] = pa.array(rng.choice(["F", "M", "X"], rows))
    found["state"] = pa.array(rng.choice(["CA", "NY ", " NJ", "PR"], rows), mask=nulls)
    found["zip"] = pa.array(rng.choice(["94110", "94117", "1001", "", "n/a"], rows))
    found["d"] = pa.array(rng.integers(18000, 20500, rows).astype(np.int32)).cast(pa.date32())
    found["t"] = pa.array(rng.integers(16, 18, rows) * 10**14 + rng.integers(0, 10**14, rows)).cast(
        pa.timestamp("us", "UTC")
    )
    found["employed"] = pa.array(rng.random(rows) < 0.5, mask=nulls)
    return found


@pytest.mark.spark35
def test_ordinary_expressions_compile_and_are_sparks(spark: Any, tmp_path: Path) -> None:
    for text in ORDINARY:
        check_row_local(text, "where")
        compile_expression(text, TYPES, "UTC")
    assert differences(spark, ORDINARY, ordinary_rows(500), "UTC", tmp_path) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sex rlike 'F|M'", "rlike is evaluated by Spark"),
        ("lower(sex) = 'f'", "lower is evaluated by Spark"),
        ("exp(income)", "exp is evaluated by Spark"),
        ("pow(income, 3)", "pow with an exponent other than 2 is evaluated by Spark"),
        ("round(income, 2)", "round of double to 2 digits is evaluated by Spark"),
        ("cast(income as string)", "double is cast to string by Spark"),
        ("age + hours", "bigint is made float by Spark"),
        ("try_cast(zip as int)", "try_cast is evaluated by Spark"),
        ("a.b > 1", "'.' in it is read by Spark"),
        ("nobody > 1", "column 'nobody' is looked up by Spark"),
        ('sex = "F"', "a double quote in it is read by Spark"),
        ("sex = 'a\\n'", "a backslash in it is read by Spark"),
        ("sex = 'it''s'", "text at this place is read by Spark"),
        ("sex = '${x}'", "${ in it is read by Spark"),
        ("age > 1 -- yes", "-- in it is read by Spark"),
        ("age is null is null", "is at this place is read by Spark"),
        ("age ^ 2", "'^' in it is read by Spark"),
        ("current_date > d", "current_date is evaluated by Spark"),
        ("abs(age, 1)", "abs with 2 arguments is evaluated by Spark"),
        ("null", "it is always null"),
        ("(" * 70 + "age" + ")" * 70, "it is nested deeply"),
        ("age" + " + age" * 500, "it is a very long sum or product"),
        ("sex = x'41'", "text at this place is read by Spark"),
        ("1e3L > age", "1e3L is read by Spark"),
    ],
)
def test_what_is_left_to_spark_says_why(text: str, reason: str) -> None:
    with pytest.raises(NotCompiled) as refused:
        compile_expression(text, TYPES, "UTC")
    assert str(refused.value) == reason


def test_many_conditions_compile() -> None:
    text = " or ".join(f"age = {i}" for i in range(400))
    program = compile_expression(text, TYPES, "UTC")
    assert program.run({"age": pa.array([399, 400])}, 2).to_pylist() == [True, False]


def test_names_that_spark_takes_for_two_columns_are_left_to_it() -> None:
    with pytest.raises(NotCompiled, match="looked up by Spark"):
        compile_expression("a > 1", {"a": "int", "A": "int"}, "UTC")


def test_regions_are_left_to_spark() -> None:
    """Kills: today's offset of a zone for all times."""
    for text in ("hour(t) = 1", "t > '2020-01-01'", "to_date(t) = d"):
        with pytest.raises(NotCompiled):
            compile_expression(text, TYPES, "Europe/Berlin")
    assert compile_expression("year(d) = 2020", TYPES, "Europe/Berlin").columns == ("d",)


def test_listed_functions_compile_for_some_arguments() -> None:
    """`dpspark check --functions` marks these."""
    types = {"x": "double", "y": "double", "n": "int", "s": "string", "d": "date", "t": "timestamp"}
    examples = {name: example for group in FUNCTIONS.values() for name, example in group.items()}
    special = {"round": "round(x)", "to_date": "to_date(t)"}
    assert compiled_functions() <= NAMES
    for name in compiled_functions():
        compile_expression(special.get(name, examples[name]), types, "UTC")
    for name in NAMES - compiled_functions():
        with pytest.raises(NotCompiled):
            compile_expression(examples[name], types, "UTC")
