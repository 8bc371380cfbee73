"""Releases that protect a person, end to end on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.data.contribution import Usable, capped_source
from dpspark.data.frames import bounded_source
from dpspark.privacy.noise import OpenDPNoise
from dpspark.robust.keyed import KeyedRandom
from dpspark.spec import Spec, load_spec


class NoNoise(OpenDPNoise):
    """What the release is of, exactly; a fixed secret."""

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return [0] * count

    def secret(self) -> bytes:
        return b"s" * 32


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


def kept(spark: Any, spec: Spec, frame: Any, secret: bytes = b"s" * 32) -> Counter[tuple[Any, ...]]:
    """The rows that stay, through the real plan; the id is read as a value too, to be seen."""
    unit = spec.privacy.unit
    assert unit is not None
    source = bounded_source(spark, frame, [*spec.domain.read_columns, unit.key], None)
    capped = capped_source(spark, source, Usable(spec.domain), unit.max_rows, unit.nulls == "own", KeyedRandom(secret))
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
    rel = dpspark.release(spec, spark=spark, noise=NoNoise())
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
    from dpspark.mechanisms.choose import choose_gram

    assert manifest["mechanism"]["sensitivity"]["value"] == 3 * choose_gram(plain).facts()["sensitivity"]["value"]
    assert dpspark.read_release(rel.path).manifest == manifest
