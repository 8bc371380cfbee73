"""release.interval, from the conf to the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.gram import MomentsLine
from dpspark.mechanisms.lines.interval import LineWithInterval
from dpspark.spec.choose import choose_lines
from dpspark.spec.extras import spending, spending_lines
from dpspark.spec.spec import load_spec
from tests.noises import FixedSecret

GROUPS = [f"g{i}" for i in range(12)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Twelve groups of 0 to 400 rows around kid = 30 + 0.4·parent, in percent."""
    rng = np.random.default_rng(8)
    code = np.repeat(np.arange(12), [0, 3, *range(60, 460, 40)])
    x = rng.uniform(0, 100, len(code))
    y = 30 + 0.4 * x + rng.normal(0, 15, len(code))
    path = tmp_path / "groups.parquet"
    pq.write_table(pa.table({"g": [GROUPS[c] for c in code], "x": x, "y": y}), path, row_group_size=700)
    return path


def asked(conf: dict[str, Any], table: Path, mechanism: str = "auto", **changes: Any) -> dict[str, Any]:
    release = {
        **conf["release"],
        **{"kind": "theil_sen", "x": "x", "y": "y", "expected_rows": 200, "interval": {}},
        **{"group_by": ["g"], "groups": GROUPS, **changes},
    }
    return {
        **conf,
        "source": {"parquet": str(table)},
        "columns": {"x": {"lower": 0, "upper": 100}, "y": {"lower": 0, "upper": 100}},
        "privacy": {"epsilon": 10.0},
        "release": {key: value for key, value in release.items() if value is not None},
        "mechanism": {"name": mechanism},
    }


def mechanism_of(made: dict[str, Any]) -> LineMechanism:
    return choose_lines(load_spec(made))


def test_groups_have_intervals(spark: Any, conf: dict[str, Any], table: Path) -> None:
    """In units of y; the same for any partitioning; none for groups of 0 and 3 rows, whose lines are there all the same."""
    found = []
    for number, partitions in enumerate((1, 5)):
        frame = spark.read.parquet(str(table)).repartition(partitions)
        rel = dpspark.release(asked(conf, table, version=f"v{number}"), frame, spark=spark, noise=FixedSecret())
        found.append(rel.predictions())
    assert found[0].equals(found[1])
    assert "ci_low" in rel.summary()
    assert [part["stage"] for part in rel.manifest["privacy"]["spending"]] == ["interval", "theil_sen"]
    assert any("Intervals of lines" in line for line in rel.manifest["limitations"])
    small, large = found[0][found[0].g.isin(GROUPS[:2])], found[0][found[0].g.isin(GROUPS[4:])]
    assert set(small.status) == {"weakly_identified"}
    assert small.ci_low.isna().all()
    assert small.estimate.notna().all()
    assert set(large.status) == {"ok"}
    half = (large.ci_high - large.ci_low) / 2
    assert ((half > 1) & (half < 15)).all()
    assert ((large.ci_low <= 30 + 0.4 * large.x) & (30 + 0.4 * large.x <= large.ci_high)).mean() > 0.75


@pytest.mark.spark35
def test_a_large_table_has_an_interval(
    spark: Any, conf: dict[str, Any], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpspark.mechanisms.lines.base.ROWS_PER_BUCKET", 1000)
    found = []
    for number, partitions in enumerate((1, 5)):
        made = asked(conf, table, version=f"v{number}", group_by=None, groups=None, expected_rows=2400)
        frame = spark.read.parquet(str(table)).repartition(partitions)
        rel = dpspark.release(made, frame, spark=spark, noise=FixedSecret())
        assert rel.manifest["mechanism"]["buckets"] == 3
        found.append(rel.predictions())
    assert found[0].equals(found[1])
    half = (found[0].ci_high - found[0].ci_low) / 2
    # Theil–Sen loses a quarter to least squares, whose half-width is 1.96·15·√(1.75/2403) = 0.79; epsilon is no matter here.
    assert ((half > 0.79) & (half < 1.4)).all()


def test_the_line_has_what_the_interval_leaves(conf: dict[str, Any], table: Path) -> None:
    """Kills: the whole budget for the line, or for the sums, beside each other."""
    made = asked(conf, table, "huber", interval={"epsilon_share": 0.25, "level": 0.9})
    mechanism, spec = mechanism_of(made), load_spec(made)
    alone = mechanism_of({**asked(conf, table, "huber", interval=None), "privacy": {"epsilon": 7.5}})
    assert mechanism.facts() == alone.facts()
    stages = spending(spec, mechanism)
    assert [stage["epsilon"] for stage in stages] == pytest.approx([2.5, 7.5])
    assert stages[0]["sensitivity"]["value"] / stages[0]["scale"] == pytest.approx(2.5, rel=1e-4)
    kernel = mechanism.kernel
    assert isinstance(kernel, LineWithInterval)
    assert kernel.level == 0.9
    assert spending_lines(spec, mechanism)[0] == "epsilon=2.5 for intervals of level 0.9"
    without = asked(conf, table, "huber", interval=None)
    assert spending(load_spec(without), mechanism_of(without)) == [
        {"stage": "theil_sen", "epsilon": 10.0, "delta": 0.0, "rho": None}
    ]


def test_what_one_record_changes_reaches_the_sums(conf: dict[str, Any], table: Path) -> None:
    """Kills: sums protected against one added row where a record is replaced, may move, or has three rows."""
    made = asked(conf, table, "huber")

    def scale(**changes: Any) -> float:
        found = mechanism_of({**made, **changes}).interval
        assert found is not None
        return float(found.facts()["scale"])

    added = scale()
    assert scale(privacy={"epsilon": 10.0, "neighbours": "replace_one"}) == pytest.approx(2 * added, rel=1e-4)
    fixed = {"epsilon": 10.0, "neighbours": "replace_one", "fixed": ["g"]}
    assert scale(privacy=fixed) == pytest.approx(added * 3.3225 / 2.95, rel=1e-4)
    three = scale(source={"dataframe": True, "rows_per_record": 3})
    assert three == pytest.approx(6 * added, rel=1e-4)


def test_moments_need_no_share(conf: dict[str, Any], table: Path) -> None:
    """gram's interval comes with it: the whole budget is the line's, named or picked by auto."""
    for made in (
        asked(conf, table, "gram", interval={"level": 0.8}),
        asked(conf, table, expected_rows=10**6, target="mean"),
    ):
        mechanism = mechanism_of(made)
        assert isinstance(mechanism.kernel, MomentsLine)
        assert mechanism.budget.epsilon == 10.0
        assert spending(load_spec(made), mechanism)[-1]["epsilon"] == 10.0
        assert len(spending(load_spec(made), mechanism)) == 1
        assert spending_lines(load_spec(made), mechanism) == []
        assert mechanism.kernel.level == made["release"]["interval"].get("level", 0.95)


@pytest.mark.parametrize(
    ("mechanism", "changes", "message"),
    [
        ("gradient_descent", {}, "mechanism gradient_descent has none"),
        ("exponential", {"cuts": [50]}, "needs two cuts"),
        ("huber", {"interval": {"epsilon_share": 1.0}}, "expected a part of the budget"),
        ("huber", {"interval": {"level": 95}}, "level"),
        ("huber", {"interval": {"shar": 1}}, "shar"),
    ],
)
def test_refused(conf: dict[str, Any], table: Path, mechanism: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfError, match=message):
        mechanism_of(asked(conf, table, mechanism, **changes))


def test_only_lines_have_this_key(conf: dict[str, Any]) -> None:
    with pytest.raises(ConfError, match="interval is for kind theil_sen"):
        load_spec({**conf, "release": {**conf["release"], "interval": {}}})
