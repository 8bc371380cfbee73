"""Re-evaluation attacks: does asking again show a second draw? Two draws of one release halve its noise.

Without Spark: the release is made twice under one reservation, as by a retried job, and staged, published and read as the
pipeline does; of lines, the executors' function runs twice with the release's secret. With Spark: `dpspark.release` twice.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.audit.attacks import Finding
from dpspark.audit.hostile import publish
from dpspark.audit.tables import Raw, arrays
from dpspark.bundle.staging import publish as publish_bundle
from dpspark.bundle.staging import stage, staging_path
from dpspark.core.domain import Categorical
from dpspark.ledger.ledger import Ledger
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import OpenDPNoise
from dpspark.spark.groups import LABEL
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec

ACTIONS = 8  # a draw that is new each time is the same in all of them with probability 1e-9 or less
Ask = Callable[[], Any]


def some_rows(spec: Spec) -> Raw:
    """Two rows: with so few, every draw of a line is another one."""
    columns = choose(spec).domain.columns
    return [
        tuple(c.categories[0] if isinstance(c, Categorical) else (c.lower, c.upper)[at] for c in columns)
        for at in (0, 1)
    ]


def asks(spec: Spec, folder: Path) -> Ask:
    """One release, asked for again and again: what a reader then has."""
    mechanism, rows = choose(spec), some_rows(spec)
    if isinstance(mechanism, LineMechanism):
        secret = KeyedRandom.fresh()  # as in the pickled function: once for the release
        x, y = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
        return lambda: mechanism.kernel.fit(x, y, secret, LABEL, 0)
    url, final = f"sqlite:///{folder / 'ledger.db'}", folder / "out" / "audit" / "1"
    Ledger(url).grant("audit", 10.0, 0.5)

    def ask() -> Any:
        ledger = Ledger(url)
        entry = ledger.reserve("audit", "audit", "1", spec.hash, spec.privacy.budget, str(final))
        digest = stage(folder / "out", entry.id, publish(spec, rows, OpenDPNoise()), {"format": 1})
        entry = ledger.stage(entry, digest)  # it names the first draw, whoever stages another
        assert entry.manifest_sha256 is not None
        publish_bundle(staging_path(folder / "out", entry.id, entry.manifest_sha256), final, entry.manifest_sha256)
        return _bytes(final)

    return ask


def _bytes(folder: Path) -> tuple[tuple[str, bytes], ...]:
    return tuple((path.name, path.read_bytes()) for path in sorted(folder.glob("*.parquet")))


def redraw_finding(spec: Spec, target: str, of: Callable[[Spec, Path], Ask] = asks) -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        ask = of(spec, Path(folder))
        seen = {repr(ask()) for _ in range(ACTIONS)}
    lines = spec.release.kind == "theil_sen"
    note = "executors' function run again" if lines else "staged and published again"
    return Finding(
        "redraw", target, spec.privacy.neighbours, "answers", 1, len(seen), ACTIONS, len(seen) > 1, note=note
    )


def spark_finding(spec: Spec, target: str, spark: Any) -> Finding:
    """The whole pipeline on Spark, twice, and the published release read twice."""
    from dpspark.releasing.run import release

    with tempfile.TemporaryDirectory() as folder:
        home, domain = Path(folder), choose(spec).domain
        names = [column.name for column in domain.columns]
        pq.write_table(pa.table(arrays(domain, some_rows(spec)), names=names), home / "rows.parquet")
        url = f"sqlite:///{home / 'ledger.db'}"
        Ledger(url).grant("audit", 10.0, 0.5)
        # The hash covers the source, so that a frame with the same rows is the same release.
        seen = set()
        for _ in range(2):
            done = release(
                spec, spark.read.parquet(str(home / "rows.parquet")), spark, out=home / "out", ledger_url=url
            )
            seen |= {repr(_bytes(Path(str(done.path)))) for _ in range(2)}
    note = "dpspark.release on Spark, twice"
    return Finding(
        "redraw on Spark", target, spec.privacy.neighbours, "answers", 1, len(seen), 4, len(seen) > 1, note=note
    )
