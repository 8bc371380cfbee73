"""A count of rows beside a release, on real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import dpspark
from dpspark.cli.main import main
from tests.manifests import variant
from tests.noises import NoNoiseFixedSecret

QUANTILES = {"name": "q", "version": "1", "kind": "quantiles", "probabilities": [0.5]}
NUMBERS = {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 200000}}


@pytest.fixture
def with_nulls(tmp_path: Path, people: Path) -> str:
    """300 rows, of which 100 have no age."""
    table = pq.read_table(people).slice(0, 300).select(["age", "income"])
    ages = pa.array([None if i % 3 == 0 else age for i, age in enumerate(table["age"].to_pylist())])
    pq.write_table(table.set_column(0, "age", ages), tmp_path / "nulls.parquet", row_group_size=70)
    return str(tmp_path / "nulls.parquet")


def test_what_is_counted(spark: Any, conf: dict[str, Any], with_nulls: str) -> None:
    """Rows after `where`, less those that a null drops; direct and through Spark; of a group that is not listed too."""
    line = {"name": "l", "version": "1", "kind": "theil_sen", "x": "age", "y": "income"}
    base = variant(conf, source={"parquet": with_nulls}, columns=NUMBERS, count={"epsilon_share": 0.1})
    keep = {"nulls": "midpoint"}
    cases = [
        (variant(base, release=QUANTILES), 300),
        (variant(base, release={**QUANTILES, "version": "2"}, where="income >= 0"), 300),
        (variant(base, release=line), 200),
        (variant(base, release={**line, "version": "2"}, **keep), 300),
        (variant(base, release={**line, "version": "3", "group_by": ["age"], "groups": [20, 30]}), 200),
        (variant(base, release={"name": "g", "version": "1"}), 200),
        (variant(base, release={"name": "g", "version": "2"}, weight={"column": "income", "upper": 5}), 200),
    ]
    for case, rows in cases:
        found = dpspark.release(case, spark=spark, noise=NoNoiseFixedSecret()).manifest["monitoring"]
        assert found["rows"] == rows, case["release"]
        assert found["noise_std"] > 0


def test_it_has_noise_and_is_in_the_certificate(spark: Any, conf: dict[str, Any]) -> None:
    rel = dpspark.release(variant(conf, release=QUANTILES, columns=NUMBERS, count={}), spark=spark)
    monitoring, spending = rel.manifest["monitoring"], rel.manifest["privacy"]["spending"]
    assert monitoring["noise_std"] == pytest.approx(141.4, rel=0.01)
    assert 0 < abs(monitoring["rows"] - 40_000) < 20 * monitoring["noise_std"] or monitoring["rows"] == 40_000
    assert [(stage["stage"], stage["epsilon"]) for stage in spending] == [("count", 0.01), ("quantiles", 0.99)]
    assert dpspark.release(variant(conf, release=QUANTILES, columns=NUMBERS, count={})).manifest == rel.manifest


def test_a_public_count_costs_nothing(spark: Any, conf: dict[str, Any]) -> None:
    replaced = variant(conf, release=QUANTILES, columns=NUMBERS, count={}, privacy__neighbours="replace_one")
    rel = dpspark.release(replaced, spark=spark)
    assert rel.manifest["monitoring"] == {"rows": 40_000, "noise_std": 0.0}
    assert [stage["stage"] for stage in rel.manifest["privacy"]["spending"]] == ["quantiles"]
    assert "the number of records is published as it is" in rel.manifest["guarantee"]


def test_command(spark: Any, conf: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a matrix it says what the matrix says; the flag is part of the spec."""
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump(conf))
    for arguments, code, shown in (
        (["--pay-count"], 0, r"nothing more was paid for it"),
        (["--pay-count"], 0, r"already published"),
        ([], 3, r"another spec"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["release", str(path), *arguments])
        assert ended.value.code == code
        stderr = capsys.readouterr().err
        assert shown in stderr
        assert ("rows used: about " in stderr) is (code == 0)
