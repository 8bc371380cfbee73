"""Sessions at their edges: no Spark at all, one that is stopped, several releases that share one. No JVM."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from dpspark.errors import DpsparkError
from dpspark.ledger.ledger import Ledger
from dpspark.releasing.run import release
from dpspark.spark.session import QUOTING_LOGGERS, silence_logs, use_session, watch_java
from dpspark.spark.settings import forgive_sql
from dpspark.spark.shared_context import Shared

ANSI = "spark.sql.ansi.enabled"
WITHOUT_PYSPARK = "import sys; sys.modules['pyspark'] = None; from dpspark.cli.main import main; main()"


@pytest.mark.parametrize("arguments", [["release"], ["release", "--dry-run"], ["release", "--remote", "sc://nowhere"]])
def test_no_pyspark(conf: dict[str, Any], tmp_path: Path, arguments: list[str]) -> None:
    """Fails on 0.2.0, which said "unexpected ModuleNotFoundError", and nothing at all of a dry run."""
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump(conf))
    command = [sys.executable, "-c", WITHOUT_PYSPARK, *arguments, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 1
    assert "this Python has no pyspark. Run: pip install 'dpspark[spark]'" in done.stderr
    assert Ledger(conf["ledger"]["url"]).find("people", "income", "1") is None


@pytest.mark.parametrize("arguments", [["release"], ["release", "--dry-run"]])
def test_no_opendp(conf: dict[str, Any], tmp_path: Path, arguments: list[str]) -> None:
    """Kills: samplers that are found to be missing when noise is drawn, after the charge."""
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump(conf))
    command = [sys.executable, "-c", WITHOUT_PYSPARK.replace("pyspark", "opendp"), *arguments, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 1
    assert "Run: pip install 'dpspark[spark]'" in done.stderr
    assert Ledger(conf["ledger"]["url"]).find("people", "income", "1") is None


@pytest.mark.parametrize(
    ("python", "said"), [("#!/bin/sh\nexit 1", "does not run"), ("#!/bin/sh\necho 3.7", "is Python 3.7")]
)
def test_a_wrong_python_for_workers(
    conf: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str, said: str
) -> None:
    """Fails on 0.2.0: that was found in the first task, after the charge, and the source was blamed."""
    chosen = tmp_path / "python"
    chosen.write_text(python)
    chosen.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(chosen))
    monkeypatch.setattr("dpspark.spark.session._running_session", lambda: None, raising=False)
    with pytest.raises(DpsparkError, match=said):
        release(conf)
    assert Ledger(conf["ledger"]["url"]).find("people", "income", "1") is None


class Settings(dict[str, str]):
    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]


def fake_spark(stopped: bool = False, gone: bool = False) -> Any:
    """As much of a classic session as these functions ask for."""

    def answer() -> int:
        if gone:
            raise ConnectionRefusedError
        return 1

    level = ["WARN"]
    root = SimpleNamespace(getLevel=lambda: SimpleNamespace(toString=lambda: level[0]))
    log4j = SimpleNamespace(
        LogManager=SimpleNamespace(getRootLogger=lambda: root),
        Level=SimpleNamespace(toLevel=str),
        core=SimpleNamespace(
            config=SimpleNamespace(Configurator=SimpleNamespace(setRootLevel=lambda to: set_level(to)))
        ),
    )

    def set_level(to: str) -> None:
        level[0] = to

    spark = SimpleNamespace(conf=Settings({ANSI: "true"}), level=level)
    spark._jvm = SimpleNamespace(
        java=SimpleNamespace(lang=SimpleNamespace(System=SimpleNamespace(nanoTime=answer))),
        org=SimpleNamespace(apache=SimpleNamespace(logging=SimpleNamespace(log4j=log4j))),
    )
    scala = SimpleNamespace(isStopped=lambda: stopped)
    spark.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala), setLogLevel=set_level)
    spark._jsparkSession = SimpleNamespace(hashCode=lambda: 7)
    return spark


def test_the_last_release_brings_settings_back() -> None:
    """Kills: a release that ends and puts ANSI mode back on while another is at work: a bad cast in it would fail the job,
    which tells of a row. Fails on 0.2.0.
    """
    spark = fake_spark()
    first, second = ExitStack(), ExitStack()
    first.enter_context(forgive_sql(spark))
    second.enter_context(forgive_sql(spark, directories_too=True))
    first.close()
    assert spark.conf[ANSI] == "false"
    with forgive_sql(spark, directories_too=True):
        pass
    assert len(spark.conf) == 2
    second.close()
    assert spark.conf == {ANSI: "true"}


def test_the_last_release_brings_logs_back() -> None:
    """Kills: a release that ends and lets Spark log the rows that another one's tasks fail on. Fails on 0.2.0."""
    spark = fake_spark()
    before = [logging.getLogger(name).disabled for name in QUOTING_LOGGERS]  # pyspark disables one of its own
    first, second = ExitStack(), ExitStack()
    first.enter_context(silence_logs(spark))
    second.enter_context(silence_logs(spark))
    first.close()
    assert spark.level == ["OFF"]
    assert all(logging.getLogger(name).disabled for name in QUOTING_LOGGERS)
    second.close()
    assert spark.level == ["WARN"]
    assert [logging.getLogger(name).disabled for name in QUOTING_LOGGERS] == before


def test_a_context_that_did_not_begin_is_not_shared() -> None:
    tries = []

    @Shared
    @contextmanager
    def shared() -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError
        yield "made"

    with pytest.raises(ValueError), shared():  # noqa: PT011
        pass
    with shared() as one, shared() as other:
        assert (one, other) == ("made", "made")
    assert len(tries) == 2


@pytest.mark.parametrize("state", [{"stopped": True}, {"gone": True}])
def test_a_stopped_session_is_named(state: dict[str, bool]) -> None:
    """Before the charge, and while it works. Fails on 0.2.0, which blamed the source, or lost executors."""
    with pytest.raises(DpsparkError, match="Spark session was stopped"), use_session(fake_spark(**state)):
        pass
    with pytest.raises(DpsparkError, match="while it worked") as caught, watch_java(fake_spark(**state)):
        raise RuntimeError("The source could not be read")
    assert "nothing is charged twice" in str(caught.value)
    with pytest.raises(RuntimeError), watch_java(fake_spark()):
        raise RuntimeError
