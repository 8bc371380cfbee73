"""What lines are charged with: by exact laws of neighbours that go through the real bounding code, and read back from facts."""

from __future__ import annotations

import json
import math
from typing import Any

import dp_accounting
import numpy as np
import pytest

from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Records
from dpspark.mechanisms.lines.auto import AutoLines
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.depth import line_depths
from dpspark.mechanisms.lines.gram import GramLines
from dpspark.mechanisms.lines.huber import UNIT
from dpspark.mechanisms.lines.interval import PaidInterval
from dpspark.mechanisms.lines.plane import Plane, line_fit
from dpspark.mechanisms.registry import line_of_kernel
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import cost_of
from dpspark.privacy.events import Exponential, Gaussian, Pure
from tests.lines import NAMES, calibrate, with_interval

PLANE = Plane((0.0, 1.0), (0.0, 1.0))
BUDGETS = [Budget(0.7, 0.0), Budget(0.7, 1e-6), Budget(rho=0.1)]
RECORDS = [
    Records(change, rows, moves)  # type: ignore[arg-type]
    for change in ("added", "replaced", "either")
    for rows in (1, 3)
    for moves in (False, True)
    if not (moves and change == "added")
]


def made(name: str, budget: Budget, records: Records) -> LineMechanism | None:
    """None: not for these records, or not for this budget."""
    line = line_of_kernel(name)
    assert line is not None
    needs_public = name in ("all_pairs", "smooth_sensitivity")
    if (needs_public and not records.public_rows) or (name == "gaussian" and budget.rho is None and not budget.delta):
        return None
    return calibrate(name, PLANE, budget, records)


def facts_of(mechanism: Any) -> Facts:
    return Facts(json.loads(json.dumps(mechanism.facts())), "mechanism")


def close(one: Any, other: Any) -> bool:
    return type(one) is type(other) and all(
        math.isclose(getattr(one, key), getattr(other, key), rel_tol=1e-9) for key in one.__dataclass_fields__
    )


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_facts_read_back_are_charged_the_same(name: str, budget: Budget) -> None:
    """Kills: a scale that is not read, a sensitivity of other records, draws that are not counted."""
    for records in RECORDS:
        mechanism = made(name, budget, records)
        if mechanism is None:
            continue
        facts = facts_of(mechanism)
        for reader in (type(mechanism), AutoLines):
            found = reader.from_facts(mechanism.problem, facts, budget)
            assert not found.differences(facts)
            assert all(map(close, found.events(), mechanism.events()))
            assert found.cost().within(budget)
        other = next(line for line in NAMES if line != name)
        with pytest.raises(Garbled):
            line_of_kernel(other).from_facts(mechanism.problem, facts, budget)  # type: ignore[union-attr]


def test_no_other_kernel_is_taken_for_gram() -> None:
    """Kills: an unknown kernel that is priced as another."""
    mechanism = calibrate("huber", PLANE, BUDGETS[0], RECORDS[0])
    with pytest.raises(Garbled):
        GramLines.from_facts(mechanism.problem, facts_of(mechanism), BUDGETS[0])
    unknown = Facts({**mechanism.facts(), "kernel": "nonsense"}, "mechanism")
    with pytest.raises(Garbled):
        AutoLines.from_facts(mechanism.problem, unknown, BUDGETS[0])


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_intervals_read_back_are_charged_the_same(budget: Budget) -> None:
    for records in RECORDS:
        interval = with_interval(calibrate("depth", PLANE, Budget(1.0, 0.0), records), budget, 0.95).interval
        assert interval is not None
        facts = Facts(json.loads(json.dumps(interval.facts())), "interval")
        found = PaidInterval.from_facts(interval.problem, facts, budget)
        assert not found.differences(facts)
        assert all(map(close, found.events(), interval.events()))
        assert found.cost().within(budget)


def neighbours(added: bool, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Small tables of corners and ties, and outliers that the bounds clip; a record more, or another in its place."""
    rng = np.random.default_rng(6)
    found = []
    for _ in range(count):
        rows = rng.choice([-math.inf, 0.0, 0.25, 0.5, 1.0, 7.0, *rng.random(2)], (int(rng.integers(2, 9)), 2))
        found.append((rows[:-1], rows if added else rows[1:]))
    return found


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("name", ["depth", "huber"])
def test_what_lines_on_a_grid_are_charged_with(name: str, change: str) -> None:
    """Kills: an event below the exact law's loss. log P(line) of both tables, all lines of a small grid."""
    mechanism: Any = calibrate(name, PLANE, Budget(1.0, 0.0), Records(change), cells=6)  # type: ignore[arg-type]
    (event,) = mechanism.events()
    assert isinstance(event, Exponential)
    line = mechanism.line

    def log_law(table: np.ndarray) -> np.ndarray:
        rows = PLANE.rows(table[:, 0], table[:, 1])
        if name == "depth":
            scores = line.exponent * line_depths(line.grid, rows).astype(float)
        else:
            scores = -line.exponent / (line.clip_steps * UNIT) * line.scores(rows)
        return scores - np.logaddexp.reduce(scores.ravel())

    worst = max(abs(log_law(after) - log_law(before)).max() for before, after in neighbours(change == "added", 400))
    assert 0.5 * event.epsilon < worst <= event.epsilon * event.count


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("gaussian", Budget(0.7, 1e-6)),
        ("laplace", Budget(0.7, 0.0)),
        ("gradient_descent", Budget(0.7, 1e-6)),
        ("gradient_descent", Budget(0.7, 0.0)),
        ("interval", Budget(0.7, 1e-6)),
        ("interval", Budget(0.7, 0.0)),
    ],
    ids=str,
)
def test_what_noisy_sums_are_charged_with(name: str, budget: Budget, change: str) -> None:
    """Kills: an event that says less than sums move over their noise. By the exact move of neighbours, and dp-accounting."""
    records = Records(change)  # type: ignore[arg-type]
    if name == "interval":
        line: Any = with_interval(calibrate("depth", PLANE, Budget(1.0, 0.0), records), budget, 0.95)
        mechanism, sums = line.interval, line.interval.sums
        level = line_fit(PLANE, PLANE.joint_anchors, (0.0, 0.0))
        scale, steps = np.full(4, sums.scale), 1

        def exact(table: np.ndarray) -> np.ndarray:
            return sums.features(PLANE.rows(table[:, 0], table[:, 1]), level).sum(axis=1).astype(float)
    elif name == "gradient_descent":
        from dpspark.mechanisms.lines.gradient_descent import UNIT as STEP
        from dpspark.mechanisms.lines.gradient_descent import clipped_gradient_sum

        mechanism = calibrate(name, PLANE, budget, records, steps=4)
        kernel: Any = mechanism.line
        scale, steps = np.full(2, kernel.scale * STEP), kernel.steps

        def exact(table: np.ndarray) -> np.ndarray:
            rows = PLANE.rows(table[:, 0], table[:, 1])
            return np.array(clipped_gradient_sum(kernel, rows, np.array([0.5, 0.5])), dtype=float)
    else:
        mechanism = calibrate(name, PLANE, budget, records)
        kernel, at = mechanism.line, np.triu_indices(3)
        scale, steps = np.where(at[0] == at[1], kernel.diagonal, kernel.off_diagonal), 1
        if kernel.public_rows:
            scale[0] = math.inf

        def exact(table: np.ndarray) -> np.ndarray:
            x, y = (2 * np.clip(part, 0, 1) - 1 for part in table.T)
            z = np.stack([np.ones(len(x)), x, y])
            return (z @ z.T)[at]

    (event,) = mechanism.events()
    moves = [(exact(after) - exact(before)) / scale for before, after in neighbours(change == "added", 300)]
    if isinstance(event, Pure):
        worst = max(float(abs(move).sum()) for move in moves)
        assert 0.7 * event.epsilon < worst <= event.epsilon
        assert event.count == steps
        assert event.epsilon * steps == pytest.approx(budget.epsilon, rel=1e-4)
        return
    assert isinstance(event, Gaussian)
    worst = max(float(np.linalg.norm(move)) for move in moves) * math.sqrt(steps)
    assert 0.7 * event.mu < worst <= event.mu
    assert budget.delta is not None
    other = dp_accounting.get_epsilon_gaussian(event.noise_multiplier, budget.delta)
    assert other == pytest.approx(budget.epsilon, rel=1e-3)
    assert mechanism.cost().epsilon_at(budget.delta) == pytest.approx(other, rel=1e-3)


def test_a_line_with_an_interval_is_priced_without_it() -> None:
    """Kills: a cost that cannot be asked for where an interval is paid for; one that has the interval in it."""
    for budget in BUDGETS:
        alone = calibrate("huber", PLANE, budget, RECORDS[0])
        both = with_interval(alone, budget, 0.95)
        assert len(both.events()) == 2
        assert both.cost().within(budget)
        assert (both.cost().rho, both.cost().pure) == (alone.cost().rho, alone.cost().pure)
        with pytest.raises(ValueError, match="expected one event"):
            cost_of(both.events())
