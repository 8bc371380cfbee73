"""Which attacks are made on a mechanism, and on what all of them stand on."""

from __future__ import annotations

from dataclasses import replace

from dpspark.audit.attacks import Finding, distinguish
from dpspark.audit.hostile import errors_finding
from dpspark.audit.redraw import redraw_finding
from dpspark.audit.sensitivity_attack import DOMAINS
from dpspark.audit.targets import TARGETS
from dpspark.audit.white_box import measure_noise
from dpspark.core.domain import Domain
from dpspark.privacy.noise import OpenDPNoise
from dpspark.spec.spec import Spec


def attack_all(
    kind: str, name: str, spec: Spec, trials: int, risk: float, domains: dict[str, Domain] = DOMAINS
) -> list[Finding]:
    """Make every attack on one mechanism for one relation of neighbours. Two may be wrong, each with probability `risk`.

    `domains` are the kinds of rows that a matrix is attacked with.
    """
    target = TARGETS[kind, name]
    case = replace(target.case(spec), target=f"{kind} {name}")  # by its own name, where the spec says auto
    noise = OpenDPNoise()
    found = [distinguish(case, trials, noise, risk)]
    if case.view is not None:
        found.append(measure_noise(case, trials, noise, risk))
    found += target.noise_free(case.target, case.neighbours, domains)
    if kind != "extra":
        found.append(errors_finding(spec, case.target))
        found.append(redraw_finding(spec, case.target))
    return found
