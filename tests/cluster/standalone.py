"""A real standalone cluster on loopback: a master and two workers of one core, each with an address of its own.

The workers' Python has numpy and pyarrow and nothing else: no dpspark, no opendp, no pandas.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import psutil
import pyarrow
import pyspark

from dpspark.spark.java import ensure_java

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SPARK_HOME = Path(pyspark.__file__).parent
RECOMMENDED = ROOT / "conf" / "spark-defaults.conf"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # short-lived JVMs on few cores
ENVIRONMENT = {"SPARK_HOME": str(SPARK_HOME), "SPARK_DAEMON_JAVA_OPTS": QUICK, "OMP_NUM_THREADS": "1"}
DRIVER, WORKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
TASKS = 6  # more than there are cores, so that some are done when others are lost
SETTINGS = {
    "spark.driver.host": DRIVER,
    "spark.driver.bindAddress": DRIVER,
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.ui.enabled": "false",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.cores.max": str(TASKS),  # asked for; there are two
    "spark.sql.files.minPartitionNum": str(TASKS),
    "spark.shuffle.io.retryWait": "200ms",  # a lost executor does not come back
    "spark.speculation": "false",  # else a copy of a task that waits at a gate goes on without it
}


def bare_python(folder: Path) -> Path:
    """An environment with numpy and pyarrow alone, by links to those of the tests."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in (numpy, pyarrow):
        source = Path(package.__file__).parent
        for part in (source, source.with_name(f"{source.name}.libs")):
            if part.exists():
                (packages / part.name).symlink_to(part)
    return folder / "bin" / "python"


def until(what: Callable[[], bool], process: subprocess.Popen[bytes] | None = None, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert process is None or process.poll() is None, "it ended before"
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def ended(process: subprocess.Popen[bytes], seconds: float = 300) -> int:
    return process.wait(seconds)


def _end_with_parent() -> None:
    """Linux: should the tests themselves be killed, nothing of theirs goes on."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                one.kill()


@dataclass
class Daemon:
    """The master or a worker."""

    host: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, pattern: str) -> str:
        found: list[str] = []

        def seen() -> bool:
            match = re.search(pattern, self.log.read_text(errors="replace"))
            found.extend([match[0]] if match else [])
            return match is not None

        until(seen, self.process)
        return found[0]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


@dataclass
class Job:
    """A job by spark-submit, and where its output goes."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def end(self) -> int:
        return ended(self.process)

    @property
    def driver(self) -> psutil.Process:
        """The Python process of the job: a child of spark-submit's JVM."""
        (found,) = (child for child in psutil.Process(self.process.pid).children() if "python" in child.name())
        return found


@dataclass
class Cluster:
    folder: Path
    python: Path  # of the workers
    package: Path  # the zip
    properties: Path
    daemons: list[Daemon] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    url: str = ""

    def start(self) -> None:
        master = self._daemon(DRIVER, "master.Master")
        address = master.wait_for(r"Starting Spark master at spark://[\d.]+:\d+")
        self.url = address.split()[-1]
        self.mend()

    def mend(self) -> None:
        """Two workers, whatever was killed before."""
        self.daemons = [daemon for daemon in self.daemons if daemon.alive]
        there = [daemon.host for daemon in self.daemons]
        more = ("-c", "1", "-m", "2g", "-d", str(self.folder / "work"), self.url)
        for worker in [self._daemon(host, "worker.Worker", *more) for host in WORKERS if host not in there]:
            worker.wait_for("Successfully registered with master")

    def stop(self) -> None:
        self.end_jobs()
        for daemon in self.daemons:
            kill_tree(daemon.process.pid)

    def end_jobs(self) -> None:
        for job in self.jobs:
            kill_tree(job.process.pid)

    def executor_logs(self) -> str:
        found = [path for name in ("stdout", "stderr") for path in (self.folder / "work").rglob(name)]
        return "\n".join(path.read_text(errors="replace") for path in found)

    def _daemon(self, host: str, name: str, *arguments: str) -> Daemon:
        number = len(list(self.folder.glob("*.log")))
        log = self.folder / f"{number}-{name.split('.')[0]}.log"
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        more = ["--host", host, "--port", "0", "--webui-port", "0", "--properties-file", str(self.properties)]
        # Its executors find the bare Python first, and no PYTHONPATH leads them to the sources.
        environment = self._environment(host, PATH=f"{self.python.parent}:{os.environ['PATH']}")
        self.daemons.append(Daemon(host, self._popen([*command, *more, *arguments], environment, log), log))
        return self.daemons[-1]

    def _environment(self, host: str, **more: str) -> dict[str, str]:
        ensure_java()
        unwanted = ("SPARK_", "PYSPARK_", "PYTHON")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
        here = {"SPARK_LOCAL_IP": host, "SPARK_PUBLIC_DNS": host, "SPARK_LOCAL_DIRS": str(self.folder / "local")}
        return {**inherited, **ENVIRONMENT, **here, **more}

    def _popen(
        self, command: list[str], environment: dict[str, str], log: Path, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            return subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=cwd or self.folder,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def submit(self, *arguments: str, package: bool = True, cwd: Path | None = None, **settings: str) -> Job:
        """spark-submit: settings as spark_some_name=value, then the program and its arguments."""
        number = len(self.jobs)
        given = {key.replace("_", "."): value for key, value in settings.items()}
        confs = [f"--conf={key}={value}" for key, value in {**SETTINGS, **given}.items()]
        files = ["--py-files", str(self.package)] if package else []
        files += ["--properties-file", str(self.properties)]
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, *files, *confs, *arguments]
        # The driver's Python alone: executors find theirs by themselves. The zip comes before PYTHONPATH, and gives way to it.
        environment = self._environment(DRIVER, PYSPARK_DRIVER_PYTHON=sys.executable, PYTHONPATH=str(ROOT))
        log = self.folder / f"job{number}.out"
        self.jobs.append(Job(self._popen(command, environment, log, cwd), log))
        return self.jobs[-1]


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    from dpspark.spark.executor_zip import write_zip

    for part in ("local", "work"):
        (folder / part).mkdir()
    properties = folder / "spark-defaults.conf"
    properties.write_text(RECOMMENDED.read_text() + f"\nspark.authenticate.secret {secrets.token_hex(16)}\n")
    cluster = Cluster(folder, bare_python(folder / "bare"), write_zip(folder / "dist"), properties)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def executor_of(python_worker: int) -> psutil.Process:
    """The executor's JVM above a Python worker."""
    for process in psutil.Process(python_worker).parents():
        if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
            return process
    raise AssertionError("no executor above it")


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


class Gate:
    """A gate (gates.py) as a test sees it."""

    def __init__(self, folder: Path, job: Job):
        self.folder, self.job = folder, job

    @property
    def begun(self) -> dict[str, int]:
        """The Python workers that came to it, by stage, task and attempt."""
        found = (path for path in self.folder.glob("*-*-*") if path.suffix != ".new")
        return {path.name: int(path.read_text()) for path in found}

    def workers(self, count: int) -> list[int]:
        """Once so many wait, their process ids."""
        until(lambda: len(self.begun) >= count, self.job.process)
        return list(self.begun.values())

    def open(self) -> None:
        (self.folder / "open").touch()
