"""The steward's guess of what the data look like: rows, means, standard deviations, correlations, within the bounds.

A plan needs the matrix that a release would have without its noise. A guess gives it: written down, from a previous release
(which is public), or, where nobody says anything, columns spread evenly over their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError

from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.opening import read_content
from dpspark.bundle.storage import Place, StorePath, place_of
from dpspark.core.domain import Categorical, Domain, Numeric, category_label
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.coordinates import centre_and_scale, congruence_of
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.planning.product_guess import with_products
from dpspark.planning.row_norm import shortened
from dpspark.spec.conf_file import explain, parse_yaml
from dpspark.spec.extras import squared_weights
from dpspark.spec.spec import Spec
from dpspark.spec.values import Number, Part, Positive, Text, WholeNumber

Share = Annotated[Number, Field(ge=0, le=1)]
Correlation = Annotated[Number, Field(ge=-1, le=1)]
TailIndex = Annotated[Number, Field(gt=1, le=100)]
Category = StrictStr | StrictInt | StrictBool
USUAL_ROWS = 1_000_000


class GuessFile(Part):
    """The keys of a guess; what is left out is assumed."""

    rows: WholeNumber | None = None
    means: dict[Text, Number] = Field(default_factory=dict)
    sds: dict[Text, Positive] = Field(default_factory=dict)
    correlations: dict[Text, Correlation] = Field(default_factory=dict)  # "age,income": 0.3; not named: 0
    shares: dict[Text, dict[Category, Share]] = Field(default_factory=dict)  # of the categories of a column
    residual_sds: dict[Text, Positive] = Field(default_factory=dict)  # of a response, where the correlations do not say
    weight: dict[Text, Positive] = Field(default_factory=dict)  # mean and sd, of weighted rows
    tails: dict[Text, TailIndex] = Field(default_factory=dict)  # Pareto's index of a column's furthest hundredth


@dataclass(frozen=True)
class Guess:
    """Mean and covariance of the bounded rows in scaled coordinates, the intercept left out; and how many rows there are."""

    terms: tuple[str, ...]  # with the intercept
    rows: float
    mean: np.ndarray
    covariance: np.ndarray
    source: str  # for the reader
    residual_sds: Mapping[str, float]
    weight: tuple[float, float] = (1.0, 1.0)  # mean, and mean square
    has_squares: bool = False  # whether the release will hold the moments of squared weights
    squared_noise: NoiseModel | None = None  # of those
    assumed: bool = False  # nobody guessed anything
    tails: Mapping[str, float] = field(default_factory=dict)  # Pareto's index, by column; log-normal if there is none

    @property
    def moments(self) -> np.ndarray:
        """E[z zᵀ] of one row."""
        z = np.concatenate([[1.0], self.mean])
        found = np.outer(z, z)
        found[1:, 1:] += self.covariance
        return found

    @property
    def matrix(self) -> np.ndarray:
        """Σ w z zᵀ, without noise."""
        return self.rows * self.weight[0] * self.moments

    @property
    def squared_weights(self) -> np.ndarray | None:
        return self.rows * self.weight[1] * self.moments if self.has_squares else None

    @property
    def effective_rows(self) -> float:
        """The number of rows of equal weight that say as much."""
        return self.rows * self.weight[0] ** 2 / self.weight[1]

    def with_rows(self, rows: float) -> Guess:
        return replace(self, rows=rows)

    def column(self, domain: Domain, name: str) -> tuple[float, float]:
        """Mean and standard deviation of a numeric column, in original units."""
        at = self.terms.index(name)
        middle, half = centre_and_scale(domain)
        mean = middle[at] + half[at] * self.mean[at - 1]
        return float(mean), float(half[at] * math.sqrt(self.covariance[at - 1, at - 1]))

    def in_domain(self, before: Domain, after: Domain) -> Guess:
        """The same values, seen with other bounds."""
        if after.products:
            change = np.linalg.solve(congruence_of(after), congruence_of(before))
            mean = (change @ np.concatenate([[1.0], self.mean]))[1:]
            return replace(self, mean=mean, covariance=change[1:, 1:] @ self.covariance @ change[1:, 1:].T)
        (m0, h0), (m1, h1) = centre_and_scale(before), centre_and_scale(after)
        ratio = h0[1:] / h1[1:]
        mean = (m0[1:] + h0[1:] * self.mean - m1[1:]) / h1[1:]
        return replace(self, mean=mean, covariance=self.covariance * np.outer(ratio, ratio))


def find_guess(spec: Spec, given: str | Place | Mapping[str, Any] | None = None, rows: int | None = None) -> Guess:
    """Find a guess in a file, a release or a mapping; or assume one."""
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ConfError(f"rows={rows!r}; expected a whole number >= 1.")
    if given is None or isinstance(given, Mapping):
        found = written(spec, given or {}, "" if given is None else "the guess", rows)
    else:
        place = place_of(given)
        if isinstance(place, StorePath) or place.is_dir():
            found = released(spec, place)
        else:
            found = written(spec, _read(place), str(given))
    squares = spec.weight is not None and spec.weight.squares_share is not None
    noise = squared_weights(spec, spec.domain).noise if squares else None
    found = replace(found, has_squares=squares, squared_noise=noise, assumed=given is None)
    return _after_row_norm(spec.domain, found if rows is None else found.with_rows(float(rows)))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"), f"guess {str(path)!r}")
    except OSError as error:
        raise ConfError(
            f"guess {str(path)!r}: {error.strerror}. Expected a YAML file, or the directory of a release."
        ) from None
    except UnicodeDecodeError:
        raise ConfError(f"guess {str(path)!r}: not a text file.") from None
    if not isinstance(content, Mapping):
        raise ConfError(f"guess {str(path)!r}: expected keys such as rows, means, sds and correlations.")
    return content


def written(spec: Spec, content: Mapping[str, Any], source: str, asked_rows: int | None = None) -> Guess:
    """Read a guess that was written down; `asked_rows` win over those of the content and the conf."""
    try:
        file = GuessFile.model_validate(dict(content))
    except ValidationError as error:
        raise ConfError(f"guess: {explain(error)}") from None
    domain = spec.domain
    _check_names(domain, file)
    blocks = [_of_column(column, file) for column in domain.columns]
    mean = np.concatenate([part[0] for part in blocks])
    covariance = np.zeros((len(mean), len(mean)))
    at = 0
    for _, part in blocks:
        covariance[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    _correlate(domain, mean, covariance, file.correlations)
    mean, covariance = _with_products(domain, mean, covariance)
    rows = asked_rows or file.rows or spec.release.expected_rows
    return Guess(
        domain.terms,
        float(rows or USUAL_ROWS),
        mean,
        covariance,
        _said(source, file, rows),
        dict(file.residual_sds),
        _weight(spec, file.weight),
        tails=dict(file.tails),
    )


def _with_products(domain: Domain, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Complete mean and covariance of the columns by those of their products."""
    if not domain.products:
        return mean, covariance
    z = np.concatenate([[1.0], mean])
    moments = np.outer(z, z)
    moments[1:, 1:] += covariance
    moments = with_products(domain, moments)
    mean = moments[0, 1:]
    return mean, moments[1:, 1:] - np.outer(mean, mean)


def _said(source: str, file: GuessFile, rows: int | None) -> str:
    if source:
        return source + ("" if file.correlations else ", without correlations")
    how = "columns spread evenly over their bounds, no correlations"
    return f"assumed: {how}" + ("" if rows else "; no release.expected_rows or --rows: a million")


def _check_names(domain: Domain, file: GuessFile) -> None:
    numeric, blocks = {c.name for c in domain.numeric}, {c.name for c in domain.blocks}
    for key, names, known in (
        ("means", file.means, numeric),
        ("sds", file.sds, numeric),
        ("tails", file.tails, numeric),
        ("shares", file.shares, blocks),
        ("residual_sds", file.residual_sds, set(domain.terms[1:])),
    ):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ConfError(f"guess: {key}.{unknown[0]}; expected {', '.join(sorted(known)) or 'none'}.")


def _of_column(column: Numeric | Categorical, file: GuessFile) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean and covariance of a column's scaled terms."""
    if isinstance(column, Categorical):
        return _of_categories(column, file.shares.get(column.name))
    mean = file.means.get(column.name, column.middle)
    if not column.lower < mean < column.upper:
        raise ConfError(
            f"guess: means.{column.name}={mean:g}; expected a number inside its bounds, {column.lower:g} to {column.upper:g}."
        )
    most = math.sqrt((column.upper - mean) * (mean - column.lower))
    # Evenly spread values have a third of the largest variance that there can be around their mean.
    sd = file.sds.get(column.name, most / math.sqrt(3))
    if sd > most:
        raise ConfError(
            f"guess: sds.{column.name}={sd:g}; values in {column.lower:g} to {column.upper:g} around {mean:g} have {most:.4g} "
            "at most. Guess the values as they are after clipping."
        )
    return np.array([(mean - column.middle) / column.half]), np.array([[(sd / column.half) ** 2]])


def _of_categories(column: Categorical, shares: Mapping[Category, float] | None) -> tuple[np.ndarray, np.ndarray]:
    labels = [category_label(category) for category in column.categories]
    if shares is None:
        chosen = dict.fromkeys(labels, 1 / len(labels))
    else:
        chosen = {category_label(category): share for category, share in shares.items()}
        unknown = [label for label in chosen if label not in labels]
        if unknown:
            raise ConfError(f"guess: shares.{column.name}.{unknown[0]}; expected {', '.join(labels)}.")
        rest = 1 - sum(chosen.values())
        if rest < -1e-9:
            raise ConfError(f"guess: shares.{column.name} add up to {1 - rest:g}; expected 1 at most.")
        missing = [label for label in labels if label not in chosen]
        chosen.update({label: max(0.0, rest) / len(missing) for label in missing})
    share = np.array([chosen[label] for label in labels[len(labels) - len(column.terms) :]])
    return share, np.diag(share) - np.outer(share, share)


def _correlate(domain: Domain, mean: np.ndarray, covariance: np.ndarray, correlations: Mapping[str, float]) -> None:
    terms = domain.terms[1 : 1 + len(mean)]  # of the columns, without their products
    block = {term: column.name for column in domain.columns for term in column.terms}
    std = np.sqrt(np.diag(covariance))
    for pair, value in correlations.items():
        names = [name.strip() for name in pair.split(",")]
        if len(names) != 2 or any(name not in terms for name in names) or block[names[0]] == block[names[1]]:
            raise ConfError(
                f"guess: correlations.{pair!r}; expected two columns and a comma, of {', '.join(terms)}. Categories of one "
                "column have the correlation of their shares."
            )
        i, j = map(terms.index, names)
        covariance[i, j] = covariance[j, i] = value * std[i] * std[j]
    _fill_blocks(domain, mean, covariance)
    if len(covariance) and np.linalg.eigvalsh(covariance)[0] < -1e-9 * covariance.max():
        raise ConfError("guess: no data have these correlations together. Make some of them smaller.")


def _fill_blocks(domain: Domain, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Categories that add up to 1 have covariances that add up to 0: those that were not named take the rest."""
    for column in domain.blocks:
        at = [domain.terms.index(term) - 1 for term in column.terms]
        if abs(mean[at].sum() - 1) > 1e-9:
            continue
        for other in range(len(mean)):
            unnamed = [i for i in at if covariance[i, other] == 0 and mean[i] > 0]
            if other not in at and unnamed:
                rest = -covariance[at, other].sum() * mean[unnamed] / mean[unnamed].sum()
                covariance[unnamed, other] = covariance[other, unnamed] = rest


def _weight(spec: Spec, given: Mapping[str, float]) -> tuple[float, float]:
    """Read mean and mean square of the weights: evenly spread from 0 to the bound, if nobody says."""
    if set(given) - {"mean", "sd"} or (given and spec.weight is None):
        raise ConfError("guess: weight; expected mean and sd, for a conf with a weight.")
    if spec.weight is None:
        return 1.0, 1.0
    upper = spec.weight.upper
    mean = given.get("mean", upper / 2)
    sd = given.get("sd", math.sqrt(max(0.0, mean * (upper - mean)) / 3))
    if not (0 < mean <= upper and sd**2 <= mean * (upper - mean) * (1 + 1e-9)):
        raise ConfError(f"guess: weight; no weights from 0 to {upper:g} have mean {mean:g} and sd {sd:g}.")
    return mean, mean**2 + sd**2


def released(spec: Spec, path: Place) -> Guess:
    """Read a guess from a previous release: it is public, so that this costs nothing. Its own noise is in it."""
    found = read_content(path)
    if not isinstance(found, GramContent):
        raise ConfError(
            f"guess {str(path)!r}: a release of kind {found.kind}; expected one of kind gram, without groups."
        )
    return guess_of(spec, found, spec.domain)


def guess_of(spec: Spec, found: GramContent, domain: Domain) -> Guess:
    """Make a guess of a released matrix; `domain` has the bounds to see its values with."""
    path = found.path
    missing = [term for term in domain.terms if term not in found.terms]
    if missing:
        raise ConfError(
            f"guess {str(path)!r}: that release has no {missing[0]!r}. It has {', '.join(found.terms[1:])}."
        )
    at = [found.terms.index(term) for term in domain.terms]
    matrix = found.repaired("nearest_psd")[np.ix_(at, at)]
    rows = matrix[0, 0]
    if not rows >= 1:
        raise ConfError(f"guess {str(path)!r}: its noise left no rows. Write a guess down instead.")
    back = np.linalg.inv(congruence_of(domain))
    moments = back @ matrix @ back.T / rows
    mean = moments[0, 1:]
    covariance = moments[1:, 1:] - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    # Noise may leave a direction without variance; a plan would call it perfectly collinear. All categories together have none.
    least = 1e-9 * max(float(values[-1]), 1e-6)
    covariance = (vectors * np.maximum(values, least)) @ vectors.T
    title = f"release {found.name}, {str(path)!r}"
    counted, weight = _weights_of(spec, found)
    return Guess(domain.terms, float(rows) / counted, mean, covariance, title, {}, weight)


def _weights_of(spec: Spec, found: GramContent) -> tuple[float, tuple[float, float]]:
    """The weight of a row in a release, which counts weights; and the weights to plan with.

    Where it tells its effective rows, all weights are taken as equal: estimates are as sure as from these.
    """
    planned = _weight(spec, {})
    weight = found.manifest.get("weight")
    if weight is None:
        return 1.0, planned
    moments = found.moments
    if moments.effective_rows > 0:
        mean = moments.rows / moments.effective_rows
        return mean, planned if spec.weight is None else (mean, mean**2)
    return float(weight["upper"]) / 2, planned


def _after_row_norm(domain: Domain, guess: Guess) -> Guess:
    if domain.row_norm is None:
        return guess
    mean, covariance, weight = shortened(domain, guess.mean, guess.covariance)
    return replace(guess, mean=mean, covariance=covariance, rows=guess.rows * weight)
