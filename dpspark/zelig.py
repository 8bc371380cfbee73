"""The three calls of Zelig's differentially private covariance matrix: computeVCV, getAccuracy and getParameters.

Bain, D'Orazio, Sheffet & Vadhan, *Releasing a Differentially Private Variance-covariance Matrix*, Section 4. The accuracy is
that of the second-moment matrix (with its intercept), which is what is released; it follows from public things alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpspark.bundle import MANIFEST, read_release
from dpspark.errors import ConfError
from dpspark.mechanisms.choose import choose_gram
from dpspark.mechanisms.noisy import AdditiveNoise, NoiseModel
from dpspark.planning import noise_stds, require_gram
from dpspark.privacy.budget import Budget
from dpspark.privacy.profiles import LARGEST_EPSILON
from dpspark.released import GramRelease, Release
from dpspark.spec import Spec, load_spec

SMALLEST, LARGEST = 1e-9, 1e6  # epsilon or rho looked at
AnySpec = Spec | str | Path | dict[str, Any]


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
        return _labelled(self.half_widths, self.terms)

    def entries_jointly(self) -> Any:
        return _labelled(self.half_widths_jointly, self.terms)

    def of(self, entry: tuple[str, str] | None, jointly: bool) -> float:
        """One number: of an entry in original units, or of the scaled matrix."""
        if entry is None:
            return self.scaled_jointly if jointly else self.scaled
        unknown = [term for term in entry if term not in self.terms]
        if unknown or len(entry) != 2:
            raise ConfError(f"entry={entry!r}; expected two of {', '.join(self.terms)}.")
        table = self.half_widths_jointly if jointly else self.half_widths
        return float(table[self.terms.index(entry[0]), self.terms.index(entry[1])])


def compute_vcv(what: AnySpec, source: Any = None, spark: Any = None, *, centred: bool = True, **options: Any) -> Any:
    """The covariance matrix of a release; a conf is released first, as `dpspark.release` does it.

    `centred=False`: the second-moment matrix with its intercept, the paper's own.
    """
    if isinstance(what, str | Path) and (Path(what) / MANIFEST).exists():
        found = read_release(what)
    else:
        from dpspark.pipeline import release

        require_gram(what if isinstance(what, Spec) else load_spec(what))
        found = release(what, source, spark, **options)
    matrix = _gram(found)
    return matrix.covariance() if centred else matrix.second_moment()


def get_accuracy(what: AnySpec | Release, beta: float = 0.05) -> Accuracy:
    """How far the noise moves the matrix's entries, with probability 1 − beta; of a conf or of a release. No cost."""
    _check_beta(beta)
    if isinstance(what, str | Path) and (Path(what) / MANIFEST).exists():
        what = read_release(what)
    if isinstance(what, Release):
        found = _gram(what)
        noise = found.noise
        off = float(found.scaled_noise_std()[np.triu_indices(len(found.terms), 1)].max())
        return _accuracy(found.terms, noise, off, found.noise_std().to_numpy(), beta)
    spec = what if isinstance(what, Spec) else load_spec(what)
    require_gram(spec)
    mechanism = choose_gram(spec)
    if not isinstance(mechanism.noise, AdditiveNoise) and spec.release.expected_rows is None:
        raise ConfError(
            f"mechanism {spec.mechanism_name}: its noise grows with the number of rows. Set release.expected_rows."
        )
    off, entries = noise_stds(mechanism, spec.release.expected_rows)
    return _accuracy(spec.domain.terms, mechanism.noise, off, entries, beta)


def get_parameters(
    what: AnySpec, accuracy: float, beta: float = 0.05, entry: tuple[str, str] | None = None, jointly: bool = False
) -> Budget:
    """The least epsilon (or rho, if the conf has one) that reaches an accuracy: the inverse of `get_accuracy`. No cost.

    `accuracy` is a half-width of an off-diagonal entry of the scaled matrix, in rows; with `entry=("age", "income")` of that
    entry in original units. Delta stays the conf's.
    """
    spec = what if isinstance(what, Spec) else load_spec(what)
    if isinstance(accuracy, bool) or not isinstance(accuracy, int | float) or not 0 < accuracy < math.inf:
        raise ConfError(f"accuracy={accuracy!r}; expected a number > 0.")
    get_accuracy(spec, beta).of(entry, jointly)  # says what is wrong with the rest, once

    def reached(value: float) -> bool:
        try:
            return get_accuracy(_with_budget(spec, value), beta).of(entry, jointly) <= accuracy
        except ConfError:  # a budget too small for its noise to be drawn
            return False

    # Mechanisms in floating point take no epsilon beyond LARGEST_EPSILON.
    largest = LARGEST if reached(LARGEST) else LARGEST_EPSILON
    low, high = math.log(SMALLEST), math.log(largest)
    if not reached(largest):
        raise ConfError(f"accuracy={accuracy:g}: not reached with any budget up to {LARGEST:g}.")
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(math.exp(middle)) else (middle, high)
    return _with_budget(spec, math.exp(high)).privacy.budget


def _with_budget(spec: Spec, value: float) -> Spec:
    key = "epsilon" if spec.privacy.rho is None else "rho"
    return spec.model_copy(update={"privacy": spec.privacy.model_copy(update={key: value})})


def _accuracy(terms: tuple[str, ...], noise: NoiseModel, off: float, entries: np.ndarray, beta: float) -> Accuracy:
    count = len(terms) * (len(terms) + 1) // 2 - noise.count_is_exact
    # Šidák (1967): |x_i| <= t_i together are at least as likely as if independent; so also for Laplace noise, which is
    # Gaussian with random variances on which every entry depends in the same sense.
    joint = -math.expm1(math.log1p(-beta) / count)
    one, all_of_them = _reach(noise, beta), _reach(noise, joint)
    return Accuracy(
        beta, terms, one * off, all_of_them * off, _sums(noise, beta) * entries, _sums(noise, joint) * entries
    )


def _reach(noise: NoiseModel, beta: float) -> float:
    """Standard deviations within which one entry's noise stays with probability 1 − beta."""
    if isinstance(noise, AdditiveNoise) and noise.law == "laplace":
        return math.log(1 / beta) / math.sqrt(2)
    return float(-ndtri(beta / 2))


def _sums(noise: NoiseModel, beta: float) -> float:
    """The same for a sum of several entries' noises, as in original units: between a Laplace variable and a normal one."""
    return max(_reach(noise, beta), float(-ndtri(beta / 2)))


def _check_beta(beta: float) -> None:
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 < beta < 1:
        raise ConfError(f"beta={beta!r}; expected a number between 0 and 1, such as 0.05.")


def _gram(found: Release) -> GramRelease:
    if not isinstance(found, GramRelease):
        raise ConfError(f"{str(found.path)!r} is a release of kind {found.kind}: it has no matrix.")
    return found


def _labelled(values: np.ndarray, terms: tuple[str, ...]) -> Any:
    import pandas as pd

    return pd.DataFrame(values, index=list(terms), columns=list(terms))
