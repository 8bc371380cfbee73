"""A table of models as a file: text, Markdown, HTML, LaTeX, CSV, Word, Excel, or for R."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Callable
from typing import Any

from dpspark.analysis.model_table import ModelTable
from dpspark.errors import ConfError
from dpspark.interop.modelsummary import as_rds

FONT, LETTER = 9.0, 0.64  # points in Word, and the width of a digit in a wide font, in font sizes
LONG_NAME = 40  # characters, beyond which a name goes on in the next line
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}",
}  # fmt: skip


def as_text(table: ModelTable) -> bytes:
    return f"{table.summary()}\n".encode()


def as_markdown(table: ModelTable) -> bytes:
    def plain(text: str) -> str:
        return re.sub(r"([\\`*_|<>&~\[\]])", r"\\\1", text)

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(map(plain, cells)) + " |"

    head, *more = table.head()
    rule = "|---|" + "---:|" * len(table.fits)
    rows = [line(cells) for cells in (*more, *table.body(), *([name, *values] for name, values in table.footer))]
    return "\n".join([line(head), rule, *rows, "", *(f"- {plain(note)}" for note in table.notes), ""]).encode()


def as_html(table: ModelTable) -> bytes:
    def row(tag: str, cells: list[str]) -> str:
        first, *numbers = map(html.escape, cells)
        scope = "row" if tag == "td" else "col"
        others = "".join(f'<{tag} class="number">{number}</{tag}>' for number in numbers)
        return f'<tr><th scope="{scope}">{first}</th>{others}</tr>'

    foot = [[name, *values] for name, values in table.footer]
    sections = [("thead", "th", table.head()), ("tbody", "td", table.body()), ("tfoot", "td", foot)]
    inside = "\n".join(f"<{part}>{''.join(row(tag, cells) for cells in rows)}</{part}>" for part, tag, rows in sections)
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in table.notes)
    style = (
        "table{border-collapse:collapse;font:15px/1.4 system-ui,sans-serif}td,th{padding:.1rem .8rem;font-weight:400;"
        "text-align:left}.number{text-align:right}thead,tbody,tfoot{border-top:1px solid;border-bottom:1px solid}"
    )
    head = f'<meta charset="utf-8"><title>Regressions</title><style>{style}</style>'
    body = f"<table>\n{inside}\n</table>\n{notes}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'.encode()


def as_latex(table: ModelTable) -> bytes:
    """A table for the package booktabs, to be put into a document by \\input: one box, in which no note widens a column."""

    def row(cells: list[str]) -> str:
        return " & ".join(map(_latex, cells)) + r" \\"

    foot = [[name, *values] for name, values in table.footer]
    first = "l" if max(map(len, table.terms)) <= LONG_NAME else r"p{0.4\linewidth}"  # which breaks lines
    return "\n".join(
        [
            r"\begin{tabular}{@{}l@{}}",
            r"\begin{tabular}{" + first + "r" * len(table.fits) + "}",
            r"\toprule",
            *map(row, table.head()),
            r"\midrule",
            *map(row, table.body()),
            r"\midrule",
            *map(row, foot),
            r"\bottomrule",
            r"\end{tabular} \\[1ex]",
            r"\begin{minipage}[t]{0.9\linewidth}\footnotesize\raggedright",
            *(rf"{_latex(note)}\par" for note in table.notes),
            r"\end{minipage}",
            r"\end{tabular}",
            "",
        ]
    ).encode()


def _latex(text: str) -> str:
    """Escape a cell. A minus is one, and no hyphen; a cell that begins with [ or * is no option of the line above."""
    plain = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"^-(?=\d)", "$-$", "{}" + plain if plain.startswith(("[", "*")) else plain)


def as_csv(table: ModelTable) -> bytes:
    """A row for each coefficient of each model, with all digits; no number is an empty field.

    Names with which a spreadsheet would begin a formula are in backticks, as in formulas of ours.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = ["estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high"]
    writer.writerow(["model", "response", "term", *keys, "errors", "release"])
    for label, fit in zip(table.labels, table.fits, strict=True):
        for one in fit.tidy().to_dict("records"):
            numbers = ("" if math.isnan(one[key]) else one[key] for key in keys)
            names = (_no_formula(name) for name in (fit.response, one["term"]))
            writer.writerow([label, *names, *numbers, table.errors(fit), table.source(fit)])
    return text.getvalue().encode()


def _no_formula(name: str) -> str:
    return f"`{name}`" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def as_word(table: ModelTable) -> bytes:
    try:
        import docx
        import docx.enum.section
    except ImportError:
        raise ConfError("--to docx needs python-docx. Run: pip install 'dpspark[office]'") from None
    document, rows = docx.Document(), _rows(table)
    section, numbers = document.sections[0], sum(_characters(rows))
    if numbers > _room(section):
        section.page_width, section.page_height = section.page_height, section.page_width
        section.orientation = docx.enum.section.WD_ORIENT.LANDSCAPE
    size = FONT * min(1.0, _room(section) / numbers)
    normal = document.styles["Normal"]
    normal.font.size, normal.paragraph_format.space_after = docx.shared.Pt(size), docx.shared.Pt(0)
    whole, letter = _text_width(section), size * LETTER
    widths = [docx.shared.Pt(count * letter) for count in _characters(rows)]
    widths = [whole - sum(widths), *widths]
    made = document.add_table(rows=len(rows), cols=len(rows[0]))
    made.autofit = False
    for column, width in zip(made.columns, widths, strict=True):
        column.width = width
    for place, cells in zip(made.rows, rows, strict=True):
        for at, (cell, text) in enumerate(zip(place.cells, cells, strict=True)):
            cell.text, cell.width = text, widths[at]
            cell.paragraphs[0].alignment = 0 if at == 0 else 2
    for at in _ruled(table):
        _rule_above(made.rows[at]) if at < len(rows) else _rule_above(made.rows[-1], "bottom")
    for note in table.notes:
        document.add_paragraph(note)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _rule_above(row: Any, side: str = "top") -> None:
    """Draw a line along a row of a Word table."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    for cell in row.cells:
        borders, line = OxmlElement("w:tcBorders"), OxmlElement(f"w:{side}")
        for name, value in {"val": "single", "sz": "6", "space": "0", "color": "auto"}.items():
            line.set(qn(f"w:{name}"), value)
        borders.append(line)
        cell._tc.get_or_add_tcPr().append(borders)


def as_excel(table: ModelTable) -> bytes:
    try:
        import openpyxl
    except ImportError:
        raise ConfError("--to xlsx needs openpyxl. Run: pip install 'dpspark[office]'") from None
    from openpyxl.styles import Alignment, Border, Side

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Regressions"
    rows = _rows(table)
    ruled = {at + 1 for at in _ruled(table)}  # rows count from 1
    for at, cells in enumerate([*rows, *([note] for note in table.notes)], 1):
        for column, text in enumerate(cells, 1):
            place = sheet.cell(at, column)
            place.value, place.data_type = text, "s"  # a name that begins with = is no formula
            wrap = column == 1 and at <= len(rows)
            place.alignment = Alignment(horizontal="left" if column == 1 else "right", vertical="top", wrap_text=wrap)
        if at <= len(rows) and len(cells[0]) > LONG_NAME:
            sheet.row_dimensions[at].height = 15 * math.ceil(len(cells[0]) / (0.8 * LONG_NAME))
        for column in range(1, len(rows[0]) + 1) if at in ruled else ():
            sheet.cell(at, column).border = Border(top=Side("thin"))
    for column, longest in enumerate((max(map(len, cells)) for cells in zip(*rows, strict=True)), 1):
        letter = openpyxl.utils.get_column_letter(column)
        sheet.column_dimensions[letter].width = min(LONG_NAME, 3 + max(10, longest))
    sheet.page_setup.fitToHeight, sheet.sheet_properties.pageSetUpPr.fitToPage = 0, True  # as wide as a page
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _characters(rows: list[list[str]]) -> list[int]:
    """The widths that columns of numbers need, which must not break: their longest cells, and the margins. Responses may."""
    labels, _, *others = rows
    return [2 + max(8, *map(len, cells)) for cells in list(zip(labels, *others, strict=True))[1:]]


def _text_width(section: Any) -> int:
    return section.page_width - section.left_margin - section.right_margin


def _room(section: Any) -> float:
    """How many characters of numbers fit on a line, if names keep a quarter of it."""
    return 0.75 * _text_width(section) / 12_700 / (FONT * LETTER)  # Word counts 12,700 to a point


def _ruled(table: ModelTable) -> list[int]:
    """The rows that a line is above: the first, those of coefficients and of facts, and what is below the last."""
    head, body, foot = len(table.head()), len(table.body()), len(table.footer)
    return [0, head, head + body, head + body + foot]


def _rows(table: ModelTable) -> list[list[str]]:
    return [*table.head(), *table.body(), *([name, *values] for name, values in table.footer)]


WRITERS: dict[str, Callable[[ModelTable], bytes]] = {
    "text": as_text,
    "md": as_markdown,
    "html": as_html,
    "tex": as_latex,
    "csv": as_csv,
    "docx": as_word,
    "xlsx": as_excel,
    "rds": as_rds,
}
