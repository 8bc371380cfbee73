"""`dpspark init`: a conf to fill in, from the schema of Parquet files."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from dpspark.cli.options import complete_files, terminal
from dpspark.errors import ConfError, OutputError
from dpspark.show.progress import listening


@click.command()
@click.option(
    "--parquet",
    metavar="PATH",
    required=True,
    help="A file, a directory, a glob, or s3://...",
    shell_complete=complete_files,
)
@click.option("-o", "--out", metavar="FILE", default="conf.yaml", show_default=True, shell_complete=complete_files)
@click.option("--name", help="Of the release and its dataset; default: by the path.")
@click.option("--force", is_flag=True, help="Write over FILE.")
def init(parquet: str, out: str, name: str | None, force: bool) -> None:
    """Write a commented conf for Parquet files, from their schema alone."""
    with listening(terminal):
        text = write_draft(parquet, out, name, force)
    click.echo(text)


def write_draft(parquet: str, out: str, name: str | None, force: bool) -> str:
    """Write the conf, and say what to do next."""
    from dpspark.bundle.names import plain_name
    from dpspark.source.column_list import list_columns
    from dpspark.source.stores import problem_with
    from dpspark.spec.draft import draft, name_for

    problem = problem_with(parquet)
    if problem is not None:
        raise ConfError(f"--parquet: {problem}")
    try:
        name = name_for(parquet) if name is None else plain_name(name)
    except ValueError as error:
        raise ConfError(f"--name: {error}") from None
    if not force and Path(out).exists():
        raise _there(out)
    columns = list_columns(parquet)
    text = draft(parquet, columns, name)
    try:
        with open(out, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _there(out) from None
    except OSError as error:
        raise OutputError(f"--out {out!r}: {error.strerror}. Choose another file.") from None
    return _next(out, name, len(columns), text)


def _there(out: str) -> OutputError:
    return OutputError(f"--out {out!r} is there already. Choose another file, or add --force to write over it.")


def _next(out: str, name: str, count: int, text: str) -> str:
    from dpspark.spec.conf_file import TODO

    conf = shlex.quote(out)
    active = [line for line in text.splitlines() if TODO in line and not line.lstrip().startswith("#")]
    return "\n".join(
        [
            f"{out}: {count} column{'s' if count != 1 else ''}, by their names and types; no data was read.",
            f"Fill in or remove {len(active)} with a {TODO}. Then:",
            f"  dpspark check {conf}",
            f"  dpspark ledger grant {name} --epsilon 3 --delta 1e-6 --url sqlite:///ledger.db",
            f"  dpspark release {conf} --dry-run",
            f"  dpspark release {conf}",
        ]
    )
