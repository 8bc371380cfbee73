"""Early checks of the SQL that a conf may hold, without Spark. Fail closed: what is not on the list is refused.

They read text, and Spark may read it otherwise. What is run is judged again where Spark decides it: dpspark.judge.
"""

from __future__ import annotations

import re
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError
from dpspark.spec.functions import COMMENT, NAMES, is_moment

# Structure and operators; functions go by their names.
PARTS = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.DataType, exp.Alias),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.In, exp.Between, exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.Var, exp.DataTypeParam),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe, exp.Case, exp.If),
)
# Not row-local, or different at every look.
UNSTABLE = {
    *("rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id"),
    *("input_file_name", "input_file_block_start", "input_file_block_length", "randstr", "uniform"),
    *("current_timestamp", "now", "current_date", "curdate", "current_time", "localtimestamp"),
    *("reflect", "java_method", "try_reflect"),
}
SAME = {exp.CurrentDate: ("CURDATE",), exp.CurrentTimestamp: ("NOW",)}  # in Spark
# What makes rows of several, or several of one, in a query.
ACROSS = (
    exp.AggFunc,
    exp.Window,
    exp.Subquery,
    exp.Join,
    exp.Lateral,
    exp.Unnest,
    exp.Explode,
    exp.Posexplode,
    exp.Inline,
)
Reading = Literal["row_local", "across", "unknown"]


def check_row_local(text: str, where: str) -> None:
    """Refuse an expression that looks across rows, is random, or is not known to be neither."""
    if COMMENT.search(text):
        raise ConfError(f"{_shown(where, text)}: it has a comment (-- or /*). Write comments beside it, after a #.")
    for node in _parse(text, where).walk():
        if not isinstance(node, PARTS) and _function(node) not in NAMES:
            raise _not_listed(node, text, where)
        if isinstance(node, exp.Like | exp.ILike | exp.RegexpLike) and not isinstance(node.expression, exp.Literal):
            # A malformed pattern in a row would fail the whole job.
            raise ConfError(f"{_shown(where, text)}: the pattern of {_name(node)} must be written out, in quotes.")
        if _is_moment(node):
            raise ConfError(
                f"{_shown(where, text)}: {node.this.sql()} means the time of the run, which changes with every run."
            )


def _not_listed(node: exp.Expr, text: str, where: str) -> ConfError:
    name, shown = _as_written(node, text), _shown(where, text)
    if _function(node) in UNSTABLE:
        return ConfError(
            f"{shown}: {name} may change with every run: no source takes it.\nUse a column of the data, or a value written out."
        )
    other = _of_other_rows(node, name)
    if other is not None:
        return ConfError(f"{shown}: {other}.\nThat is for source.sql with rows_per_record; here each row is by itself.")
    if isinstance(node, exp.BitwiseXor):
        hint = "For powers use pow(a, b): ^ is a bitwise operator in Spark."
    else:
        hint = "`dpspark check --functions` lists them. Use source.sql for others: Spark's plan of it is judged."
    meant = did_you_mean(name.lower(), NAMES, cutoff=0.8) if isinstance(node, exp.Func) else ""
    return ConfError(f"{shown}: {name} is not on the list of functions of one row.{meant}\n{hint}")


def _of_other_rows(node: exp.Expr, name: str) -> str | None:
    """Say in words how a node looks beyond its row; None if it does not."""
    if isinstance(node, exp.Query) or (isinstance(node, exp.SubqueryPredicate) and isinstance(node.this, exp.Query)):
        return "it has a subquery, which looks at other rows"
    if isinstance(node, exp.Window):
        return f"{_name(node.this)} with OVER is a window, which looks at other rows"
    if isinstance(node, exp.AggFunc):
        return f"{name} is an aggregate, which looks at other rows"
    return f"{name} makes several rows of one" if isinstance(node, ACROSS) else None


def _as_written(node: exp.Expr, text: str) -> str:
    """The function as the text has it: the parser takes some for others, and adds arguments of its own."""
    if not isinstance(node, exp.Func):
        return _name(node)
    words = {word.upper() for word in re.findall(r"\w+", text)}
    names = (_name(node), *(node.sql_names() if not isinstance(node, exp.Anonymous) else ()), *SAME.get(type(node), ()))
    found = next((name for name in names if name in words), None)
    if found is None and isinstance(node.parent, exp.Func):
        return f"{_as_written(node.parent, text)} without an argument"
    return found or _name(node)


def columns_of(text: str, where: str) -> set[str]:
    """The columns an expression reads; of a.b that is a: Spark's hidden _metadata.row_index is no column row_index."""
    return {column.parts[0].name for column in _parse(text, where).find_all(exp.Column)}


def check_query(sql: str) -> Reading:
    """Refuse what is not one deterministic query; say whether each result row comes from one row of one table.

    `unknown`: only Spark's plan can tell.
    """
    tree = _parse(sql, "source.sql")
    if not isinstance(tree, exp.Query):
        raise ConfError(f"source.sql: expected one SELECT, got {_name(tree)}.")
    for node in tree.walk():
        if isinstance(node, exp.TableSample) or _function(node) in UNSTABLE or _is_moment(node):
            name = node.this.sql() if _is_moment(node) else _as_written(node, sql)
            raise ConfError(f"source.sql: {name} gives other rows at every run, so a retry would read other data.")
    if _is_row_local_select(tree):
        return "row_local"
    return "across" if _is_across(tree) else "unknown"


def _is_across(tree: exp.Query) -> bool:
    """Tell whether rows are surely made of several rows, or several of one."""
    if isinstance(tree, exp.SetOperation) or any(isinstance(node, ACROSS) and not _nests(node) for node in tree.walk()):
        return True
    selects = tree.find_all(exp.Select)
    keys = ("group", "having", "distinct", "limit", "offset", "joins", "laterals", "windows", "qualify", "pivots")
    return any(select.args.get(key) for select in selects for key in keys)


def _nests(node: exp.Expr) -> bool:
    """A query in FROM may be row by row. One in an expression is not."""
    return isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From)


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
        and all(
            isinstance(node, (*PARTS, exp.Star)) or _function(node) in NAMES for part in inner for node in part.walk()
        )
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


def _is_moment(node: exp.Expr) -> bool:
    """'now', 'today' and their like, where they become a date or a time."""
    text = node.this if isinstance(node, exp.Cast | exp.TryCast | exp.TsOrDsToDate) else None
    return isinstance(text, exp.Literal) and text.is_string and is_moment(text.name)


def _parse(text: str, where: str) -> exp.Expr:
    try:
        statements = sqlglot.parse(text, dialect="spark")
    except (SqlglotError, RecursionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # The parser stumbles over some texts that are no SQL.
        raise ConfError(f"{_shown(where, text)}: not valid Spark SQL.{_hint(text)}") from None
    if len(statements) != 1 or statements[0] is None:
        raise ConfError(f"{_shown(where, text)}: expected one expression.")
    return statements[0]


def _hint(text: str) -> str:
    """The way in Spark, for operators of other languages."""
    ways = {"**": "For powers use pow(a, b).", "&&": "For && and || write and, or."}
    return "".join(f" {way}" for sign, way in ways.items() if sign in text)


def _shown(where: str, text: str) -> str:
    """A query is the operator's: it is in no message."""
    return where if where == "source.sql" else f"{where}={text[:200]!r}"


def _function(node: exp.Expr) -> str | None:
    """The function's name in Spark, in small letters; None of what is no function."""
    return _name(node).lower() if isinstance(node, exp.Func) else None


def _name(node: exp.Expr) -> str:
    """A function or an operator as Spark spells it."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if isinstance(node, exp.Binary | exp.Unary) and not isinstance(node, exp.Func | exp.Paren):
        shape = type(node)(**{key: exp.column("a") for key in ("this", "expression") if key in node.arg_types})
        return re.sub(r"\ba\b", "", shape.sql(dialect="spark")).strip() or node.key.upper()
    if not isinstance(node, exp.Func):
        return node.key.upper()
    bare = not any(node.args.values())  # such as CURRENT_DATE; with arguments a single word could be one of them
    written = re.match(r"\w+(?=\(|$)" if bare else r"\w+(?=\()", node.sql(dialect="spark"))
    return written[0] if written else node.key.upper()
