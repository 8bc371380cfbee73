"""The meats of regressions, from a manifest alone: what was asked for, and whether the tables are what they should be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.bundle.meats import back_of, meat_laws, original_std, read_matrices, response_half, scaled_std, score_maps
from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Clusters, Records
from dpspark.exact.residuals import HIGHEST_OCTAVE, LOWEST_OCTAVE, OCTAVE_CELLS, octaves
from dpspark.exact.scores import EDGES
from dpspark.mechanisms.errors.asked import CLUSTER, HC1, AskedErrors, AskedRegression, asked_of
from dpspark.mechanisms.errors.score_map import scales_of
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.privacy.sensitivity import cluster_step
from dpspark.verifying.rows import class_of

CLOSE = 1e-9  # relative: of the same number, computed in another order


def errors_of(spec: Facts, domain: Domain, records: Records) -> AskedErrors | None:
    """Read from a manifest's spec which regressions' standard errors were asked for."""
    release = spec.part("release")
    if not release.has("errors"):
        return None
    if not release.has_part("errors") and release.text("errors") != HC1:
        raise Garbled("release.errors is none that is known here")
    if release.has("group_by") or domain.weight is not None:
        raise Garbled("release.errors of groups, or of weighted rows, have no proof")
    if not class_of(release.text("kind"), spec.part("mechanism").text("name")).robust_errors:
        raise Garbled("release.errors with a mechanism that they are not for")
    share = release.positive("errors_share")
    if not share < 1:
        raise Garbled("release.errors_share is not below 1")
    texts = release.texts("regressions") if release.has("regressions") else None
    if not release.has_part("errors"):
        return asked_of(domain, share, texts)
    by, source, privacy = release.part("errors").text("cluster"), spec.part("source"), spec.part("privacy")
    people = source.whole("rows_per_record") if source.has("rows_per_record") else 1
    whole = privacy.has("unit") and privacy.part("unit").text("column") == by
    return asked_of(domain, share, texts, by, Clusters(records, people, whole))


def meat_layout(manifest: dict[str, Any], domain: Domain) -> dict[str, list[Any]]:
    """List the rows that the tables of meats should have."""
    asked = _asked(manifest, domain)
    terms = [(one.text, one.terms(domain)) for one in asked.regressions]
    return {
        "regression": [text for text, of in terms for _ in range(len(of) ** 2)],
        "row": [row for _, of in terms for row in of for _ in of],
        "col": [col for _, of in terms for _ in of for col in of],
    }


def unlike_meats(release: Content) -> Iterator[str]:
    """Yield what is wrong with the numbers of meats: both tables say the same, and clips are cells that can be drawn."""
    if not {"meat", "scaled_meat"} <= set(release.tables):
        yield "meat or scaled_meat is missing"
        return
    asked, domain = _asked(release.manifest, release.domain), release.domain
    original, scaled = (read_matrices(release.tables[name]) for name in ("meat", "scaled_meat"))
    if not all(_same(domain, one, original[one.text][1], scaled[one.text][1]) for one in asked.regressions):
        yield "meat is not scaled_meat, in original units"
    clips = np.array(release.manifest["mechanism"]["residual_clips"], dtype=float)
    cells = (octaves(clips) - LOWEST_OCTAVE) * OCTAVE_CELLS
    most = (HIGHEST_OCTAVE - LOWEST_OCTAVE) * OCTAVE_CELLS
    if not np.all((cells == np.rint(cells)) & (cells >= 1) & (cells <= most)):
        yield "mechanism.residual_clips are none that can be drawn"
    if release.manifest["mechanism"]["errors"]["kind"] == CLUSTER:
        yield from _unlike_clusters(release)


def _unlike_clusters(release: Content) -> Iterator[str]:
    """Yield what is wrong with the scores of clusters: bounds can be drawn, scales and units follow from what was drawn."""
    mechanism, domain = release.manifest["mechanism"], release.domain
    maps, told = score_maps(mechanism, domain, _asked(release.manifest, domain).regressions), mechanism["clusters"]
    if not {*mechanism["score_radii"], *mechanism["score_bounds"]} <= set(EDGES[1:].tolist()):
        yield "mechanism.score_bounds or score_radii are none that can be drawn"
    if [each.scales for each in maps] != [scales_of(totals, told["count"]) for totals in told["totals"]]:
        yield "mechanism.score_scales do not follow from the clusters' totals"
    targets = [
        part.get("target") for part in release.manifest["privacy"]["spending"] if part["stage"] == "score bounds"
    ]
    if targets != [told["target"]]:
        yield "mechanism.clusters.target is not that of the bounds"
    people = Clusters(Records("added"), whole=bool(mechanism["errors"]["clusters_are_people"]))
    units = [cluster_step(people, each.axes.width, each.score / each.radius) for each in maps]
    if not np.allclose(mechanism["score_units"], units, rtol=CLOSE, atol=0):
        yield "mechanism.score_units are not those of the bounds"


def expected_meats(release: Content) -> Iterator[tuple[str, np.ndarray]]:
    """Compute what the noise_std of the tables of meats should be, in the order of their rows."""
    if "meat" not in release.tables:
        return
    domain, mechanism = release.domain, release.manifest["mechanism"]
    asked, squares = _asked(release.manifest, domain), _squares_noise(release)
    original, scaled = [], []
    for one, (law, clip) in zip(asked.regressions, meat_laws(mechanism, domain, asked.regressions), strict=True):
        original.append(original_std(domain, one, law, clip, squares).ravel())
        scaled.append(scaled_std(len(one.terms(domain)), law, clip, squares).ravel())
    yield "meat", np.concatenate(original)
    yield "scaled_meat", np.concatenate(scaled)


def _squares_noise(release: Content) -> AdditiveNoise:
    if isinstance(release, GramContent) and isinstance(release.noise, AdditiveNoise):
        return release.noise
    if isinstance(release, RegressionContent) and release.statistics is not None:
        return release.statistics.noise.squares
    raise ValueError("meats beside a matrix without additive noise")


def _asked(manifest: dict[str, Any], domain: Domain) -> AskedErrors:
    return asked_of(domain, 0.0, manifest["spec"]["release"].get("regressions"))


def _same(domain: Domain, one: AskedRegression, original: np.ndarray, scaled: np.ndarray) -> bool:
    back, unit = back_of(domain, one), response_half(domain, one) ** 2
    size = np.abs(back) @ np.abs(scaled) @ np.abs(back).T * unit
    close = np.abs(original - back @ scaled @ back.T * unit) <= CLOSE * size
    return bool(np.all(close)) and all(np.array_equal(m, m.T) for m in (original, scaled))
