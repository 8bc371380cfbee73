"""Which SQL may stand in a conf."""

from __future__ import annotations

import pytest

from dpspark.errors import ConfError
from dpspark.spec.expressions import check_query, check_row_local, columns_of
from dpspark.spec.functions import FUNCTIONS

ALLOWED = [
    "age >= 18",
    "age > 18 and sex in ('F', 'M')",
    "`Été x` > 1 or not b",
    "age between 1 and 3 or isnan(y) or z is null",
    "case when a is null then true else b end",
    "cast(a as int) = 1 and coalesce(b, 0) * 2 < 5",
    "x like 'a%' and lower(y) = 'b' and year(d) = 2020",
    *(example for group in FUNCTIONS.values() for example in group.values()),
]
REFUSED = [
    *("rand() < 0.5", "randn() > 0", "uuid() = a", "row_number() over (order by x) = 1", "lag(a) over () > 1"),
    *("age > (select avg(age) from t)", "age in (select 1)", "exists(select 1)", "sum(age) > 3", "first(a) > 0"),
    *("monotonically_increasing_id() % 2 = 0", "my_udf(age)", "explode(x)", "current_date() > d", "a; drop table x"),
    *("a like b", "a ilike concat(b, '%')", "a rlike b"),
    *("a > 0 /* /*+ */ and (select max(b) from t) > 5 -- */", "a > 0 -- b", "/* a */ a > 0", "a > 0 */"),
    *("cast('now' as timestamp) > t", "to_date('today') > d", "timestamp ' Now' > t", "date'tomorrow' > d"),
    *("`reflect`('java.lang.Math', 'random') > '0.5'", "system.builtin.`rand`() < 0.5", "`rand`() < 0.5"),
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
    ("sql", "reading"),
    [
        ("select a, b from t", "row_local"),
        ("select * from db.t where a > 1", "row_local"),
        ("select a * 2 as b from t where c is not null", "row_local"),
        ("select a, count(*) as c from t group by a", "across"),
        ("select distinct a from t", "across"),
        ("select t.a from t join u on t.i = u.i", "across"),
        ("select a from t, u", "across"),
        ("select a from t limit 5", "across"),
        ("with x as (select * from t) select * from x", "unknown"),
        ("select a from t union all select a from u", "across"),
        ("select sum(a) over () as s from t", "across"),
        ("select a from (select a from t)", "unknown"),
        ("select explode(a) from t", "across"),
        ("select a from t where _metadata.row_index < 5", "unknown"),  # a row's position depends on the other rows
        ("select _metadata.row_index as a from t", "unknown"),
        ("select a from t lateral view explode(b) x as y", "across"),
        # These hang on the table itself: rows of others, or several of one, would pass for one row of one record.
        ("select * from t pivot (sum(x) for y in (1, 2))", "across"),
        ("select v as a from t unpivot (v for k in (b, c))", "unknown"),
        ("select col as a from explode(array(1, 2))", "across"),
        ("select foo(a) as a from t", "unknown"),
        ("select a from t where a > (select max(a) from t)", "across"),
        ("select a from c.db.t version as of 3 as u", "row_local"),
    ],
)
def test_queries(sql: str, reading: str) -> None:
    assert check_query(sql) == reading


@pytest.mark.parametrize(
    "sql",
    [
        "select rand() as r from t",
        "select a from t tablesample (10 percent)",
        "select `rand`() as r from t",
        *(f"select {now} as a from t" for now in ("current_date()", "current_date", "curdate()", "localtimestamp()")),
        "select unix_timestamp() as a from t",
        "select a from t where d < cast('now' as date)",
        "select a from t where d < timestamp 'today'",
        "drop table t",
        "x",
        "select a from t |> limit 3",
    ],
)
def test_queries_refused(sql: str) -> None:
    with pytest.raises(ConfError):
        check_query(sql)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a ^ 2 > 4", r"\^ is not on the list .*\nFor powers use pow"),
        ("unix_micros(t) > 4", "UNIX_MICROS is not on the list"),
        ("log1q(a) > 4", "LOG1Q is not on the list of functions of one row. Did you mean 'log1p'"),
        ("~a > 4", "~ is not on the list"),
        ("a > 1 -- adults", "it has a comment"),
    ],
)
def test_functions_are_named_as_spark_names_them(text: str, words: str) -> None:
    """Fails on 0.2.0, which used the parser's names: BITWISEXOR, STR_TO_UNIX."""
    with pytest.raises(ConfError, match=words):
        check_row_local(text, "where")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("unix_timestamp() > 5", "UNIX_TIMESTAMP without an argument may change with every run: no source takes it"),
        ("year(current_date()) > 5", "CURRENT_DATE may change"),
        ("d > curdate()", "CURDATE may change"),
        ("random() > 5", "RANDOM may change"),
        ("a > (select 1)", "it has a subquery, .*\nThat is for source.sql with rows_per_record"),
        ("exists(select 1)", "it has a subquery"),
        ("sum(a) > 1", "SUM is an aggregate, .*\n.*rows_per_record"),
        ("row_number() over (order by a) > 1", "ROW_NUMBER with OVER is a window, .*\n.*rows_per_record"),
        ("explode(a) > 1", "EXPLODE makes several rows of one"),
        ("square(a) > 1", "functions of one row.\n`dpspark check --functions` lists them"),
        ("a ** 2 > 1", r"not valid Spark SQL. For powers use pow\(a, b\)"),
        ("a > 1 && b > 1", "not valid Spark SQL. For && and || write and, or".replace("|", r"\|")),
    ],
)
def test_what_was_written_is_named_with_a_way(text: str, words: str) -> None:
    """Fails on 0.2.0: CURRENT_TIMESTAMP, CURRENTDATE and SUBQUERY were "not on the list", and source.sql was advised for
    what it refuses, too."""
    with pytest.raises(ConfError, match=words) as caught:
        check_row_local(text, "where")
    assert "Did you mean" not in str(caught.value)
    assert not ("change" in words and "source.sql" in str(caught.value))
