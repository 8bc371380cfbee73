"""`python -m benchmarks peers`: dpspark and its peers on the same data, with the same bounds, epsilon and delta, in one run."""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.environments import Failed, NotInstalled, run_peer
from benchmarks.peers.known import NAMES, PEERS, Peer, Question
from benchmarks.peers.own import CAVEATS, run_ours
from dpspark.demo.microdata import calibrate, microdata_batch
from dpspark.privacy.budget import zcdp_rho
from dpspark.version import __version__

Report = Callable[[str], None]
SEED = 2000  # of jobs/make_microdata.py
BOUNDS = {"age": (18, 95), "educ": (1, 16), "income": (0, 300_000)}
COLUMNS = {"regressors": ["age", "educ"], "response": "income", "x": "parent_rank", "y": "kid_rank"}
LINE_ROWS = 1000
QUARTILES = (0.25, 0.5, 0.75)
TIMED = 5  # runs
Truth = tuple[np.ndarray, np.ndarray]  # slopes of least squares without noise, and their standard errors


def bench_peers(
    rows: int,
    epsilon: float,
    delta: float,
    draws: int,
    only: Sequence[str],
    install: bool,
    as_json: bool,
    report: Report,
) -> str:
    """Every peer that is wanted, one after the other; one that cannot be had gets a row that says why."""
    names = [name for name in NAMES if name in (only or NAMES)]
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-", ignore_cleanup_errors=True) as home:
        report(f"making {rows:,} rows")
        truths = make_data(Path(home), rows)
        asked = {
            **COLUMNS,
            **{name: str(Path(home, name)) for name in ("people", "line")},
            **{"line_rows": LINE_ROWS, "epsilon": epsilon, "delta": delta, "draws": draws},
            "rho": zcdp_rho(epsilon, delta),
        }
        found = _ours(Path(home), asked, truths, report) if "dpspark" in names else []
        for peer in PEERS:
            if peer.name in names:
                report(f"{peer.name} (its environment is made if there is none yet)" if install else peer.name)
                found += _peer_rows(peer, asked, truths, install)
    asked_for = f"--rows {rows} --epsilon {epsilon:g} --delta {delta:g} --draws {draws}"
    options = "".join(f" --only {name}" for name in only) + ("" if install else " --no-install")
    results = {
        **{"rows": rows, "line_rows": LINE_ROWS, "epsilon": epsilon, "delta": delta, "draws": draws},
        "cores": os.cpu_count(),
        "command": f"python -m benchmarks peers {asked_for}{options}",
        "peers": found,
    }
    return json.dumps(results, indent=2, ensure_ascii=False) if as_json else table(results)


def make_data(home: Path, rows: int) -> dict[str, Truth]:
    """People and ranks, every column clipped to its bounds and moved to [-1, 1], so that no peer lacks a good scale."""
    batch = microdata_batch(0, rows, SEED, calibrate())
    people = {name: _scaled(batch.column(name).to_numpy(), *bounds) for name, bounds in BOUNDS.items()}
    random = np.random.default_rng(SEED)
    parent = random.beta(1.0, 1.2, LINE_ROWS)
    kid = 0.45 + 0.35 * (parent - 0.5) + 0.2 * random.standard_normal(LINE_ROWS)
    line = {"parent_rank": _scaled(parent, 0, 1), "kid_rank": _scaled(kid, 0, 1)}
    _write(home / "people", people)
    _write(home / "line", line)
    return {
        "slopes": least_squares([people["age"], people["educ"]], people["income"]),
        "line": least_squares([line["parent_rank"]], line["kid_rank"]),
    }


def _scaled(values: np.ndarray, lower: float, upper: float) -> np.ndarray:
    return (np.clip(values.astype(float), lower, upper) - (lower + upper) / 2) / ((upper - lower) / 2)


def _write(directory: Path, columns: dict[str, np.ndarray]) -> None:
    """As many files as cores, so that Spark reads them at once."""
    directory.mkdir()
    files = os.cpu_count() or 1
    for number in range(files):
        part = {name: values[number::files] for name, values in columns.items()}
        pq.write_table(pa.table(part), directory / f"{number}.parquet")


def least_squares(regressors: Sequence[np.ndarray], response: np.ndarray) -> Truth:
    x = np.column_stack([np.ones(len(response)), *regressors])
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ x.T @ response
    variance = ((response - x @ beta) ** 2).sum() / (len(response) - x.shape[1])
    return beta[1:], np.sqrt(variance * np.diag(inverse))[1:]


def slopes_of(sums: Sequence[float]) -> list[float | None]:
    """Least squares from second moments, the upper triangle row by row, the response last; as the noise left them."""
    width = int(math.sqrt(2 * len(sums)))
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = sums
    matrix += np.triu(matrix, 1).T
    try:
        return np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1])[1:].tolist()
    except np.linalg.LinAlgError:
        return [None] * (width - 2)


def errors_of(answer: dict[str, Any], truth: Truth) -> list[list[float | None]]:
    """Find for each slope the quartiles over draws of its distance from least squares without noise, in standard errors."""
    draws = answer["slopes"] if "slopes" in answer else [slopes_of(sums) for sums in answer["sums"]]
    estimates = np.array(draws, dtype=float)  # None, an estimate that is not there, becomes NaN
    distance = np.abs(estimates - truth[0]) / truth[1]
    found = np.quantile(np.where(np.isnan(distance), np.inf, distance), QUARTILES, axis=0, method="nearest").T
    return [[float(value) if value < np.inf else None for value in slope] for slope in found]


def typical_seconds(seconds: Sequence[float]) -> float:
    """The first run warms up; after that as many runs of each peer as the slowest make."""
    return statistics.median(seconds[1:TIMED] or seconds)


def _row(peer: str, of: str, question: Question, **facts: Any) -> dict[str, Any]:
    return {"peer": peer, "of": of, "asked": question.asked, "claims": question.claims, **facts}


def _measured(answer: dict[str, Any], truth: Truth, of: str, startup: float) -> dict[str, Any]:
    names = COLUMNS["regressors"] if of == "slopes" else [COLUMNS["x"]]
    return {
        "draws": len(answer["seconds"]),
        "error_per_standard_error": dict(zip(names, errors_of(answer, truth), strict=True)),
        "seconds": typical_seconds(answer["seconds"]),
        "startup_seconds": startup,
    }


def _ours(home: Path, asked: dict[str, Any], truths: dict[str, Truth], report: Report) -> list[dict[str, Any]]:
    report("dpspark")
    startup, found = run_ours(home, asked)
    facts = {"version": __version__, "caveats": list(CAVEATS), "shown": []}
    return [
        _row("dpspark", each.of, each.question, **facts, **_measured(answer, truths[each.of], each.of, startup))
        for each, answer in found
    ]


def _peer_rows(peer: Peer, asked: dict[str, Any], truths: dict[str, Truth], install: bool) -> list[dict[str, Any]]:
    questions = {"slopes": peer.slopes, **({"line": peer.line} if peer.line else {})}
    caveats = {"caveats": list(peer.caveats)}
    try:
        found = run_peer(peer, asked, install)
    except (NotInstalled, Failed) as problem:
        facts = {"version": peer.version, **caveats, "shown": [], "not_run": str(problem)}
        return [_row(peer.name, of, question, **facts) for of, question in questions.items()]
    facts = {"version": found["version"], **caveats, "shown": found["shown"]}
    return [
        _row(
            peer.name,
            of,
            question,
            **facts,
            **_measured(found["answers"][of], truths[of], of, found["startup_seconds"]),
        )
        for of, question in questions.items()
    ]


def table(results: dict[str, Any]) -> str:
    budget = f"epsilon = {results['epsilon']:g}, delta = {results['delta']:g} (0 where pure)"
    people = f"income ~ age + educ: {results['rows']:,} rows of generated microdata, {budget}, {results['cores']} cores"
    line = f"kid_rank ~ parent_rank: {results['line_rows']:,} rows of invented ranks"
    return "\n".join(
        [
            *_part(people, "slopes", ["age", "educ"], results["peers"]),
            *_part(line, "line", ["parent_rank"], results["peers"]),
            "Error / SE: distance of a slope from least squares without noise on the same rows, in standard errors of that:",
            f"median (quartiles) of {results['draws']} draws, of 5 for tumult and pipelinedp. Claims are each peer's own.",
            "Seconds: from the path to the slopes, median of runs 2 to 5. Start: Python, imports and Spark.",
            "Every column is clipped to its bounds and moved to [-1, 1] before anyone sees it, which is each peer's best case.",
            "",
            *_caveats(results["peers"]),
            f"Python {sys.version.split()[0]}. Repeat: {results['command']}",
        ]
    )


def _part(title: str, of: str, slopes: list[str], found: list[dict[str, Any]]) -> list[str]:
    rows = [row for row in found if row["of"] == of]
    if not rows:
        return []
    heads = "".join(f"{name:>17}" for name in slopes)
    head = f"{'peer':13}{'asked':39}{'claims':19}{heads}{'seconds':>8}{'start':>7}"
    return [title, "", f"{'':77}error / SE", head, *(_line(row, slopes) for row in rows), ""]


def _line(row: dict[str, Any], slopes: list[str]) -> str:
    named = f"{row['peer']:13}{row['asked']:39}{row['claims']:19}"
    if "not_run" in row:
        return f"{named}  {row['not_run']}"
    errors = row["error_per_standard_error"]
    shown = "".join(f"{_spread(errors[name]):>17}" for name in slopes)
    return f"{named}{shown}{row['seconds']:8.2f}{row['startup_seconds']:7.1f}"


def _spread(quartiles: list[float | None]) -> str:
    low, middle, high = (
        "none" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.2f}" for value in quartiles
    )
    return middle if low == high else f"{middle} ({low}-{high})"


def _caveats(found: list[dict[str, Any]]) -> list[str]:
    """List of each peer once what is known of it, and what this run showed."""
    lines = []
    for row in {row["peer"]: row for row in found}.values():
        lines.append(f"{row['peer']} {row['version']}".strip())
        said = [*row["caveats"], *(f"shown in this run: {each}" for each in row["shown"])]
        for each in said:
            lines += textwrap.wrap(each, 116, initial_indent="  - ", subsequent_indent="    ")
    return [*lines, ""]
