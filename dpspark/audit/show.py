"""The audit as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dpspark.audit.attacks import FALSE_ALARMS, SHOWN, Finding
from dpspark.audit.mutants import Mutant
from dpspark.show.tables import aligned

COLUMNS = ("distinguish", "white box", "sensitivity", "redraw", "errors")
HEADER = ("mechanism", "neighbours", "claim", "found", "measured", "change / most", "again", "hostile", "verdict")


def summary(findings: Sequence[Finding]) -> str:
    """A line for each mechanism and relation; then what is common to all, and whatever is broken, in full."""
    rows: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        rows.setdefault((finding.target, finding.neighbours), []).append(finding)
    table = [_line(of) for of in rows.values() if any(finding.attack == "distinguish" for finding in of)]
    whole = {id(finding) for of in rows.values() if _has_line(of) for finding in of if finding.attack in COLUMNS}
    rest = [finding for finding in findings if id(finding) not in whole or finding.broken]
    parts = [_ruled([HEADER, *table], {3, 4, 5, 6, 7})] if table else []
    if rest:
        parts.append(_ruled([DETAILS, *map(_detail, rest)], {3, 4, 5}))
    return "\n\n".join(parts)


def _has_line(of: Sequence[Finding]) -> bool:
    return any(finding.attack == "distinguish" for finding in of)


def _line(of: Sequence[Finding]) -> tuple[str, ...]:
    by = {finding.attack: finding for finding in of}
    first = by["distinguish"]
    cells = []
    for attack in COLUMNS:
        finding = by.get(attack)
        if finding is None:
            cells.append("")
        elif finding.unit == "epsilon":
            cells.append(f"{finding.found:.2f}")
        elif attack == "sensitivity":
            cells.append(f"{_number(finding.found)} / {_number(finding.claim)}")
        else:
            cells.append(f"{finding.found:g}")
    return first.target, first.neighbours, _claim(first), *cells, verdict(of)


DETAILS = ("attack", "on", "neighbours", "at most", "found", "trials", "verdict", "")


def _detail(finding: Finding) -> tuple[str, ...]:
    return (
        finding.attack,
        finding.target,
        finding.neighbours,
        _claim(finding) if finding.unit == "epsilon" else _number(finding.claim),
        _number(finding.found),
        f"{finding.trials:,}",
        verdict([finding]),
        finding.note,
    )


def verdict(of: Sequence[Finding]) -> str:
    return "BROKEN" if any(finding.broken for finding in of) else "OK"


def _claim(finding: Finding) -> str:
    return f"ε {finding.claim:g}" + (f", δ {finding.delta:g}" if finding.delta else "")


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "∞"


def _ruled(rows: Sequence[tuple[str, ...]], numbers: set[int]) -> str:
    lines = aligned([list(row) for row in rows], set(range(len(rows[0]))) - numbers)
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def closing(findings: Sequence[Finding], trials: int) -> str:
    broken = sum(finding.broken for finding in findings)
    return "\n".join(
        [
            f"{broken or 'None'} of {len(findings)} attacks succeeded; {trials:,} releases of each of two neighbours.",
            f"found: ε that telling neighbours apart shows, at {SHOWN:.0%} confidence. measured: ε of the noise as drawn.",
            "change / most: the furthest that one record moved an exact statistic, and how far it may.",
            "again: answers to one release, asked for again. hostile: outcomes of hostile tables, but for the noise. Both 1.",
            f"A verdict of BROKEN needs more than {SHOWN:.0%}: a sound product is called broken in one audit of "
            f"{1 / FALSE_ALARMS:,.0f}.",
            "An audit can only find violations. OK means that these attacks failed, not that no other would succeed.",
        ]
    )


def mutant_table(caught: Sequence[tuple[Mutant, Finding]]) -> str:
    rows = [("broken on purpose", "in", "by", "at most", "found", "")]
    for mutant, finding in caught:
        found = _number(finding.found)
        claim = _claim(finding) if finding.unit == "epsilon" else _number(finding.claim)
        verdict = "caught" if finding.broken else "SURVIVED"
        rows.append((mutant.name, finding.target, finding.attack, claim, found, verdict))
    alive = sum(not finding.broken for _, finding in caught)
    end = f"{len(caught) - alive} of {len(caught)} broken copies were caught."
    if alive:
        end += " For those that survived, the attacks have no teeth: use more --trials."
    return f"{_ruled(rows, {3, 4})}\n\n{end}"


def to_dict(findings: Sequence[Finding], caught: Sequence[tuple[Mutant, Finding]], trials: int) -> dict[str, Any]:
    return {
        "broken": sum(finding.broken for finding in findings),
        "trials": trials,
        "confidence": SHOWN,
        "false_alarms": FALSE_ALARMS,
        "attacks": [_plain(finding) for finding in findings],
        "mutants": [{"mutant": mutant.name, "caught": finding.broken, **_plain(finding)} for mutant, finding in caught],
    }


def _plain(finding: Finding) -> dict[str, Any]:
    """Turn a finding into what JSON can hold: it has no infinity."""
    return {**asdict(finding), "found": finding.found if math.isfinite(finding.found) else None}
