"""What a release's noise will be, before a row is read: every mechanism that its budget allows, side by side.

Nothing here reads data or costs anything. Never imports pyspark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.data.domain import Categorical, Domain, Numeric
from dpspark.errors import ConfError
from dpspark.mechanisms.choose import GramMechanism, choose_gram
from dpspark.mechanisms.noisy import AdditiveNoise, NoiseModel, back_transform, centre_and_scale
from dpspark.planning_regression import RegressionPlan, plan_regression
from dpspark.privacy.sensitivity import unit_coordinates
from dpspark.regression.summary import aligned
from dpspark.spec import Spec, load_spec
from dpspark.spec_mechanism import MECHANISMS, WEIGHTED, Mechanism

PAPER = "Bain et al., corrected"
MOST_ENTRIES_SHOWN = 45


@dataclass(frozen=True)
class Option:
    """One mechanism: its noise, or why it cannot be had."""

    name: str
    off_diagonal_std: float = math.nan  # of an entry of the scaled matrix, in rows
    entry_std: np.ndarray | None = None  # of every entry, in original units
    note: str = ""

    @property
    def possible(self) -> bool:
        return self.entry_std is not None


@dataclass(frozen=True)
class Plan:
    """The noise of each option; `ratio` is how many times more the paper's mechanism has on an off-diagonal entry."""

    terms: tuple[str, ...]
    budget: str
    chosen: str
    expected_rows: int | None
    options: tuple[Option, ...]
    ratio: float

    def option(self, name: str) -> Option:
        return next(option for option in self.options if option.name == name)

    def entries(self, name: str | None = None) -> Any:
        """The standard deviations of a mechanism's noise in original units, as a labelled table; the conf's by default."""
        import pandas as pd

        return pd.DataFrame(
            self.option(name or self.chosen).entry_std, index=list(self.terms), columns=list(self.terms)
        )

    def to_dict(self) -> dict[str, Any]:
        rows, columns = np.triu_indices(len(self.terms))
        return {
            "budget": self.budget,
            "mechanism": self.chosen,
            "expected_rows": self.expected_rows,
            "terms": list(self.terms),
            "times_less_noise_than_the_paper": None if math.isnan(self.ratio) else self.ratio,
            "mechanisms": [
                {
                    "name": option.name,
                    "possible": option.possible,
                    "note": option.note,
                    "off_diagonal_std": option.off_diagonal_std if option.possible else None,
                    "entries": None
                    if option.entry_std is None
                    else [
                        {"row": self.terms[i], "col": self.terms[j], "noise_std": float(option.entry_std[i, j])}
                        for i, j in zip(rows, columns, strict=True)
                    ],
                }
                for option in self.options
            ],
        }

    def summary(self) -> str:
        lines = [f"Noise at {self.budget}, {len(self.terms)} × {len(self.terms)} matrix; no data was read", ""]
        cells = [["", "off-diagonal sd, rows", ""]]
        for option in self.options:
            mark = " (this conf)" if option.name == self.chosen else ""
            shown = f"{option.off_diagonal_std:.4g}" if option.possible else "-"
            cells.append([option.name + mark, shown, option.note])
        lines += aligned(cells, {0, 2})
        if not math.isnan(self.ratio):
            lines.append(
                f"{self.chosen} has {self.ratio:.1f} times less noise than the paper's on the product of two scaled columns, "
                "in original units"
            )
        return "\n".join([*lines, "", *self._entry_lines()])

    def _entry_lines(self) -> list[str]:
        possible = [option for option in self.options if option.entry_std is not None]
        pairs = list(zip(*np.triu_indices(len(self.terms)), strict=True))
        cells = [["sd in original units", *(option.name for option in possible)]]
        for i, j in pairs[:MOST_ENTRIES_SHOWN]:
            stds = [option.entry_std[i, j] for option in possible if option.entry_std is not None]
            cells.append([f"{self.terms[i]} × {self.terms[j]}", *(f"{std:.4g}" for std in stds)])
        more = len(pairs) - MOST_ENTRIES_SHOWN
        return aligned(cells, {0}) + ([f"... {more} more entries: --json has all"] if more > 0 else [])

    def __str__(self) -> str:
        return self.summary()


def plan(spec: Spec | str | Path | dict[str, Any]) -> Plan | RegressionPlan:
    """The noise of every mechanism that the spec's budget allows. Reads no data."""
    spec = spec if isinstance(spec, Spec) else load_spec(spec)
    return plan_regression(spec) if spec.release.kind == "regression" else plan_gram(spec)


def plan_gram(spec: Spec) -> Plan:
    options = [_option(spec, name) for name in MECHANISMS["gram"]]
    chosen = next(option for option in options if option.name == spec.mechanism_name)
    if not chosen.possible:
        raise ConfError(chosen.note)
    paper = _paper(spec)
    return Plan(
        spec.domain.terms,
        f"{spec.privacy.budget}, {spec.privacy.neighbours}",
        chosen.name,
        spec.release.expected_rows,
        (*options, paper),
        _ratio(spec.domain, paper, chosen),
    )


def require_gram(spec: Spec) -> None:
    if spec.release.kind != "gram":
        raise ConfError(f"release.kind={spec.release.kind!r}: only the noise of kind gram can be planned.")


def _option(spec: Spec, name: str) -> Option:
    variant = _with_mechanism(spec, name)
    if isinstance(variant, str):
        return Option(name, note=variant)
    try:
        mechanism = choose_gram(variant)
    except ConfError as error:
        return Option(name, note=" ".join(str(error).split("\n")))
    off, entries = noise_stds(mechanism, spec.release.expected_rows)
    return Option(name, off, entries, _note(spec, name, mechanism))


def _with_mechanism(spec: Spec, name: str) -> Spec | str:
    """The spec with another mechanism, in its own currency; or why there is none."""
    privacy = spec.privacy
    if name != "gaussian" and privacy.rho is not None:
        return "needs epsilon, not rho"
    if name != "laplace" and privacy.rho is None and privacy.delta is None:
        return "needs a delta"
    if spec.weight is not None and name not in WEIGHTED:
        return "not proved for weighted rows"
    if name == spec.mechanism_name:
        return spec
    change: dict[str, Any] = {"mechanism": Mechanism(name=name)}
    if name == "laplace":
        change["privacy"] = privacy.model_copy(update={"delta": None})
    return spec.model_copy(update=change)


def _note(spec: Spec, name: str, mechanism: GramMechanism) -> str:
    if name == "laplace" and spec.privacy.delta is not None:
        return "pure: without privacy.delta"
    if isinstance(mechanism.noise, AdditiveNoise):
        return ""
    if spec.release.expected_rows is None:
        return "at least: grows with the rows; set release.expected_rows"
    return "about, at release.expected_rows spread evenly over the bounds"


def noise_stds(mechanism: GramMechanism, expected_rows: int | None) -> tuple[float, np.ndarray]:
    """The noise of an off-diagonal entry of the scaled matrix, and of every entry in original units."""
    noise, domain = mechanism.noise, mechanism.domain
    guess = even_rows(domain, expected_rows or 0)
    back = back_transform(*centre_and_scale(domain))
    return _off_diagonal(noise, guess), noise.entry_std(domain, back @ guess @ back.T)


def _off_diagonal(noise: NoiseModel, guess: np.ndarray) -> float:
    """The largest, where they differ."""
    if isinstance(noise, AdditiveNoise):
        return noise.off_diagonal_std
    around = guess + noise.ridge * np.eye(len(guess))
    variance = (np.outer(np.diag(around), np.diag(around)) + around**2) / noise.degrees
    return float(np.sqrt(variance[~np.eye(len(guess), dtype=bool)].max()))


def even_rows(domain: Domain, rows: int) -> np.ndarray:
    """A public guess of the scaled matrix: independent columns, spread evenly over their bounds or categories."""
    mean, square, block = [1.0], [1.0], [0]
    for number, column in enumerate(domain.columns, 1):
        share = 1 / len(column.categories) if isinstance(column, Categorical) else 0.0
        mean += [share] * len(column.terms)
        square += [share or 1 / 3] * len(column.terms)
        block += [number] * len(column.terms)
    guess = np.outer(mean, mean)
    guess[np.equal.outer(block, block)] = 0.0  # a row has one category of a block
    np.fill_diagonal(guess, square)
    return rows * guess


def _paper(spec: Spec) -> Option:
    """Analyze Gauss as the paper has it, with its mistakes in the sensitivity corrected.

    Columns in [0, 1], the same noise on every entry of the upper triangle, Frobenius sensitivity d + 1 with the intercept (one
    unit for a categorical column), the classical calibration Δ·√(2·ln(1.25/delta))/epsilon, one record added or removed.
    """
    epsilon, delta = spec.privacy.epsilon, spec.privacy.delta
    if epsilon is None or delta is None or epsilon > 1 or spec.row_norm is not None or spec.weight is not None:
        return Option(PAPER, note="for epsilon <= 1 with a delta, without row_norm or weight")
    sensitivity = unit_coordinates(spec.domain) * spec.rows_per_record
    sigma = sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    least, extent = _from_zero_to_one(spec.domain)
    stds = AdditiveNoise(sigma, sigma).congruence_std(least, extent)
    note = "add_remove; columns in [0, 1], not [-1, 1]"
    return Option(PAPER, sigma, stds, note)


def _from_zero_to_one(domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """Offset and width with x = offset + width·u, u in [0, 1]."""
    offset, width = [1.0], [0.0]
    for column in domain.columns:
        offset += [column.lower] if isinstance(column, Numeric) else [0.0] * len(column.terms)
        width += [2 * column.half] if isinstance(column, Numeric) else [1.0] * len(column.terms)
    return np.array(offset), np.array(width)


def _ratio(domain: Domain, paper: Option, chosen: Option) -> float:
    """Noise on the product of two scaled columns, each in its original units: numeric columns if there are two."""
    if not paper.possible:
        return math.nan
    wider = 4.0 if len(domain.numeric) > 1 else 2.0 if domain.numeric else 1.0  # a range is two half-ranges
    return wider * paper.off_diagonal_std / chosen.off_diagonal_std
