"""`dpspark convert`: every table with all digits, and nothing written over."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.cli.convert import _csv
from dpspark.published.reading import read_release
from tests.commands import run
from tests.manifests import CONFS, bundle_of


@pytest.mark.parametrize("name", ["gaussian", "gram_ridge"])
def test_csv_has_every_digit(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a table that is left out; digits that are; a manifest that was changed."""
    release = bundle_of(tmp_path, CONFS[name])
    out = tmp_path / "out" / "csv"
    code, printed, _ = run(capsys, "convert", str(release), "--to", "csv", "--out", str(out))
    found = read_release(release)
    assert (code, printed.split()) == (
        0,
        [str(out / f"{name}.csv") for name in found.tables] + [str(out / "manifest.json")],
    )
    for table_name, table in found.tables.items():
        with (out / f"{table_name}.csv").open(newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        assert header == table.column_names
        for column, values in zip(table.columns, zip(*lines, strict=True), strict=True):
            numbers = pa.types.is_floating(column.type)
            read = [None if value == "" else float(value) if numbers else value for value in values]
            assert repr(read) == repr(column.to_pylist())
    assert json.loads((out / "manifest.json").read_text()) == found.manifest


def test_csv_of_awkward_values() -> None:
    table = pa.table({"a,b": ['x"y', "line\nbreak", None], "v": [float("nan"), float("-inf"), 1e-300]})
    assert _csv(table) == '"a,b",v\n"x""y",NaN\n"line\nbreak",-Inf\n,1e-300\n'


def test_json_is_all_in_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: NaN, which is no JSON; another number than was published."""
    release = bundle_of(tmp_path, CONFS["gaussian"])
    code, printed, _ = run(capsys, "convert", str(release), "--to", "json", "--out", str(tmp_path / "out"))
    assert code == 0
    text = Path(printed.strip()).read_text(encoding="utf-8")
    found = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    published = pq.read_table(release / "second_moment.parquet").to_pylist()
    assert found["tables"]["second_moment"] == published
    assert {row["noise_std"] for row in found["tables"]["scaled"]} == {None}
    assert found["manifest"]["guarantee"]
    assert Path(printed.strip()).name == "income-1.json"


@pytest.mark.parametrize("form", ["csv", "json", "r"])
def test_nothing_is_written_over(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release, out = bundle_of(tmp_path, CONFS["gaussian"]), tmp_path / "out"
    arguments = ["convert", str(release), "--to", form, "--out", str(out)]
    written = run(capsys, *arguments)[1].split()
    for path in map(Path, written):
        path.write_text("mine")
        code, printed, err = run(capsys, *arguments)
        assert (code, printed, "is there already" in err) == (4, "", True)
        assert path.read_text() == "mine"
    for path in map(Path, written[:-1]):
        path.unlink()
    before = sorted(out.iterdir())
    assert run(capsys, *arguments)[0] == 4
    assert sorted(out.iterdir()) == before  # not half of it either


@pytest.mark.parametrize("form", ["csv", "json", "r"])
def test_text_that_is_none(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: an unexpected error, or half of the files, where a stranger's manifest has what no file can hold."""
    release = bundle_of(tmp_path, CONFS["gaussian"])
    manifest = release / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"guarantee": "', '"guarantee": "\\ud800', 1))
    code, _, err = run(capsys, "convert", str(release), "--to", form, "--out", str(tmp_path / "out"))
    assert (code, list((tmp_path / "out").glob("*"))) == (4, []), err


def test_bad_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = bundle_of(tmp_path, CONFS["gaussian"])
    (tmp_path / "file").write_text("")
    assert run(capsys, "convert", str(release), "--to", "csv", "--out", str(tmp_path / "file"))[0] == 4
    assert run(capsys, "convert", str(tmp_path / "none"), "--to", "csv", "--out", str(tmp_path / "out"))[0] == 2
    assert not (tmp_path / "out").exists()
