"""`dpspark check` and `dpspark release`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dpspark.cli.options import (
    complete_files,
    conf_argument,
    json_option,
    set_option,
    terminal,
    url_option,
    verbose_option,
)
from dpspark.errors import ConfError, DpsparkError
from dpspark.show.progress import Note, NoteKind, Step, listening
from dpspark.show.terminal import Terminal

if TYPE_CHECKING:
    from dpspark.show.json_lines import ProgressLines


@click.command()
@click.argument("conf", required=False, shell_complete=complete_files)
@set_option
@click.option("--functions", is_flag=True, help="Instead: print what `where` and `expr` may use.")
@json_option
def check(conf: str | None, overrides: tuple[str, ...], functions: bool, as_json: bool) -> None:
    """Validate a conf; read no data."""
    from dpspark.cli.actions.check import check_conf, list_functions

    if functions:
        if conf is not None or overrides:
            raise ConfError("--functions goes without a conf: the list is the same for all.")
        click.echo(list_functions(as_json))
        return
    if conf is None:
        raise click.MissingParameter(param_hint="'CONF'", param_type="argument")
    with listening(terminal):
        text = check_conf(conf, overrides, as_json)
    click.echo(text)


@click.command()
@conf_argument
@click.option("-o", "--out", metavar="DIR", help="Where releases go; default: the conf's output.path.")
@set_option
@url_option
@click.option("--pay-count", is_flag=True, help="Also publish a noisy count of the rows, for 1% of the budget.")
@click.option("--sign-key", metavar="FILE", help="Sign it once published; see dpspark sign.")
@click.option("--remote", metavar="URL", help="Use a Spark Connect server: sc://host:port; default: $SPARK_REMOTE.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, or refused: no data, no Spark, no charge.")
@click.option(
    "--progress",
    type=click.Choice(["auto", "json"]),
    default="auto",
    show_default=True,
    help="auto: a bar on a terminal, nothing in a pipe; json: an object for each step on stderr.",
)
@verbose_option
@json_option
def release(conf: str, verbose: bool, progress: str, **options: Any) -> None:
    """Run a release on Spark, publish it and print its path."""
    if verbose and options["dry_run"]:
        raise ConfError("-v goes without --dry-run, which takes no step that could be logged.")
    if progress == "auto":
        _release(conf, verbose, terminal, **options)
        return
    if verbose:
        raise ConfError("-v goes without --progress json, which has what it logs.")
    from dpspark.show.json_lines import ProgressLines

    lines = ProgressLines()
    try:
        _release(conf, verbose, lines, **options)
    except DpsparkError as error:
        lines.failed(str(error), error.exit_code)
        raise click.exceptions.Exit(error.exit_code) from None
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as error:
        lines.failed(f"unexpected {type(error).__name__}", 1)  # its text may quote data
        raise click.exceptions.Exit(1) from None


def _release(
    conf: str,
    verbose: bool,
    listener: Terminal | ProgressLines,
    out: str | None,
    overrides: tuple[str, ...],
    url: str | None,
    pay_count: bool,
    sign_key: str | None,
    remote: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    from dpspark.cli.actions.release import asked_release, rows_line, run_release

    key = None
    if sign_key is not None:
        from dpspark.cli.actions.verify import signing_key

        key = signing_key(sign_key)  # a key that cannot be used is refused before anything is read
    spec = asked_release(conf, overrides, pay_count)
    listener.about(spec.release.name, spec.release.version)
    if dry_run:
        from dpspark.cli.actions.dry_run import dry_run as run_dry

        with listening(listener):
            text = run_dry(spec, out, url, remote, as_json)
        click.echo(text)
        return
    done = run_release(spec, out, url, remote, None if verbose else listener)
    rows = rows_line(done.manifest)
    if rows is not None:
        listener(Note(NoteKind.ROWS_USED, rows))
    if key is not None:
        from dpspark.cli.actions.verify import sign

        listener(Step(sign(str(done.path), key)))
    listener.finished(str(done.path))
    shown = json.dumps({"path": str(done.path), "manifest": done.manifest}, ensure_ascii=False)
    click.echo(shown if as_json else str(done.path))


COMMANDS = (check, release)
