"""DataFrames made of a Python list: as good as a table. Other RDDs hide what was done to their rows."""

from __future__ import annotations

import pickle
from types import FunctionType
from typing import Any

LONGEST = 10_000  # bytes of the function that pyspark itself puts there: about 1,400


def is_plain_list(rdd: Any, spark: Any) -> bool:
    """Tell whether an RDD holds just what `spark.createDataFrame([...])` puts there: no function of the user's is in it."""
    plain = _rdd_of(spark.createDataFrame([(0,)], "a int"))
    # Filters, limits and functions are further steps between the list and the rows, by whatever names.
    if _steps(rdd) != _steps(plain):
        return False
    found = _function(rdd)
    return found is not None and _same(found, _function(plain))


def _rdd_of(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed().rdd()


def _steps(rdd: Any) -> list[str]:
    """List what an RDD is made of, step by step; a checkpoint, which is made later, is one more."""
    found = []
    while rdd is not None:
        found += [_kind(rdd), *(["checkpoint"] if bool(rdd.checkpointData().isDefined()) else [])]
        rdd = _parent(rdd)
    return found


def _function(rdd: Any) -> Any:
    """Find the Python function between a list in the driver's memory and the rows; None if they come from elsewhere."""
    name = _kind(rdd)
    while name == "MapPartitionsRDD":
        rdd = _parent(rdd)
        name = _kind(rdd)
    if name != "PythonRDD" or _kind(_parent(rdd)) != "ParallelCollectionRDD":
        return None
    function = rdd.getClass().getDeclaredField("func")
    function.setAccessible(True)
    command = function.get(rdd).command()
    if command.size() > LONGEST:
        return None
    written = bytes(int(each) & 255 for each in str(command.mkString(",")).split(","))
    loaded = pickle.loads(written)  # noqa: S301  this very process wrote it, when the DataFrame was made
    return loaded[0] if isinstance(loaded, tuple) and loaded else None


def _kind(rdd: Any) -> str:
    return "" if rdd is None else str(rdd.getClass().getSimpleName())


def _parent(rdd: Any) -> Any:
    before = rdd.dependencies()
    return before.apply(0).rdd() if before.size() == 1 else None


def _same(mine: Any, other: Any) -> bool:
    """Tell whether two functions have the same code, with the same functions and values inside."""
    if not (isinstance(mine, FunctionType) and isinstance(other, FunctionType)):
        return type(mine) is type(other) and bool(mine == other)
    cells = [[cell.cell_contents for cell in each.__closure__ or ()] for each in (mine, other)]
    inside = len(cells[0]) == len(cells[1]) and all(map(_same, *cells))
    return mine.__code__ == other.__code__ and mine.__defaults__ == other.__defaults__ and inside
