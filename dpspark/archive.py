"""Java's class archive: Spark's classes, read and checked once, kept in the user's cache for faster starts.

After the first session of one Java and one Spark a process of low priority makes it, from made-up rows, so that nothing of
any job is in it. Java itself checks that an archive fits and does without one that does not; it does not see that one is cut
short, so that its size is kept beside it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpspark.cache import belongs_to_user, cache_directories, own_directory
from dpspark.java import java_version, version_text

SWITCH = "DPSPARK_CLASS_ARCHIVE"  # off: where 160 MB are too much, or no later run would find them
SPACE = 1 << 30  # free bytes without which none is made
DAY = 86_400.0
UNUSED_DAYS = 30
PATIENCE = 600  # seconds for one run
QUIET = "-Xlog:disable"  # Java's warnings would go to our stdout


@contextmanager
def archived_classes() -> Iterator[None]:
    """A Java that spark-submit starts meanwhile uses the archive, if there is one that is whole and the user's own."""
    path = archive_path()
    if path is None or not _trusted(path):
        yield
        return
    with suppress(OSError):
        for used in (path, _marker(path)):
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


def dropped_archive(error: Exception) -> bool:
    """If Java did not start, an archive may be why: take it away, and say whether there was one."""
    path = archive_path()
    if path is None or not _trusted(path) or "JAVA_GATEWAY_EXITED" not in str(error):
        return False
    with suppress(OSError):
        path.unlink()
    return not path.exists()


def make_archive_meanwhile() -> None:
    """If there is none yet, leave a process behind that makes one."""
    path = archive_path()
    if path is None or _trusted(path) or _tried_lately(path):
        return
    above = str(Path(__file__).parents[1])
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([above, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}
    command = '"$0" -m dpspark.archive </dev/null >/dev/null 2>&1 &'  # a child of no one
    with suppress(OSError):
        subprocess.run(["/bin/sh", "-c", command, sys.executable], env=known, cwd="/", start_new_session=True)


def archive_path() -> Path | None:
    """Where the archive for this Java and this Spark is, or will be. JAVA_HOME must be set."""
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
    """The options to make an archive and to use it."""
    one_step = java_version(Path(os.environ["JAVA_HOME"], "bin", "java")) >= 25
    making, using = ("AOTCacheOutput", "AOTCache") if one_step else ("ArchiveClassesAtExit", "SharedArchiveFile")
    return f"{QUIET} -XX:{making}={path}", f"{QUIET} -XX:{using}={path}"


def _trusted(path: Path) -> bool:
    """An archive is code: one that another user wrote, or could have, is not used. Nor is one that is not whole."""
    try:
        file, directory = os.lstat(path), os.lstat(path.parent)
        whole = str(file.st_size) == _marker(path).read_text()
    except (OSError, UnicodeDecodeError):
        return False
    mine = belongs_to_user(path) and belongs_to_user(path.parent)
    return whole and mine and stat.S_ISREG(file.st_mode) and not (file.st_mode | directory.st_mode) & 0o022


def _marker(path: Path) -> Path:
    return path.with_suffix(".tried")


def _tried_lately(path: Path) -> bool:
    """Somebody is at it, or it did not work: once a day is enough."""
    try:
        return time.time() - _marker(path).stat().st_mtime < DAY
    except OSError:
        return False


def make_archive() -> bool:
    """Make the archive, unless it is there or was tried lately."""
    path = archive_path()
    if path is None or _trusted(path) or _tried_lately(path):
        return False
    own_directory(path.parent)
    if shutil.disk_usage(path.parent).free < SPACE:
        return False
    with suppress(FileNotFoundError):
        _marker(path).unlink()
    try:
        _marker(path).touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    aside = path.with_name(f".{path.name}.{os.getpid()}")  # renamed when it is whole, and has been seen to work
    try:
        making, using = _options(aside)
        done = _run(making) and aside.exists() and _run(using)
        if done:
            with open(aside, "rb") as file:
                os.fsync(file.fileno())
            _marker(path).write_text(str(aside.stat().st_size))
            os.replace(aside, path)
            _remove_unused(path.parent)
        return done
    finally:
        for left in (aside, Path(f"{aside}.config")):
            with suppress(OSError):
                left.unlink()


def _run(options: str) -> bool:
    """Some Spark jobs in a process of their own, on a Java with these options."""
    known = {**os.environ, SWITCH: "off", "SPARK_SUBMIT_OPTS": options}
    program = "from dpspark.archive import run_jobs; run_jobs()"
    try:
        return subprocess.run([sys.executable, "-c", program], env=known, timeout=PATIENCE).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def run_jobs() -> None:
    """What releases do, with a few made-up rows, until Java has ended: only then it writes the archive."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpspark.data.domain import Domain, Numeric
    from dpspark.data.frames import bounded_source
    from dpspark.data.gram import exact_gram
    from dpspark.data.source import open_parquet
    from dpspark.session import spark_session

    columns = (Numeric("x", 0.0, 1.0), Numeric("y", 0.0, 1.0))
    with tempfile.TemporaryDirectory() as home, spark_session("dpspark class archive") as spark:
        path = f"{home}/rows.parquet"
        pq.write_table(pa.table({"x": [0.25, 0.5], "y": [0.5, 0.75]}), path)
        exact_gram(spark, open_parquet(path, columns), Domain(columns))
        exact_gram(spark, bounded_source(spark, spark.read.parquet(path), columns, None), Domain(columns))
        java = type(spark.sparkContext)._gateway.proc
    java.stdin.close()
    java.wait()


def _remove_unused(directory: Path) -> None:
    """Archives of Sparks and Javas that are gone, and what a killed run left."""
    for pattern, days in (("spark-*.classes", UNUSED_DAYS), ("spark-*.tried", UNUSED_DAYS), (".spark-*", 1)):
        for path in directory.glob(pattern):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > days * DAY:
                    path.unlink()


if __name__ == "__main__":
    os.nice(19)
    make_archive()
