"""Numbers of rows of groups, and cells of rows around lines: sensitivity through the real reading code, noise as drawn."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpspark.core.domain import Domain, GroupKey, Numeric
from dpspark.core.facts import Facts
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.line_cells import LineCells
from dpspark.mechanisms.counts.groups import GroupCounts
from dpspark.mechanisms.lines.base import LineProblem
from dpspark.mechanisms.lines.plane import Plane, line_fit, no_fit
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Gaussian, Pure
from dpspark.privacy.noise import OpenDPNoise
from dpspark.privacy.sensitivity import group_counts, line_cells
from dpspark.spark.group_counts import row_cells, scaled_lines
from dpspark.spark.groups import GroupList, row_reader
from dpspark.spec.charges import charged_events
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec, load_spec
from tests.noises import RecordedNoise

DOMAIN = Domain((Numeric("x", 0, 10), Numeric("y", -1, 1)), "drop_row", keys=(GroupKey("g"),))
PLANE = Plane((0.0, 10.0), (-1.0, 1.0))
GROUPS = GroupList([("a",), ("b",)])
CELLS = LineCells(4, 0.2)
LINES = scaled_lines(PLANE, [line_fit(PLANE, PLANE.joint_anchors, (0.2, 0.8)), no_fit(PLANE)])
ROWS = list(itertools.product([-math.inf, 2.0, math.nan], [-0.9, 0.7, None], ["a", "b", "z", None]))
ADDED, REPLACED = Records("added", grouped=True), Records("replaced", grouped=True)
MOVED = Records("replaced", moves=True, grouped=True)
PERSON = Records("either", 3, grouped=True)


def counted(rows: list[tuple[Any, ...]]) -> np.ndarray:
    """Read rows as tasks do, and count them by group and by cell."""
    x, y, g = zip(*rows, strict=True) if rows else ((), (), ())
    batch = pa.record_batch(
        [pa.array(x, pa.float64()), pa.array(y, pa.float64()), pa.array(g, pa.string())], list("xyg")
    )
    found = [np.zeros(2, dtype=np.int64), np.zeros(CELLS.count, dtype=np.int64)]
    for read in row_reader(DOMAIN, GROUPS)(iter([batch])):
        code, at, up = (read.column(i).to_numpy() for i in range(3))
        found[0] += np.bincount(code, minlength=2)
        found[1] += np.bincount(row_cells(PLANE, CELLS, LINES, code, at, up), minlength=CELLS.count)
    return np.concatenate(found)


def changes(records: Records) -> list[np.ndarray]:
    """List what a record can do to all counts: its rows come and go, or others stand in their place."""
    all_rows = [counted([row] * records.rows) for row in ROWS]
    before = [counted([])] if records.change == "added" else all_rows
    found = [after - b for after in all_rows for b in before]
    if records.change == "replaced" and not records.moves:  # in its group, and never dropped
        found = [each for each in found if not each[:2].any()]
    return found


@pytest.mark.parametrize("records", [ADDED, Records("added", 3, grouped=True), REPLACED, MOVED, PERSON])
@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2)])
def test_sensitivity(records: Records, norm: str, order: int) -> None:
    """Kills: 1 for a row that moves, or for a person of three rows; cells that a replaced row moves once."""
    found = changes(records)
    groups, cells = (
        max(float(np.linalg.norm(each[part], order)) for each in found) for part in (slice(2), slice(2, None))
    )
    assert group_counts(norm, records) == pytest.approx(groups, rel=1e-12)
    assert line_cells(norm, records) == pytest.approx(cells, rel=1e-12)


def problem(records: Records, **more: Any) -> LineProblem:
    return LineProblem.of(DOMAIN, records, by_group=True, expected_rows=100, **more)


def exact(mechanism: GroupCounts) -> ExactHistogram:
    axes = mechanism.axes(2)
    return ExactHistogram(axes, [np.zeros(axis.cells, dtype=np.int64) for axis in axes])


@pytest.mark.parametrize("records", [ADDED, MOVED, PERSON, REPLACED])
def test_the_price_by_an_independent_route(records: Records) -> None:
    """The largest log-ratio of scipy's discrete Laplace law, over all that a record can do: no more than epsilon, and nearly.

    Kills: a scale that is 1% too small or too large, in either part; one budget spent twice.
    """
    noise, budget = RecordedNoise(), Budget(0.4, 0.0)
    mechanism = GroupCounts.for_budget(problem(records), budget, 500)
    mechanism.release(exact(mechanism), noise)
    scales = noise.scales if not records.public_rows else [math.inf, *noise.scales]
    worst = max(
        sum(float(abs(part).sum()) / scale for part, scale in zip((change[:2], change[2:]), scales, strict=True))
        for change in changes(records)
    )
    law = stats.dlaplace(1 / scales[1])  # a shift by k costs k/scale, and no more
    assert law.logpmf(0) - law.logpmf(2) == pytest.approx(2 / scales[1])
    assert 0.4 * 0.99 < worst <= 0.4 * (1 + 1e-9)
    assert mechanism.cost().pure == pytest.approx(worst, rel=1e-9)
    assert mechanism.cost().within(budget)


def test_in_rho_it_is_gaussian() -> None:
    noise = RecordedNoise()
    mechanism = GroupCounts.for_budget(problem(MOVED), Budget(rho=0.02), 500)
    mechanism.release(exact(mechanism), noise)
    found = max(
        (np.linalg.norm(change[:2]) / noise.scales[0]) ** 2 / 2
        + (np.linalg.norm(change[2:]) / noise.scales[1]) ** 2 / 2
        for change in changes(MOVED)
    )
    assert 0.02 * 0.99 < found <= 0.02
    assert all(isinstance(event, Gaussian) for event in mechanism.events())


@pytest.mark.parametrize("budget", [Budget(0.005, 0.0), Budget(rho=2e-5)])
def test_draws_have_the_stated_law(budget: Budget) -> None:
    """KS against the continuous law, which is the same at this scale; false alarm 1e-7. Kills: 0.7 and 1.3 times the scale."""
    mechanism = GroupCounts.for_budget(problem(ADDED), budget, 500)
    axes = mechanism.axes(40_000)
    noisy = mechanism.release(
        ExactHistogram(axes, [np.zeros(axis.cells, dtype=np.int64) for axis in axes]), OpenDPNoise()
    )
    law = stats.norm if budget.rho else stats.laplace
    draws = np.array(noisy.rows)
    assert stats.kstest(draws, law(scale=mechanism.scale).cdf).pvalue > 1e-7
    for factor in (0.7, 1.3):
        assert stats.kstest(draws, law(scale=factor * mechanism.scale).cdf).pvalue < 1e-6
    assert draws.std() == pytest.approx(noisy.noise_std, rel=0.1)  # 9 standard errors or more


@pytest.mark.parametrize("records", [ADDED, REPLACED])
def test_it_is_read_back(records: Records) -> None:
    mechanism = GroupCounts.for_budget(problem(records), Budget(1.0, 0.0), 500)
    facts = Facts(mechanism.facts(), "")
    again = GroupCounts.from_facts(problem(records), facts, Budget(1.0, 0.0))
    assert again == mechanism
    assert again.differences(facts) == ()
    wrong = {**mechanism.facts(), "cells": {**mechanism.facts()["cells"], "scale": mechanism.cells_scale / 2}}
    assert GroupCounts.from_facts(problem(records), Facts(wrong, ""), Budget(1.0, 0.0)).cost().pure > 1  # type: ignore[operator]


def test_cells_are_fewer_where_rows_are() -> None:
    counts = [
        GroupCounts.for_budget(problem(ADDED), Budget(0.1, 0.0), groups).cells.x_cells for groups in (1, 700, 70_000)
    ]
    assert counts == [1, 6, 8]


CONF = {
    "source": {"parquet": "p"},
    "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
    "privacy": {"epsilon": 1.0},
    "release": {
        "name": "r",
        "version": "1",
        "kind": "theil_sen",
        "x": "x",
        "y": "y",
        "group_by": ["g"],
        "groups": ["a"],
    },
    "ledger": {"dataset": "d"},
}


def spec_of(release: dict[str, Any], **more: Any) -> Spec:
    return load_spec({**CONF, **more, "release": {**CONF["release"], **release}})  # type: ignore[dict-item]


def test_it_is_charged() -> None:
    """Kills: counts published and not charged; a default other than a tenth."""
    spec, without = spec_of({"group_counts": {}}), spec_of({})
    events, fewer = (charged_events(each, choose(each)) for each in (spec, without))
    assert len(events) == len(fewer) + 1
    assert isinstance(events[0], Pure)
    assert events[0].epsilon == pytest.approx(0.1)
    assert spec.release_budget.epsilon == pytest.approx(0.9)
    assert spec.hash != without.hash
    assert "group_counts" not in without.public()["release"]


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ({"group_by": None, "groups": None}, "group_counts is for lines by group"),
        ({"kind": "gram", "x": None, "y": None}, "group_counts is for kind theil_sen"),
        ({"group_by": ["rows"]}, "'rows' is a column of the release's own tables"),
        ({"group_by": ["raw"]}, "'raw' is a column of the release's own tables"),
        ({"group_counts": {"epsilon_share": 1.5}}, "epsilon_share"),
    ],
)
def test_it_is_refused_where_it_does_not_apply(release: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfError, match=said):
        spec_of({"group_counts": {}, **release})


def test_a_column_of_version_0_2_keeps_its_name() -> None:
    for name in ("rows", "raw", "target"):
        assert spec_of({"group_by": [name]}).release.group_by == (name,)
