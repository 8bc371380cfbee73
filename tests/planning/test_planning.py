"""What the noise will be, before any data: against the mechanisms' own numbers and the paper's."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.errors import ConfError
from dpspark.planning import plan
from dpspark.planning.noise import PAPER, even_rows
from tests.conftest import release_of
from tests.registered import MECHANISMS


def seed_conf(conf: dict[str, Any], **privacy: Any) -> dict[str, Any]:
    """The setting of the first paper: three columns, epsilon = 1/100, delta = 2^-16."""
    conf = copy.deepcopy(conf)
    del conf["columns"]["sex"]
    conf["privacy"] = privacy or {"epsilon": 0.01, "delta": 2.0**-16}
    return conf


def test_nine_times_less_noise_than_the_paper(conf: dict[str, Any]) -> None:
    """The default on a scaled off-diagonal entry in original units, at the paper's own setting; the paper's by hand."""
    found = plan(seed_conf(conf))
    assert found.ratio >= 9
    sigma = 4 * math.sqrt(2 * math.log(1.25 * 2**16)) / 0.01
    assert found.option(PAPER).off_diagonal_std == pytest.approx(sigma)
    default = found.option("gaussian").off_diagonal_std
    assert found.ratio == pytest.approx(4 * sigma / default)  # (range / half-range)², for two columns
    ages = found.option(PAPER).entry_std
    assert ages is not None
    expected = sigma * math.sqrt(81**4 + 4 * 81**2 * 18**2 + 18**4)  # x² = (18 + 81·u)²
    assert ages[1, 1] == pytest.approx(expected)
    assert f"{found.ratio:.1f} times less noise" in found.summary()


def test_every_entry_is_what_a_release_states(conf: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(18, 99, 50), "educ": rng.uniform(1, 16, 50), "income": rng.uniform(0, 2e5, 50)}
    for name in ("gaussian", "wishart", "laplace"):
        made = {**seed_conf(conf), "mechanism": {"name": name}}
        if name == "laplace":
            made["privacy"] = {"epsilon": 0.01}
        stated = release_of(made, columns).noise_std().to_numpy()
        found = plan(seed_conf(conf)).option(name)
        assert found.entry_std == pytest.approx(stated)
        assert plan(made).entries().to_numpy() == pytest.approx(stated)


def test_noise_that_grows_with_the_rows(conf: dict[str, Any]) -> None:
    """At expected_rows of evenly spread data the stated noise is the planned one."""
    rng, n = np.random.default_rng(0), 200_000
    made = seed_conf(conf, epsilon=1.0, delta=1e-6)
    made["mechanism"] = {"name": "johnson_lindenstrauss", "rows": 10_000}
    fewer = plan(made, rows=1000)
    made["release"]["expected_rows"] = n
    found = plan(made)
    assert "at 200,000 rows" in found.option("johnson_lindenstrauss").note
    assert (
        found.option("johnson_lindenstrauss").off_diagonal_std > fewer.option("johnson_lindenstrauss").off_diagonal_std
    )
    columns = {"age": rng.uniform(18, 99, n), "educ": rng.uniform(1, 16, n), "income": rng.uniform(0, 2e5, n)}
    stated = release_of(made, columns).noise_std().to_numpy()
    assert found.entries().to_numpy() == pytest.approx(stated, rel=0.1)


def test_even_rows() -> None:
    domain = Domain((Numeric("a", 0, 1), Categorical("s", ("f", "m"))), "midpoint")
    rng = np.random.default_rng(0)
    first = rng.random(200_000) < 0.5
    z = np.column_stack([np.ones(len(first)), rng.uniform(-1, 1, len(first)), first, ~first])
    assert even_rows(domain, len(first)) == pytest.approx(z.T @ z, abs=1500)


@pytest.mark.parametrize(
    ("privacy", "mechanism", "possible"),
    [
        ({"epsilon": 1.0, "delta": 1e-6}, "gaussian", {*MECHANISMS["gram"], PAPER}),
        ({"epsilon": 3.0, "delta": 1e-6}, "wishart", {*MECHANISMS["gram"]}),
        ({"epsilon": 1.0}, "laplace", {"laplace"}),
        ({"rho": 0.1}, "gaussian", {"gaussian"}),
    ],
)
def test_only_what_the_budget_allows(conf: dict[str, Any], privacy: dict, mechanism: str, possible: set[str]) -> None:
    found = plan({**seed_conf(conf, **privacy), "mechanism": {"name": mechanism}})
    assert {option.name for option in found.options if option.possible} == possible
    assert all(option.note for option in found.options if not option.possible)
    shown = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [m["name"] for m in shown["mechanisms"] if m["possible"]] == [o.name for o in found.options if o.possible]
    assert found.chosen == mechanism


def test_joined_rows_leave_two(conf: dict[str, Any]) -> None:
    made = seed_conf(conf)
    made["source"] = {"sql": "select a from t join u using (i)", "rows_per_record": 2}
    found = plan(made)
    assert {option.name for option in found.options if option.possible} == {"gaussian", "laplace", PAPER}
    assert "one row a record" in found.option("wishart").note
    with pytest.raises(ConfError, match="one row a record"):
        plan({**made, "mechanism": {"name": "wishart"}})


def test_what_cannot_be_planned(conf: dict[str, Any]) -> None:
    regression = {**conf["release"], "kind": "regression", "response": "income"}
    one = plan({**conf, "release": regression, "mechanism": {"name": "adassp"}})
    assert [option.name for option in one.options] == list(MECHANISMS["regression"])
    assert "adassp (this conf)" in one.summary()
    json.dumps(one.to_dict(), allow_nan=False)
    pure = plan({**conf, "release": regression, "privacy": {"epsilon": 1}, "mechanism": {"name": "gradient_descent"}})
    assert [option.note for option in pure.options][:2] == ["needs epsilon and delta or rho"] * 2
    assert dpspark.plan(conf).chosen == "gaussian"
    wide = {**conf, "columns": {f"x{i}": {"lower": 0, "upper": 1} for i in range(12)}}
    assert "--json has all" in plan(wide).summary()
    assert math.isnan(plan({**conf, "row_norm": {"mode": "cap", "radius": 1.0}}).ratio)
