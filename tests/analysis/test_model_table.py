"""Tables of several models: every number is a model's own, and the files can be read by others."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import docx
import numpy as np
import openpyxl
import pytest

import dpspark
from dpspark.analysis.model_table import ModelTable
from dpspark.errors import ConfError
from dpspark.interop.modelsummary import GLANCE, TIDY
from dpspark.interop.table_files import WRITERS
from tests.commands import run
from tests.manifests import CONFS, bundle_of
from tests.report.bundles import CONF, conf_with, people, published

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


def test_a_sum_of_weights_is_no_number_of_rows(tmp_path: Path) -> None:
    """Kills: "Rows" above what the weights add up to; "classical" where there are no errors; a sum of weights for R's nobs."""
    conf = conf_with(weight={"column": "w", "upper": 5})
    weighted = dpspark.read_release(published(tmp_path, conf)).regress("income ~ age")
    other = dpspark.read_release(published(tmp_path, conf_with(release={"version": "2"}))).regress("income ~ age")
    alone, both = dpspark.table([weighted]), dpspark.table([weighted, other])
    assert list(dict(alone.footer)) == ["Sum of weights", "R-squared"]
    assert [bool(value) for value in dict(both.footer)["Rows"]] == [False, True]
    assert dict(both.footer)["Std. errors"] == ["", "classical"]
    assert (
        both.notes[-1]
        == "(1): No standard errors or intervals: the rows are weighted, and the release holds no squared weights."
    )
    assert weighted.__maketables_stat__("N") is None
    assert struct.pack(">d", round(weighted.n)) not in gzip.decompress(WRITERS["rds"](alone))
    assert struct.pack(">d", round(other.n)) in gzip.decompress(WRITERS["rds"](both))


def test_a_repaired_model_says_so(place: Path) -> None:
    """Kills: biased coefficients for predictions, under "classical" errors that they do not have."""
    repaired = dpspark.read_release(place).regress("income ~ age", repair="ridge")
    assert repaired.repaired
    made = dpspark.table([repaired])
    assert "Std. errors" not in dict(made.footer)
    assert made.notes[-1].startswith("(1): Repaired by ridge: coefficients to predict with.")
    assert not any("equal variances" in note for note in made.notes)
    assert repaired.without_errors in repaired.summary()


def test_what_was_cut_off_is_said(table: ModelTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a table for a paper without the warning that is below each of its regressions."""
    row = {"column": "income", "side": "upper", "clipped_share": 0.25, "noise_std": 0.01}
    for at, fit in enumerate(table.fits):
        monkeypatch.setattr(fit, "clipped", [row] if at < 2 else [])
    assert any(note.startswith("(1), (2): WARNING: income: about 25% of values were") for note in table.notes)


def test_csv_says_what_its_errors_are(odd: ModelTable) -> None:
    """Kills: robust errors beside others, not told apart; no guarantee; "nan", which R reads as text; a formula."""
    lines = list(csv.DictReader(io.StringIO(WRITERS["csv"](odd).decode())))
    assert {line["model"]: line["errors"] for line in lines} == {"(1)": "hc1", "(2)": "classical", "(3)": ""}
    assert all("epsilon = 12, delta = 1e-09, add_remove; a record is one row" in line["release"] for line in lines)
    assert {line["std_error"] for line in lines if line["model"] == "(3)"} == {""}
    assert "`=1+2`" in {line["term"] for line in lines}
    assert not [value for line in lines for value in (line["response"], line["term"]) if value.startswith("=")]


def test_names_cannot_steer_a_terminal_or_stop_a_writer(tmp_path: Path) -> None:
    """Kills: an escape in a stranger's name that reaches a terminal; a name that Word or Excel has no letters for."""
    odd = ("a\x1b[31mred", "a\nb", "\u202eabc")
    values, rng = people(), np.random.default_rng(5)
    values |= {name: rng.uniform(0, 1, len(values["age"])) for name in odd}
    columns = {"income": CONF["columns"]["income"], **{name: {"lower": 0, "upper": 1} for name in odd}}
    release = published(tmp_path, conf_with(columns=columns, privacy={"epsilon": 40.0}), values)
    table = dpspark.table([dpspark.read_release(release).regress("income ~ .")])
    for form in ("text", "md", "html", "tex"):
        text = WRITERS[form](table).decode()
        assert not {"\x1b", "\u202e"} & set(text), form
        assert "a\nb" not in text, form
    assert docx.Document(io.BytesIO(WRITERS["docx"](table))).tables
    assert openpyxl.load_workbook(io.BytesIO(WRITERS["xlsx"](table))).active


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


ODD = ("*b", "a_%&#{}", "back\\slash~^", "<b>&amp;</b>", "=1+2", "|x|*_", "[b] €", "x" * 60)
ROBUST = {"errors": "hc1", "errors_share": 0.5, "regressions": ["income ~ age + educ"]}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> ModelTable:
    """Names that other programs read as something else, a regression without an answer, and robust errors beside others."""
    values, rng = people(), np.random.default_rng(3)
    values |= {name: rng.uniform(0, 1, len(values["age"])) for name in ODD}
    values["rare"] = np.where(np.arange(len(values["age"])) < 4, "b", "a")
    columns = {
        **CONF["columns"],
        **{name: {"lower": 0, "upper": 1} for name in ODD},
        "rare": {"categories": ["a", "b"]},
    }
    conf = conf_with(columns=columns, release=ROBUST, privacy={"epsilon": 12.0})
    release = dpspark.read_release(published(tmp_path_factory.mktemp("odd"), conf, values))
    names = " + ".join(f"`{name}`" for name in ODD)
    return dpspark.table([release.regress(f"income ~ {of}") for of in ("age + educ", f"age + {names}", "rare")])


def test_notes_say_which_models_they_are_of(odd: ModelTable) -> None:
    """Kills: "equal variances assumed" below a table of HC1 errors; a model without an answer that nothing is said of."""
    assert dict(odd.footer)["Std. errors"] == ["hc1", "classical", ""]
    assert next(note for note in odd.notes if "HC1" in note).startswith("(1): ")
    assert next(note for note in odd.notes if "equal variances" in note).startswith("(2): ")
    assert next(note for note in odd.notes if "not identified" in note).startswith("(3): ")
    assert any("epsilon = 12, delta = 1e-09, add_remove; a record is one row" in note for note in odd.notes)


def test_odd_names_stay_themselves(odd: ModelTable) -> None:
    """Kills: a name that LaTeX, HTML, Markdown or Excel takes for a command."""
    latex = WRITERS["tex"](odd).decode()
    assert r"\begin{tabular}{p{0.4\linewidth}rrr}" in latex
    assert "multicolumn" not in latex  # of a note, which would set the last model apart
    for written in (r"a\_\%\&\#\{\} ", r"back\textbackslash{}slash\textasciitilde{}\textasciicircum{}", r"\textbar{}x"):
        assert written in latex
    assert "{}[b] €" in latex
    assert "{}*b" in latex
    assert "<b>" not in WRITERS["html"](odd).decode()
    assert r"\<b\>\&amp;\</b\>" in WRITERS["md"](odd).decode()
    sheet: Any = openpyxl.load_workbook(io.BytesIO(WRITERS["xlsx"](odd))).active
    cells = [row[0] for row in sheet.iter_rows()]
    assert {"s"} == {cell.data_type for cell in cells if cell.value == "=1+2"}
    assert {cell.value for cell in cells} >= set(ODD)
    document = docx.Document(io.BytesIO(WRITERS["docx"](odd)))
    assert {row.cells[0].text for row in document.tables[0].rows} >= set(ODD)


@pytest.mark.parametrize(("count", "landscape"), [(3, False), (8, True), (20, True)])
def test_words_numbers_do_not_break(count: int, landscape: bool, table: ModelTable) -> None:
    """Kills: "397.2" in one line and "0***" in the next, where a page is too narrow for many models."""
    document = docx.Document(io.BytesIO(WRITERS["docx"](dpspark.table([table.fits[at % 2] for at in range(count)]))))
    section, size = document.sections[0], document.styles["Normal"].font.size
    assert (section.page_width > section.page_height) == landscape
    widths = [column.width for column in document.tables[0].columns]
    assert sum(widths) <= section.page_width - section.left_margin - section.right_margin + len(widths)
    assert widths[0] >= sum(widths) / 4.01
    for width, cells in zip(widths[1:], list(document.tables[0].columns)[1:], strict=True):
        assert width >= 0.63 * size * max(len(cell.text) for cell in cells.cells)
    assert size >= docx.shared.Pt(9 if count == 3 else 3)


def test_a_long_response_does_not_shrink_a_word_table(odd: ModelTable) -> None:
    """Kills: letters too small to read, where the name of a response is as wide as a page."""
    named = copy.copy(odd.fits[1])
    named.response = "x" * 60
    document = docx.Document(io.BytesIO(WRITERS["docx"](dpspark.table([named]))))
    assert document.styles["Normal"].font.size == docx.shared.Pt(9)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_compiles(odd: ModelTable, tmp_path: Path) -> None:
    """Kills: a table that stops LaTeX, with booktabs and nothing else."""
    (tmp_path / "table.tex").write_bytes(WRITERS["tex"](odd))
    text = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\input{table}\\end{document}"
    (tmp_path / "document.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_r_gets_models_of_modelsummary(odd: ModelTable) -> None:
    """Byte by byte where no R is at hand. Kills: an object without its class; a frame without what modelsummary asks for."""
    content = gzip.decompress(WRITERS["rds"](odd))
    for name in ("modelsummary_list", "tidy", "glance", *TIDY.values(), *GLANCE.values(), *odd.labels):
        assert struct.pack(">i", len(name)) + name.encode() in content, name
    for value in odd.fits[1].params.values():
        assert struct.pack(">d", value) in content


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="no R here: make test-r")
def test_r_reads_models(odd: ModelTable, tmp_path: Path) -> None:
    """Kills: an .rds that R does not read, or reads as something else; NaN where R has NA."""
    (tmp_path / "models.rds").write_bytes(WRITERS["rds"](odd))
    program = """
        models <- readRDS("models.rds")$models
        stopifnot(all(sapply(models, inherits, "modelsummary_list")), identical(names(models), c("(1)", "(2)", "(3)")))
        stopifnot(is.data.frame(models[[1]]$tidy), nrow(models[[1]]$glance) == 1, models[[1]]$glance$vcov.type == "hc1")
        stopifnot(all(is.na(models[[3]]$tidy$estimate)), !any(is.nan(models[[3]]$tidy$estimate)))
        cat(format(models[[1]]$tidy$std.error, digits = 15), models[[1]]$glance$nobs)
    """
    command = ["Rscript", "--vanilla", "-e", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *errors, rows = map(float, done.stdout.split())
    assert errors == pytest.approx(list(odd.fits[0].std_errors.values()), rel=1e-13)
    assert rows == round(odd.fits[0].n)


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
