"""Numbers of rows that are known up to noise: the law of the noise in a line, averaged over what they may be."""

from __future__ import annotations

import numpy as np
from scipy import stats

from dpspark.smoothing.simulation import NoiseLaw

NODES = 7
LEAST_SPREAD = 0.1  # of the true numbers of rows, as a share of their mean


def likely_rows(noisy: np.ndarray, noise_std: float) -> np.ndarray:
    """List numbers of rows that are equally likely for each group: groups × nodes. The groups themselves say what is usual."""
    if noise_std == 0:
        return np.maximum(0.0, noisy)[:, None]
    middle = max(1.0, float(noisy.mean()))
    spread = max(float(noisy.var()) - noise_std**2, (LEAST_SPREAD * middle) ** 2)
    weight = spread / (spread + noise_std**2)
    centre, width = middle + weight * (noisy - middle), np.sqrt(weight) * noise_std
    below = stats.norm.cdf(-centre / width)  # no group has fewer rows than none
    shares = below[:, None] + (1 - below)[:, None] * (np.arange(NODES) + 0.5) / NODES
    return np.maximum(0.0, centre[:, None] + width * stats.norm.ppf(np.minimum(shares, 1 - 1e-12)))


def averaged(law: NoiseLaw, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average noise and the share of wild draws over the likely numbers of rows of each group."""
    size = len(law.target)
    noise, near = np.zeros((len(rows), size, size)), np.zeros(len(rows))
    for at in rows.T:
        one, wild = law.at(at)
        tame = np.maximum(1e-6, 1 - wild)
        noise, near = noise + one * tame[:, None, None], near + tame
    return noise / near[:, None, None], np.clip(1 - near / rows.shape[1], 0.0, 1.0)
