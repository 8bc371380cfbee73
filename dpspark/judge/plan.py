"""The analysed plan of a DataFrame, read node by node and expression by expression. Nothing unknown is taken for harmless.

A plan's values are looked at in this process alone: none goes into a log, an error or a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from dpspark.judge.floats import has_floats, is_cached_behind_filter, tells_of_floats
from dpspark.judge.functions import CALLS, OF_ONE_ROW, OURS_TO_CALL, PADDING, PARSERS, UNSTABLE
from dpspark.judge.python_lists import is_plain_list
from dpspark.spark.plan_nodes import class_of, find_plan, to_list
from dpspark.spec.functions import is_moment

# Each makes one row of one row. A filter may make none.
ROW_BY_ROW = {
    *("Project", "SubqueryAlias", "View", "ResolvedHint", "Sort"),
    *("Repartition", "RepartitionByExpression", "RebalancePartitions"),
}
# Rows that are what they are: in the driver's memory, or constant.
GIVEN = {"LocalRelation", "Range", "OneRowRelation"}
# Steps across rows, for messages; others are "a step that is not known".
ACROSS = {
    *("Join", "LateralJoin", "AsOfJoin", "NearestByJoin", "Union", "UnionLoop", "Except", "Intersect", "WithCTE"),
    *("Aggregate", "Window", "Pivot", "Unpivot", "Expand", "Generate", "Distinct", "Deduplicate", "Transpose"),
    *("GlobalLimit", "LocalLimit", "Offset", "Tail", "CollectMetrics"),
}
SUBQUERIES = {"InSubquery", "ListQuery", "Exists", "ScalarSubquery", "LateralSubquery"}
# One row is one record of the file, whatever its values are.
FORMATS = {"ParquetFileFormat", "OrcFileFormat", "DeltaParquetFileFormat", "AvroFileFormat"}
# A line that is empty, malformed or a comment may be no row. (A line of JSON may be several.)
LINES = {"CSVFileFormat", "TextFileFormat"}
HIVE_INPUTS = {
    "org.apache.hadoop.mapred.TextInputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
}
CUTTING = ("multiline", "wholetext", "linesep")
PLAIN_FILES = {"InMemoryFileIndex", "CatalogFileIndex", "PrunedInMemoryFileIndex"}
SNAPSHOTS = {"TahoeLogFileIndex", "TahoeLogFileIndexWithCloudFetch", "PreparedDeltaFileIndex", "TahoeBatchFileIndex"}
ICEBERG_TABLES = {"BaseTable", "RESTTable"}  # and not those of its metadata: files, snapshots, changes
TIMES = ("date", "timestamp", "time")  # and timestamp_ntz, time(6)
TYPED_LITERAL = re.compile(r"(?i)\b(?:date|timestamp\w*|time)\s*['\"]([^'\"]*)['\"]")
MADE_UP = "_metadata_col"  # in the keys that Spark marks a hidden column with


@dataclass
class Findings:
    """The ways in which a plan treats a record. `across` and `hidden` say why a row may not be one record."""

    across: str | None = None  # a step, or a part of an expression, that looks at other rows
    hidden: str | None = None  # what Spark's plan does not show
    unstable: str | None = None  # what would be another table at every run
    drops: bool = False  # whether a value can make its row go
    compares_floats: bool = False  # in a filter, or in a step below one
    skips: bool = False  # whether its source may leave out rows by statistics that others' rows are in
    places: list[str] = field(default_factory=list)  # of files that are read as they are, as Spark shows them
    files: list[str] = field(default_factory=list)  # below these places
    steps: list[str] = field(default_factory=list)
    used: set[int] = field(default_factory=set)  # columns that something is made of
    guessed: set[int] = field(default_factory=set)  # columns whose type depends on the rows
    subqueries: list[Any] = field(default_factory=list)  # to be read yet

    def add_across(self, what: str) -> None:
        self.across = self.across or what

    def add_hidden(self, what: str) -> None:
        self.hidden = self.hidden or what

    def add_unstable(self, what: str) -> None:
        self.unstable = self.unstable or what


def read_plan(frame: Any, ours: Any = None) -> Findings:
    """Read the plan of a DataFrame of classic Spark. `ours` is a frame that this package made, of files that it listed."""
    found, spark = Findings(), frame.sparkSession
    trusted = None if ours is None else find_plan(ours)
    left = [find_plan(frame)]
    while left:
        node = left.pop()
        if trusted is None or not bool(node.equals(trusted)):
            _read_node(node, found, spark)
            left += [*to_list(node.children()), *found.subqueries]
            found.subqueries.clear()
    if found.skips and found.compares_floats:
        found.add_hidden("a filter on floats, which its source applies by statistics that leave NaN out")
    if is_cached_behind_filter(frame):
        found.add_hidden("a cache behind a filter on floats, which Spark applied by statistics that leave NaN out")
    if found.used & found.guessed:
        found.add_hidden("a column of directories' names, whose type Spark guessed from all of them")
    return found


def _read_node(node: Any, found: Findings, spark: Any) -> None:
    name, children = class_of(node), node.children().size()
    found.steps.append(name)
    if bool(node.isStreaming()):
        found.add_unstable("a stream")
    if name == "Sample":
        found.add_unstable("a sample of rows")
    elif name == "Filter":
        found.drops = True
        found.compares_floats |= has_floats(node.condition())
    elif children == 0:
        _read_leaf(node, name, found, spark)
        return
    elif name in ACROSS:
        found.add_across(name)
    elif not (name in ROW_BY_ROW and children == 1):
        found.add_hidden(f"a step that is not known to be row by row ({name.rpartition('.')[2]})")
    if found.drops and name != "Filter":  # a step below a filter
        found.compares_floats |= tells_of_floats(node)
    if name == "View":
        _read_view(node, found)
    for expression in to_list(node.expressions()):
        passed_on = name == "Project" and class_of(expression) == "AttributeReference"
        if not passed_on:
            _read_expression(expression, False, found)


def _read_view(node: Any, found: Findings) -> None:
    """Look at the text of a view: a literal such as timestamp'now' is already a constant in its plan."""
    text = node.desc().viewText()
    if bool(text.isDefined()) and any(map(is_moment, TYPED_LITERAL.findall(str(text.get())))):
        found.add_unstable("a text that can mean the time of the run")


def _read_expression(part: Any, called_by_spark: bool, found: Findings) -> None:
    """Judge an expression and all inside it. `called_by_spark`: it stands for a listed function, which calls a method."""
    name = class_of(part)
    if name in UNSTABLE:
        found.add_unstable(UNSTABLE[name])
    elif name == "ScalaUDF":
        _read_function(part, found)
    elif name in CALLS:
        if not _is_spark_s(part, name, called_by_spark):
            found.add_hidden("a function that is not one of Spark's own")
    elif name not in OF_ONE_ROW:
        _read_unlisted(part, name, found)
    elif name == "Cast" or name in PARSERS:
        _read_moment(part, name, found)
    if name == "AttributeReference":
        found.used.add(int(part.exprId().id()))
    for child in to_list(part.children()):
        _read_expression(child, name in OF_ONE_ROW and _is_replaced(part), found)


def _is_spark_s(part: Any, name: str, called_by_spark: bool) -> bool:
    """Tell whether a call of a method is what a listed function stands for, or the padding of a char(n) column."""
    if name == "Invoke":
        return called_by_spark
    owner = str(part.staticObject().getName())
    return (called_by_spark and owner.startswith(OURS_TO_CALL)) or (owner, str(part.functionName())) == PADDING


def _is_replaced(part: Any) -> bool:
    """Tell whether a function stands for another expression of Spark's own, which may call a method of Spark's."""
    try:
        return part.replacement() is not None
    except Exception:  # it has none
        return False


def _read_unlisted(part: Any, name: str, found: Findings) -> None:
    if not bool(part.deterministic()) and all(bool(child.deterministic()) for child in to_list(part.children())):
        found.add_unstable("a function that is not deterministic")
    if name in ("AggregateExpression", "WindowExpression"):
        found.add_across("an aggregate" if name == "AggregateExpression" else "a window")
    elif name in SUBQUERIES:
        found.add_across("a subquery")
        found.subqueries += [] if name == "InSubquery" else [part.plan()]
    elif name in ("PythonUDF", "PythonUDAF", "PythonUDTF"):
        found.add_hidden("a function in Python")
    else:
        found.add_hidden(f"a function that is not known to be of one row ({name.rpartition('.')[2]})")


def _read_function(part: Any, found: Findings) -> None:
    """Judge a function in Scala or Java. Those of Spark's feature stages are of one row, if they learned nothing."""
    name = str(part.function().getClass().getName())
    if not name.startswith(("org.apache.spark.ml.", "org.apache.spark.sql.ml.")):
        found.add_hidden("a function in Scala or Java")
        if not bool(part.udfDeterministic()):
            found.add_unstable("a function that is not deterministic")
    elif "Model" in name:
        found.add_hidden("a model that was fitted to data")


def _read_moment(part: Any, name: str, found: Findings) -> None:
    """Refuse 'now' and its like where a constant text becomes a date or a time: Spark puts in the time of the run."""
    if name == "Cast" and not str(part.dataType().typeName()).startswith(TIMES):
        return
    text = part.children().apply(0)
    if not bool(text.foldable()) or str(text.dataType().typeName()) not in ("string", "char", "varchar"):
        return
    literal = str(text.value()) if class_of(text) == "Literal" else None
    if literal is None or is_moment(literal):
        found.add_unstable("a text that can mean the time of the run")


def _read_leaf(node: Any, name: str, found: Findings, spark: Any) -> None:
    if any(MADE_UP in str(column.metadata().json()) for column in to_list(node.output())):
        found.add_unstable("_metadata, or another hidden column of its source,")
    if name in GIVEN:
        return
    if name == "LogicalRDD":
        if not is_plain_list(node.rdd(), spark):
            found.add_hidden("an RDD or a checkpoint, which does not show how its rows were made")
    elif name == "LogicalRelation" and class_of(node.relation()) == "HadoopFsRelation":
        _read_files(node, found)
    elif name == "HiveTableRelation":
        _read_hive(node.tableMeta(), found)
    elif name == "DataSourceV2Relation" and _is_plain_v2(node.table()):
        found.skips = True
    else:
        found.add_hidden("a source that Spark's plan does not show")


def _read_hive(table: Any, found: Findings) -> None:
    """Judge a table that only Hive's classes can read. Some lines may be no rows; other inputs may hold a file twice."""
    found.drops = True
    read_by = table.storage().inputFormat()
    if not (bool(read_by.isDefined()) and str(read_by.get()) in HIVE_INPUTS):
        found.add_hidden("a Hive table in a format of its own")
    found.places.append(unquote(str(table.location().toString())))


def _read_files(node: Any, found: Findings) -> None:
    relation = node.relation()
    kind, index = class_of(relation.fileFormat()), class_of(relation.location())
    if kind in LINES and not _has_option(relation.options(), CUTTING):
        found.drops = True
        if _has_option(relation.options(), ("inferschema",)):
            found.add_hidden("a schema that Spark guessed from all rows")
    elif kind not in FORMATS:
        found.add_hidden("a format of files whose rows need not be its records")
    if index in PLAIN_FILES:
        _read_places(relation.location(), found)
        if index == "InMemoryFileIndex":
            _read_directories(node, found)
    elif index not in SNAPSHOTS:
        found.add_hidden("a list of files that is not known")


def _has_option(options: Any, names: tuple[str, ...]) -> bool:
    """Tell whether a reader was given one of these options, in any spelling. The first say how a text file is cut into rows."""
    pairs = options.iterator()
    while pairs.hasNext():
        pair = pairs.next()
        if str(pair._1()).lower() in names and str(pair._2()).lower() != "false":
            return True
    return False


def _read_places(index: Any, found: Findings) -> None:
    places = index.rootPaths()
    if class_of(index) == "CatalogFileIndex":
        index = index.filterPartitions(places.take(0))  # by no condition: all of them
    files = index.allFiles()
    if files.distinct().size() < files.size() or _overlap(index):  # they are equal if their paths are
        found.add_across("a file that is read twice")
    # A table may lie below the root, and a file may be a link: look from the files up. Their addresses are percent-encoded.
    found.places += [str(path.toString()) for path in to_list(places)]
    found.files += [unquote(str(file)) for file in index.inputFiles()]


def _overlap(index: Any) -> bool:
    """Tell whether two partitions lie at one place, or one inside another: their files are read for each."""
    places = sorted(str(each.path().toString()) + "/" for each in to_list(index.partitionSpec().partitions()))
    return any(later.startswith(earlier) for earlier, later in pairwise(places))


def _read_directories(node: Any, found: Findings) -> None:
    """Mark the columns whose types Spark guesses from all directories' names (key=value): one more can make numbers text."""
    guessed = {
        str(column.name())
        for column in to_list(node.relation().partitionSchema())
        if column.dataType().typeName() != "string"
    }
    found.guessed |= {int(each.exprId().id()) for each in to_list(node.output()) if str(each.name()) in guessed}


def _is_plain_v2(table: Any) -> bool:
    """Tell whether a table is a snapshot of an Iceberg table."""
    iceberg = str(table.getClass().getName()).endswith("org.apache.iceberg.spark.source.SparkTable")
    return iceberg and str(table.table().getClass().getSimpleName()) in ICEBERG_TABLES
