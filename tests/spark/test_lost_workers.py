"""Python workers that die again and again, as they do when memory runs out."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

import dpspark
from dpspark.errors import DpsparkError, SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.spark import direct


def test_workers_that_die_every_time(spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: blaming the source, which has nothing wrong with it; retries without end."""

    def die(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(direct, "read_rows", die)
    with pytest.raises(DpsparkError, match="were lost again and again: killed, out of memory") as caught:
        dpspark.release(conf, spark=spark)
    assert not isinstance(caught.value, SourceError)
    assert caught.value.__context__ is None
    assert [entry.state for entry in Ledger(conf["ledger"]["url"]).balances("people")[0].entries] == ["reserved"]
