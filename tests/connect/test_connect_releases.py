"""Every kind of release through a real Spark Connect server, compared with plain arithmetic on the same rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.core.domain import Domain, GroupKey, Numeric
from dpspark.errors import SourceError
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.privacy.keyed import KeyedRandom
from dpspark.releasing.tables import predictions_table
from dpspark.source.group_keys import NO_GROUPS, ReleasedGroups
from dpspark.source.parquet import open_parquet
from dpspark.spark.buckets import _dealer, _draw_line, _pairer, _ranker
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.frames import select_columns
from dpspark.spark.group_gram import exact_grams
from dpspark.spark.groups import LABEL, GroupList, row_reader
from dpspark.spark.parallelism import default_parallelism
from dpspark.spec.choose import choose_gram, choose_lines
from dpspark.spec.spec import load_spec
from tests.manifests import variant
from tests.noises import SECRET, NoNoiseFixedSecret

pytestmark = pytest.mark.connect


def in_memory(table: pa.Table, domain: Domain) -> list[int]:
    accumulator = GramAccumulator(domain)
    for batch in table.to_batches():
        accumulator.add([batch.column(column.name) for column in domain.columns], batch.num_rows)
    return ExactGram.from_partials(domain, [accumulator.finish()]).reveal()


def test_the_same_integers(remote: Any, conf: dict[str, Any], people: Path) -> None:
    """Kills: a reader or a tree that gives other sums through Connect. Direct, through frames, in one and many parts."""
    domain = choose_gram(load_spec(conf)).domain
    expected = in_memory(pq.read_table(people), domain)
    assert exact_gram(remote, open_parquet(str(people), domain.columns), domain, fan_in=2).reveal() == expected
    for parts in (1, 7):
        frame = remote.read.parquet(str(people)).repartition(parts)
        assert exact_gram(remote, select_columns(remote, frame, domain.columns, None), domain).reveal() == expected


def test_a_matrix(remote: Any, conf: dict[str, Any], people: Path) -> None:
    """With counts, clipped shares and a computed column: by the tasks, which need no plan, and through Spark's SQL."""
    made = variant(conf, where="age >= 30", columns__double={"expr": "2 * educ", "lower": 0, "upper": 32}, count={})
    made["release"] = {**made["release"], "version": "direct"}
    direct = dpspark.release(made, spark=remote, noise=NoNoiseFixedSecret())
    assert direct.manifest["privacy"]["judged_by"] == "files"
    made["release"] = {**made["release"], "version": "1"}
    made["source"] = {**made["source"], "reader": "spark"}
    with pytest.raises(SourceError, match="plan that Spark Connect shows as text only"):
        dpspark.release(made, spark=remote, noise=NoNoiseFixedSecret())
    made["source"]["rows_per_record"] = 1
    rel = dpspark.release(variant(made, diagnostics={"epsilon_share": 0.1}), spark=remote, noise=NoNoiseFixedSecret())
    table = pq.read_table(people).to_pandas().query("age >= 30")
    moments = rel.second_moment()
    assert moments.loc["(intercept)", "(intercept)"] == pytest.approx(len(table))
    assert moments.loc["(intercept)", "double"] == pytest.approx(2 * table["educ"].sum(), rel=1e-6)
    assert rel.manifest["monitoring"]["rows"] == direct.manifest["monitoring"]["rows"] == len(table)
    assert direct.second_moment().equals(moments)
    assert rel.manifest["versions"]["spark"].startswith("4.")
    assert (rel.path / "diagnostics.parquet").exists()


@pytest.mark.parametrize("through", ["files", "frame"])
@pytest.mark.parametrize("name", ["ssp", "gradient_descent", "refined"])
def test_a_regression(remote: Any, conf: dict[str, Any], people: Path, name: str, through: str) -> None:
    """One pass, and many: then a frame is kept by Spark between them."""
    made = variant(conf, release__kind="regression", release__response="income", mechanism={"name": name})
    if name == "gradient_descent":
        made["mechanism"]["steps"] = 3
    frame = remote.read.parquet(str(people)) if through == "frame" else None
    if frame is not None:
        made["source"] = {"dataframe": True, "rows_per_record": 1}
    found = dpspark.release(made, frame, spark=remote, noise=NoNoiseFixedSecret()).regress().params
    table = pq.read_table(people).to_pandas()
    x = np.column_stack([np.ones(len(table)), table["age"], table["educ"].clip(1, 16), table["sex"] == "M"])
    truth = np.linalg.lstsq(x.astype(float), table["income"].clip(0, 200000), rcond=None)[0]
    if name != "gradient_descent":  # residuals that are clipped, with a tail on one side, bias a little
        assert list(found.values()) == pytest.approx(truth, rel=1e-3 if name == "ssp" else 0.02)
    else:  # three steps from 0 do not get there
        assert found["age"] > 0
        assert found["educ"] > 0


def lines(conf: dict[str, Any], source: Path, **release: Any) -> dict[str, Any]:
    columns = {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}}
    made = variant(conf, source={"parquet": str(source)}, columns=columns, privacy={"epsilon": 4.0})
    return variant(made, release={**conf["release"], "kind": "theil_sen", "x": "x", "y": "y", **release})


def test_lines_by_group(remote: Any, conf: dict[str, Any], tracts: Path) -> None:
    """Kills: draws that depend on where they are made. With one secret, each group's line is that of the plain kernel."""
    names = [f"t{i}" for i in range(6)]
    made = lines(conf, tracts, group_by=["tract"], groups=names, expected_rows=40)
    spec = load_spec({**made, "mechanism": {"name": "exponential"}})
    mechanism = choose_lines(spec)
    table = pq.read_table(tracts)
    random, fits = KeyedRandom(SECRET), []
    for code, name in enumerate(names):
        mine = table.filter(pa.compute.equal(table["tract"], name))
        x, y = (mine[column].to_numpy() for column in ("x", "y"))
        keep = ~(np.isnan(x) | np.isnan(y))
        fits.append(mechanism.kernel.fit(x[keep], y[keep], random, LABEL, code))
    expected = predictions_table(ReleasedGroups(("tract",), (pa.string(),), tuple((name,) for name in names)), fits)
    found = dpspark.release(spec, spark=remote, noise=NoNoiseFixedSecret())
    assert pq.read_table(found.path / "predictions.parquet").to_pandas().equals(expected.to_pandas())


def test_one_line_of_a_large_table(
    remote: Any, conf: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secret buckets, two shuffles and a tree: the same line as from the same steps one after the other."""
    monkeypatch.setattr("dpspark.mechanisms.lines.base.ROWS_PER_BUCKET", 1000)
    rng = np.random.default_rng(6)
    x = rng.uniform(0, 1, 5000)
    table = pa.table({"x": x, "y": np.clip(0.3 + 0.4 * x + rng.normal(0, 0.1, len(x)), 0, 1)})
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=700)
    spec = load_spec({**lines(conf, tmp_path / "large.parquet", expected_rows=5000), "mechanism": {"name": "auto"}})
    mechanism = choose_lines(spec)
    kernel, random = mechanism.kernel, KeyedRandom(SECRET)
    axes = [Axis(str(i), 0.0, 1.0, kernel.cells + 1) for i in range(len(kernel.plane.anchors))]
    rows = list(_dealer(5, random)(row_reader(mechanism.domain, None)(iter(table.to_batches()))))
    paired = next(_pairer(kernel, random, axes)(_ranker(5, random)(iter(rows))))
    line = _draw_line(kernel, ExactHistogram.from_partials(axes, [paired.column(0)[0].as_py()]), axes, random)
    found = dpspark.release(spec, spark=remote, noise=NoNoiseFixedSecret())
    assert found.manifest["mechanism"]["buckets"] == 5
    expected = predictions_table(NO_GROUPS, [line])
    assert pq.read_table(found.path / "predictions.parquet").to_pandas().equals(expected.to_pandas())


@pytest.mark.parametrize("by_group", [False, True])
def test_quantiles(remote: Any, conf: dict[str, Any], people: Path, by_group: bool) -> None:
    made = variant(conf, columns={"income": conf["columns"]["income"]}, privacy={"epsilon": 4.0}, count={})
    made["release"] |= {"kind": "quantiles", "probabilities": [0.1, 0.5, 0.9]}
    if by_group:
        made["release"] |= {"group_by": ["sex"], "groups": ["F", "M", "X"]}
    found = dpspark.release(made, spark=remote, noise=NoNoiseFixedSecret()).quantiles()
    table = pq.read_table(people).to_pandas()
    for row in found.itertuples():
        if by_group and row.sex == "X":
            continue
        income = table["income"][table["sex"] == row.sex] if by_group else table["income"]
        near = np.quantile(income.clip(0, 200000), [row.probability - 0.05, min(1, row.probability + 0.05)])
        assert near[0] <= row.estimate <= near[1]


@pytest.mark.parametrize("kind", ["gram", "regression"])
def test_matrices_by_group(remote: Any, conf: dict[str, Any], people: Path, kind: str) -> None:
    columns = {name: conf["columns"][name] for name in ("age", "income")}
    made = variant(conf, columns=columns, release__kind=kind, release__group_by=["sex"], release__groups=["F", "M"])
    if kind == "regression":
        made["release"]["response"] = "income"
    rel = dpspark.release(made, spark=remote, noise=NoNoiseFixedSecret())
    table = pq.read_table(people).to_pandas()
    for sex in "FM":
        mine = table[table["sex"] == sex]
        slope = np.polyfit(mine["age"], mine["income"].clip(0, 200000), 1)[0]
        fit = rel.group(sex=sex).regress("income ~ age") if kind == "gram" else rel.group(sex=sex).regress()
        assert fit.params["age"] == pytest.approx(slope, rel=1e-3)


def test_persons_and_private_bounds(remote: Any, conf: dict[str, Any], people: Path, tmp_path: Path) -> None:
    """A sort, a cap and two passes over the kept rows: as many rows as the persons may have."""
    table = pq.read_table(people)
    person = np.random.default_rng(3).integers(0, 9000, table.num_rows)
    pq.write_table(table.append_column("person", pa.array(person)), tmp_path / "persons.parquet", row_group_size=6000)
    made = variant(conf, source__parquet=str(tmp_path / "persons.parquet"))
    made = variant(made, privacy__unit={"column": "person", "max_rows": 3})
    made = variant(made, columns__age={"lower": 10, "upper": "private", "search": [0, 200]})
    rel = dpspark.release(made, spark=remote, noise=NoNoiseFixedSecret())
    kept = np.minimum(np.bincount(person), 3).sum()
    assert rel.second_moment().loc["(intercept)", "(intercept)"] == pytest.approx(kept)
    found = next(column for column in rel.manifest["columns"] if column["name"] == "age")
    assert (found["lower"], found["private_sides"]) == (10, ["upper"])
    assert 85 < found["upper"] < 200


def test_errors_by_clusters(remote: Any, conf: dict[str, Any], people: Path) -> None:
    """Kills: sums of clusters that need a session's own context. Direct and through Spark, the same numbers."""
    asked = {"errors": {"cluster": "educ"}, "regressions": ["income ~ age"]}
    found = []
    for version, reader in (("1", "auto"), ("2", "spark")):
        made = variant(conf, source={"parquet": str(people), "reader": reader})
        made["release"] = {**made["release"], **asked, "version": version}
        rel = dpspark.release(made, spark=remote, noise=NoNoiseFixedSecret())
        found.append((rel.tables["meat"].to_pydict(), rel.manifest["mechanism"]["clusters"]))
    assert found[0] == found[1]
    assert found[0][1]["count"] == len(set(pq.read_table(people)["educ"].to_pylist()))


def test_seventy_thousand_groups(remote: Any) -> None:
    """The list of groups travels inside the function: it must fit a message, and be the same there."""
    names = [f"{number:012d}" for number in range(70_000)]
    domain = Domain((Numeric("x", 0, 1),), keys=(GroupKey("tract"),))
    frame = remote.range(1000).selectExpr("lpad(string(id * 69), 12, '0') as tract", "id / 1000 as x")
    source = select_columns(remote, frame, domain.read_columns, None)
    found = exact_grams(remote, source, domain, GroupList([(name,) for name in names]))
    assert sorted(found) == [69 * number for number in range(1000)]


def test_as_many_tasks_as_the_server_has_cores(remote: Any) -> None:
    """Kills: a guess."""
    assert default_parallelism(remote) == 2


def test_groups_by_day_in_another_zone(remote: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """Days are those of UTC when the plan is analysed again, where it runs; keys are whole numbers. Fails on 0.2.0: days of
    the session's zone, and an error on the executors."""
    at = [datetime(2026, 3, day, hour, tzinfo=UTC) for day in (2, 3) for hour in (0, 22)] * 200
    x = [0.2 if when.day == 2 else 0.8 for when in at]
    table = pa.table({"sched": pa.array(at, pa.timestamp("us", "UTC")), "x": x})
    pq.write_table(table, tmp_path / "flights.parquet")
    columns = {"x": {"lower": 0, "upper": 1}, "day": {"expr": "day(sched)"}}
    release = {
        **conf["release"],
        "kind": "quantiles",
        "probabilities": [0.9, 0.1],
        "group_by": ["day"],
        "groups": [2, 3],
    }
    made = variant(
        conf,
        source={"parquet": str(tmp_path / "flights.parquet"), "rows_per_record": 1},
        columns=columns,
        privacy={"epsilon": 20.0},
        release=release,
    )
    before = remote.conf.get("spark.sql.session.timeZone")
    remote.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = dpspark.release(made, spark=remote).quantiles()
        assert remote.conf.get("spark.sql.session.timeZone") == "America/New_York"
    finally:
        remote.conf.set("spark.sql.session.timeZone", before)
    assert found["day"].tolist() == [2, 2, 3, 3]
    assert np.allclose(found["estimate"], [0.2, 0.2, 0.8, 0.8], atol=0.05)
