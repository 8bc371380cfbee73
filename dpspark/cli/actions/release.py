"""dpspark release: one run, which can be stopped at any moment and run again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

from dpspark.errors import ConfError, DpsparkError
from dpspark.published.release import Release
from dpspark.releasing.rows import Report
from dpspark.releasing.run import release
from dpspark.show.logs import on_stderr, others_silent
from dpspark.spec.spec import Spec, load_spec


def asked_release(conf: str, overrides: tuple[str, ...], pay_count: bool) -> Spec:
    spec = load_spec(conf, overrides)
    if pay_count and spec.count is not None:
        raise ConfError("--pay-count: the conf has a count already, with its own share of the budget. Leave it out.")
    return load_spec(conf, (*overrides, "count={}")) if pay_count else spec


def run_release(
    spec: Spec, out: str | None, url: str | None, remote: str | None, verbose: bool, report: Report
) -> Release:
    with on_stderr() if verbose else nullcontext(), _stopped_cleanly():
        return release(spec, spark=remote, out=out, ledger_url=url, report=_no_report if verbose else report)


def _no_report(step: str) -> None:
    """The log has it."""


def rows_line(manifest: dict[str, Any]) -> str | None:
    """How many rows were used, if the release says so."""
    if "monitoring" not in manifest:
        return None
    rows, std = manifest["monitoring"]["rows"], manifest["monitoring"]["noise_std"]
    paid = any(stage["stage"] == "count" for stage in manifest["privacy"]["spending"])
    about = f"{rows:,}" if std == 0 else f"about {rows:,} (noise: ± {std:.3g})"
    return f"rows used: {about}{'' if paid else '; nothing more was paid for it'}"


@contextmanager
def _stopped_cleanly() -> Iterator[None]:
    """Ctrl-C, and a scheduler's SIGTERM, end Spark too and leave a message. What py4j logs of that helps no one."""
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
