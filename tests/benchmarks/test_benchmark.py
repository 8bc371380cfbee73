from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import gram as benchmark
from benchmarks.__main__ import main
from benchmarks.gram import bench_gram
from benchmarks.gram_rivals import bench_columns, compare, make_data, sql_aggregates, unscaled
from dpspark.core.domain import Domain
from dpspark.errors import ConfError, DpsparkError
from dpspark.exact.fixed_point import ExactGram, GramAccumulator

ROWS, COLUMNS = 50_000, 4
DOMAIN = Domain(bench_columns(COLUMNS))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    home = tmp_path_factory.mktemp("data")
    make_data(str(home), ROWS, COLUMNS)
    return home


@pytest.fixture
def answers(data):
    """What every contender should compute, from the same rows."""
    table = pq.read_table(data)
    rows = np.vstack([np.ones(ROWS), *(column.to_numpy() for column in table.columns)])
    total = GramAccumulator(DOMAIN)
    total.add([column.to_numpy() for column in table.columns], ROWS)
    gram = ExactGram.from_partials(DOMAIN, [total.finish()])
    matrix = rows @ rows.T
    coefficients = np.linalg.lstsq(rows[:-1].T, rows[-1], rcond=None)[0]
    return {"limit": matrix, "direct": gram, "scan": gram, "mllib": coefficients, "sql": matrix.copy()}


def shifted(gram: ExactGram, by: int) -> ExactGram:
    return ExactGram(DOMAIN, [entry + by for entry in gram.reveal()])


def test_one_run_has_every_contender_and_they_agree(spark):
    steps: list[str] = []
    results = json.loads(bench_gram("tall", ROWS, COLUMNS, 1, True, steps.append))
    assert results["all_agree"] is True
    assert results["machine"]["cores"] == spark.sparkContext.defaultParallelism
    assert results["command"] == f"python -m benchmarks gram --set tall --rows {ROWS} --columns {COLUMNS} --repeats 1"
    found = {each["contender"]: each for each in results["contenders"]}
    assert list(found) == ["limit", "direct", "scan", "mllib", "sql"]
    for each in found.values():
        assert each["seconds"] == each["runs"][0] > 0
        assert each["rows_per_second"] == pytest.approx(ROWS / each["seconds"])
        assert each["times_limit"] == pytest.approx(each["seconds"] / found["limit"]["seconds"])
        assert each["times_faster_than_mllib"] == pytest.approx(found["mllib"]["seconds"] / each["seconds"])
        assert all(each[key] > 1e6 for key in each if key.endswith("_peak_bytes"))
    assert found["direct"]["difference_from_limit"] == found["scan"]["difference_from_limit"] < 1e-5
    assert found["mllib"]["difference_from_limit"] < 1e-6
    assert found["sql"]["difference_from_limit"] < 1e-9
    assert sum(step.startswith(("warm-up", "run 1 of 1")) for step in steps) == 2 * len(found)


def test_the_data_is_inside_its_bounds_and_the_same_again(data, tmp_path):
    make_data(str(tmp_path), ROWS, COLUMNS)
    table = pq.read_table(data)
    assert table.equals(pq.read_table(tmp_path))
    assert table.num_rows == ROWS
    for column in DOMAIN.numeric:
        values = table[column.name].to_numpy()
        assert column.lower < values.min() < values.max() < column.upper


def test_the_same_answers_agree(answers):
    assert max(compare(answers, DOMAIN).values()) < 1e-6
    assert unscaled(answers["direct"], DOMAIN) == pytest.approx(answers["limit"], rel=1e-5, abs=1)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("limit", lambda matrix: matrix * 1.0001),
        ("direct", lambda gram: shifted(gram, 1)),
        ("scan", lambda gram: shifted(gram, -1)),
        ("mllib", lambda coefficients: coefficients + 1e-5),
        ("mllib", lambda coefficients: coefficients * np.nan),
        ("sql", lambda matrix: matrix * (1 + 1e-8)),
    ],
)
def test_a_disagreement_is_an_error(answers, key, wrong):
    with pytest.raises(DpsparkError, match=r"disagree|differs from limit"):
        compare({**answers, key: wrong(answers[key])}, DOMAIN)


def test_both_dpspark_matrices_wrong_alike_is_an_error(answers):
    wrong = shifted(answers["direct"], DOMAIN.one**2 * ROWS // 1000)
    with pytest.raises(DpsparkError, match="direct differs from limit"):
        compare({**answers, "direct": wrong, "scan": wrong}, DOMAIN)


def test_aggregates_are_the_upper_triangle():
    assert sql_aggregates(["a", "b"]) == ["count(*)", "sum(a)", "sum(b)", "sum(a * a)", "sum(a * b)", "sum(b * b)"]


def test_refusals_come_before_any_work(monkeypatch):
    def run(rows, columns):
        return bench_gram("tall", rows, columns, 1, False, lambda step: pytest.fail(step))

    with pytest.raises(ConfError, match="rows=1000, columns=101"):
        run(1000, 101)
    monkeypatch.setattr(benchmark.shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    with pytest.raises(DpsparkError, match="Set TMPDIR"):
        run(ROWS, COLUMNS)
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(DpsparkError, match=r"pip install psutil"):
        run(ROWS, COLUMNS)


def test_many_columns_leave_sql_out_and_say_so(spark, monkeypatch):
    monkeypatch.setattr(benchmark, "MOST_SQL_COLUMNS", COLUMNS - 1)
    lines = bench_gram("wide", 1000, COLUMNS, 1, False, lambda step: None).splitlines()
    assert "not run: 15 aggregates; up to 3 columns are" in next(line for line in lines if line.startswith("Spark SQL"))
    assert any(line.startswith("All agree") for line in lines)
    assert lines[-1] == "Repeat: python -m benchmarks gram --set wide --rows 1000 --columns 4 --repeats 1"


def test_lines_of_many_tracts(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """dpspark and plain processes give the same lines from one secret; the command checks it."""
    with pytest.raises(SystemExit) as caught:
        main(["lines", "--tracts", "40", "--json"])
    assert not caught.value.code
    result = json.loads(capsys.readouterr().out)
    assert [row["kernel"] for row in result["kernels"]] == ["exponential", "depth", "huber"]
    assert [row.get("pandas_timed_on") for row in result["kernels"]] == [40, 40, None]
    assert all(row["shuffle_bytes"] > 10 * result["rows"] for row in result["kernels"])
    assert all(row["peak_bytes"]["worker"] > 1e6 for row in result["kernels"])


def test_one_line_of_a_table(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["lines", "--rows", "20000", "--json"])
    assert not caught.value.code
    result = json.loads(capsys.readouterr().out)
    assert result["rows_per_second"] > 0
    assert result["peak_bytes"]["driver"] > 0
    assert result["shuffle_bytes"] > 2 * 16 * 20000 / 4
