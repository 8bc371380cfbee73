"""Which SQL may stand in a conf."""

from __future__ import annotations

import pytest

from dpspark.errors import ConfError
from dpspark.expressions import check_query, check_row_local, columns_of

ALLOWED = [
    "age >= 18",
    "age > 18 and sex in ('F', 'M')",
    "`Été x` > 1 or not b",
    "age between 1 and 3 or isnan(y) or z is null",
    "case when a is null then true else b end",
    "cast(a as int) = 1 and coalesce(b, 0) * 2 < 5",
    "x like 'a%' and lower(y) = 'b' and year(d) = 2020",
]
REFUSED = [
    *("rand() < 0.5", "randn() > 0", "uuid() = a", "row_number() over (order by x) = 1", "lag(a) over () > 1"),
    *("age > (select avg(age) from t)", "age in (select 1)", "exists(select 1)", "sum(age) > 3", "first(a) > 0"),
    *("monotonically_increasing_id() % 2 = 0", "my_udf(age)", "explode(x)", "current_date() > d", "a; drop table x"),
    *("a like b", "a ilike concat(b, '%')", "a rlike b"),
    *("", "select 1", "input_file_name() = 'a'", "spark_partition_id() = 1", "array_contains(collect_list(a), 1)"),
]


@pytest.mark.parametrize("text", ALLOWED)
def test_row_local(text: str) -> None:
    check_row_local(text, "where")


@pytest.mark.parametrize("text", REFUSED)
def test_not_row_local(text: str) -> None:
    with pytest.raises(ConfError):
        check_row_local(text, "where")


def test_columns_of() -> None:
    assert columns_of("age > 1 and `Été x` = lower(sex)", "where") == {"age", "Été x", "sex"}
    assert columns_of("_metadata.row_index < 5 and person.age > 3", "where") == {"_metadata", "person"}


@pytest.mark.parametrize(
    ("sql", "row_local"),
    [
        ("select a, b from t", True),
        ("select * from db.t where a > 1", True),
        ("select a * 2 as b from t where c is not null", True),
        ("select a, count(*) as c from t group by a", False),
        ("select distinct a from t", False),
        ("select t.a from t join u on t.i = u.i", False),
        ("select a from t, u", False),
        ("select a from t limit 5", False),
        ("with x as (select * from t) select * from x", False),
        ("select a from t union all select a from u", False),
        ("select sum(a) over () as s from t", False),
        ("select a from (select a from t)", False),
        ("select explode(a) from t", False),
        ("select a from t where _metadata.row_index < 5", False),  # a row's position depends on the other rows
        ("select _metadata.row_index as a from t", False),
        ("select a from t lateral view explode(b) x as y", False),
        # These hang on the table itself: rows of others, or several of one, would pass for one row of one record.
        ("select * from t pivot (sum(x) for y in (1, 2))", False),
        ("select v as a from t unpivot (v for k in (b, c))", False),
        ("select col as a from explode(array(1, 2))", False),
        ("select a from c.db.t version as of 3 as u", True),
    ],
)
def test_queries(sql: str, row_local: bool) -> None:
    assert check_query(sql) is row_local


@pytest.mark.parametrize(
    "sql",
    [
        "select rand() as r from t",
        "select a from t tablesample (10 percent)",
        "drop table t",
        "x",
        "select a from t |> limit 3",
    ],
)
def test_queries_refused(sql: str) -> None:
    with pytest.raises(ConfError):
        check_query(sql)
