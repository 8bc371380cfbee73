"""The audit as a table, as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dpspark.audit.attacks import FALSE_ALARMS, SHOWN, Finding

HEADER = ("attack", "on", "neighbours", "claim", "found", "trials", "verdict")


def table(findings: Sequence[Finding]) -> str:
    rows = [HEADER, *(_row(finding) for finding in findings)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADER))]
    right = {3, 4, 5}
    lines = [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _row(finding: Finding) -> tuple[str, ...]:
    claim = f"{finding.claim:.4g}"
    if finding.unit == "epsilon":
        claim = f"ε {claim}" + (f", δ {finding.delta:g}" if finding.delta else "")
    return (
        finding.attack,
        finding.target,
        finding.neighbours,
        claim,
        f"{finding.found:.4g}" if finding.unit != "epsilon" else f"{finding.found:.3f}",
        f"{finding.trials:,}",
        "BROKEN" if finding.broken else "OK",
    )


def closing(findings: Sequence[Finding]) -> str:
    broken = sum(finding.broken for finding in findings)
    verdict = (
        f"{broken} of {len(findings)} attacks succeeded." if broken else f"None of {len(findings)} attacks succeeded."
    )
    return "\n".join(
        [
            verdict,
            f"distinguish, white box: found is a lower bound of epsilon at {SHOWN:.0%} confidence; BROKEN needs it above the",
            f"claim so clearly that a sound product is called broken in one audit of {1 / FALSE_ALARMS:,.0f}.",
            "An audit can only find violations: what it does not find may still be there. The proofs are in the docstrings.",
        ]
    )


def to_dict(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "broken": sum(finding.broken for finding in findings),
        "confidence": SHOWN,
        "false_alarms": FALSE_ALARMS,
        "attacks": [asdict(finding) for finding in findings],
    }
