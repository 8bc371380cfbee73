"""`dpspark init` and `dpspark completion`: where to begin."""

from __future__ import annotations

import click

from dpspark.cli.options import complete_files, terminal
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
    from dpspark.cli.actions.init import write_draft

    with listening(terminal):
        text = write_draft(parquet, out, name, force)
    click.echo(text)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets a shell complete dpspark's commands.

    \b
    bash:  dpspark completion bash > ~/.local/share/bash-completion/completions/dpspark
    zsh:   dpspark completion zsh > ~/.zfunc/_dpspark    (with ~/.zfunc in $fpath, before compinit)
    fish:  dpspark completion fish > ~/.config/fish/completions/dpspark.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "dpspark", "_DPSPARK_COMPLETE").source())


COMMANDS = (init, completion)
