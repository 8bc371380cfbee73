"""Whether the noise leaves enough of a regression to be answered: kappa_w, and every threshold that it is held against.

With G the noisy matrix of the regressors and N = G^(−1/2) E G^(−1/2) the noise in it, measured by the signal,

    kappa_w = 1 / E‖N‖,   and 0 where G is not positive definite

It does not depend on the units of the regressors, nor on which category of a block is left out. (kappa, the least eigenvalue
of G over the typical norm of the noise, depends on both: a rare category makes it small, and harms nobody else's answer.)

E‖N‖ is not simulated: it follows from ν = the eigenvalues of E[N²] = G^(−1/2) E[E G⁻¹ E] G^(−1/2), in closed form. Its root
√ν_1 is what a single direction has; where many are alike, the norm of a random matrix is twice that (Wigner). In between

    E‖N‖ ≈ √ν_1 · [c + (2 − c)·(r_4 − 1)/(r_4 + 2.7)],   c = 1.13 − 0.33/r_1²,   r_k = Σ (ν_i/ν_1)^k

which is within a tenth of simulations for one to a hundred directions, alike or not (tests/mechanisms/test_identification.py).
Post-processing: no cost.
"""

from __future__ import annotations

import math

import numpy as np

from dpspark.mechanisms.gram.noise_model import NoiseModel

# From here on least squares is answered, with intervals, whose privacy part covers as much as it says, or a little more
# (python -m experiments real-identification). Below, gram says NOT_IDENTIFIED, and gram_ridge shrinks.
ENOUGH = 2.0
# So many regressors at most are named as those for which there is no answer.
MOST_WEAK_TERMS = 3
# Replicates of the noise, drawn around a matrix that has noise already, are wider than the noise below this.
BOOTSTRAP_FROM = 4.0

WEAK = "the signal in the regressors is {kappa_w:.2g} times the noise (kappa_w)"


def kappa_w(matrix: np.ndarray, regressors: np.ndarray, noise: NoiseModel, scaled: np.ndarray) -> float:
    """Compute kappa_w of one regression; `matrix` is Xᵀ S X of the `scaled` one, with `regressors` X as directions."""
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return 0.0
    back = np.linalg.inv(root)
    square = back @ (regressors.T @ noise.spread(regressors @ back.T, scaled) @ regressors) @ back.T
    return float(_over(expected_size(square[None]))[0])


def kappa_w_of_all(scaled: np.ndarray, at: np.ndarray, inverse: np.ndarray, noise: NoiseModel) -> np.ndarray:
    """Compute kappa_w of many regressions on the terms at `at`; their matrices, with these inverses, are positive definite."""
    root = np.linalg.cholesky(inverse)
    return _over(expected_size(np.swapaxes(root, 1, 2) @ noise.spread_at(scaled, at, inverse) @ root))


def kappa_w_of_matrix(matrix: np.ndarray, noise: NoiseModel) -> float:
    """Compute kappa_w of the regression on all terms of a matrix."""
    return kappa_w(matrix, np.eye(len(matrix)), noise, matrix)


def expected_size(squares: np.ndarray) -> np.ndarray:
    """E‖N‖ of matrices E[N²], approximately: see above."""
    top = np.maximum(np.linalg.eigvalsh(squares)[:, -1], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.trace(squares, axis1=1, axis2=2) / top
        fourth = np.square(squares @ squares).sum(axis=(1, 2)) / top**4
        alone = 1.13 - 0.33 / first**2
        found = np.sqrt(top) * (alone + (2 - alone) * (fourth - 1) / (fourth + 2.7))
    return np.where(top > 0, found, 0.0)


def _over(sizes: np.ndarray) -> np.ndarray:
    """Take the inverse: without noise, infinity."""
    return np.divide(1.0, sizes, out=np.full(sizes.shape, math.inf), where=sizes > 0)


def is_enough(found: float) -> bool:
    """Tell whether a regression with this kappa_w is answered."""
    return not math.isnan(found) and found >= ENOUGH
