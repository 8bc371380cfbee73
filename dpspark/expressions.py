"""Checks of the SQL that a conf may hold, without running it. Fail closed: what is not on the list is refused."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpspark.errors import ConfError

# Functions of one row's values alone, with the same answer every time.
ROW_LOCAL = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.DataType, exp.Alias),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.In, exp.Between, exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Abs, exp.Sign, exp.Pow, exp.Sqrt, exp.Exp),
    *(exp.Ln, exp.Log, exp.Floor, exp.Ceil, exp.Round, exp.Greatest, exp.Least),
    *(exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Cast, exp.TryCast, exp.IsNan),
    *(exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Substring, exp.Concat, exp.StartsWith),
    *(exp.Year, exp.Month, exp.Day, exp.TsOrDsToDate),
)
# Not row-local, or different at every look.
UNSTABLE = {
    *("rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id"),
    *("input_file_name", "input_file_block_start", "input_file_block_length", "randstr", "uniform"),
    *("current_timestamp", "now", "current_date", "curdate", "current_time", "localtimestamp"),
    *("reflect", "java_method", "try_reflect"),
}


def check_row_local(text: str, where: str) -> None:
    """Refuse an expression that looks across rows, is random, or is not known to be neither."""
    tree = _parse(text, where)
    for node in tree.walk():
        if not isinstance(node, ROW_LOCAL):
            raise ConfError(
                f"{where}={text!r}: {_name(node)} is not on the list of row-local functions.\n"
                "Only comparisons, arithmetic and simple functions of one row are allowed; use source.sql for more."
            )
        if isinstance(node, exp.Like | exp.ILike | exp.RegexpLike) and not isinstance(node.expression, exp.Literal):
            # A malformed pattern in a row would fail the whole job.
            raise ConfError(f"{where}={text!r}: the pattern of {_name(node)} must be written out, in quotes.")


def columns_of(text: str, where: str) -> set[str]:
    """The columns an expression reads; of a.b that is a: Spark's hidden _metadata.row_index is no column row_index."""
    return {column.parts[0].name for column in _parse(text, where).find_all(exp.Column)}


def check_query(sql: str) -> bool:
    """Refuse what is not one deterministic query; say whether each result row comes from one row of one table."""
    tree = _parse(sql, "source.sql")
    if not isinstance(tree, exp.Query):
        raise ConfError(f"source.sql: expected one SELECT, got {_name(tree)}.")
    for node in tree.walk():
        if isinstance(node, exp.TableSample) or _name(node).lower().replace(" ", "_") in UNSTABLE:
            raise ConfError(
                f"source.sql: {_name(node)} gives other rows at every run, so a retry would read other data."
            )
    return _is_row_local_select(tree)


def _is_row_local_select(tree: exp.Expr) -> bool:
    if not isinstance(tree, exp.Select):
        return False
    parts = {
        name for name, value in tree.args.items() if value and name not in ("expressions", "from", "from_", "where")
    }
    if parts & (set(tree.arg_types) - {"kind", "hint"}):
        return False
    source = tree.find(exp.From)
    inner = [*tree.expressions, *([tree.args["where"].this] if tree.args.get("where") else [])]
    return (
        source is not None
        and _is_plain_table(source.this)
        and all(isinstance(node, (*ROW_LOCAL, exp.Star)) for part in inner for node in part.walk())
        and not any(part.name.lower() == "_metadata" for column in tree.find_all(exp.Column) for part in column.parts)
    )


def _is_plain_table(source: exp.Expr) -> bool:
    """A table by its name: a function is none, and PIVOT, UNPIVOT and the like, which hang on a table, make rows of others."""
    if not isinstance(source, exp.Table):
        return False
    found = {name for name, value in source.args.items() if value}
    return isinstance(source.this, exp.Identifier) and found <= {"this", "db", "catalog", "alias", "version"}


def query_filters(sql: str) -> bool:
    return _parse(sql, "source.sql").find(exp.Where) is not None


def _parse(text: str, where: str) -> exp.Expr:
    try:
        statements = sqlglot.parse(text, dialect="spark")
    except (SqlglotError, RecursionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # The parser stumbles over some texts that are no SQL.
        raise ConfError(f"{_shown(where, text)}: not valid Spark SQL.") from None
    if len(statements) != 1 or statements[0] is None:
        raise ConfError(f"{_shown(where, text)}: expected one expression.")
    return statements[0]


def _shown(where: str, text: str) -> str:
    """A query is the operator's: it is in no message."""
    return where if where == "source.sql" else f"{where}={text[:200]!r}"


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this)
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
