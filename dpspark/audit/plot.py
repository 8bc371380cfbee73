"""A picture of the audit: the epsilon that was found against the claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpspark.audit.attacks import SHOWN, Finding
from dpspark.audit.mutants import Mutant
from dpspark.errors import ConfError, OutputError

# Okabe & Ito's colours, told apart by all kinds of colour vision; shapes say the same.
BLUE, GREEN, ORANGE, GREY = "#0072B2", "#009E73", "#D55E00", "#888888"
MARKS = {"distinguish": ("o", BLUE, "told apart (black box)"), "white box": ("D", GREEN, "noise measured (white box)")}
MOST = 3.0  # times the claim: broken copies beyond it are drawn at the edge


def draw_audit(findings: Sequence[Finding], caught: Sequence[tuple[Mutant, Finding]], path: str) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfError("--plot needs matplotlib: pip install 'dpspark[plot]'.") from None
    if Path(path).suffix.lower() != ".png":
        raise ConfError(f"--plot={path!r}; expected a name that ends in .png.")
    shown = [finding for finding in findings if finding.unit == "epsilon"]
    broken = [finding for _, finding in caught if finding.unit == "epsilon"]
    rows = list(dict.fromkeys((f.target, f.neighbours) for f in shown))
    at = {row: len(rows) - number for number, row in enumerate(rows)}
    figure = Figure(figsize=(9, 1.8 + 0.27 * max(4, len(rows))), dpi=160, layout="constrained")
    axes = figure.subplots()
    axes.axvspan(0, 1, color="#f0f0f0", zorder=0)
    axes.axvline(1, color=GREY, linewidth=1.5, zorder=1)
    for attack, (mark, colour, label) in MARKS.items():
        points = [(f.found / f.claim, at[f.target, f.neighbours]) for f in shown if f.attack == attack]
        if points:
            _points(axes, points, marker=mark, color=colour, s=42, label=label, zorder=3)
    points = [
        (min(f.found / f.claim, MOST), at[f.target, f.neighbours]) for f in broken if (f.target, f.neighbours) in at
    ]
    if points:
        _points(axes, points, marker="X", color=ORANGE, s=60, label="broken on purpose", zorder=2)
    axes.set_yticks(list(at.values()), [f"{target}, {relation}" for target, relation in rows], fontsize=9)
    axes.set_ylim(0.3, len(rows) + 0.7)
    axes.set_xlim(-0.03, (MOST if points else 1.2) + 0.08)
    axes.set_xlabel(f"lower bound of ε at {SHOWN:.0%} confidence, over the claimed ε (the line: all that is allowed)")
    axes.set_title("dpspark audit: what attacks found of each claim", loc="left", fontsize=12)
    axes.grid(axis="y", color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    try:
        figure.savefig(path)
    except OSError as error:
        raise OutputError(f"--plot={path!r}: {error.strerror}. Choose another place.") from None


def _points(axes: Any, points: Sequence[tuple[float, int]], **how: Any) -> None:
    axes.scatter([x for x, _ in points], [y for _, y in points], **how)
