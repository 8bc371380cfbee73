"""Seconds and peak memory of one thing at one size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gram import Processes, peak_memory, psutil_module
from benchmarks.scale.text import KINDS

MOST_RUNS = 3


@dataclass
class Meter:
    """Runs things on a local Spark session, and keeps a point for each."""

    spark: Any
    enough_seconds: float
    points: list[dict[str, Any]] = field(default_factory=list)

    def measure(self, series: str, x: int, run: Callable[..., Any], *arguments: Any) -> Any:
        """Run it once or more, as time allows; keep the median and the largest memory of each kind of process."""
        runs: list[float] = []
        peaks: dict[str, int] = {}
        while len(runs) < MOST_RUNS and sum(runs) < self.enough_seconds:
            with peak_memory(self._processes(), peaks):
                start = time.perf_counter()
                answer = run(*arguments)
                runs.append(time.perf_counter() - start)
        memory = {f"{kind}_peak_bytes": peaks[kind] for kind in KINDS}
        self.points.append({"series": series, "x": x, "seconds": statistics.median(runs), "runs": runs, **memory})
        return answer

    def _processes(self) -> Processes:
        psutil = psutil_module()
        jvm = psutil.Process(self.spark._jvm.java.lang.ProcessHandle.current().pid())
        return {
            "driver": lambda: [psutil.Process()],
            "jvm": lambda: [jvm],
            "worker": lambda: jvm.children(recursive=True),
        }
