"""Which attacks are made on a mechanism, and on what all of them stand on."""

from __future__ import annotations

from dataclasses import replace

from dpspark.audit.attacks import Case, Finding, distinguish
from dpspark.audit.cases import target_of
from dpspark.audit.hostile import errors_finding
from dpspark.audit.line_cases import interval_case, line_case
from dpspark.audit.quantile_cases import quantile_case
from dpspark.audit.redraw import redraw_finding
from dpspark.audit.sensitivity_attack import (
    DOMAINS,
    gradient_finding,
    matrix_finding,
)
from dpspark.audit.spread_attack import (
    interval_finding,
    pairing_finding,
    quantile_finding,
    rank_finding,
    score_finding,
    smooth_finding,
    sums_finding,
)
from dpspark.audit.targets import TARGETS
from dpspark.audit.white_box import measure_noise
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles
from dpspark.privacy.noise import OpenDPNoise
from dpspark.spec.choose import choose
from dpspark.spec.extras import bound_quantiles
from dpspark.spec.spec import Spec


def release_case(spec: Spec) -> Case:
    """Make the distinguishing attack on the mechanism that a spec asks for."""
    target = TARGETS.get((spec.release.kind, spec.mechanism_name))
    if target is not None:
        return target.case(spec)
    mechanism = choose(spec)
    if isinstance(mechanism, LineMechanism):
        return line_case(spec, mechanism)
    assert isinstance(mechanism, ExponentialQuantiles)
    return quantile_case(spec, mechanism.quantiles, spec.release_budget, target_of(spec))


def stage_case(spec: Spec, stage: str) -> Case:
    """Make the distinguishing attack on an extra of a spec."""
    target = TARGETS.get(("stage", stage))
    if target is not None:
        return target.case(spec)
    if stage == "bounds":
        return quantile_case(spec, bound_quantiles(spec), spec.stage_budget("bounds"), "stage bounds")
    mechanism = choose(spec)
    assert isinstance(mechanism, LineMechanism)
    return interval_case(spec, mechanism)


def attack_all(
    kind: str, name: str, spec: Spec, trials: int, risk: float, domains: dict[str, Domain] = DOMAINS
) -> list[Finding]:
    """Every attack on one mechanism for one relation of neighbours. Two of them may be wrong, each with probability `risk`.

    `domains` are the kinds of rows that a matrix is attacked with.
    """
    case = stage_case(spec, name) if kind == "stage" else release_case(spec)
    case = replace(case, target=f"{kind} {name}")  # by its own name, where the spec says auto
    noise = OpenDPNoise()
    found = [distinguish(case, trials, noise, risk)]
    if case.view is not None:
        found.append(measure_noise(case, trials, noise, risk))
    found += noise_free(kind, name, case.target, case.neighbours, domains)
    if kind != "stage":
        found.append(errors_finding(spec, case.target))
        found.append(redraw_finding(spec, case.target))
    return found


def noise_free(
    kind: str, name: str, target: str, neighbours: str, domains: dict[str, Domain] = DOMAINS
) -> list[Finding]:
    """How far a record moves what the noise is added to, or what weighs the candidates."""
    of = (target, neighbours)
    known = TARGETS.get((kind, name))
    if known is not None:
        return known.noise_free(target, neighbours, domains)
    if kind == "stage":
        return [{"bounds": quantile_finding, "interval": interval_finding}[name](*of)]
    if kind == "quantiles":
        return [quantile_finding(*of)]
    if name == "gradient_descent":
        return [gradient_finding(*of)]
    if name in ("depth", "huber"):
        return [score_finding(*of, name)]
    if name == "smooth_sensitivity":
        return [smooth_finding(*of)]
    if name == "sufficient_statistics":
        return [sums_finding(*of)]
    if name == "gram":
        return [matrix_finding(*of, "l1")]
    return [rank_finding(*of, name), *([] if name == "all_pairs" else [pairing_finding(*of)])]
