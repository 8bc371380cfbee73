"""Audits of confs with private bounds of several columns, categories and robust errors."""

from __future__ import annotations

from typing import Any

import pytest

from dpspark.audit.run import conf_jobs, run_job
from dpspark.errors import ConfError
from dpspark.spec.spec import load_spec
from tests.manifests import conf_of

PRIVATE = {"bounds": "private", "search": [0, 1e6]}
HC1: dict[str, Any] = {"release/errors": "hc1", "release/regressions": ["income ~ age + sex"]}


@pytest.mark.parametrize(
    "changes",
    [
        {**HC1, "columns/income": PRIVATE, "columns/age": {"lower": 0, "upper": "private", "search": [0, 1000]}},
        {"release/kind": "regression", "release/response": "income", "release/errors": "hc1"},
        {**HC1, "columns/sex": {"categories": [1, 2]}},
    ],
    ids=["two private columns", "regression", "categories that are numbers"],
)
def test_every_extra_of_a_conf_is_attacked(changes: dict[str, Any]) -> None:
    """A sound product is called broken in fewer than 1 of 1e6 runs. Kills: attacks that stumble over such a conf."""
    jobs = conf_jobs(load_spec(conf_of(changes)))
    assert {"residual bounds", *(["bounds"] if "columns/income" in changes else [])} <= {job.name for job in jobs}
    for job in jobs:
        assert not any(finding.broken for finding in run_job(job, 200, 5e-8))


def test_errors_by_clusters_of_a_conf_are_refused_in_a_sentence() -> None:
    """Kills: a traceback."""
    with pytest.raises(ConfError, match="dpspark audit 'score bounds'"):
        conf_jobs(load_spec(conf_of({"release/errors": {"cluster": "tract"}, "release/regressions": ["income ~ age"]})))
