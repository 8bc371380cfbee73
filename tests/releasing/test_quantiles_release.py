"""Releases of kind quantiles, and the generator of tracts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

import dpspark
from dpspark.errors import ConfError
from dpspark.ledger.ledger import Ledger
from dpspark.spec.spec import load_spec
from jobs.make_tracts import tract_batch, tract_names, write_tracts
from tests.noises import FixedSecret

pytestmark = pytest.mark.spark35

CONF = Path(__file__).parents[2] / "conf" / "tract_mobility.yaml"


def quantiles(conf: dict[str, Any], **changes: Any) -> dict[str, Any]:
    release = {**conf["release"], "kind": "quantiles", "probabilities": [0.1, 0.5, 0.9]}
    columns = {name: conf["columns"][name] for name in ("age", "income")}
    return {**conf, "columns": columns, "release": release, "privacy": {"epsilon": 2.0}, **changes}


@pytest.mark.parametrize("privacy", [{"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-9}, {"rho": 0.1}])
def test_quantiles_are_near_the_true_ones(
    spark: Any, conf: dict[str, Any], people: Path, privacy: dict[str, float]
) -> None:
    rel = dpspark.release(quantiles(conf, privacy=privacy), spark=spark)
    table = rel.quantiles()
    assert table["column"].tolist() == ["age"] * 3 + ["income"] * 3
    data = pq.read_table(people)
    for row in table.itertuples():
        values = np.clip(data[row.column].to_numpy(), 0, 200000)
        near = np.quantile(values, [max(0, row.probability - 0.02), min(1, row.probability + 0.02)])
        assert near[0] - 1 <= row.estimate <= near[1] + 1
    json.dumps(rel.to_dict(), allow_nan=False)
    assert "probability" in rel.summary()


def test_both_readers_draw_the_same(spark: Any, conf: dict[str, Any], people: Path) -> None:

    from tests.mechanisms.test_quantile import Seeded

    direct = dpspark.release(quantiles(conf), spark=spark, noise=Seeded(1))
    made = quantiles(conf)
    made["release"]["version"] = "frame"
    frame = dpspark.release(made, spark.read.parquet(str(people)).repartition(5), noise=Seeded(1))
    assert direct.quantiles().equals(frame.quantiles())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": {"sex": {"categories": ["F", "M"]}}}, "needs public bounds"),
        ({"row_norm": {"mode": "cap", "radius": 1}}, "row_norm is not for kind quantiles"),
        ({"weight": {"column": "w", "upper": 3}}, "weight"),
    ],
)
def test_refused(conf: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfError, match=message):
        load_spec(quantiles(conf, **changes))
    with pytest.raises(ConfError, match="needs release\\.probabilities"):
        load_spec({**quantiles(conf), "release": {**conf["release"], "kind": "quantiles"}})


def test_tracts() -> None:
    """The same seed, the same people, in any cut; ranks in [0, 1]; 20 to 200 people a tract; lines that differ."""
    table = tract_batch(0, 50, 7).to_pandas()
    assert table.equals(tract_batch(0, 50, 7).to_pandas())
    assert table[["parent_rank", "kid_rank"]].stack().between(0, 1).all()
    sizes = table.groupby("tract").size()
    assert len(sizes) == 50
    assert sizes.between(20, 200).all()
    assert len(set(tract_names(0, 800_000))) == 800_000
    assert all(len(name) == 11 for name in tract_names(699_999, 3))
    assert tract_names(19, 2, per_county=20, per_state=5) == ["90000000019", "90001000000"]
    assert tract_names(100, 1, per_county=20, per_state=5) == ["91000000000"]


def test_tracts_in_counties(tmp_path: Path) -> None:
    """The public list has the levels of each tract; counties of a given size differ. Kills: people under other names."""
    write_tracts(str(tmp_path / "plain"), 40)
    write_tracts(str(tmp_path / "nested"), 40, per_county=5, per_state=4)
    plain, nested = (pq.read_table(tmp_path / name / "people.parquet").to_pandas() for name in ("plain", "nested"))
    assert plain.equals(tract_batch(0, 40, 2000).to_pandas())
    levels = pq.read_table(tmp_path / "nested" / "tracts.parquet").to_pandas()
    assert (levels.groupby("county").size() == 5).all()
    assert (levels.groupby("state")["county"].nunique() == 4).all()
    assert set(nested.tract) == set(levels.tract)
    assert plain.parent_rank.equals(nested.parent_rank)
    moved = (nested.kid_rank - plain.kid_rank).groupby(nested.tract.str[:5]).median()
    assert moved.std() == pytest.approx(0.03, rel=0.6)


def test_the_conf_of_tract_mobility(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the file says, on few tracts."""
    monkeypatch.chdir(tmp_path)
    write_tracts("tracts", 60)
    conf = yaml.safe_load(CONF.read_text())
    Ledger("sqlite:///tracts/ledger.db").grant("tracts", epsilon=20, delta=0)
    rel = dpspark.release(conf, spark=spark)
    table = rel.predictions()
    assert len(table) == 120
    truth = pq.read_table("tracts/people.parquet").to_pandas()
    overall = np.polyfit(truth["parent_rank"], truth["kid_rank"], 1)
    assert table["slope"].median() == pytest.approx(overall[0], abs=0.1)
    assert rel.manifest["mechanism"]["chosen"]


def test_quantiles_of_groups(spark: Any, conf: dict[str, Any], people: Path) -> None:
    """Every listed group, empty ones too; the same for any partitioning; a record that may move costs twice."""
    from dpspark.spec.choose import choose

    release = {**quantiles(conf)["release"], "group_by": ["sex"], "groups": ["F", "M", "X"], "probabilities": [0.5]}
    made = quantiles(conf, privacy={"epsilon": 20.0}, release=release)
    rel = dpspark.release(made, spark=spark, noise=FixedSecret())
    made["release"]["version"] = "frame"
    again = dpspark.release(made, spark.read.parquet(str(people)).repartition(6), noise=FixedSecret())
    assert rel.quantiles().equals(again.quantiles())
    table = rel.quantiles()
    assert table["sex"].tolist() == ["F", "F", "M", "M", "X", "X"]
    data = pq.read_table(people).to_pandas()
    for sex in ("F", "M"):
        row = table[(table["sex"] == sex) & (table["column"] == "income")].iloc[0]
        values = data[data["sex"] == sex]["income"]
        assert np.quantile(values, 0.48) <= row["estimate"] <= np.quantile(values, 0.52)
    moving = {**made, "privacy": {"epsilon": 20.0, "neighbours": "replace_one"}}
    fixed = {**made, "privacy": {"epsilon": 20.0, "neighbours": "replace_one", "fixed": ["sex"]}}
    each = [choose(load_spec(conf)).quantiles.epsilon_each for conf in (moving, fixed)]  # type: ignore[union-attr]
    assert each[1] == pytest.approx(2 * each[0])


def test_an_empty_group_is_not_ok(spark: Any, conf: dict[str, Any]) -> None:
    """Its draws are noise: in order all the same, and never said to be ok. Fails on 0.2.0: 0.5 above 0.9, status ok."""
    release = {**quantiles(conf)["release"], "group_by": ["sex"], "groups": ["F", "M", "X", "Y", "Z"]}
    release |= {"probabilities": [0.9, 0.5, 0.1]}
    for expected in (None, 1000):
        asked = {**release, "version": str(expected), **({"expected_rows": expected} if expected else {})}
        rel = dpspark.release(quantiles(conf, privacy={"epsilon": 5.0}, release=asked), spark=spark)
        table = rel.quantiles()
        assert table.columns.tolist() == ["sex", "column", "probability", "estimate", "status", "rank_error"]
        for _, part in table.groupby(["sex", "column"]):
            assert part.sort_values("probability")["estimate"].is_monotonic_increasing
            assert part["probability"].tolist() == [0.9, 0.5, 0.1]
        assert "ok" not in set(table["status"])
        assert set(table["status"]) <= {"rows_unknown" if expected is None else "ok_if_expected", "weakly_identified"}
        assert "rank_error: with probability 95%" in rel.summary()


def test_a_count_that_was_paid_for_says_whether_it_is_enough(spark: Any, conf: dict[str, Any]) -> None:
    """Fails on 0.2.0: ok with a budget that leaves nothing but noise."""
    for epsilon, status in ((10.0, "ok"), (0.001, "weakly_identified")):
        asked = quantiles(conf, privacy={"epsilon": epsilon}, count={"epsilon_share": 0.2})
        asked["release"] = {**asked["release"], "version": status}
        assert set(dpspark.release(asked, spark=spark).quantiles()["status"]) == {status}
