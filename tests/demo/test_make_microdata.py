from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.demo.microdata import SCHEMA, calibrate, microdata_batch, write_microdata
from dpspark.errors import OutputError

JOB = Path(__file__).parents[2] / "jobs" / "make_microdata.py"


def load_main():
    spec = importlib.util.spec_from_file_location("make_microdata", JOB)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def read(path):
    table = pq.read_table(path).sort_by("person_id")
    return table.replace_schema_metadata(None)


def test_rows_do_not_depend_on_files(spark, tmp_path):
    rows = 150_001
    expected = pa.Table.from_batches([microdata_batch(0, rows, 7, calibrate())])
    for files in (1, 5):
        out = tmp_path / str(files)
        write_microdata(spark, str(out), rows, seed=7, files=files)
        assert len(list(out.glob("*.parquet"))) == files
        assert read(out).equals(expected)


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows(spark, tmp_path, rows):
    out = tmp_path / "people"
    write_microdata(spark, str(out), rows)
    table = read(out)
    assert table.schema.equals(SCHEMA)
    assert table.num_rows == rows


def test_an_empty_directory_is_filled_but_a_full_one_is_refused(spark, tmp_path):
    write_microdata(spark, str(tmp_path), 10)
    with pytest.raises(OutputError, match="not empty"):
        write_microdata(spark, str(tmp_path), 10)
    assert read(tmp_path).num_rows == 10


def test_job_writes_and_says_so(spark, tmp_path, capsys):
    out = tmp_path / "people"
    assert load_main()(["--rows", "1000", "--out", str(out), "--seed", "3", "--files", "2"]) == 0
    assert capsys.readouterr().out == f"wrote 1000 rows of microdata to {out} (seed 3)\n"
    assert read(out).num_rows == 1000


def test_job_exit_codes(spark, tmp_path, capsys):
    main = load_main()
    assert main(["--rows", "-1", "--out", str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err == "error: rows=-1; expected 0 to 3960000000.\n"
    (tmp_path / "file").write_text("not a directory")
    assert main(["--rows", "1", "--out", str(tmp_path / "file")]) == 4
    assert main(["--rows", "1", "--out", str(tmp_path / "file" / "below")]) == 4
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "not empty" in errors[0]
    assert "cannot be written" in errors[1]
