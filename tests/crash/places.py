"""A release to run again and again in processes of its own, and what is seen of it from outside."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import driver
import psutil
import pytest
import yaml

from dpspark.bundle.storage import place_of
from dpspark.ledger.ledger import Balance, Ledger

LEDGERS = ("sqlite", "postgres")
PRELOADED = ["driver", "dpspark.cli.main", "dpspark.releasing.run", "pyspark.sql", "opendp.prelude", "psycopg"]


def on_both(*steps: str, less: tuple[str, ...]) -> list[Any]:
    """Every step on both databases; those where the ledger has little part in are slow tests on PostgreSQL."""
    return [
        pytest.param(ledger, step, marks=[pytest.mark.slow] if ledger == "postgres" and step in less else [])
        for ledger in LEDGERS
        for step in steps
    ]


def forking() -> ForkServerContext:
    """New processes that have their imports behind them: a real one for each run, in a fraction of a second."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def gateway_of(spark: Any) -> tuple[int, str]:
    found = spark.sparkContext._gateway.gateway_parameters
    return int(found.port), str(found.auth_token)


def ended(process: ForkServerProcess) -> int:
    process.join(120)
    assert process.exitcode is not None, "still running"
    return process.exitcode


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def stopped(process: ForkServerProcess) -> bool:
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


@dataclass
class Place:
    """One release: its conf, its ledger and its output."""

    conf: dict[str, Any]
    folder: Path
    gateway: tuple[int, str]  # to the Spark of the test session
    logs: list[Path] = field(default_factory=list)
    processes: list[ForkServerProcess] = field(default_factory=list)

    @property
    def output(self) -> Any:
        """A path, or a place in a store."""
        return place_of(self.conf["output"]["path"])

    @property
    def final(self) -> Any:
        return self.output / self.conf["release"]["name"] / self.conf["release"]["version"]

    @property
    def conf_path(self) -> Path:
        path = self.folder / "conf.yaml"
        path.write_text(yaml.safe_dump(self.conf))
        return path

    def start(self, *strikes: str, locks: bool = True) -> ForkServerProcess:
        """A run in a process of its own, on the Spark of the test session. `strikes`: at which step, and how."""
        self.logs.append(self.folder / f"run{len(self.logs)}.log")
        arguments = (["release", str(self.conf_path)], strikes, locks, str(self.logs[-1]), self.gateway)
        process = forking().Process(target=driver.run, args=arguments)
        self.logs[-1].touch()
        process.start()
        self.processes.append(process)
        return process

    def run(self, *strikes: str, locks: bool = True) -> int:
        return ended(self.start(*strikes, locks=locks))

    def start_alone(self, *program: str) -> subprocess.Popen[str]:
        """A Python program with a Spark of its own."""
        root = str(Path(driver.__file__).parents[2])
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        return subprocess.Popen(
            [sys.executable, *program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "PYTHONPATH": root},
        )

    @property
    def log(self) -> str:
        return self.logs[-1].read_text()

    @property
    def balance(self) -> Balance:
        return Ledger(self.conf["ledger"]["url"]).balances(self.conf["ledger"]["dataset"])[0]

    def files(self, folder: Any = None) -> dict[str, str]:
        """The digest of every file of a bundle but `_SUCCESS`."""
        found = [path for path in (folder or self.final).iterdir() if path.name != "_SUCCESS"]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    @property
    def staged(self) -> list[Any]:
        """What is staged, complete or not; a lock that a killed run left is no more than an empty name."""
        found = (self.output / ".staging").iterdir()
        return [path for path in found if not path.name.endswith(".lock") and any(path.iterdir())]
