"""Delta and Iceberg tables in a conf: which keys go together, and what is hashed."""

from __future__ import annotations

from typing import Any

import pytest

from dpspark.errors import ConfError
from dpspark.spec.spec import load_spec

DELTA, ICEBERG = {"delta": "lake/people"}, {"iceberg": "lake.db.people"}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({**DELTA, **ICEBERG}, "give exactly one of parquet, delta, iceberg, table and sql"),
        ({**DELTA, "parquet": "people"}, "give exactly one of"),
        ({"version": 3}, "give exactly one of"),
        ({"parquet": "people", "version": 3}, "version is for source.delta"),
        ({**ICEBERG, "version": 3}, "an Iceberg table has a snapshot"),
        ({"table": "people", "snapshot": 3}, "snapshot is for source.iceberg"),
        ({"table": "/data/people"}, "is a path, and a table has a name"),
        ({"table": "s3://bucket/people"}, "is a path, and a table has a name"),
        ({**DELTA, "snapshot": 3}, "a Delta table has a version"),
        ({**DELTA, "version": -1}, "source.version"),
        ({**DELTA, "version": "3"}, "source.version"),
        ({**DELTA, "version": True}, "source.version"),
        ({**ICEBERG, "snapshot": 2**63}, "source.snapshot"),
        ({**ICEBERG, "snapshot": 1.5}, "source.snapshot"),
        ({**DELTA, "reader": "spark"}, r"Use source\.table for a table that Spark is to read"),
        ({**ICEBERG, "reader": "spark"}, r"Use source\.table"),
        ({"sql": "select * from people", "reader": "spark"}, "reader is for parquet and table"),
        ({"dataframe": True, "reader": "spark"}, "reader is for parquet and table"),
        ({"parquet": "people", "reader": "pyarrow"}, "source.reader"),
        ({"delta": "s3://key:secret@bucket/people"}, "a key or password in it"),
        ({"iceberg": "s3://bucket/m.metadata.json?secret_key=1"}, "option 'secret_key' in it"),
        ({"delta": ""}, "source.delta"),
    ],
)
def test_keys_that_do_not_go_together(conf: dict[str, Any], source: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfError, match=why):
        load_spec({**conf, "source": source})


def test_what_is_hashed(conf: dict[str, Any]) -> None:
    """The default reader is not: confs of 0.2.0 keep their hash. Kills: a version that is not in the hash."""
    plain = load_spec({**conf, "source": {"parquet": "people"}})
    assert plain.public()["source"] == {"parquet": "people"}
    assert load_spec({**conf, "source": {"parquet": "people", "reader": "auto"}}).hash == plain.hash
    sources = [
        {"parquet": "people"},
        {"parquet": "people", "reader": "spark"},
        DELTA,
        {**DELTA, "version": 0},
        {**DELTA, "version": 1},
        ICEBERG,
        {**ICEBERG, "snapshot": 8123},
    ]
    specs = [load_spec({**conf, "source": source}) for source in sources]
    assert len({spec.hash for spec in specs}) == len(sources)
    assert [spec.public()["source"] for spec in specs] == sources
    assert {spec.judged_by for spec in specs} == {"files"}
