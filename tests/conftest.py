"""Shared fixtures. Spark starts on first use, once for the whole run, on two cores."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import yaml
from environments import check_spark
from hypothesis import settings
from object_store import ENVIRONMENT, Bucket, object_store
from postgres import postgres_server

from dpspark.analysis.content.gram import GramContent
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.ledger.ledger import Ledger
from dpspark.published.gram import GramRelease
from dpspark.releasing.manifest import build_manifest, gram_facts
from dpspark.releasing.tables import second_moment_table
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import load_spec
from tests.noises import SeededNoise

settings.register_profile("dpspark", deadline=None)  # no test is of how fast a machine is
settings.load_profile("dpspark")
os.environ.update(ENVIRONMENT)  # of Spark and all other processes that tests start, too


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """A real server of the S3 API on the loopback, for the whole run."""
    with object_store() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(s3_server: str) -> Bucket:
    """An empty bucket of its own, on that server."""
    return Bucket.create(s3_server)


def pytest_configure(config: pytest.Config) -> None:
    check_spark(config.option.markexpr)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from dpspark.spark.session import spark_session

    settings = {
        "spark.master": "local[2,4]",
        "spark.sql.shuffle.partitions": "2",  # small data: fewer empty tasks
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # short tests: little to optimise
    }
    with spark_session("dpspark tests", settings) as session:
        yield session


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL server, for the whole run."""
    with postgres_server() as url:
        yield url


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """An empty database of its own, on that server."""
    name = f"ledger_{uuid.uuid4().hex}"
    server = sa.make_url(postgres_url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    yield server.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty ledger in each kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A small table of people in one Parquet file of several row groups."""
    rng = np.random.default_rng(7)
    n = 40_000
    age, educ = rng.integers(18, 99, n), rng.integers(1, 17, n).astype("int32")
    income = 700 * age + 3000 * educ + rng.lognormal(10, 1, n)
    table = pa.table({"age": age, "educ": educ, "income": income, "sex": rng.choice(["F", "M"], n)})
    path = tmp_path / "people.parquet"
    pq.write_table(table, path, row_group_size=6000)
    return path


@pytest.fixture
def conf(tmp_path: Path, people: Path) -> dict[str, Any]:
    """A valid conf as a dictionary; its ledger has a grant."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger(url).grant("people", epsilon=100.0, delta=1e-3)
    return {
        "source": {"parquet": str(people)},
        "columns": {
            "age": {"lower": 18, "upper": 99},
            "educ": {"lower": 1, "upper": 16},
            "income": {"lower": 0, "upper": 200000},
            "sex": {"categories": ["F", "M"]},
        },
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": {"name": "income", "version": "1"},
        "ledger": {"url": url, "dataset": "people"},
        "output": {"path": str(tmp_path / "releases")},
    }


@pytest.fixture
def conf_file(conf: dict[str, Any], tmp_path: Path) -> str:
    """The same conf in a file."""
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump(conf))
    return str(path)


def income_columns(n: int = 20_000) -> dict[str, Any]:
    """Columns of made-up people for the fixture `conf`, in memory."""
    rng = np.random.default_rng(3)
    age, educ = rng.integers(18, 99, n).astype(float), rng.integers(1, 17, n).astype(float)
    income = 700 * age + 3000 * educ + rng.lognormal(10, 1, n)
    return {"age": age, "educ": educ, "income": income, "sex": rng.choice(["F", "M"], n)}


def release_of(conf: dict[str, Any], columns: dict[str, Any], seed: int = 0) -> GramRelease:
    """A release of some columns without Spark, ledger or disk: real bounding, mechanism and manifest."""
    return releases_of(conf, columns, [seed])[0]


def releases_of(conf: dict[str, Any], columns: dict[str, Any], seeds: Iterable[int]) -> list[GramRelease]:
    """The same rows, released again and again."""
    spec = load_spec(conf)
    mechanism = choose_gram(spec)
    accumulator = GramAccumulator(mechanism.domain)
    arrays = [pa.array(columns[column.name]) for column in mechanism.domain.columns]
    accumulator.add(arrays, len(arrays[0]))
    exact = ExactGram.from_partials(mechanism.domain, [accumulator.finish()])
    found = []
    for seed in seeds:
        noisy = mechanism.release(exact, SeededNoise(np.random.default_rng(seed)))
        tables = {"second_moment": second_moment_table(noisy)}
        manifest = (
            found[0].manifest if found else build_manifest(spec, mechanism, gram_facts(spec, noisy), "test", "none")
        )
        found.append(GramRelease(GramContent(Path("nowhere"), manifest, tables)))
    return found
