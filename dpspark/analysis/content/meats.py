"""The meats that a release holds: read from its tables, and chosen for a regression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.clusters import ReleasedClusters
from dpspark.analysis.options import Asked
from dpspark.analysis.sandwich import ReleasedMeat
from dpspark.bundle.meats import meat_laws, read_matrices, score_maps
from dpspark.core.domain import SCORE_STEPS, Domain
from dpspark.core.formula import Formula
from dpspark.errors import ConfError
from dpspark.mechanisms.errors.asked import CLASSICAL, CLUSTER, HC1, AskedErrors, asked_of
from dpspark.mechanisms.errors.score_map import ScoreNoise
from dpspark.mechanisms.gram.coordinates import turn_of
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoiseModel
from dpspark.mechanisms.gram.turned_noise import turned

ERRORS = (CLASSICAL, HC1, CLUSTER)
NOT_PAID = "the release holds no meat of this regression (release.errors)"
BY_BOOTSTRAP = "bootstrap intervals assume equal variances"
AS_ASKED = "asked for"


def read_meats(
    mechanism: Mapping[str, Any], tables: Mapping[str, pa.Table], domain: Domain, squares: np.ndarray | None
) -> tuple[ReleasedMeat, ...]:
    """Read the meats; `squares` is the released matrix of all terms that they were completed with, in scaled coordinates."""
    if "scaled_meat" not in tables:
        return ()
    if squares is None:
        raise ValueError("no matrix")
    facts, clips = mechanism["errors"], mechanism["residual_clips"]
    asked = asked_of(domain, 0.0, [one["formula"] for one in facts["regressions"]])
    matrices = read_matrices(tables["scaled_meat"])
    if tuple(matrices) != asked.texts or len(clips) != len(asked.texts):
        raise ValueError("other meats than the manifest has")
    found, laws = [], meat_laws(mechanism, domain, asked.regressions)
    for at, (one, (law, clip)) in enumerate(zip(asked.regressions, laws, strict=True)):
        terms, matrix = matrices[one.text]
        places, half = list(one.places(domain)), clip**2 / 2
        if terms != one.terms(domain):
            raise ValueError("wrong terms")
        own = matrix - half * squares[np.ix_(places, places)]
        clusters = _read_clusters(mechanism, domain, asked, at) if facts["kind"] == CLUSTER else None
        noise: NoiseModel | ScoreNoise = law
        if isinstance(law, AdditiveNoise):
            noise = law.given(None if domain.known is None else domain.known.only(places))
            own = noise.project(own)
            turn = turn_of(one.regressors(domain))
            own = own if turn is None else turn @ own @ turn.T
            noise = turned(noise, one.regressors(domain))
        found.append(ReleasedMeat(str(facts["kind"]), one.text, one.formula, terms, own, noise, clip, clusters))
    return tuple(found)


def _read_clusters(mechanism: Mapping[str, Any], domain: Domain, asked: AskedErrors, at: int) -> ReleasedClusters:
    """Read what a release says of the clusters of one of its regressions."""
    facts, told, by = mechanism["errors"], mechanism["clusters"], score_maps(mechanism, domain, asked.regressions)[at]
    squares = told["squares"][at] * mechanism["residual_clips"][at] ** 2
    count, std = told["count"], facts["beside"]["count_std"]
    # The mean size on each axis is its scale: norms are √p of it on average, or more.
    kept = math.sqrt(by.axes.width) * max(count, 1.0) / (told["target"] * by.score / SCORE_STEPS)
    headroom, reach = by.radius / mechanism["score_bounds"][at], by.radius / SCORE_STEPS
    people = facts["clusters_are_people"]
    return ReleasedClusters(facts["column"], people, count, std, squares, kept**headroom, reach, headroom)


def choose_meat(meats: Sequence[ReleasedMeat], formula: Formula, asked: Asked) -> tuple[ReleasedMeat | None, str]:
    """Find the meat to make standard errors with; None where equal variances are assumed, and why."""
    check_errors(asked.errors)
    found = next((meat for meat in meats if meat.answers(formula)), None)
    if asked.errors is None:
        if found is None:
            return None, NOT_PAID
        return (None, BY_BOOTSTRAP) if asked.interval == "bootstrap" else (found, "")
    if asked.errors == CLASSICAL:
        return None, AS_ASKED
    if found is None or found.kind != asked.errors:
        has = "; ".join(f"{meat.kind} of {meat.text}" for meat in meats) or "none"
        raise ConfError(
            f"errors={asked.errors!r}: the release holds no such meat of {formula}. Leave it out for equal variances.\n"
            f"It holds: {has}."
        )
    if asked.interval == "bootstrap":
        raise ConfError(f"errors={asked.errors!r} with interval='bootstrap': {BY_BOOTSTRAP}. Use delta.")
    return found, ""


def check_errors(errors: str | None) -> None:
    """Refuse a name that no standard errors have."""
    if errors is not None and errors not in ERRORS:
        raise ConfError(f"errors={errors!r}; expected one of {', '.join(ERRORS)}.")
