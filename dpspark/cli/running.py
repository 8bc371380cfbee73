"""How a command runs and ends: errors become one or two lines and an exit code."""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import NoReturn

import click

from dpspark.errors import DpsparkError, printable, without_passwords
from dpspark.show.colour import takes_colour


def run_command(command: click.Command, name: str, arguments: list[str] | None = None) -> NoReturn:
    """Run a command under a name, and exit with its code."""
    _reopen_stderr()
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    try:
        # Accepted anywhere in the line.
        sys.exit(command.main([a for a in given if a != "--debug"], prog_name=name, standalone_mode=False) or 0)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        text = without_passwords(shown.getvalue()).rstrip("\n")
        *usage, last = text.split("\n")
        click.echo("\n".join([*usage, _red(last)]), err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(1)
    except DpsparkError as error:
        _show_frames(error, debug)
        click.echo(_red(f"{name}: {printable(str(error))}"), err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        _show_frames(error, debug)
        # The text of an unforeseen error may quote data.
        click.echo(_red(f"{name}: unexpected {type(error).__name__}. Run again with --debug, and report it."), err=True)
        sys.exit(1)


def _reopen_stderr() -> None:
    """Open stderr where it was closed (2>&-): the next file would take its place, and get what Java writes there."""
    if sys.stderr is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(2, "w")


def _red(message: str) -> str:
    """Colour what comes before the first colon, on a terminal."""
    before, colon, after = message.partition(":")
    return f"{click.style(before + colon, fg='red')}{after}" if takes_colour(sys.stderr) else message


def _show_frames(error: Exception, debug: bool) -> None:
    """Show where it happened, without the texts of other libraries' errors."""
    if debug:
        click.echo("".join(traceback.format_tb(error.__traceback__)), err=True)
        for line in getattr(error, "details", ()):  # of Spark's own error: names alone
            click.echo(line, err=True)
