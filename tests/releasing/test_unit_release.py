"""Releases that protect a person, end to end on Spark."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

import dpspark
from dpspark.errors import SourceError
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.frames import select_columns
from dpspark.spark.groups import GroupList
from dpspark.spark.persons import cap_rows
from dpspark.spark.usable import Usable
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec, load_spec
from tests.noises import NoNoiseFixedSecret

pytestmark = pytest.mark.spark35


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Visits of 300 people, one of them with 5000 rows and one with 100 equal ones; some without an id, some with nulls."""
    rng = np.random.default_rng(11)
    number = np.concatenate([np.repeat(np.arange(300), rng.integers(1, 7, 300)), np.full(5000, 7), np.full(100, 8)])
    x, y = rng.uniform(0, 1, len(number)), rng.uniform(0, 1, len(number))
    x[-100:], y[-100:] = 1.0, 1.0
    y[::50] = np.nan
    person = [None if i % 97 == 0 else f"p{n}" for i, n in enumerate(number)]
    order = rng.permutation(len(number))
    table = pa.table(
        {"person": person, "number": number, "x": x, "y": y, "tract": [f"t{n % 3}" for n in range(len(number))]}
    )
    pq.write_table(table.take(pa.array(order)), tmp_path / "visits.parquet", row_group_size=1000)
    return tmp_path / "visits.parquet"


def unit_conf(conf: dict[str, Any], visits: Path, version: str = "1", **unit: Any) -> dict[str, Any]:
    return {
        **conf,
        "source": {"parquet": str(visits)},
        "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
        "privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "person", "max_rows": 3, **unit}},
        "release": {"name": "visits", "version": version},
    }


def kept(
    spark: Any,
    spec: Spec,
    frame: Any,
    secret: bytes = b"s" * 32,
    usable: Usable | None = None,
    text: tuple[str, ...] = (),
) -> Counter[tuple[Any, ...]]:
    """The rows that stay, through the real plan; the id is read as a value too, to be seen."""
    unit = spec.privacy.unit
    assert unit is not None
    usable = usable or Usable(spec.domain)
    source = select_columns(spark, frame, [*spec.domain.read_columns, unit.key], None, text)
    capped = cap_rows(spark, source, usable, unit.max_rows, unit.nulls == "own", KeyedRandom(secret))
    return Counter(map(tuple, capped.frame.collect()))


def number_conf(conf: dict[str, Any], visits: Path, **unit: Any) -> Spec:
    """With the person's number as a column, so that kept rows say whose they are."""
    made = unit_conf(conf, visits, **unit)
    return load_spec({**made, "columns": {**made["columns"], "number": {"lower": 0, "upper": 300}}})


def test_the_same_rows_for_any_partitioning(spark: Any, conf: dict[str, Any], visits: Path) -> None:
    """Kills: a cap of m + 1; the first m rows by file order; a hash of positions; a hash without the secret."""
    spec, frame = number_conf(conf, visits), spark.read.parquet(str(visits))
    found = [
        kept(spark, spec, frame.orderBy("y" if partitions == 4 else "x").repartition(partitions))
        for partitions in (1, 4, 32)
    ]
    assert found[0] == found[1] == found[2]
    of_each = Counter()
    for row, count in found[0].items():
        of_each[row[2]] += count
    table = pq.read_table(visits).to_pandas().dropna()
    wanted = table.groupby("number").size().clip(upper=3).to_dict()
    assert of_each == wanted  # unusable rows take nobody's place
    other = kept(spark, spec, frame, b"t" * 32)
    assert sum(other.values()) == sum(found[0].values())
    assert other != found[0]


def test_a_release_protects_people(spark: Any, conf: dict[str, Any], visits: Path) -> None:
    """The matrix is of the kept rows; the certificate says who is protected, and m times the noise is drawn."""
    spec = load_spec(unit_conf(conf, visits))
    rel = dpspark.release(spec, spark=spark, noise=NoNoiseFixedSecret())
    rows = kept(spark, spec, spark.read.parquet(str(visits)))
    table = pq.read_table(visits).to_pandas().dropna()
    assert rel.second_moment().iloc[0, 0] == sum(rows.values()) == table.groupby("person").size().clip(upper=3).sum()
    assert rel.second_moment().loc["x", "y"] == pytest.approx(sum(n * r[0] * r[1] for r, n in rows.items()), rel=1e-5)
    manifest = rel.manifest
    unit = manifest["privacy"]["unit"]
    assert (unit["column"], unit["max_rows"], unit["nulls"], unit["rows_per_record"]) == ("person", 3, "drop", 3)
    assert "whether or not any one person (person, at most 3 rows kept) is in the data" in manifest["guarantee"]
    assert any("3 were kept at random" in text for text in manifest["limitations"])
    plain = load_spec({**unit_conf(conf, visits), "privacy": {"epsilon": 1.0, "delta": 1e-9}})
    assert manifest["mechanism"]["sensitivity"]["value"] == 3 * choose_gram(plain).facts()["sensitivity"]["value"]
    assert dpspark.read_release(rel.path).manifest == manifest


def kinds(conf: dict[str, Any], visits: Path) -> dict[str, dict[str, Any]]:
    """A conf of each kind, grouped, and those with several passes."""
    plain = unit_conf(conf, visits)
    groups = {"group_by": ["tract"], "groups": ["t0", "t1", "nowhere"]}
    line = {"kind": "theil_sen", "x": "x", "y": "y"}
    searched = {**plain["columns"], "y": {"bounds": "private", "search": [-1, 2]}}
    descent = {
        "release": {"kind": "regression", "response": "y"},
        "mechanism": {"name": "gradient_descent", "steps": 2},
    }
    found = {
        "matrices": {"release": groups, "privacy": {"neighbours": "replace_one"}},
        "regressions": {"release": {**groups, "kind": "regression", "response": "y"}},
        "descent": {**descent, "columns": searched},
        "refined": {"release": {"kind": "regression", "response": "y"}, "mechanism": {"name": "refined"}},
        "lines": {"release": {**groups, **line}, "mechanism": {"name": "exponential"}},
        "buckets": {"release": {**line, "expected_rows": 1200}},
        "quantiles": {"release": {**groups, "kind": "quantiles", "probabilities": [0.5]}},
    }
    for name, changes in found.items():
        release = {**plain["release"], "version": name, **changes.get("release", {})}
        privacy = {**plain["privacy"], **changes.get("privacy", {})}
        found[name] = {**plain, **changes, "release": release, "privacy": privacy}
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("matrices", "descent", "refined", "lines", "quantiles"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("regressions", "buckets")),
    ],
)
def test_every_kind_is_of_the_kept_rows(
    spark: Any, conf: dict[str, Any], visits: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The same release as of the kept rows alone, each of them somebody's: in every pass. Kills: a pass without the cap."""
    monkeypatch.setattr("dpspark.mechanisms.lines.base.ROWS_PER_BUCKET", 500)
    made = kinds(conf, visits)[name]
    spec = load_spec(made)
    groups = GroupList(spec.release.group_keys) if spec.release.group_by else None
    usable = Usable(spec.domain, groups, by_value=spec.release.kind == "quantiles")
    rows = kept(spark, spec, spark.read.parquet(str(visits)), usable=usable)
    columns = [*spec.used_columns, *(key.name for key in spec.domain.keys)]
    listed = [(*row, f"q{i}") for i, row in enumerate(rows.elements())]
    alone = spark.createDataFrame(listed, [*columns, "person"]).repartition(3)
    one = dpspark.release(made, spark=spark, noise=NoNoiseFixedSecret())
    made["release"]["version"] = "alone"
    other = dpspark.release(made, alone, spark=spark, noise=NoNoiseFixedSecret())
    assert one.tables.keys() == other.tables.keys()
    for table in one.tables:
        assert_frame_equal(one.tables[table].to_pandas(), other.tables[table].to_pandas(), check_exact=True)
    if "composition" in one.manifest["mechanism"] and spec.release.group_by:
        assert "a row is in one group, and the noise is for 3 rows" in one.manifest["mechanism"]["composition"]


def test_ids_of_every_kind(spark: Any, conf: dict[str, Any], visits: Path, tmp_path: Path) -> None:
    """Whole numbers, decimals without a fraction, text, binary, names of directories; floats and booleans are refused."""
    spec = number_conf(conf, visits)
    frame = spark.read.parquet(str(visits)).where("number < 20 and person is not null")
    wanted = sum(kept(spark, spec, frame).values())
    others = frame.select("x", "y", "number")
    for kind in ("smallint", "decimal(20,0)", "binary"):
        ids = others.selectExpr(
            "*", f"cast({'cast(number as string)' if kind == 'binary' else 'number'} as {kind}) as person"
        )
        assert sum(kept(spark, spec, ids).values()) == wanted
    for kind in ("double", "boolean", "decimal(20,2)", "date"):
        ids = others.selectExpr("*", f"cast(null as {kind}) as person")
        with pytest.raises(SourceError, match=r"privacy\.unit\.column='person': its type is"):
            kept(spark, spec, ids)
    frame.where("number < 4").write.partitionBy("person").parquet(str(tmp_path / "by_person"))
    made = unit_conf(conf, tmp_path / "by_person", "directories")
    rel = dpspark.release(made, spark=spark, noise=NoNoiseFixedSecret())
    table = pq.read_table(visits).to_pandas().dropna()
    few = table[table["number"] < 4].groupby("person").size().clip(upper=3).sum()
    assert rel.second_moment().iloc[0, 0] == few


def test_rows_without_an_id(spark: Any, conf: dict[str, Any], visits: Path) -> None:
    """Dropped unless they are said to be people of their own: then all of them stay. Kills: null, one person of many rows."""
    frame = spark.read.parquet(str(visits))
    dropped, own = (kept(spark, number_conf(conf, visits, nulls=nulls), frame) for nulls in ("drop", "own"))
    table = pq.read_table(visits).to_pandas().dropna(subset=["x", "y"])
    assert sum(own.values()) - sum(dropped.values()) == table["person"].isna().sum() > 3
    assert not dropped - own


def test_a_killed_task_keeps_the_same_rows(spark: Any, conf: dict[str, Any], visits: Path, tmp_path: Path) -> None:
    """Kills: a choice that a retry makes anew. A Python worker dies in the middle of its rows, once."""
    spec, frame = number_conf(conf, visits), spark.read.parquet(str(visits))
    mark = tmp_path / "died"

    class Dies(Usable):
        def mask(self, values: Any) -> Any:
            if not mark.exists():
                mark.touch()
                os._exit(1)
            return super().mask(values)

    assert kept(spark, spec, frame, usable=Dies(spec.domain)) == kept(spark, spec, frame)
    assert mark.exists()
