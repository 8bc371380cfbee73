"""One Spark Connect server for the tests, and a session on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from server import Server, connect_server

from dpspark.spark.connect import open_session


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its Python has another dpspark, which the one that travels must come before. It keeps no plans."""
    scratch = tmp_path_factory.mktemp("server")
    (scratch / "libraries" / "dpspark").mkdir(parents=True)
    (scratch / "libraries" / "dpspark" / "__init__.py").write_text("raise ImportError('the old dpspark')\n")
    with connect_server(scratch, "spark.connect.session.planCache.enabled=false") as running:
        yield running


@pytest.fixture(scope="session")
def remote(server: Server) -> Iterator[Any]:
    session = open_session(server.url)
    yield session
    session.stop()


@pytest.fixture
def tracts(tmp_path: Path) -> Path:
    """Ranks in 6 tracts of 0 to 100 rows, with nulls; one tract is on no list."""
    rng = np.random.default_rng(4)
    code = np.repeat(np.arange(6), [100, 60, 2, 0, 1, 40])
    x = rng.uniform(0, 1, len(code))
    y = np.clip(0.2 + 0.1 * code + 0.3 * x + rng.normal(0, 0.1, len(code)), -0.2, 1.2)
    x[::17] = np.nan
    table = pa.table({"tract": [*(f"t{c}" for c in code), "elsewhere"], "x": [*x, 0.5], "y": [*y, 0.5]})
    pq.write_table(table, tmp_path / "tracts.parquet", row_group_size=50)
    return tmp_path / "tracts.parquet"
