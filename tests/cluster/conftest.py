"""One cluster for all tests here. All have the mark `cluster`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import exact_job
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from standalone import Cluster, running_cluster

from dpspark.ledger.ledger import Ledger

FILES = 6


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def whole_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def cluster(whole_cluster: Cluster) -> Iterator[Cluster]:
    """With two workers, and no job of an earlier test."""
    whole_cluster.mend()
    yield whole_cluster
    whole_cluster.end_jobs()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """People and tracts in six files each, and a ledger with a grant."""
    rng = np.random.default_rng(7)
    for name in ("people", "tracts"):
        (tmp_path / name).mkdir()
    for i in range(FILES):
        n = 3000
        people = {"age": rng.integers(18, 99, n), "income": rng.lognormal(10, 1, n), "sex": rng.choice(["F", "M"], n)}
        people["person"] = rng.integers(0, 4000, n)  # of whom many have more rows than count
        pq.write_table(pa.table(people), tmp_path / "people" / f"{i}.parquet")
        tracts = {"tract": [f"t{t}" for t in rng.integers(0, 22, n)], "x": rng.random(n), "y": rng.random(n)}
        pq.write_table(pa.table(tracts), tmp_path / "tracts" / f"{i}.parquet")
    Ledger(exact_job.confs(tmp_path)["gram"]["ledger"]["url"]).grant("people", epsilon=2.5, delta=1e-9)
    return tmp_path
