"""The three calls of Zelig's differentially private covariance matrix: computeVCV, getAccuracy and getParameters.

Bain, D'Orazio, Sheffet & Vadhan, *Releasing a Differentially Private Variance-covariance Matrix*, Section 4. The accuracy is
that of the second-moment matrix (with its intercept), which is what is released; it follows from public things alone.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from dpspark.bundle.files import MANIFEST
from dpspark.bundle.storage import place_of
from dpspark.errors import ConfError
from dpspark.planning.accuracy import Accuracy, accuracy_of, check_beta
from dpspark.planning.budget import least_budget
from dpspark.planning.noise import even_rows, noise_stds, require_gram
from dpspark.privacy.budget import Budget
from dpspark.published.gram import GramRelease
from dpspark.published.reading import read_release
from dpspark.published.release import Release
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec, load_spec

AnySpec = Spec | str | Path | dict[str, Any]


def _is_release(what: Any) -> TypeGuard[str | Path]:
    return isinstance(what, str | Path) and (place_of(what) / MANIFEST).exists()


def compute_vcv(what: AnySpec, source: Any = None, spark: Any = None, *, centred: bool = True, **options: Any) -> Any:
    """Return the covariance matrix of a release; a conf is released first, as `dpspark.release` does it.

    `centred=False`: the second-moment matrix with its intercept, the paper's own.
    """
    if _is_release(what):
        given = [name for name, value in {"source": source, "spark": spark, **options}.items() if value is not None]
        if given:
            raise ConfError(f"compute_vcv: {given[0]} is for a conf; {str(what)!r} is a release, which is only read.")
        found = read_release(what)
    else:
        from dpspark.releasing.run import release

        require_gram(what if isinstance(what, Spec) else load_spec(what))
        found = release(what, source, spark, **options)
    matrix = _gram(found)
    return matrix.covariance() if centred else matrix.second_moment()


def get_accuracy(what: AnySpec | Release, beta: float = 0.05) -> Accuracy:
    """Compute how far the noise moves the matrix's entries, with probability 1 − beta; of a conf or of a release. No cost."""
    check_beta(beta)
    if _is_release(what):
        what = read_release(what)
    if isinstance(what, Release):
        found = _gram(what)
        noise = found.noise
        off = float(found.scaled_noise_std()[np.triu_indices(len(found.terms), 1)].max())
        return accuracy_of(found.terms, noise, off, found.noise_std().to_numpy(), beta)
    spec = what if isinstance(what, Spec) else load_spec(what)
    require_gram(spec)
    mechanism = choose_gram(spec)
    if mechanism.noise.grows_with_data and spec.release.expected_rows is None:
        raise ConfError(
            f"mechanism {spec.mechanism_name}: its noise grows with the number of rows. Set release.expected_rows."
        )
    noise = mechanism.noise.given(spec.domain.known)
    off, entries = noise_stds(noise, spec.domain, even_rows(spec.domain, spec.release.expected_rows or 0))
    return accuracy_of(spec.domain.terms, noise, off, entries, beta)


def get_parameters(
    what: AnySpec, accuracy: float, beta: float = 0.05, entry: tuple[str, str] | None = None, jointly: bool = False
) -> Budget:
    """Find the least epsilon (or rho, if the conf has one) that reaches an accuracy: the inverse of `get_accuracy`. No cost.

    `accuracy` is a half-width of an off-diagonal entry of the scaled matrix, in rows; with `entry=("age", "income")` of that
    entry in original units. Delta stays the conf's.
    """
    spec = what if isinstance(what, Spec) else load_spec(what)
    if isinstance(accuracy, bool) or not isinstance(accuracy, int | float) or not 0 < accuracy < math.inf:
        raise ConfError(f"accuracy={accuracy!r}; expected a number > 0.")
    get_accuracy(spec, beta).of(entry, jointly)  # says what is wrong with the rest, once

    def reached(there: Spec) -> bool:
        return get_accuracy(there, beta).of(entry, jointly) <= accuracy

    found = least_budget(spec, reached, 1e-10)
    if found is None:
        raise ConfError(f"accuracy={accuracy:g}: not reached with any budget.")
    return found


def _gram(found: Release) -> GramRelease:
    if not isinstance(found, GramRelease):
        raise ConfError(f"{str(found.path)!r} is a release of kind {found.kind}: it has no matrix.")
    return found
