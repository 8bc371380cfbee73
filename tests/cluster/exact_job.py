"""A driver that writes down exact integers and drawn lines, which no release ever shows, to compare them with local mode.

spark-submit exact_job.py FOLDER SCENARIO...      a scenario is PLACE:HOW, for a gate; its result goes to FOLDER/PLACE:HOW.json
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def confs(folder: Path) -> dict[str, dict[str, Any]]:
    """One conf for each computation, over the files that `write_data` makes."""
    rest = {
        "ledger": {"url": f"sqlite:///{folder / 'ledger.db'}", "dataset": "people"},
        "output": {"path": str(folder / "releases")},
    }
    ranks = {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}}
    lines = {"x": "x", "y": "y", "group_by": ["tract"], "groups": [f"t{i}" for i in range(20)], "expected_rows": 100}
    gram = {
        "source": {"parquet": str(folder / "people")},
        "columns": {
            "age": {"lower": 18, "upper": 99},
            "income": {"lower": 0, "upper": 200000},
            "sex": {"categories": ["F", "M"]},
        },
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": {"name": "income", "version": "1"},
        **rest,
    }
    unit = {"unit": {"column": "person", "max_rows": 2}}
    return {
        "gram": gram,
        "persons": {**gram, "privacy": {"epsilon": 1.0, "delta": 1e-9, **unit}},
        "lines": {
            "source": {"parquet": str(folder / "tracts")},
            "columns": ranks,
            "privacy": {"epsilon": 1.0},
            "release": {"name": "lines", "version": "1", "kind": "theil_sen", **lines},
            "mechanism": {"name": "exponential"},
            **rest,
        },
    }


def compute(spark: Any, folder: Path, what: str) -> Any:
    """The exact upper triangle of the matrix, or every group's line for a secret that is known."""
    from dpspark.privacy.keyed import KeyedRandom
    from dpspark.source.parquet import open_parquet
    from dpspark.spark.exact_sums import exact_gram
    from dpspark.spark.frames import open_spark_parquet, select_columns
    from dpspark.spark.groups import GroupList, fit_all_groups
    from dpspark.spark.persons import cap_rows
    from dpspark.spark.usable import Usable
    from dpspark.spec.choose import choose
    from dpspark.spec.spec import load_spec

    spec = load_spec(confs(folder)[what])
    mechanism: Any = choose(spec)
    domain, unit, random = mechanism.domain, spec.privacy.unit, KeyedRandom(b"s" * 32)
    files = open_parquet(str(folder / ("tracts" if what == "lines" else "people")), spec.source_columns)
    if what == "gram":
        # Two at a time: a tree of several stages.
        return exact_gram(spark, files, domain, fan_in=2).reveal()
    frame, _ = open_spark_parquet(spark, str(spec.source.parquet if spec.source else ""), files)
    if unit is not None:
        source = select_columns(spark, frame, [*domain.read_columns, unit.key], None)
        capped = cap_rows(spark, source, Usable(domain), unit.max_rows, False, random)
        return exact_gram(spark, capped, domain, fan_in=2).reveal()
    source = select_columns(spark, frame, domain.read_columns, None)
    groups, plane, kernel = GroupList(spec.release.group_keys), mechanism.plane, mechanism.kernel
    fits = fit_all_groups(spark, source, domain, groups, plane.wanted, kernel, random)
    return {str(code): [*fit.estimate, fit.slope, fit.intercept] for code, fit in sorted(fits.items())}


def where_from(spark: Any) -> list[str]:
    """Where the executors have the package from, and what they have loaded beside it."""

    def look(batches: Any) -> Any:
        import pyarrow as pa

        import dpspark.exact.fixed_point as gram

        for _ in batches:
            pass
        loaded = [name for name in ("pandas", "opendp", "scipy", "pydantic") if name in sys.modules]
        yield pa.record_batch([pa.array([f"{sys.executable} {gram.__file__} {loaded}"])], names=["found"])

    return [row["found"] for row in spark.range(0, 2, 1, 2).mapInArrow(look, "found string").collect()]


def write(path: Path, value: Any) -> None:
    path.with_suffix(".new").write_text(json.dumps(value))
    os.rename(path.with_suffix(".new"), path)


def main(folder: Path, scenarios: list[str]) -> None:
    import gates

    from dpspark.spark.parallelism import default_parallelism
    from dpspark.spark.session import spark_session

    with spark_session("exact") as spark:
        write(folder / "cores.json", default_parallelism(spark))
        write(folder / "where.json", where_from(spark))
        for scenario in scenarios:
            place, how = scenario.split(":")
            gates.arm(place, folder / scenario, how)
            write(folder / f"{scenario}.json", compute(spark, folder, place.split()[0]))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(Path(sys.argv[1]), sys.argv[2:])
