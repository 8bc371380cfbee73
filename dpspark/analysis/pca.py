"""Principal components of a released covariance matrix, with bands for the privacy noise. Post-processing: no cost.

The components are those of the rows that were read, as bounded: the matrix holds no fourth moments, so that nothing can
be said about sampling from a larger population.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from dpspark.analysis.bootstrap import basic_interval
from dpspark.analysis.covariance import correlation_of, covariance_of
from dpspark.analysis.ols import Moments
from dpspark.analysis.result import Answer
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.simulated import draw_noise
from dpspark.show.tables import Grid, Part, as_text

if TYPE_CHECKING:
    import pandas as pd

REPLICATES = 1000
LARGEST_CHUNK = 1 << 22
# Gap to the next eigenvalue over the noise between the two directions. Below it the two mix: loadings turn, and 95% bands
# were seen to cover as little as 87%; above it 93-97%.
CLEAR_GAP = 8.0
LARGEST_SHARE = 1.1  # a little beyond 1 is a component that has nearly all
MOST_SHOWN = 8  # components whose loadings fit beside each other


@dataclass(frozen=True)
class Components(Answer):
    """The first k principal components; the bands are `level` intervals for what the data's own matrix has."""

    terms: tuple[str, ...]
    scale: bool
    level: float
    eigenvalues: np.ndarray
    bands: np.ndarray  # low and high of each eigenvalue
    shares: np.ndarray  # of the whole variance
    share_bands: np.ndarray
    vectors: np.ndarray  # a row per term, a column per component; the largest loading is positive
    vector_std: np.ndarray
    separated: np.ndarray  # is the component told apart from its neighbours, after noise?

    @cached_property
    def names(self) -> list[str]:
        return [f"PC{i + 1}" for i in range(len(self.eigenvalues))]

    def to_frame(self) -> pd.DataFrame:
        """One row per component: eigenvalue, share of the variance, bands."""
        import pandas as pd

        return pd.DataFrame(self.to_dict()["components"]).drop(columns="loadings").set_index("component")

    def loadings(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(self.vectors, index=list(self.terms), columns=self.names)

    def loadings_std(self) -> pd.DataFrame:
        """The noise in each loading; meaningless where the component is not `separated`."""
        import pandas as pd

        return pd.DataFrame(self.vector_std, index=list(self.terms), columns=self.names)

    def to_dict(self) -> dict[str, Any]:
        return {
            "of": "correlation" if self.scale else "covariance in half-ranges of the bounds",
            "level": self.level,
            "components": [
                {
                    "component": name,
                    "eigenvalue": float(self.eigenvalues[i]),
                    "low": float(self.bands[i, 0]),
                    "high": float(self.bands[i, 1]),
                    "share": float(self.shares[i]),
                    "share_low": float(self.share_bands[i, 0]),
                    "share_high": float(self.share_bands[i, 1]),
                    "separated": bool(self.separated[i]),
                    "loadings": dict(zip(self.terms, self.vectors[:, i].tolist(), strict=True)),
                }
                for i, name in enumerate(self.names)
            ],
        }

    def summary(self) -> str:
        """All of it as text: a component and its loadings in one row."""
        cells = [[*self._numbers_head(), *self.terms]]
        for i in range(len(self.names)):
            cells.append([*self._numbers(i), *(f"{value:.3f}" for value in self.vectors[:, i])])
        return as_text([self._title(), "", Grid(cells), *self._notes()])

    def parts(self) -> list[Part]:
        """Lines and tables for a page that is high rather than wide: the loadings have a table of their own, a row per term."""
        numbers = [self._numbers_head(), *(self._numbers(i) for i in range(len(self.names)))]
        shown = self.names[:MOST_SHOWN]
        loadings = [["Loadings", *shown]]
        for term, row in zip(self.terms, self.vectors, strict=True):
            loadings.append([term, *(f"{value:.3f}" for value in row[:MOST_SHOWN])])
        more = len(self.names) - len(shown)
        rest = [f"... {more} more components: loadings() has all"] if more else []
        return [self._title(), "", Grid(numbers), "", Grid(loadings), *rest, *self._notes()]

    def _title(self) -> str:
        what = (
            "the correlation matrix" if self.scale else "the covariance matrix, columns in half-ranges of their bounds"
        )
        return f"Principal components of {what}; bands for the privacy noise"

    def _numbers_head(self) -> list[str]:
        return ["", "Eigenvalue", f"{100 * self.level:g}% band", "", "Share"]

    def _numbers(self, i: int) -> list[str]:
        mark = "" if self.separated[i] else "*"
        shown = [self.eigenvalues[i], *self.bands[i]]
        return [self.names[i] + mark, *(f"{value:.4g}" for value in shown), f"{self.shares[i]:.3f}"]

    def _notes(self) -> list[str]:
        notes = []
        if not self.separated.all():
            notes.append(
                "* not told apart from a neighbour, after noise: loadings may mix, and the band may be too narrow."
            )
        if (np.abs(self.shares) > LARGEST_SHARE).any():
            notes.append("Shares beyond 1: the whole variance is drowned by the noise.")
        return notes


def principal_components(moments: Moments, k: int | None, scale: bool, level: float, seed: int) -> Components:
    """Eigenvalues with bands from a parametric bootstrap of the noise; basic ones, since noise spreads eigenvalues."""
    width = len(moments.terms) - 1
    count = width if k is None else k
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= width:
        raise ConfError(f"pca: k={k!r}; expected a whole number from 1 to {width}, the number of columns.")
    if moments.rows <= 0:
        raise ConfError("pca: the released count is not positive, after noise.")
    matrix = _target(moments.scaled, scale)
    if not np.isfinite(matrix).all():
        raise ConfError(
            "pca: a column has no positive variance, after noise, so no correlation. Leave it out, or use scale=False."
        )
    values, vectors = _sorted_eigen(*np.linalg.eigh(matrix))
    drawn = _replicates(moments, matrix, scale, vectors, count, seed)
    shares, drawn_shares = values / np.trace(matrix), drawn.values / drawn.totals[:, None]
    return Components(
        moments.terms[1:],
        scale,
        level,
        values[:count],
        basic_interval(values[:count], drawn.values, level),
        shares[:count],
        basic_interval(shares[:count], drawn_shares, level),
        vectors[:, :count],
        drawn.vector_std,
        _separated(values[: count + 1], drawn.between)[:count],
    )


def _target(scaled: np.ndarray, scale: bool) -> np.ndarray:
    covariance = covariance_of(scaled)
    return correlation_of(covariance) if scale else covariance


def _sorted_eigen(values: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest first; each vector's largest loading positive."""
    values, vectors = values[..., ::-1], vectors[..., ::-1]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=-2)[..., None, :], axis=-2)
    return values, vectors * np.where(largest < 0, -1.0, 1.0)


def _leading_eigen(matrices: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` components of each matrix: of wide ones far less work than all."""
    width = matrices.shape[-1]
    if 4 * count >= width:
        values, vectors = _sorted_eigen(*np.linalg.eigh(matrices))
        return values[:, :count], vectors[:, :, :count]
    found = [linalg.eigh(matrix, subset_by_index=(width - count, width - 1)) for matrix in matrices]
    return _sorted_eigen(np.stack([values for values, _ in found]), np.stack([vectors for _, vectors in found]))


@dataclass(frozen=True)
class _Drawn:
    values: np.ndarray  # a row a replicate
    totals: np.ndarray  # all variance
    vector_std: np.ndarray
    between: np.ndarray  # the noise that turns each component into the next


def _replicates(
    moments: Moments, matrix: np.ndarray, scale: bool, vectors: np.ndarray, count: int, seed: int
) -> _Drawn:
    """The first components under fresh noise. Only sums of the vectors are kept: all of them would be gigabytes."""
    rng = np.random.default_rng(seed)
    mine, following = vectors[:, :count], vectors[:, 1 : count + 1]
    values, totals = [], []
    moved, squared, between = np.zeros(mine.shape), np.zeros(mine.shape), np.zeros(following.shape[1])
    at_once = max(1, LARGEST_CHUNK // len(moments.scaled) ** 2)
    for done in range(0, REPLICATES, at_once):
        noise = draw_noise(moments.noise, moments.scaled, True, rng, min(at_once, REPLICATES - done))
        drawn = _target(moments.scaled + noise, scale)
        drawn = drawn[np.isfinite(drawn).all(axis=(1, 2))]
        found, turned = _leading_eigen(drawn, count)
        signs = np.where(np.einsum("rij,ij->rj", turned, mine) < 0, -1.0, 1.0)
        differences = turned * signs[:, None, :] - mine
        moved += differences.sum(axis=0)
        squared += np.square(differences).sum(axis=0)
        across = np.einsum("ij,rij->rj", vectors[:, : following.shape[1]], (drawn - matrix) @ following)
        between += np.square(across).sum(axis=0)
        values.append(found)
        totals.append(np.trace(drawn, axis1=1, axis2=2))
    replicates = max(1, sum(map(len, values)))
    spread = np.sqrt(np.maximum(0.0, squared / replicates - np.square(moved / replicates)))
    return _Drawn(np.concatenate(values), np.concatenate(totals), spread, np.sqrt(between / replicates))


def _separated(values: np.ndarray, between: np.ndarray) -> np.ndarray:
    """The gap to each neighbour against the noise that turns one into the other."""
    clear = np.abs(np.diff(values)) >= CLEAR_GAP * between
    return np.append(True, clear) & np.append(clear, True)
