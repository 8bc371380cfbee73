"""How far noise moves a matrix: each entry, all of them at once, and its spectral norm, with probability 1 − beta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspark.errors import ConfError
from dpspark.mechanisms.gram.laws import normal_reach
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.simulated import draw_noise

NORM_DRAWS = 2000
WIDEST_SIMULATED = 60  # columns: a wider matrix is close to its closed form, and slow to simulate


@dataclass(frozen=True)
class Accuracy:
    """Half-widths of 1 − beta intervals around the entries of the second-moment matrix.

    `scaled` is for one off-diagonal entry of the scaled matrix, in rows; `scaled_jointly` such that all entries are inside at
    once (Šidák). `entries` and `entries_jointly` are tables in original units.
    """

    beta: float
    terms: tuple[str, ...]
    scaled: float
    scaled_jointly: float
    half_widths: np.ndarray
    half_widths_jointly: np.ndarray

    def entries(self) -> Any:
        return labelled(self.half_widths, self.terms)

    def entries_jointly(self) -> Any:
        return labelled(self.half_widths_jointly, self.terms)

    def of(self, entry: tuple[str, str] | None, jointly: bool) -> float:
        """One number: of an entry in original units, or of the scaled matrix."""
        if entry is None:
            return self.scaled_jointly if jointly else self.scaled
        unknown = [term for term in entry if term not in self.terms]
        if unknown or len(entry) != 2:
            raise ConfError(f"entry={entry!r}; expected two of {', '.join(self.terms)}.")
        table = self.half_widths_jointly if jointly else self.half_widths
        return float(table[self.terms.index(entry[0]), self.terms.index(entry[1])])


def accuracy_of(terms: tuple[str, ...], noise: NoiseModel, off: float, entries: np.ndarray, beta: float) -> Accuracy:
    """`off` is the standard deviation of an off-diagonal scaled entry, `entries` those of all in original units."""
    count = len(terms) * (len(terms) + 1) // 2 - noise.count_is_exact
    # Šidák (1967): |x_i| <= t_i together are at least as likely as if independent; so also for Laplace noise, which is
    # Gaussian with random variances on which every entry depends in the same sense.
    joint = -math.expm1(math.log1p(-beta) / count)
    one, all_of_them = noise.reach(beta), noise.reach(joint)
    return Accuracy(
        beta, terms, one * off, all_of_them * off, _sums(noise, beta) * entries, _sums(noise, joint) * entries
    )


def _sums(noise: NoiseModel, beta: float) -> float:
    """Say how far a sum of several entries' noises reaches, as in original units: between one entry's and a normal variable."""
    return max(noise.reach(beta), normal_reach(beta))


@dataclass(frozen=True)
class Spectral:
    """Bounds of the noise's spectral norm, in rows; None where a bound is not known."""

    closed_form: float | None
    simulated: float | None

    @property
    def best(self) -> float:
        return min(value for value in (self.closed_form, self.simulated) if value is not None)


def spectral_of(noise: NoiseModel, scaled: np.ndarray, beta: float) -> Spectral:
    """Bound the noise's norm: in closed form where there is one, or by draws."""
    width, simulated = len(scaled), None
    closed = noise.norm_bound(width, beta)
    if width <= WIDEST_SIMULATED or closed is None:
        draws = max(40, min(NORM_DRAWS, 200_000 // width**2))
        drawn = draw_noise(noise, scaled, True, np.random.default_rng(0), draws)
        simulated = float(np.quantile(np.abs(np.linalg.eigvalsh(drawn)).max(axis=1), 1 - beta))
    return Spectral(closed, simulated)


def check_beta(beta: float) -> None:
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 < beta < 1:
        raise ConfError(f"beta={beta!r}; expected a number between 0 and 1, such as 0.05.")


def labelled(values: np.ndarray, terms: tuple[str, ...]) -> Any:
    import pandas as pd

    return pd.DataFrame(values, index=list(terms), columns=list(terms))
