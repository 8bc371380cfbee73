"""`dpspark release`: one run, which can be stopped at any moment and run again."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from dpspark.cli.options import (
    conf_argument,
    json_option,
    set_option,
    terminal,
    url_option,
    verbose_option,
)
from dpspark.errors import ConfError, DpsparkError
from dpspark.show.progress import Listener, Note, NoteKind, Step, listening
from dpspark.show.terminal import Terminal

if TYPE_CHECKING:
    from dpspark.published.release import Release
    from dpspark.show.json_lines import ProgressLines
    from dpspark.spec.spec import Spec


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
    key = None
    if sign_key is not None:
        from dpspark.cli.sign import signing_key

        key = signing_key(sign_key)  # a key that cannot be used is refused before anything is read
    spec = asked_release(conf, overrides, pay_count)
    listener.about(spec.release.name, spec.release.version)
    if dry_run:
        from dpspark.cli.dry_run import dry_run as run_dry

        with listening(listener):
            text = run_dry(spec, out, url, remote, as_json)
        click.echo(text)
        return
    done = run_release(spec, out, url, remote, None if verbose else listener)
    rows = rows_line(done.manifest)
    if rows is not None:
        listener(Note(NoteKind.ROWS_USED, rows))
    if key is not None:
        from dpspark.cli.sign import sign_published

        listener(Step(sign_published(str(done.path), key)))
    listener.finished(str(done.path))
    shown = json.dumps({"path": str(done.path), "manifest": done.manifest}, ensure_ascii=False)
    click.echo(shown if as_json else str(done.path))


def asked_release(conf: str, overrides: tuple[str, ...], pay_count: bool) -> Spec:
    """Read the conf, with a noisy count if one is asked for."""
    from dpspark.spec.spec import load_spec

    spec = load_spec(conf, overrides)
    if pay_count and spec.count is not None:
        raise ConfError("--pay-count: the conf has a count already, with its own share of the budget. Leave it out.")
    return load_spec(conf, (*overrides, "count={}")) if pay_count else spec


def run_release(spec: Spec, out: str | None, url: str | None, remote: str | None, listener: Listener | None) -> Release:
    """Run it, heard by a listener; without one, its steps are logged on stderr."""
    from dpspark.releasing.run import release as run
    from dpspark.show.logs import on_stderr

    with on_stderr() if listener is None else listening(listener), _stopped_cleanly():
        return run(spec, spark=remote, out=out, ledger_url=url, report=_ignore if listener is None else None)


def _ignore(text: str) -> None:
    """Say nothing: the log has it."""


def rows_line(manifest: dict[str, Any]) -> str | None:
    """Say how many rows were used, if the release does."""
    if "monitoring" not in manifest:
        return None
    rows, std = manifest["monitoring"]["rows"], manifest["monitoring"]["noise_std"]
    paid = any(part["stage"] == "count" for part in manifest["privacy"]["spending"])
    about = f"{rows:,}" if std == 0 else f"about {rows:,} (noise: ± {std:.3g})"
    return f"rows used: {about}{'' if paid else '; nothing more was paid for it'}"


@contextmanager
def _stopped_cleanly() -> Iterator[None]:
    """Ctrl-C, and a scheduler's SIGTERM, end Spark too and leave a message. What py4j logs of that helps no one."""
    from dpspark.show.logs import others_silent

    told = threading.Event()

    def interrupt(number: int, frame: Any) -> NoReturn:
        told.set()
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, interrupt) if in_main else None
    try:
        with others_silent():
            yield
    except KeyboardInterrupt:
        pass
    except Exception:  # what py4j made of the interrupt
        if not told.is_set():
            raise
    else:
        return
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, before)
    raise DpsparkError("stopped. Run the same release again to go on: nothing is charged twice.")
