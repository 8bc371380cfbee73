"""The noise of a matrix by every mechanism that a budget allows, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspark.core.domain import Categorical, Domain
from dpspark.errors import ConfError
from dpspark.mechanisms.base import Mechanism
from dpspark.mechanisms.gram.coordinates import Leaning, congruence_of, independent_std
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.mechanisms.registry import mechanism_named, mechanisms_of
from dpspark.planning.guess import Guess
from dpspark.planning.product_guess import with_products
from dpspark.privacy.sensitivity import unit_coordinates
from dpspark.spec.choose import GramMechanism, choose_gram
from dpspark.spec.mechanism import MechanismPart
from dpspark.spec.spec import Spec

PAPER = "Bain et al., corrected"


@dataclass(frozen=True)
class Option:
    """One mechanism: its noise, or why it cannot be had."""

    name: str
    off_diagonal_std: float = math.nan  # of an entry of the scaled matrix, in rows
    entry_std: np.ndarray | None = None  # of every entry, in original units
    note: str = ""
    mechanism: GramMechanism | None = None

    @property
    def possible(self) -> bool:
        return self.entry_std is not None

    def to_dict(self, terms: tuple[str, ...]) -> dict[str, Any]:
        """Return all of it for --json."""
        entries = None
        if self.entry_std is not None:
            entries = [
                {"row": terms[i], "col": terms[j], "noise_std": float(self.entry_std[i, j])}
                for i, j in zip(*np.triu_indices(len(terms)), strict=True)
            ]
        return {
            "name": self.name,
            "possible": self.possible,
            "note": self.note,
            "off_diagonal_std": self.off_diagonal_std if self.possible else None,
            "entries": entries,
        }


def require_gram(spec: Spec) -> None:
    if spec.release.kind != "gram":
        raise ConfError(
            f"release.kind={spec.release.kind!r}: this is for kind gram. dpspark plan (dpspark.plan) takes every kind."
        )


def gram_options(spec: Spec, domain: Domain, guess: Guess) -> tuple[Option, ...]:
    """List every mechanism of kind gram, and the first paper's; refuse if the conf's own cannot be had."""
    options = [_option(spec, name, domain, guess) for name in [each.name for each in mechanisms_of("gram")]]
    chosen = next(option for option in options if option.name == spec.mechanism_name)
    if not chosen.possible:
        raise ConfError(chosen.note)
    return (*options, _paper(spec))


def _option(spec: Spec, name: str, domain: Domain, guess: Guess) -> Option:
    variant = with_mechanism(spec, name)
    if isinstance(variant, str):
        return Option(name, note=variant)
    try:
        mechanism = choose_gram(variant)
    except ConfError as error:
        return Option(name, note=" ".join(str(error).split("\n")))
    off, entries = noise_stds(mechanism.noise, domain, guess.matrix)
    return Option(name, off, entries, _note(spec, mechanism, guess), mechanism)


def with_mechanism(spec: Spec, name: str) -> Spec | str:
    """The spec with another mechanism, in its own currency; or why there is none."""
    privacy = spec.privacy
    mechanism = mechanism_named("gram", name)
    if "rho" not in mechanism.currencies and privacy.rho is not None:
        return "needs epsilon, not rho"
    if "epsilon" not in mechanism.currencies and privacy.rho is None and privacy.delta is None:
        return "needs a delta"
    if spec.weight is not None and not mechanism.weighted:
        return "not proved for weighted rows"
    if name == spec.mechanism_name:
        return spec
    change: dict[str, Any] = {"mechanism": MechanismPart(name=name)}
    if _is_pure(mechanism):
        change["privacy"] = privacy.model_copy(update={"delta": None})
    return spec.model_copy(update=change)


def _is_pure(mechanism: type[Mechanism]) -> bool:
    """Tell whether it has no use for a delta."""
    return mechanism.currencies == ("epsilon",)


def _note(spec: Spec, mechanism: GramMechanism, guess: Guess) -> str:
    if _is_pure(type(mechanism)) and spec.privacy.delta is not None:
        return "pure: without privacy.delta"
    return f"at {guess.rows:,.0f} rows" if mechanism.noise.grows_with_data else ""


def noise_stds(noise: NoiseModel, domain: Domain, scaled: np.ndarray) -> tuple[float, np.ndarray]:
    """The noise of an off-diagonal entry of the scaled matrix, and of every entry in original units.

    That is what is left of it for an analyst, who knows what is known of the categorical columns.
    """
    back, left = congruence_of(domain), noise.given(domain.known)
    return left.off_diagonal(scaled), left.entry_std(domain, back @ scaled @ back.T)


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
    return rows * with_products(domain, guess)


def _paper(spec: Spec) -> Option:
    """Analyze Gauss as the paper has it, with its mistakes in the sensitivity corrected.

    Columns in [0, 1], the same noise on every entry of the upper triangle, Frobenius sensitivity d + 1 with the intercept (one
    unit for a categorical column), the classical calibration Δ·√(2·ln(1.25/delta))/epsilon, one record added or removed.
    """
    epsilon, delta = spec.privacy.epsilon, spec.privacy.delta
    if epsilon is None or delta is None or epsilon > 1 or spec.row_norm is not None or spec.weight is not None:
        return Option(PAPER, note="for epsilon <= 1 with a delta, without row_norm or weight")
    sensitivity = unit_coordinates(spec.domain) * spec.records.rows
    sigma = sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    stds = _from_zero_to_one(spec.domain, AdditiveNoise(sigma, sigma))
    note = "columns in [0, 1]"
    return Option(PAPER, sigma, stds, note)


def _from_zero_to_one(domain: Domain, noise: AdditiveNoise) -> np.ndarray:
    """The noise of every entry in original units, of rows whose columns are in [0, 1]: x = offset + width·u.

    A product with a number is its category times such a u.
    """
    leaning = Leaning.of(domain)
    offset = np.where(np.arange(domain.width) > 0, leaning.middle - leaning.half, 1.0)
    numbers = np.array([bool(part.numbers) for part in domain.parts])
    back = np.diag(np.where(numbers, 2 * leaning.half, 1.0))
    back[numbers, leaning.parent[numbers]] += offset[numbers]
    return independent_std(noise.variances(domain.width), back)


def times_less(domain: Domain, paper: Option, chosen: Option) -> float:
    """Noise on the product of two scaled columns, each in its original units: numeric columns if there are two."""
    if not paper.possible:
        return math.nan
    wider = 4.0 if len(domain.numeric) > 1 else 2.0 if domain.numeric else 1.0  # a range is two half-ranges
    return wider * paper.off_diagonal_std / chosen.off_diagonal_std
