"""How much `python -m benchmarks scale` measures, quick and full."""

from __future__ import annotations

from dataclasses import dataclass

STUDIES = ("rows", "columns", "files", "cores", "tree")


@dataclass(frozen=True)
class Sizes:
    rows_columns: int  # of the studies of rows and of cores
    generated_rows: tuple[int, ...]
    parquet_rows: tuple[int, ...]  # each a multiple of the first
    columns: tuple[int, ...]
    columns_rows: int
    files: tuple[int, ...]
    files_rows: int
    files_columns: int
    cores_rows: int
    tree_columns: int
    tree_partitions: tuple[int, ...]
    empty_tasks: int
    enough_seconds: float  # a point is measured again, up to three times, until so much time went into it


FULL = Sizes(
    rows_columns=20,
    generated_rows=(1_000_000, 4_000_000, 16_000_000, 64_000_000, 200_000_000),
    parquet_rows=(1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000, 32_000_000),
    columns=(5, 10, 20, 50, 100, 200, 500),
    columns_rows=200_000,
    files=(1, 10, 100, 1_000, 5_000, 20_000),
    files_rows=2_000_000,
    files_columns=5,
    cores_rows=8_000_000,
    tree_columns=500,
    tree_partitions=(1_000, 3_000, 10_000),
    empty_tasks=200,
    enough_seconds=15.0,
)
QUICK = Sizes(
    rows_columns=20,
    generated_rows=(50_000, 200_000, 800_000),
    parquet_rows=(50_000, 200_000, 800_000),
    columns=(5, 20, 80, 200),
    columns_rows=10_000,
    files=(1, 20, 400),
    files_rows=20_000,
    files_columns=5,
    cores_rows=400_000,
    tree_columns=500,
    tree_partitions=(10, 40, 80),
    empty_tasks=20,
    enough_seconds=1.0,
)


def disk_bytes(sizes: Sizes, studies: tuple[str, ...]) -> int:
    """Disk that the largest study takes: data, or what Spark's shuffles write."""
    width = sizes.tree_columns + 1
    needed = {
        "rows": 8 * sizes.rows_columns * sizes.parquet_rows[-1],
        "columns": 8 * sizes.columns[-1] * sizes.columns_rows,
        "files": 16 * sizes.files_columns * sizes.files_rows + 8192 * sum(sizes.files),
        "cores": 8 * sizes.rows_columns * sizes.cores_rows,
        "tree": 8 * width * (width + 1) * sizes.tree_partitions[-1],
    }
    return int(1.25 * max(needed[study] for study in studies)) + (64 << 20)
