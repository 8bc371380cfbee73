"""`dpspark table`: several regressions of a release, side by side."""

from __future__ import annotations

from pathlib import Path

import click

from dpspark.cli.options import group_option, one_group, release_argument, show_text
from dpspark.errors import ConfError, OutputError

BINARY = ("docx", "xlsx", "rds")


@click.command()
@release_argument
@click.argument("formulas", nargs=-1, required=True)
@click.option(
    "--to",
    "form",
    type=click.Choice(["text", "md", "html", "tex", "csv", "docx", "xlsx", "rds"]),
    default="text",
    show_default=True,
    help="docx, xlsx and rds (models for R's modelsummary) need -o.",
)
@click.option("-o", "--out", metavar="FILE", help="Written to this file, which must not be there yet.")
@group_option
def table(release: str, formulas: tuple[str, ...], form: str, out: str | None, groups: tuple[str, ...]) -> None:
    """Print regressions of one release side by side, with stars and standard errors that include the privacy noise.

    FORMULAS are like 'income ~ age' 'income ~ age + educ'.
    """
    show_table(release, formulas, form, out, groups)


def show_table(release: str, formulas: tuple[str, ...], form: str, out: str | None, groups: tuple[str, ...]) -> None:
    """Run the regressions, and print the table or write it to a file."""
    from dpspark.analysis.model_table import model_table
    from dpspark.interop.table_files import WRITERS
    from dpspark.published.reading import read_release

    if form in BINARY and out is None:
        raise ConfError(f"--to {form} is not for a terminal. Give a file: -o table.{form}")
    found = one_group(read_release(release), groups)
    content = WRITERS[form](model_table([found.regress(formula) for formula in formulas]))
    if out is None:
        show_text(content.decode().rstrip("\n"), headings=form == "text")
        return
    try:
        with Path(out).open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise OutputError(f"--out {out!r} is there already. Choose another name, or remove it.") from None
    except OSError as error:
        raise OutputError(f"--out {out!r}: {error.strerror}. Choose another file.") from None
    click.echo(out)
