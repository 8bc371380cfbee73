"""Java's class archive: Spark's classes, read and checked once, kept in the user's cache for faster starts.

`dpspark warm` makes it from made-up rows, so that it holds nothing of any job; releases use one that is there. Java itself
checks that an archive fits, and does without one that does not. It does not see that one is cut short, so the size is kept
beside it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpspark.errors import DpsparkError
from dpspark.spark.java import java_version, version_text
from dpspark.spark.user_cache import belongs_to_user, cache_directories, own_directory

SWITCH = "DPSPARK_CLASS_ARCHIVE"  # off: where 160 MB are too much, or no later run would find them
SPACE = 1 << 30  # free bytes without which none is made
DAY = 86_400.0
UNUSED_DAYS = 30
PATIENCE = 600  # seconds for one run
ELSEWHERE = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")  # Sparks that are not started here
QUIET = "-Xlog:disable"  # Java's warnings would go to our stdout


@contextmanager
def use_archive() -> Iterator[None]:
    """Let a Java that spark-submit starts in this block use the archive, if it is whole and the user's own."""
    path = archive_path()
    if path is None or not is_usable(path):
        yield
        return
    with suppress(OSError):
        for used in (path, _size(path)):
            os.utime(used)
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([_options(path)[1], before or ""]).strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_SUBMIT_OPTS"]
        else:
            os.environ["SPARK_SUBMIT_OPTS"] = before


def drop_archive(error: Exception) -> bool:
    """Remove the archive, if it may be why Java did not start; tell whether there was one."""
    path = archive_path()
    if path is None or not is_usable(path) or "JAVA_GATEWAY_EXITED" not in str(error):
        return False
    with suppress(OSError):
        path.unlink()
    return not path.exists()


def archive_path() -> Path | None:
    """Find where the archive for this Java and this Spark is, or will be. JAVA_HOME must be set."""
    home = os.environ.get("JAVA_HOME", "")
    if os.environ.get(SWITCH, "").lower() == "off" or not home or os.name != "posix":
        return None
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    jars = Path(_find_spark_home(), "jars")
    try:
        listed = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in os.scandir(jars))
    except OSError:
        return None
    known = (os.path.realpath(home), version_text(Path(home, "bin", "java")), pyspark.__version__, str(jars), listed)
    path = cache_directories()[0] / f"spark-{hashlib.sha256(repr(known).encode()).hexdigest()[:20]}.classes"
    return None if any(c in str(path) for c in ":\"'\\ ") else path


def _options(path: Path) -> tuple[str, str]:
    """Write Java's options to make an archive, and those to use it."""
    one_step = java_version(Path(os.environ["JAVA_HOME"], "bin", "java")) >= 25
    making, using = ("AOTCacheOutput", "AOTCache") if one_step else ("ArchiveClassesAtExit", "SharedArchiveFile")
    return f"{QUIET} -XX:{making}={path}", f"{QUIET} -XX:{using}={path}"


def is_usable(path: Path) -> bool:
    """Tell whether an archive is whole and the user's own. It is code: nobody else may have been able to write it."""
    try:
        file, directory = os.lstat(path), os.lstat(path.parent)
        whole = str(file.st_size) == _size(path).read_text()
    except (OSError, UnicodeDecodeError):
        return False
    mine = belongs_to_user(path) and belongs_to_user(path.parent)
    return whole and mine and stat.S_ISREG(file.st_mode) and not (file.st_mode | directory.st_mode) & 0o022


def _size(path: Path) -> Path:
    return path.with_suffix(".size")


def check_place(path: Path) -> None:
    """Refuse a directory that is not the user's own, or has no space; make it if it is not there."""
    try:
        own_directory(path.parent)
        free = shutil.disk_usage(path.parent).free
    except OSError as error:
        why = f"{path.parent}: {error.strerror}" if error.strerror else str(error)
        raise DpsparkError(f"No archive can be kept: {why}. Mend that, or set XDG_CACHE_HOME.") from None
    if free < SPACE and not is_usable(path):
        raise DpsparkError(f"{path.parent} has {free >> 20} MB free, and an archive needs {SPACE >> 20} MB to be made.")


def make_archive(path: Path) -> None:
    """Make the archive. All processes that this takes have ended when it returns, or fails."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")  # renamed when it is whole, and has been seen to work
    try:
        making, using = _options(aside)
        _run(making)
        if not aside.exists():
            raise DpsparkError("This Java wrote no class archive. Releases work without one.")
        _run(using)
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        _size(path).unlink(missing_ok=True)
        os.replace(aside, path)
        _size(path).touch(mode=0o600)
        _size(path).write_text(str(path.stat().st_size))
        _remove_unused(path.parent)
    except OSError as error:
        raise DpsparkError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        for left in (aside, Path(f"{aside}.config")):
            with suppress(OSError):
                left.unlink()


def _run(options: str) -> None:
    """Run some Spark jobs in a process of their own, on a Java with these options."""
    known = {key: value for key, value in os.environ.items() if key not in ELSEWHERE}
    known |= {SWITCH: "off", "SPARK_SUBMIT_OPTS": options}
    known["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(
        ":"
    )
    command = [sys.executable, "-c", "from dpspark.spark.class_archive import run_jobs; run_jobs()"]
    with tempfile.TemporaryDirectory(prefix="dpspark-") as scratch, tempfile.TemporaryFile() as said:
        known |= {"TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch}
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": said}
        process = subprocess.Popen(command, env=known, start_new_session=True, **streams)  # type: ignore[call-overload]
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise DpsparkError(
                f"Spark did not end within {PATIENCE} seconds. Releases work without an archive."
            ) from None
        finally:
            _end_group(process)  # after Ctrl-C too
        if process.returncode:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise DpsparkError(f"Spark failed on made-up rows (exit code {process.returncode}) {' '.join(last)}")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with its Java, which would go on and write the archive; return when all have ended."""
    for _ in range(100):
        process.poll()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            break
        time.sleep(0.02)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


def _end_with_parent() -> None:
    """Wait until stdin ends, as it does when `dpspark warm` ends in any way; then end too, and Java with us."""
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


def run_jobs() -> None:
    """Do what releases do, with a few made-up rows, until Java has ended: only then does it write the archive."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpspark.core.domain import Domain, Numeric
    from dpspark.source.parquet import open_parquet
    from dpspark.spark.exact_sums import exact_gram
    from dpspark.spark.frames import select_columns
    from dpspark.spark.session import spark_session

    columns = (Numeric("x", 0.0, 1.0), Numeric("y", 0.0, 1.0))
    with tempfile.TemporaryDirectory() as home, spark_session("dpspark class archive") as spark:
        path = f"{home}/rows.parquet"
        pq.write_table(pa.table({"x": [0.25, 0.5], "y": [0.5, 0.75]}), path)
        exact_gram(spark, open_parquet(path, columns), Domain(columns))
        exact_gram(spark, select_columns(spark, spark.read.parquet(path), columns, None), Domain(columns))
        java = type(spark.sparkContext)._gateway.proc
    java.stdin.close()
    java.wait()


def _remove_unused(directory: Path) -> None:
    """Remove archives of Sparks and Javas that are gone, and what a killed run left."""
    for pattern, days in (
        ("spark-*.classes", UNUSED_DAYS),
        ("spark-*.size", UNUSED_DAYS),
        ("spark-*.tried", 0),
        (".spark-*", 1),
    ):
        for path in directory.glob(pattern):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > days * DAY:
                    path.unlink()
