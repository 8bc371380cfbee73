"""A release with little data, whose ledger has a grant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from places import Place, gateway_of

from dpspark.ledger.ledger import Ledger


@pytest.fixture
def place(tmp_path: Path, ledger_url: str, spark: Any) -> Iterator[Place]:
    rng = np.random.default_rng(7)
    table = pa.table({"age": rng.integers(18, 99, 2000), "income": rng.lognormal(10, 1, 2000)})
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=500)
    Ledger(ledger_url).grant("people", epsilon=1.5, delta=1e-9)
    conf = {
        "source": {"parquet": str(tmp_path / "people.parquet")},
        "columns": {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 200000}},
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": {"name": "income", "version": "1"},
        "ledger": {"url": ledger_url, "dataset": "people"},
        "output": {"path": str(tmp_path / "releases")},
    }
    place = Place(conf, tmp_path, gateway_of(spark))
    yield place
    for process in place.processes:
        process.kill()  # those that a failed test left
