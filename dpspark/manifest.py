"""The certificate of a release: what was done, what is guaranteed, and every number needed to check it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpspark.bundle import FORMAT
from dpspark.data.domain import domain_to_manifest
from dpspark.guarantee import protected, sentence
from dpspark.mechanisms.choose import Mechanism
from dpspark.mechanisms.lines import GroupedLines
from dpspark.mechanisms.noisy import NoisyGram, noise_to_manifest
from dpspark.spec import Spec
from dpspark.stages import spending

CLIPPED = "Values outside the bounds were moved to them. If many were, coefficients are biased; how many is not said."
CLIPPED_COUNTED = (
    "Values outside the bounds were moved to them; diagnostics.parquet says, with noise, what share of each column. "
    "Where it is large, coefficients are biased."
)
EQUAL_VARIANCE = "Standard errors assume residuals of equal variance: the matrix holds no fourth moments."
WEIGHTED = "The rows are weighted and the release holds no squared weights: no standard errors but the noise's."
PRIVATE_BOUNDS = (
    "Some bounds were found in the data, with noise: about the share of values that was asked for is outside them."
)
CAPPED = (
    "Of a person with more usable rows than {most}, {most} were kept at random: estimates are of those rows, among which such "
    "people count for less than among all rows. How many rows were dropped is not said."
)
ALIKE = "Standard errors take rows as independent, and those of one person may be alike: then they are too small."
NO_ID = "Rows without {column} were dropped."
OWN_ID = (
    "Rows without {column} are protected one by one: a person who has several of them is not protected as a person."
)
ROW_NORM = (
    "Long rows were shrunk (row_norm): estimates are of the shrunk rows, and differ from those of the rows as they are."
)
LIMITATIONS = [
    "Timing and the memory of the machines that read the data are not protected.",
    "The guarantee is for this release; other releases from the same data add to it. The ledger keeps the sum.",
]
LINES = (
    "Intervals of lines are for the line that the mechanism aims at: of skewed residuals, one nearer to medians than to means. "
    "They take residuals as of one spread and not far from normal."
)
FLOATING_POINT = (
    "The noise was drawn in floating point: no proof covers the last bits of its numbers. The gaussian and laplace mechanisms "
    "have exact samplers."
)


def build_manifest(
    spec: Spec, mechanism: Mechanism, found: Mapping[str, Any], ledger_id: str, spark_version: str
) -> dict[str, Any]:
    """`found` is what the mechanism says beside its facts, now that it has drawn."""
    return {
        "format": FORMAT,
        "release": {
            "name": spec.release.name,
            "version": spec.release.version,
            "kind": spec.release.kind,
            **{key: getattr(spec.release, key) for key in ("response", "x", "y") if getattr(spec.release, key)},
        },
        "guarantee": guarantee(spec, mechanism),
        "privacy": {
            "epsilon": spec.privacy.epsilon,
            "delta": spec.privacy.budget.delta,
            "rho": spec.privacy.rho,
            "neighbours": spec.privacy.neighbours,
            "unit": protected(spec.privacy.unit, spec.rows_per_record),
            "count_is_exact": mechanism.count_is_public,
            # Basic composition: these add up to the budget above.
            "spending": spending(spec, mechanism),
            # What a change of one record does to its rows.
            "its_rows_are": spec.changed_rows,
            "moves_between_groups": spec.keys_move,
        },
        # Numbers are in units of the scaled matrix: columns in [-1, 1], categories and intercept 0 or 1.
        "mechanism": {
            "name": spec.mechanism_name,
            **mechanism.facts(),
            **found,
        },
        "columns": domain_to_manifest(mechanism.domain),
        "terms": list(mechanism.domain.terms),
        "grid_bits": mechanism.domain.bits,
        "nulls": spec.null_policy,
        "weight": None
        if mechanism.domain.weight is None
        else {**asdict(mechanism.domain.weight), "steps": mechanism.domain.weight.steps},
        "row_norm": None if mechanism.domain.row_norm is None else asdict(mechanism.domain.row_norm),
        "spec": spec.public(),
        "spec_hash": spec.hash,
        "ledger": {"dataset": spec.ledger.dataset, "id": ledger_id},
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(spark_version),
        "limitations": _limitations(spec, mechanism),
    }


def gram_facts(spec: Spec, noisy: NoisyGram) -> dict[str, Any]:
    """What a drawn matrix adds. A repair is for reading, unless the analyst says otherwise: it is stored as released."""
    return {**noisy.facts, "noise": noise_to_manifest(noisy.noise), "repair": spec.mechanism.repair or "none"}


def _limitations(spec: Spec, mechanism: Mechanism) -> list[str]:
    unit, capped = spec.privacy.unit, []
    if unit is not None:
        without = NO_ID if unit.nulls == "drop" else OWN_ID
        alike = [ALIKE] if unit.max_rows > 1 else []
        capped = [CAPPED.format(most=unit.max_rows), without.format(column=unit.column), *alike]
    return [
        *capped,
        CLIPPED if spec.diagnostics is None else CLIPPED_COUNTED,
        *([PRIVATE_BOUNDS] if spec.axes else []),
        WEIGHTED if spec.weight is not None and spec.weight.squares_share is None else EQUAL_VARIANCE,
        *([LINES] if isinstance(mechanism, GroupedLines) and mechanism.line.interval is not None else []),
        *([ROW_NORM] if mechanism.domain.row_norm is not None else []),
        *LIMITATIONS,
        *([FLOATING_POINT] if "floating point" in mechanism.facts()["sampler"] else []),
    ]


def guarantee(spec: Spec, mechanism: Mechanism) -> str:
    public, privacy = mechanism.count_is_public or _counts_as_it_is(spec), spec.privacy
    return sentence(privacy.budget, privacy.neighbours, privacy.unit, public)


def _counts_as_it_is(spec: Spec) -> bool:
    return spec.count is not None and not spec.tells_its_rows and "count" not in spec.shares


def _versions(spark_version: str) -> dict[str, str]:
    found = {"python": platform.python_version(), "spark": spark_version}
    for package in ("dpspark", "opendp", "dp-accounting", "numpy", "pyarrow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            from dpspark.version import __version__

            found[package] = __version__ if package == "dpspark" else "unknown"
    return found
