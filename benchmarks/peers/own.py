"""dpspark's own rows of `python -m benchmarks peers`: real releases, from the path to the coefficients, each with its ledger.

A process like those of the peers, so that its start is timed like theirs: python -m benchmarks.peers.own PARAMETERS
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.known import ROW, Question
from dpspark.analysis.regression import OK
from dpspark.errors import DpsparkError
from dpspark.ledger.ledger import Ledger
from dpspark.releasing.run import release
from dpspark.spark.session import spark_session

Answers = dict[str, Any]


@dataclass(frozen=True)
class Ours:
    """One conf of dpspark's. `of` is the key of its data."""

    of: str
    question: Question
    mechanism: dict[str, Any]
    release: dict[str, Any]


GRAM = Ours("slopes", Question("gram, then regress", f"approx, {ROW}"), {"name": "gaussian"}, {"kind": "gram"})
LINES = tuple(
    Ours("line", Question(f"theil_sen, {asked}", f"pure, {ROW}"), {"name": name}, {"kind": "theil_sen", **more})
    for asked, name, more in (
        ("target mean", "auto", {"target": "mean"}),
        ("mechanism exponential", "exponential", {}),
    )
)
OURS = (GRAM, *LINES)
CAVEATS = ("timing and memory are not protected: docs/security.md says what else is not",)


def run_ours(home: Path, asked: dict[str, Any]) -> tuple[float, list[tuple[Ours, Answers]]]:
    """Seconds to start Python and Spark, and what each conf answered."""
    above = str(Path(__file__).parents[2])
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([above, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}
    parameters = json.dumps({**asked, "home": str(home), "started": time.time()})
    command = [sys.executable, "-m", "benchmarks.peers.own", parameters]
    done = subprocess.run(command, env=known, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise DpsparkError("dpspark's own part of the benchmark failed: see what it printed above.")
    found = json.loads(done.stdout.splitlines()[-1])
    return found["startup_seconds"], list(zip(OURS, found["answers"], strict=True))


def main() -> None:
    asked = json.loads(sys.argv[1])
    home, answers = Path(asked["home"]), []
    with spark_session("dpspark benchmarks"):
        startup = time.time() - asked["started"]
        for number, each in enumerate(OURS):
            slopes, seconds = [], []
            for draw in range(asked["draws"]):
                start = time.perf_counter()
                slopes.append(_slopes(_conf(each, home / f"ours-{number}-{draw}", asked), asked))
                seconds.append(time.perf_counter() - start)
            answers.append({"slopes": slopes, "seconds": seconds})
    print(json.dumps({"startup_seconds": startup, "answers": answers}))


def _conf(each: Ours, home: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Make the conf of one draw: data of its own in the ledger, so that draws are not composed."""
    home.mkdir()
    line = each.of == "line"
    names = (asked["x"], asked["y"]) if line else (*asked["regressors"], asked["response"])
    axes = {"x": asked["x"], "y": asked["y"], "expected_rows": asked["line_rows"]} if line else {}
    return {
        "source": {"parquet": asked["line" if line else "people"]},
        "columns": {name: {"lower": -1, "upper": 1} for name in names},
        "privacy": {"epsilon": asked["epsilon"], **({} if line else {"delta": asked["delta"]})},
        "release": {"name": "peers", "version": "1", **each.release, **axes},
        "mechanism": each.mechanism,
        "ledger": {"url": f"sqlite:///{home}/ledger.db", "dataset": "peers"},
        "output": {"path": str(home / "releases")},
    }


def _slopes(conf: dict[str, Any], asked: dict[str, Any]) -> list[float | None]:
    """None where the noise drowns the signal."""
    privacy = conf["privacy"]
    Ledger(conf["ledger"]["url"]).grant("peers", epsilon=privacy["epsilon"], delta=privacy.get("delta", 0.0))
    done = release(conf)
    if conf["release"]["kind"] == "theil_sen":
        return [float(done.tables["predictions"]["slope"][0].as_py())]
    fit = done.regress(f"{asked['response']} ~ {' + '.join(asked['regressors'])}")
    return [float(fit.params[name]) if fit.status == OK else None for name in asked["regressors"]]


if __name__ == "__main__":
    main()
