"""One Spark 3.5 for all of these tests, with Iceberg's runtime, a Hive metastore and S3A."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_store import ENVIRONMENT

from tests.lake.servers import hive_metastore

ICEBERG = "smfs.shaded.org.apache.iceberg.spark"  # a copy under another name, in Amazon's package


def jars_of(package: str, pattern: str) -> list[str]:
    found = find_spec(package)
    if found is None or found.submodule_search_locations is None:
        pytest.exit(f"{package} is not here: run `make test-lake`", returncode=4)
    jars = [str(path) for path in Path(next(iter(found.submodule_search_locations)), "jars").glob(pattern)]
    assert jars, f"no {pattern} in {package}"
    return jars


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, s3_server: str) -> Iterator[Any]:
    from dpspark.spark.session import spark_session

    home = tmp_path_factory.mktemp("lake é")
    jars = jars_of("feature_store_pyspark", "*-3.5.jar")
    stores = jars_of("sagemaker_pyspark", "hadoop-aws-*.jar") + jars_of(
        "sagemaker_pyspark", "aws-java-sdk-bundle-*.jar"
    )
    s3a = {
        "fs.s3a.endpoint": f"http://{s3_server}",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": ENVIRONMENT["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
    }
    # That package leaves out the file by which Spark finds Iceberg under the name that its own clean-ups use.
    services = home / "classes" / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.spark.sql.sources.DataSourceRegister").write_text(f"{ICEBERG}.source.IcebergSource\n")
    with hive_metastore(tmp_path_factory.mktemp("hive"), stores, s3a) as metastore:
        settings = {
            "spark.master": "local[2,4]",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.extraClassPath": ":".join([*jars, *stores, str(home / "classes")]),
            "spark.sql.extensions": f"{ICEBERG}.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": f"{ICEBERG}.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(home / "iceberg"),
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.hadoop.hive.metastore.uris": metastore,
            **{f"spark.hadoop.{name}": value for name, value in s3a.items()},
        }
        with spark_session("dpspark lake tests", settings) as session:
            yield session


@pytest.fixture(scope="session")
def rows() -> pa.Table:
    """Made-up people, with nulls, NaN and infinities."""
    rng = np.random.default_rng(11)
    n = 6000
    income = rng.lognormal(10, 1, n)
    income[:3] = [np.nan, np.inf, -np.inf]
    return pa.table(
        {
            "id": np.arange(n),
            "person": rng.integers(0, 2500, n),
            "age": rng.integers(18, 99, n),
            "educ": pa.array(rng.integers(1, 17, n).astype("int32"), mask=rng.random(n) < 0.05),
            "income": pa.array(income, mask=rng.random(n) < 0.05),
            "sex": pa.array(rng.choice(["F", "M"], n), mask=rng.random(n) < 0.05),
            "day": pa.array(rng.integers(18_000, 18_100, n).astype("int32"), pa.date32()),
        }
    )


@pytest.fixture(scope="session")
def rows_file(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(rows, path, row_group_size=1500)
    return path
