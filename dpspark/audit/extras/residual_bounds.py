"""Attacks on robust standard errors: the clip of residuals, drawn by rank, and the meats beside the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.extras.meat import meat_case, meat_finding
from dpspark.audit.quantiles.exponential import KnownHistogram, log_cell
from dpspark.audit.sensitivity_attack import DOMAINS
from dpspark.audit.tables import Raw, TableRows
from dpspark.audit.target import Attack, Target, found_without_noise, measured
from dpspark.audit.theil_sen.shared import spread_of
from dpspark.core.domain import Categorical, Domain
from dpspark.core.records import Change
from dpspark.exact.residuals import Residual, octave_axis, octave_size
from dpspark.mechanisms.quantiles.exponential import CellLaw
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import Sensitivity, residual_meat
from dpspark.spec.choose import choose
from dpspark.spec.extras import residual_bounds
from dpspark.spec.spec import Spec

NAME = "residual bounds"
TARGET_NAME = f"extra {NAME}"


def case(spec: Spec) -> Case:
    """Tell apart residuals around the rank: a record comes beyond all of them, or goes there from among the smallest."""
    laws = _laws(spec)

    def draw(side: int, noise: NoiseSource) -> float:
        cell = laws[side].draw(noise)
        return log_cell(laws[1], cell) - log_cell(laws[0], cell)

    return case_of(spec, spec.extra_budget(NAME), draw, TARGET_NAME)


def _laws(spec: Spec, times: float = 1.0) -> list[CellLaw]:
    """The laws of the first regression's clip, on two neighbours; with an exponent that is so many times too large."""
    finder, domain = residual_bounds(spec), choose(spec).domain
    drawn = replace(finder.draws, exponent=times * finder.draws.exponent)
    axis = octave_axis(finder.asked.texts[0])
    small, large = ([octave_size(axis.edge(cell) + 0.01) for cell in range(at, at + 4)] for at in (300, 500))
    rank, m = finder.draws.rank, spec.records.rows
    before = [*[small[0]] * (m + 2), *small, *[large[0]] * (rank - 2)]
    after = [*(before if spec.records.change == "added" else before[m:]), *[large[-1]] * m]
    return [drawn.law(_counted(domain, spec, sizes), axis, "upper") for sizes in (before, after)]


def weights_finding(spec: Spec, times: float = 1.0) -> Finding:
    """Find how far a record drives the weights of two cells apart, without a draw."""
    laws, each = _laws(spec, times), residual_bounds(spec).draws.epsilon_each
    cells = range(octave_axis("").cells)
    found = spread_of(np.array([log_cell(laws[1], cell) - log_cell(laws[0], cell) for cell in cells]))
    note = "weights of two sizes of the clip"
    return Finding(
        "sensitivity",
        TARGET_NAME,
        spec.privacy.neighbours,
        "epsilon",
        each,
        found,
        2,
        found > each * (1 + 1e-9),
        note=note,
    )


def _counted(domain: Domain, spec: Spec, sizes: list[float]) -> KnownHistogram:
    """Count rows whose residuals have these sizes, through the code that executors run."""
    asked = spec.asked_errors
    assert asked is not None
    one, at = asked.regressions[0], domain.terms.index(asked.regressions[0].formula.response)
    places = one.places(domain)
    residual = Residual.of(domain, np.zeros(len(places)), at, places)
    rows: Raw = [
        tuple(
            column.categories[0]
            if isinstance(column, Categorical)
            else column.middle + size * column.half * (column.name == one.formula.response)
            for column in domain.columns
        )
        for size in sizes
    ]
    found = TableRows.of(domain, rows).residual_histograms(domain, {one.text: residual})
    cells, counts = found.reveal(one.text)
    axis = octave_axis(one.text)
    every = np.zeros(axis.cells, dtype=np.int64)
    every[cells] = counts
    return KnownHistogram([axis], [every])


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    plain = {name: domain for name, domain in domains.items() if domain.response is None}
    own = {name: domain.regressors for name, domain in domains.items()}  # of a conf of kind regression
    return [meat_finding(target, neighbours, plain or own)]


def as_if_added(domain: Domain, change: Change, rows: int) -> Sensitivity:
    """The change of an added row, whatever happens to it."""
    return residual_meat(domain, "added", rows)


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {
        "γ twice as large": found_without_noise(lambda: weights_finding(spec, times=2)),
        "noise of the meat ÷ 2": measured(lambda: meat_case(spec, 2)),
        "a replaced row as an added one": found_without_noise(
            lambda: meat_finding(TARGET_NAME, "replace_one", DOMAINS, as_if_added)
        ),
    }


TARGET = Target(
    "extra",
    NAME,
    case,
    noise_free,
    broken,
    beside=("gram", "gaussian"),
    asks={"release": {"errors": "hc1", "regressions": ["income ~ age"]}},
)
