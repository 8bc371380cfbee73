"""`dpspark load`: a published release as rows of tables, for SQL, dbt and BI. Post-processing: no cost."""

from __future__ import annotations

import click

from dpspark.cli.options import release_argument, report_step, terminal
from dpspark.errors import ConfError
from dpspark.show.progress import Note, NoteKind


@click.command()
@release_argument
@click.option(
    "--tables",
    required=True,
    metavar="TABLES",
    help="catalog.schema of Spark, delta:DIRECTORY or iceberg:catalog.namespace.",
)
@click.option("--replace", is_flag=True, help="Write it again, also in place of another of this name and version.")
@click.option("--remote", metavar="URL", help="Use a Spark Connect server: sc://host:port; default: $SPARK_REMOTE.")
def load(release: str, tables: str, replace: bool, remote: str | None) -> None:
    """Load a release into tables. Once there, it stays as it is."""
    for line in load_release(release, tables, replace, remote):
        click.echo(line)


def load_release(release: str, tables: str, replace: bool, remote: str | None) -> list[str]:
    """Load it, and say how many rows each table has of it."""
    from dpspark.published.reading import read_release
    from dpspark.show.logs import others_silent
    from dpspark.warehouse.load import find_address
    from dpspark.warehouse.load import load as load_tables

    if remote is not None and not find_address(tables).needs_spark:
        raise ConfError("--remote is for tables of Spark's catalog. Leave it out.")
    report_step("reading the release")
    found = read_release(release)
    report_step("loading tables")
    with others_silent():
        loaded = load_tables(found, tables, remote, replace=replace)
    if not loaded.new:
        terminal(Note(NoteKind.LOADED, "it is there already, and was left as it is"))
    return [f"{table}: {rows:,} row{'' if rows == 1 else 's'}" for table, rows in loaded.tables.items()]
