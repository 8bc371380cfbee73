"""A table of models as a file: text, Markdown, HTML, LaTeX, CSV, Word or Excel."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable

from dpspark.analysis.model_table import ModelTable
from dpspark.errors import ConfError

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def as_text(table: ModelTable) -> bytes:
    return f"{table.summary()}\n".encode()


def as_markdown(table: ModelTable) -> bytes:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(re.sub(r"([\\`*_|<>\[\]])", r"\\\1", cell) for cell in cells) + " |"

    head, *more = table.head()
    rule = "|---|" + "---:|" * len(table.fits)
    rows = [line(cells) for cells in (*more, *table.body(), *([name, *values] for name, values in table.footer))]
    return "\n".join([line(head), rule, *rows, "", *(f"- {note}" for note in table.notes), ""]).encode()


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
    """A table for the package booktabs, to be put into a document by \\input."""

    def row(cells: list[str]) -> str:
        return " & ".join(map(_latex, cells)) + r" \\"

    foot = [[name, *values] for name, values in table.footer]
    return "\n".join(
        [
            r"\begin{tabular}{l" + "r" * len(table.fits) + "}",
            r"\toprule",
            *map(row, table.head()),
            r"\midrule",
            *map(row, table.body()),
            r"\midrule",
            *map(row, foot),
            r"\bottomrule",
            *(
                rf"\multicolumn{{{len(table.fits) + 1}}}{{p{{0.9\linewidth}}}}{{\footnotesize {_latex(n)}}} \\"
                for n in table.notes
            ),
            r"\end{tabular}",
            "",
        ]
    ).encode()


def _latex(text: str) -> str:
    """Escape a cell. A minus is one, and no hyphen; a cell that begins with a bracket is no option of the line above."""
    plain = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"^-(?=\d)", "$-$", "{}" + plain if plain.startswith("[") else plain)


def as_csv(table: ModelTable) -> bytes:
    """A row for each coefficient of each model, with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = ["term", "estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high"]
    writer.writerow(["model", "response", *keys])
    for label, fit in zip(table.labels, table.fits, strict=True):
        for one in fit.tidy().to_dict("records"):
            writer.writerow([label, fit.response, *(one[key] for key in keys)])
    return text.getvalue().encode()


def as_word(table: ModelTable) -> bytes:
    try:
        import docx
    except ImportError:
        raise ConfError("--to docx needs python-docx. Run: pip install 'dpspark[office]'") from None
    document = docx.Document()
    rows = _rows(table)
    made = document.add_table(rows=len(rows), cols=len(rows[0]))
    for place, cells in zip(made.rows, rows, strict=True):
        for at, (cell, text) in enumerate(zip(place.cells, cells, strict=True)):
            cell.text = text
            cell.paragraphs[0].alignment = 0 if at == 0 else 2
    for note in table.notes:
        document.add_paragraph(note)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def as_excel(table: ModelTable) -> bytes:
    try:
        import openpyxl
    except ImportError:
        raise ConfError("--to xlsx needs openpyxl. Run: pip install 'dpspark[office]'") from None
    book = openpyxl.Workbook()
    sheet = book.active
    for at, cells in enumerate([*_rows(table), *([note] for note in table.notes)], 1):
        for column, text in enumerate(cells, 1):
            place = sheet.cell(at, column)
            place.value, place.data_type = text, "s"  # a name that begins with = is no formula
            place.alignment = openpyxl.styles.Alignment(horizontal="left" if column == 1 else "right")
    sheet.column_dimensions["A"].width = 28
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


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
}
