"""Tables of several models: every number is a model's own, and the files can be read by others."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pytest

import dpspark
from dpspark.analysis.model_table import ModelTable
from dpspark.errors import ConfError
from dpspark.interop.table_files import WRITERS
from tests.commands import run
from tests.manifests import CONFS, bundle_of

FORMULAS = ("income ~ age", "income ~ age + sex", "age ~ sex")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(tmp_path_factory.mktemp("release"), CONFS["gaussian large epsilon"])


@pytest.fixture(scope="module")
def table(place: Path) -> ModelTable:
    release = dpspark.read_release(place)
    return dpspark.table([release.regress(formula) for formula in FORMULAS])


def test_each_column_is_a_model(table: ModelTable) -> None:
    """Kills: a coefficient in another model's column; an error that is not below its estimate; a term that is dropped."""
    body = {row[0]: (row[1:], errors[1:]) for row, errors in zip(table.body()[::2], table.body()[1::2], strict=True)}
    assert set(body) == {"age", "sex[M]", "(intercept)"}
    for at, fit in enumerate(table.fits):
        for term, (estimates, errors) in body.items():
            if term not in fit.terms:
                assert (estimates[at], errors[at]) == ("", "")
                continue
            shown = float(estimates[at].rstrip("*").replace(",", ""))
            assert shown == pytest.approx(fit.params[term], abs=fit.std_errors[term] / 10)
            assert float(errors[at].strip("()").replace(",", "")) == pytest.approx(fit.std_errors[term], rel=0.05)
            assert estimates[at].count("*") == sum(fit.pvalues[term] < limit for limit in (0.001, 0.01, 0.05))
    assert any("epsilon = 12" in note for note in table.notes)


def test_files_hold_the_same(table: ModelTable) -> None:
    rows = [*table.head(), *table.body(), *([name, *values] for name, values in table.footer)]
    document = docx.Document(io.BytesIO(WRITERS["docx"](table)))
    assert [[cell.text for cell in row.cells] for row in document.tables[0].rows] == rows
    sheet: Any = openpyxl.load_workbook(io.BytesIO(WRITERS["xlsx"](table))).active
    read = [[cell or "" for cell in row] for row in sheet.iter_rows(values_only=True)]
    assert read[: len(rows)] == rows
    lines = list(csv.DictReader(io.StringIO(WRITERS["csv"](table).decode())))
    assert [float(line["estimate"]) for line in lines] == [fit.params[term] for fit in table.fits for term in fit.terms]
    latex = WRITERS["tex"](table).decode()
    assert all(line.count("&") == len(FORMULAS) for line in latex.splitlines() if line.startswith(("age", "sex")))
    assert "<td" in WRITERS["html"](table).decode()
    assert WRITERS["md"](table).decode().startswith("|  | (1) | (2) | (3) |")


def test_the_command_writes_a_file_once(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "table.tex"
    arguments = ["table", str(place), *FORMULAS, "--to", "tex", "-o", str(out)]
    assert run(capsys, *arguments)[:2] == (0, f"{out}\n")
    before = out.read_bytes()
    assert run(capsys, *arguments)[0] == 4
    assert out.read_bytes() == before
    assert run(capsys, "table", str(place), *FORMULAS, "--to", "docx")[0] == 2
    with pytest.raises(ConfError, match="labels"):
        dpspark.table([dpspark.read_release(place).regress(FORMULAS[0])], labels=["a", "b"])
