"""One question by every mechanism: the slopes of income ~ age + educ on generated census microdata, without Spark.

    python docs/compare.py [--rows 10000 100000] [--draws 101] [--epsilon 1] [--delta 1e-9]

An error is a slope's distance from the least squares of the same rows without noise, in standard errors of that; of the two
slopes the root mean square; of all draws the median. In brackets, for kind regression, the same with no noise drawn: what
the mechanism's own row norm, ridge or clipping makes of the question. Gradient descent is slow: a twentieth of the draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.fit import to_original
from dpspark.core.domain import Clip, Domain
from dpspark.demo.microdata import calibrate, microdata_batch
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.exact.gradient import ExactGradient, GradientAccumulator
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import ExactSums, Residual, ResidualHistograms, ResidualSums, octave_axis
from dpspark.mechanisms.registry import REGISTRY, mechanism_named, mechanisms_of
from dpspark.privacy.noise import NoiseSource, OpenDPNoise
from dpspark.published.gram import GramRelease
from dpspark.releasing.manifest import build_manifest, gram_facts
from dpspark.releasing.tables import second_moment_table
from dpspark.spec.choose import GramMechanism, choose
from dpspark.spec.spec import Spec, load_spec

SEED = 2000  # of jobs/make_microdata.py: the rows are those of the examples
COLUMNS = {
    "age": {"lower": 18, "upper": 95},
    "educ": {"lower": 1, "upper": 16},
    "income": {"lower": 0, "upper": 300000},
}
FORMULA = "income ~ age + educ"
CAPPED = {"row_norm": {"mode": "cap", "radius": 0.82, "include_response": True}}

# What is compared: a name, the mechanism with its options, and what else the conf says.
QUESTIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((each.name, {"name": each.name}, {}) for each in mechanisms_of("gram")),
    *((each.name, {"name": each.name}, {}) for each in mechanisms_of("regression")),
    ("gram_ridge, `row_norm: {mode: cap, radius: 0.82, include_response: true}`", {"name": "gram_ridge"}, CAPPED),
    *(
        (f"adassp, `constants: {constants}`", {"name": "adassp", "constants": constants}, {})
        for constants in ("wang", "kalaja")
    ),
]


class NoNoise(OpenDPNoise):
    """Draws of zero, for mechanisms that add noise to sums or to the objective."""

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return [0] * count

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        return [0] * count

    def uniforms(self, count: int) -> np.ndarray:
        return np.full(count, 0.5)  # the middle of a normal draw


class Rows:
    """Rows in memory, as a mechanism asks for them."""

    def __init__(self, columns: dict[str, np.ndarray]):
        self.columns = columns

    def gram(self, domain: Domain) -> ExactGram:
        total = GramAccumulator(domain)
        total.add(*self._read(domain))
        return ExactGram.from_partials(domain, [total.finish()])

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        total = GradientAccumulator(domain, theta, clip)
        total.add(*self._read(domain))
        return ExactGradient(np.frombuffer(total.finish(), dtype="<i8").tolist())

    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram:
        total = ResidualHistograms(domain, tuple(residuals.values()))
        total.add(*self._read(domain))
        return ExactHistogram.from_partials([octave_axis(name) for name in residuals], [total.finish()])

    def residual_sums(self, domain: Domain, residual: Residual, clip: float) -> ExactSums:
        total = ResidualSums(domain, residual, clip)
        total.add(*self._read(domain))
        return ExactSums.from_partials([total.finish()], len(residual.regressors) + 1)

    def _read(self, domain: Domain) -> tuple[list[np.ndarray], int]:
        read = [self.columns[column.name] for column in domain.columns]
        return read, len(read[0])


def least_squares(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The slopes of age and educ and their standard errors, without any privacy."""
    x = np.column_stack([np.ones(len(columns["age"])), columns["age"], columns["educ"]])
    y = columns["income"]
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ x.T @ y
    sigma2 = ((y - x @ beta) ** 2).sum() / (len(y) - 3)
    return beta[1:], np.sqrt(sigma2 * np.diag(inverse))[1:]


def slopes(rows: Rows, spec: Spec, draws: int, noise: NoiseSource) -> list[np.ndarray | None]:
    """The released slopes, draw after draw; None where the release says NOT IDENTIFIED."""
    mechanism = choose(spec)
    if not isinstance(mechanism, GramMechanism):
        matrix, shift = to_original(mechanism.domain)
        released = (mechanism.release(rows, noise, lambda step: None).theta for _ in range(draws))
        return [(matrix @ theta + shift)[1:] for theta in released]
    exact, found = rows.gram(mechanism.domain), []
    for _ in range(draws):
        noisy = mechanism.release(exact, noise)
        manifest = build_manifest(spec, mechanism, gram_facts(spec, noisy), "none", "none")
        fit = GramRelease(GramContent(Path(), manifest, {"second_moment": second_moment_table(noisy)})).regress(FORMULA)
        found.append(np.array([fit.params[t] for t in ("age", "educ")]) if fit.status == "OK" else None)
    return found


def error(rows: Rows, spec: Spec, draws: int) -> str:
    """The median error; a draw that is not identified is the largest there is."""
    truth, std_error = least_squares(rows.columns)
    draws = max(1, draws // 20) if spec.mechanism_name == "gradient_descent" else draws

    def median(found: list[np.ndarray | None]) -> str:
        missed = [
            np.inf if slope is None else float(np.sqrt(np.mean(((slope - truth) / std_error) ** 2))) for slope in found
        ]
        middle = float(np.median(missed))
        return f"{middle:.2f}" if middle < np.inf else "not identified"

    shown = median(slopes(rows, spec, draws, OpenDPNoise()))
    return shown if spec.release.kind == "gram" else f"{shown} ({median(slopes(rows, spec, 1, NoNoise()))})"


def people(rows: int) -> Rows:
    batch = microdata_batch(0, rows, SEED, calibrate())
    return Rows({name: batch.column(name).to_numpy().astype(float) for name in COLUMNS})


def conf(mechanism: dict[str, Any], more: dict[str, Any], epsilon: float, delta: float) -> dict[str, Any]:
    name = mechanism["name"]
    kind = next(kind for kind, all_of in REGISTRY.items() if name in [each.name for each in all_of])
    response = {"response": "income"} if kind == "regression" else {}
    both = "both" in mechanism_named(kind, name).currencies
    return {
        "columns": COLUMNS,
        "privacy": {"epsilon": epsilon, "delta": delta} if both else {"epsilon": epsilon},
        "release": {"name": "compare", "version": "1", "kind": kind, **response},
        "mechanism": mechanism,
        "ledger": {"dataset": "none"},
        **more,
    }


def table(sizes: list[int], draws: int, epsilon: float, delta: float) -> str:
    lines = [
        f"| epsilon = {epsilon:g}, delta = {delta:g}; median of {draws} draws | "
        + " | ".join(f"{size:,} rows" for size in sizes)
        + " |",
        "|---|" + "---|" * len(sizes),
    ]
    data = [people(size) for size in sizes]
    for name, mechanism, more in QUESTIONS:
        spec = load_spec(conf(mechanism, more, epsilon, delta))
        shown = " | ".join(error(rows, spec, draws) for rows in data)
        pure = "" if spec.privacy.delta else " (delta = 0)"
        lines.append(f"| {name}{pure} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="The slopes of income ~ age + educ by every mechanism.")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--draws", type=int, default=101)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-9)
    given = parser.parse_args()
    print(table(given.rows, given.draws, given.epsilon, given.delta))


if __name__ == "__main__":
    main()
