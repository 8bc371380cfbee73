"""What each task reads, packed: every task is sent all lists, and unpacks its own."""

from __future__ import annotations

import pickle
import zlib

from dpspark.source.parquet import ParquetPart, ParquetSource


def work_lists(source: ParquetSource, cores: int) -> list[bytes]:
    """List for each task the files and row groups that it reads."""
    tasks = ([(source.parts[part].only(groups), groups) for part, groups in task] for task in source.tasks(cores))
    return [zlib.compress(pickle.dumps(task), 1) for task in tasks]


def unpack(work_list: bytes) -> list[tuple[ParquetPart, list[int]]]:
    return pickle.loads(zlib.decompress(work_list))  # noqa: S301  the driver wrote it
