"""`dpspark completion`: a script for a shell."""

from __future__ import annotations

import click


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
