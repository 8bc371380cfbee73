"""This package as one zip file: all that executors need beside numpy and pyarrow.

python -m dpspark.spark.executor_zip DIRECTORY     prints the path of the file, for spark-submit --py-files
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from dpspark.version import __version__

LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same sources give the same bytes


def write_zip(directory: str | Path) -> Path:
    """Write dpspark-<version>.zip into a directory, which is made if need be."""
    package = Path(__file__).parents[1]
    target = Path(directory) / f"dpspark-{__version__}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        files = [path for pattern in ("*.py", "*.css", "*.js") for path in package.rglob(pattern)]
        for source in sorted(files):
            name = source.relative_to(package.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), source.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


if __name__ == "__main__":
    print(write_zip(sys.argv[1] if len(sys.argv) > 1 else "dist"))
