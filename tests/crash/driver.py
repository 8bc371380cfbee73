"""A driver that kills itself at a step of a release. The product has no hooks for this: functions are wrapped.

Run as `python driver.py STEP HOW CONF` it is `dpspark release CONF` with a Spark of its own.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil

from dpspark.bundle.files import MANIFEST
from dpspark.bundle.storage import StorePath

STEPS = [
    "before reserve",
    "after reserve",
    "mid-read",
    "after noise",
    "mid-stage",
    "before ledger.stage",
    "after ledger.stage",
    "mid-publish",
    "before commit",
    "after commit",
]
ON_DISK = STEPS[5:]  # a draw is on disk before the kill: it is the release


def strike(how: str) -> None:
    """Kill this process, or stop it until it is continued, or end it politely; or kill its JVM, or fill its disk."""
    if how == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return
    pid = os.getpid()
    if how == "java":
        (pid,) = (child.pid for child in psutil.Process().children(recursive=True) if child.name() == "java")
        how = "KILL"
    os.kill(pid, getattr(signal, f"SIG{how}"))


def before(function: Callable[..., Any], how: str) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **more: Any) -> Any:
        strike(how)
        return function(*arguments, **more)

    return wrapped


def after(function: Callable[..., Any], how: str) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **more: Any) -> Any:
        found = function(*arguments, **more)
        strike(how)
        return found

    return wrapped


def once_tasks_run(function: Callable[..., Any], how: str) -> Callable[..., Any]:
    """While the executors read: a task says when it begins, and then takes two seconds."""
    from dpspark.spark import direct

    read_rows = direct.read_rows
    begun = os.path.join(tempfile.mkdtemp(), "begun")

    def read_slowly(*arguments: Any) -> Any:
        open(begun, "w").close()
        time.sleep(2)
        return read_rows(*arguments)

    def strike_when_begun() -> None:
        while not os.path.exists(begun):
            time.sleep(0.01)
        strike(how)

    def wrapped(*arguments: Any, **more: Any) -> Any:
        direct.read_rows = read_slowly  # a nested function: it travels to the executors as it is
        threading.Thread(target=strike_when_begun, daemon=True).start()
        return function(*arguments, **more)

    return wrapped


def on_success_file(function: Callable[..., Any], how: str) -> Callable[..., Any]:
    def wrapped(path: Path, *arguments: Any, **more: Any) -> Any:
        if path.name == "_SUCCESS":
            strike(how)
        return function(path, *arguments, **more)

    return wrapped


def on_writing(what: Callable[[StorePath], bool]) -> Callable[[Callable[..., Any], str], Callable[..., Any]]:
    """Before a file is put into a store."""

    def wrapper(function: Callable[..., Any], how: str) -> Callable[..., Any]:
        def wrapped(path: StorePath, content: bytes) -> None:
            if what(path):
                strike(how)
            function(path, content)

        return wrapped

    return wrapper


def is_staged(path: StorePath) -> bool:
    return ".staging" in path.key


def arm(step: str, how: str = "KILL") -> None:
    """Strike at this step of the next release."""
    from dpspark.bundle import files as bundle
    from dpspark.ledger.ledger import Ledger
    from dpspark.releasing import rows as reading
    from dpspark.releasing import run as pipeline
    from dpspark.warehouse.delta_store import DeltaStore
    from dpspark.warehouse.store import TableStore

    where: dict[str, tuple[Any, str, Callable[..., Any]]] = {
        "before reserve": (Ledger, "reserve", before),
        "after reserve": (Ledger, "reserve", after),
        "mid-read": (reading, "exact_gram", once_tasks_run),
        "after noise": (pipeline, "make", after),
        "before stage": (pipeline, "stage", before),
        "mid-stage": (bundle.pq, "write_table", after),  # the first of two tables
        "before ledger.stage": (Ledger, "stage", before),
        "after ledger.stage": (Ledger, "stage", after),
        "mid-publish": (Path, "touch", on_success_file),
        "before commit": (Ledger, "commit", before),
        "after commit": (Ledger, "commit", after),
        "before the tables": (TableStore, "load", before),
        "between the tables": (DeltaStore, "replace", after),  # the first of two
        "between tables": (StorePath, "write_bytes", on_writing(lambda p: is_staged(p) and p.name == "scaled.parquet")),
        "before the manifest": (StorePath, "write_bytes", on_writing(lambda p: is_staged(p) and p.name == MANIFEST)),
        "between copies": (StorePath, "write_bytes", on_writing(lambda p: not is_staged(p) and p.stem == "scaled")),
        "before its manifest": (
            *(StorePath, "write_bytes"),
            on_writing(lambda p: not is_staged(p) and p.name == MANIFEST),
        ),
        "before _SUCCESS": (StorePath, "write_bytes", on_writing(lambda p: p.name == "_SUCCESS")),
    }
    owner, name, wrapper = where[step]
    setattr(owner, name, wrapper(getattr(owner, name), how))


def without_locks() -> None:
    """As on a file system that has none, or on two machines."""
    from dpspark.releasing import run as pipeline

    pipeline.taking_turns = lambda lock, report: nullcontext()  # type: ignore[assignment,misc]


def run(arguments: list[str], strikes: tuple[str, ...], locks: bool, log: str, gateway: tuple[int, str]) -> None:
    """In a new process: `dpspark ARGUMENTS`, on the Spark of a JVM that is there already."""
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    join(*gateway)
    if strikes:
        arm(*strikes)
    if not locks:
        without_locks()
    from dpspark.cli.main import main

    main(arguments)


def join(port: int, secret: str) -> None:
    """The active session of this process is one of the JVM behind the gateway."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    gateway = launch_gateway()
    scala = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(scala)
    conf = SparkConf(_jvm=gateway.jvm, _jconf=java.getConf())
    SparkSession(SparkContext(conf=conf, gateway=gateway, jsc=java))


if __name__ == "__main__":
    arm(sys.argv[1], sys.argv[2])
    from dpspark.cli.main import main

    main(["release", *sys.argv[3:]])
