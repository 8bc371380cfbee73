"""The three calls of Zelig's interface: accuracy and budget are inverses, and the intervals hold."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.errors import ConfError
from tests.conftest import releases_of


def with_mechanism(conf: dict[str, Any], mechanism: dict[str, Any], privacy: dict[str, Any]) -> dict[str, Any]:
    conf = copy.deepcopy(conf)
    del conf["columns"]["sex"]
    conf["mechanism"], conf["privacy"] = mechanism, privacy
    conf["release"]["expected_rows"] = 3000
    return conf


CASES = [
    ({"name": "gaussian"}, {"epsilon": 0.7, "delta": 1e-7}),
    ({"name": "gaussian"}, {"epsilon": 12.0, "delta": 1e-9, "neighbours": "replace_one"}),
    ({"name": "gaussian"}, {"rho": 0.05}),
    ({"name": "laplace"}, {"epsilon": 0.3}),
    ({"name": "johnson_lindenstrauss", "rows": 5000}, {"epsilon": 1.0, "delta": 1e-6}),
    ({"name": "inverse_wishart", "degrees_of_freedom": 5000}, {"epsilon": 1.0, "delta": 1e-6}),
]


@pytest.mark.parametrize(("mechanism", "privacy"), CASES)
@pytest.mark.parametrize(("entry", "jointly"), [(None, False), (("age", "income"), True)])
def test_inverses(conf: dict[str, Any], mechanism: dict, privacy: dict, entry: Any, jointly: bool) -> None:
    """Budget to accuracy to budget, and accuracy to budget to accuracy, to 1e-6."""
    made = with_mechanism(conf, mechanism, privacy)
    accuracy = dpspark.get_accuracy(made, beta=0.1).of(entry, jointly)
    budget = dpspark.get_parameters(made, accuracy, beta=0.1, entry=entry, jointly=jointly)
    key = "rho" if "rho" in privacy else "epsilon"
    assert getattr(budget, key) == pytest.approx(privacy[key], rel=1e-6)
    wanted = 1.7 * accuracy
    budget = dpspark.get_parameters(made, wanted, beta=0.1, entry=entry, jointly=jointly)
    there = {**made, "privacy": {**privacy, key: getattr(budget, key)}}
    assert dpspark.get_accuracy(there, beta=0.1).of(entry, jointly) == pytest.approx(wanted, rel=1e-6)


def test_wishart_to_a_degree_of_freedom(conf: dict[str, Any]) -> None:
    """Its degrees are whole: the budget found reaches the accuracy, and is at most the one that it came from."""
    made = with_mechanism(conf, {"name": "wishart"}, {"epsilon": 1.0, "delta": 1e-6})
    accuracy = dpspark.get_accuracy(made).scaled
    budget = dpspark.get_parameters(made, accuracy)
    assert budget.epsilon is not None
    assert 0.99 < budget.epsilon <= 1 + 1e-9
    assert dpspark.get_accuracy({**made, "privacy": {"epsilon": budget.epsilon, "delta": 1e-6}}).scaled <= accuracy


@pytest.mark.parametrize(
    ("mechanism", "privacy"),
    [*CASES[:1], *CASES[3:5], ({"name": "wishart"}, {"epsilon": 1.0, "delta": 1e-6})],
)
def test_intervals_hold(conf: dict[str, Any], mechanism: dict, privacy: dict) -> None:
    """1500 releases of the same rows: each entry within its half-width 90% of the time, all of them at least 90%.

    Per entry a true 90% is outside 87.5-92.5% with probability below 2e-3; a Laplace mechanism's sums in original units are
    stated a little too wide, and the joint statement is Šidák's bound. Kills: a wrong quantile, a wrong number of entries.
    """
    made = with_mechanism(conf, mechanism, privacy)
    rng = np.random.default_rng(1)
    columns = {"age": rng.uniform(18, 99, 3000), "educ": rng.uniform(1, 16, 3000), "income": rng.uniform(0, 2e5, 3000)}
    raw = np.column_stack([np.ones(3000), *columns.values()])
    accuracy = dpspark.get_accuracy(made, beta=0.1)
    releases = releases_of(made, columns, range(1500))
    errors = np.abs(np.array([rel.second_moment().to_numpy() for rel in releases]) - raw.T @ raw)
    inside = errors <= accuracy.half_widths * 1.0001  # what the grid rounds
    assert (inside.mean(axis=0) > 0.875).all()
    assert (inside.mean(axis=0) < (0.94 if mechanism["name"] == "laplace" else 0.925)).all()
    assert (errors <= accuracy.half_widths_jointly * 1.0001).all(axis=(1, 2)).mean() > 0.885
    scaled = np.array([rel.content.moments.scaled[1, 2] for rel in releases])
    grid = rel_scaled(columns)
    if mechanism["name"] != "johnson_lindenstrauss":
        assert np.mean(np.abs(scaled - grid) <= accuracy.scaled) == pytest.approx(0.9, abs=0.025)
    of_release = dpspark.get_accuracy(releases[0], beta=0.1)
    assert of_release.half_widths == pytest.approx(accuracy.half_widths, rel=0.1)
    assert of_release.scaled == pytest.approx(accuracy.scaled, rel=0.1)


def rel_scaled(columns: dict[str, np.ndarray]) -> float:
    return float(np.sum((columns["age"] - 58.5) / 40.5 * (columns["educ"] - 8.5) / 7.5))


def test_refused(conf: dict[str, Any]) -> None:
    for beta in (0, 1, True, "x"):
        with pytest.raises(ConfError, match="between 0 and 1"):
            dpspark.get_accuracy(conf, beta)  # type: ignore[arg-type]
    for accuracy in (0, -1, float("inf"), "x"):
        with pytest.raises(ConfError, match="a number > 0"):
            dpspark.get_parameters(conf, accuracy)  # type: ignore[arg-type]
    with pytest.raises(ConfError, match="expected two of"):
        dpspark.get_parameters(conf, 1.0, entry=("age", "wealth"))
    with pytest.raises(ConfError, match="not reached"):
        dpspark.get_parameters(conf, 1e-9)
    jl = {**conf, "mechanism": {"name": "johnson_lindenstrauss"}}
    with pytest.raises(ConfError, match="expected_rows"):
        dpspark.get_accuracy(jl)
    with pytest.raises(ConfError, match="No such file"):
        dpspark.get_accuracy("/not/there.yaml")
