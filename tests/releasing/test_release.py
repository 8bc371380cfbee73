"""The release flow in Python, on real Spark and a real ledger."""

from __future__ import annotations

import json
import os
import shutil
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.bundle.files import manifest_digest
from dpspark.errors import BeyondBounds, ConfError, LedgerError, OutputError, SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.privacy.noise import OpenDPNoise
from dpspark.releasing import rows as reading
from dpspark.releasing import run as pipeline
from tests.manifests import variant
from tests.noises import NoGaussianNoise

pytestmark = pytest.mark.spark35


class CountedGaussian:
    """Real Gaussian noise that knows how often it was drawn."""

    def __init__(self) -> None:
        self.calls = 0

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        self.calls += 1
        return OpenDPNoise().discrete_gaussian(sigma, count)


def clipped(conf: dict[str, Any], table: pa.Table) -> np.ndarray:
    """The raw design, clipped: intercept, age, educ, income, sex[F], sex[M]."""
    columns = [np.ones(table.num_rows)]
    for name in ("age", "educ", "income"):
        bounds = conf["columns"][name]
        columns.append(np.clip(table[name].to_numpy().astype(float), bounds["lower"], bounds["upper"]))
    sex = np.array(table["sex"].to_pylist())
    return np.column_stack([*columns, sex == "F", sex == "M"])


def test_bundle_follows_the_contract(spark: Any, conf: dict[str, Any], people: Path) -> None:
    rel = dpspark.release(conf, spark=spark)
    path = Path(conf["output"]["path"]) / "income" / "1"
    assert rel.path == path
    assert sorted(os.listdir(path)) == ["_SUCCESS", "manifest.json", "scaled.parquet", "second_moment.parquet"]
    assert os.listdir(path.parent.parent / ".staging") == []
    table = pq.read_table(path / "second_moment.parquet")
    assert [(f.name, f.type) for f in table.schema] == [
        *(("row", pa.string()), ("col", pa.string()), ("value", pa.float64()), ("noise_std", pa.float64())),
    ]
    terms = ["(intercept)", "age", "educ", "income", "sex[F]", "sex[M]"]
    assert table["row"].to_pylist() == [row for row in terms for _ in terms]
    assert table["col"].to_pylist() == terms * 6
    matrix, noise = rel.second_moment(), rel.noise_std()
    assert (matrix.to_numpy() == matrix.to_numpy().T).all()
    x = clipped(conf, pq.read_table(people))
    assert (abs(matrix.to_numpy() - x.T @ x) <= 6 * noise.to_numpy() + 1e-6 * (x.T @ x)).all()
    # As released, every entry has noise, those too that analysts know exactly.
    assert (np.reshape(table["value"].to_numpy(), x.T.shape[:1] * 2) != x.T @ x).all()
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["privacy"]["epsilon"] == 1.0
    assert manifest["spec_hash"] == dpspark.load_spec(conf).hash
    assert "(1, 1e-09)-differentially private" in manifest["guarantee"]
    ledger = Ledger(conf["ledger"]["url"]).balances("people")[0]
    assert [entry.state for entry in ledger.entries] == ["committed"]
    assert manifest["ledger"]["id"] == ledger.entries[0].id


def test_manifest_is_enough_to_recompute_the_guarantee(spark: Any, conf: dict[str, Any]) -> None:
    """From the manifest alone: sensitivity over noise is mu, and mu gives delta at epsilon."""
    from dpspark.privacy.budget import gaussian_delta

    manifest = dpspark.release(conf, spark=spark).manifest
    mechanism = manifest["mechanism"]
    units = 1 + len(manifest["columns"])
    assert mechanism["sensitivity"]["value"] == pytest.approx((units * (units + 1) / 2) ** 0.5)
    mu = mechanism["sensitivity"]["value"] / mechanism["noise"]["diagonal_std"]
    slack = (1 + np.e) * mechanism["sampler_distance"]
    assert gaussian_delta(mu, 1.0) + slack <= 1e-9


def test_no_noise_no_error_in_original_units(spark: Any, conf: dict[str, Any], people: Path) -> None:
    """Kills: a wrong congruence T·S·Tᵀ."""
    rel = dpspark.release(conf, spark=spark, noise=NoGaussianNoise())
    x = clipped(conf, pq.read_table(people))
    assert rel.second_moment().to_numpy() == pytest.approx(x.T @ x, rel=1e-6, abs=1e-6)


def test_at_huge_epsilon_it_is_numpy_s_least_squares(spark: Any, conf: dict[str, Any], people: Path) -> None:
    Ledger(conf["ledger"]["url"]).grant("people", 1e6, 1e-3)
    rel = dpspark.release(variant(conf, privacy={"epsilon": 1e6, "delta": 1e-9}), spark=spark)
    x = clipped(conf, pq.read_table(people))
    for formula, at in (("income ~ age + educ", [0, 1, 2]), ("income ~ age + educ + sex - 1", [1, 2, 4, 5])):
        expected = np.linalg.lstsq(x[:, at], x[:, 3], rcond=None)[0]
        fit = rel.regress(formula)
        for term, truth in zip(fit.terms, expected, strict=True):
            noise = fit.privacy_std_errors[term]
            assert noise < 1e-4 * abs(truth)
            assert abs(fit.params[term] - truth) < 1e-6 * abs(truth) + 6 * noise


def test_a_dataframe_as_source(spark: Any, conf: dict[str, Any], people: Path) -> None:
    frame = spark.read.parquet(str(people)).repartition(3)
    first = dpspark.release(variant(conf, release__version="frame"), frame, noise=NoGaussianNoise())
    direct = dpspark.release(conf, spark=spark, noise=NoGaussianNoise())
    assert (first.second_moment() == direct.second_moment()).all(axis=None)
    assert first.manifest["spec"]["source"] == {"dataframe": True}
    bare = {key: value for key, value in conf.items() if key != "source"}
    with pytest.raises(ConfError, match="source: missing"):
        dpspark.release(bare, spark=spark)
    assert dpspark.release(variant(bare, release__version="bare"), source=frame).path.name == "bare"


def test_table_sql_and_where(spark: Any, conf: dict[str, Any], people: Path) -> None:
    spark.read.parquet(str(people)).createOrReplaceTempView("people_view")
    half = pq.read_table(people, filters=[("age", ">=", 50)])
    x = clipped(conf, half)
    sources = {
        "a": variant(conf, where="age >= 50"),
        "b": variant(conf, source={"table": "people_view"}, where="age >= 50"),
        "c": variant(conf, source={"sql": "select * from people_view where age >= 50"}),
        "d": variant(conf, source={"parquet": str(people.parent / "peop*.parquet")}, where="age >= 50"),
    }
    for name, source in sources.items():
        rel = dpspark.release(variant(source, release__version=name), spark=spark, noise=NoGaussianNoise())
        assert rel.second_moment().to_numpy() == pytest.approx(x.T @ x, rel=1e-6, abs=1e-6), name
    sql = dpspark.read_release(Path(conf["output"]["path"]) / "income" / "c").manifest["spec"]["source"]
    assert list(sql) == ["sql_sha256"]


def test_replace_one_publishes_the_count(spark: Any, conf: dict[str, Any]) -> None:
    rel = dpspark.release(variant(conf, privacy__neighbours="replace_one"), spark=spark)
    assert rel.second_moment().loc["(intercept)", "(intercept)"] == 40_000
    assert rel.noise_std().loc["(intercept)", "(intercept)"] == 0
    filtered = variant(conf, privacy__neighbours="replace_one", where="age > 40", release__version="2")
    rel = dpspark.release(filtered, spark=spark)
    assert rel.noise_std().loc["(intercept)", "(intercept)"] > 0


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows_are_a_valid_release(
    spark: Any, conf: dict[str, Any], tmp_path: Path, people: Path, rows: int
) -> None:
    pq.write_table(pq.read_table(people).slice(0, rows), tmp_path / "few.parquet")
    rel = dpspark.release(variant(conf, source={"parquet": str(tmp_path / "few.parquet")}), spark=spark)
    assert rel.regress("income ~ age").status == "NOT_IDENTIFIED"


def test_unknown_categories_only(spark: Any, conf: dict[str, Any]) -> None:
    rel = dpspark.release(variant(conf, columns={"sex": {"categories": ["x", "y"]}}), spark=spark)
    noise = rel.noise_std().to_numpy()
    assert (abs(rel.second_moment().to_numpy()) <= 6 * noise).all()


def test_the_same_release_again_is_returned_and_costs_nothing(
    spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: a second draw; a second charge; a second read."""
    noise = CountedGaussian()
    first = dpspark.release(conf, spark=spark, noise=noise)
    calls = noise.calls
    monkeypatch.setattr(reading, "exact_gram", None)  # reading would fail
    again = dpspark.release(conf, noise=noise)
    assert noise.calls == calls
    assert (first.second_moment() == again.second_moment()).all(axis=None)
    balance = Ledger(conf["ledger"]["url"]).balances("people")[0]
    assert [entry.budget.epsilon for entry in balance.entries] == [1.0]


def test_a_draw_that_came_too_late_goes_with_the_next_run(spark: Any, conf: dict[str, Any]) -> None:
    """A driver staged it after another had published, and was killed then. Kills: two draws for one charge, for good."""
    first = dpspark.release(conf, spark=spark)
    staging = Path(conf["output"]["path"]) / ".staging"
    entry = Ledger(conf["ledger"]["url"]).balances("people")[0].entries[0]
    shutil.copytree(first.path, staging / f"{entry.id}.{'0' * 64}")
    (staging / "another-release.part").mkdir()
    dpspark.release(conf, spark=spark)
    assert os.listdir(staging) == ["another-release.part"]


def test_a_changed_spec_under_a_used_name_is_refused(spark: Any, conf: dict[str, Any]) -> None:
    dpspark.release(conf, spark=spark)
    with pytest.raises(LedgerError, match="another spec"):
        dpspark.release(variant(conf, privacy__epsilon=2.0), spark=spark)
    with pytest.raises(ConfError, match="expected a Spark DataFrame"):
        dpspark.release(conf, spark)
    fresh = f"{conf['ledger']['url']}2"
    Ledger(fresh).grant("people", 10.0, 1e-6)
    with pytest.raises(LedgerError, match="another spec"):  # by the bundle alone
        dpspark.release(variant(conf, privacy__epsilon=2.0, ledger__url=fresh), spark=spark)
    assert dpspark.release(variant(conf, ledger__url=fresh), spark=spark).path.name == "1"


class Crash(Exception):
    pass


def crash(*_: Any, **__: Any) -> None:
    raise Crash


@pytest.mark.parametrize(
    ("where", "redrawn"), [("make", True), ("stage", True), ("publish", False), ("read_release", False)]
)
def test_after_a_crash_the_retry_goes_on_at_no_further_charge(
    spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch, where: str, redrawn: bool
) -> None:
    """Kills: a second charge, and a second draw once the first is on disk."""
    noise = CountedGaussian()
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, where, crash)
        with pytest.raises(Crash):
            dpspark.release(conf, spark=spark, noise=noise)
    drawn = noise.calls
    rel = dpspark.release(conf, spark=spark, noise=noise)
    assert (noise.calls > drawn) is redrawn
    balance = Ledger(conf["ledger"]["url"]).balances("people")[0]
    assert [(entry.budget.epsilon, entry.state) for entry in balance.entries] == [(1.0, "committed")]
    assert (rel.path / "_SUCCESS").exists()


def test_crash_between_rename_and_success(spark: Any, conf: dict[str, Any]) -> None:
    noise = CountedGaussian()
    rel = dpspark.release(conf, spark=spark, noise=noise)
    before = (rel.path / "second_moment.parquet").read_bytes()
    (rel.path / "_SUCCESS").unlink()
    import sqlalchemy as sa

    engine = sa.create_engine(conf["ledger"]["url"])
    with engine.begin() as connection:
        connection.execute(sa.text("update releases set state = 'staged', committed_at = null"))
    with pytest.raises(OutputError, match="unfinished"):
        dpspark.read_release(rel.path)
    drawn = noise.calls
    dpspark.release(conf, spark=spark, noise=noise)
    assert noise.calls == drawn
    assert (rel.path / "second_moment.parquet").read_bytes() == before


def test_an_unfinished_release_is_not_drawn_again_elsewhere(
    spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kills: a retry with another output, which would leave two draws for one charge."""
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "stage", crash)  # on disk, and the ledger does not know yet
        with pytest.raises(Crash):
            dpspark.release(conf, spark=spark)
    with pytest.raises(LedgerError, match="was begun for"):
        dpspark.release(conf, spark=spark, out=tmp_path / "elsewhere")
    noise = CountedGaussian()
    dpspark.release(conf, spark=spark, noise=noise)
    assert noise.calls == 0
    assert os.listdir(Path(conf["output"]["path"]) / ".staging") == []


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without locks, or on two machines: the rival does not wait. Nothing may depend on that."""
    monkeypatch.setattr(pipeline, "taking_turns", lambda lock, report: nullcontext())


@pytest.mark.usefixtures("no_locks")
def test_two_drivers_at_once_publish_one_draw(
    spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: a second draw left on disk or put over the first. The rival runs while this driver reads."""
    real = reading.exact_gram
    rival: list[Any] = []

    def read_while_the_rival_publishes(*arguments: Any) -> Any:
        if not rival:
            rival.append(None)
            rival[0] = dpspark.release(conf, spark=spark).second_moment()
        return real(*arguments)

    monkeypatch.setattr(reading, "exact_gram", read_while_the_rival_publishes)
    noise = CountedGaussian()
    ours = dpspark.release(conf, spark=spark, noise=noise)
    assert noise.calls == 0
    assert (ours.second_moment() == rival[0]).all(axis=None)
    assert os.listdir(Path(conf["output"]["path"]) / ".staging") == []
    assert len(Ledger(conf["ledger"]["url"]).balances("people")[0].entries) == 1


@pytest.mark.usefixtures("no_locks")
def test_two_drivers_that_both_drew(
    tmp_path: Path, spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last moment: both drew, one staged. The first draw stands."""
    real = pipeline.stage
    rival: list[Any] = []

    def stage_after_the_rival(*arguments: Any) -> Any:
        if not rival:
            rival.append(None)
            rival[0] = dpspark.release(conf, spark=spark).second_moment()
        return real(*arguments)

    monkeypatch.setattr(pipeline, "stage", stage_after_the_rival)
    ours = dpspark.release(conf, spark=spark)
    assert (ours.second_moment() == rival[0]).all(axis=None)
    assert os.listdir(Path(conf["output"]["path"]) / ".staging") == []


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("moved", ["staged", "published", "committed"])
def test_two_drivers_that_do_not_see_each_other_s_files(
    spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moved: str
) -> None:
    """The same path on two machines, each with its own disk, and one ledger: the one that the ledger heard of first stands.

    Kills: publishing what was staged last, which is a second draw for one charge that anyone can see.
    """
    real, output = pipeline.stage, Path(conf["output"]["path"])
    after = {"staged": "publish", "published": "discard_staged", "committed": "read_release"}[moved]
    rival: list[Any] = []

    def stage_after_the_rival(*arguments: Any) -> Any:
        if not rival:
            rival.append(None)
            with monkeypatch.context() as patch:
                patch.setattr(pipeline, after, crash)
                with pytest.raises(Crash):
                    dpspark.release(conf, spark=spark)
            output.rename(tmp_path / "other_disk")
            output.mkdir()
        return real(*arguments)

    monkeypatch.setattr(pipeline, "stage", stage_after_the_rival)
    with pytest.raises(LedgerError, match="not drawn again"):
        dpspark.release(conf, spark=spark)
    assert not (output / "income").exists()
    assert os.listdir(output / ".staging") == []
    with pytest.raises(LedgerError, match="not drawn again"):
        dpspark.release(conf, spark=spark)
    output.joinpath(".staging").rmdir()
    output.rmdir()
    (tmp_path / "other_disk").rename(output)
    rel = dpspark.release(conf, noise=NoGaussianNoise())
    entry = Ledger(conf["ledger"]["url"]).balances("people")[0].entries[0]
    assert (entry.state, entry.manifest_sha256) == ("committed", manifest_digest(rel.path))


@pytest.mark.usefixtures("no_locks")
def test_the_first_staged_draw_stands(spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: staging over another driver's draw. The rival dies between staging and publishing."""
    real, rival = pipeline.stage, []

    def stage_after_the_rival(*arguments: Any) -> Any:
        if not rival:
            rival.append(b"")
            with monkeypatch.context() as patch:
                patch.setattr(pipeline, "publish", crash)
                with pytest.raises(Crash):
                    dpspark.release(conf, spark=spark)
            (staged,) = (Path(conf["output"]["path"]) / ".staging").iterdir()
            rival[0] = (staged / "second_moment.parquet").read_bytes()
        return real(*arguments)

    monkeypatch.setattr(pipeline, "stage", stage_after_the_rival)
    ours = dpspark.release(conf, spark=spark)
    assert (ours.path / "second_moment.parquet").read_bytes() == rival[0]


def test_a_staged_result_that_vanished_is_not_drawn_again(
    spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "publish", crash)
        with pytest.raises(Crash):
            dpspark.release(conf, spark=spark)
    shutil.rmtree(Path(conf["output"]["path"]) / ".staging")
    with pytest.raises(LedgerError, match="not drawn again"):
        dpspark.release(conf, spark=spark)


def test_no_grant_and_overspending_read_nothing(
    spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "exact_gram", crash)
    with pytest.raises(LedgerError, match="no budget"):
        dpspark.release(variant(conf, ledger__dataset="other"), spark=spark)
    with pytest.raises(LedgerError, match="not enough"):
        dpspark.release(variant(conf, privacy__epsilon=101.0), spark=spark)
    assert not (Path(conf["output"]["path"]) / "income").exists()


def test_source_errors_cost_nothing(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    spark.range(3).createOrReplaceTempView("three")
    for change in (
        {"source": {"parquet": str(tmp_path / "nothing")}},
        {"source": {"table": "no_such_table"}},
        {"source": {"sql": "select nothing from three"}},
        {"source": {"table": "three"}},
        {"where": "wealth > 3"},
        {"where": "_metadata.row_index < 5"},
        {"columns": {"sex": {"lower": 0, "upper": 1}}},
        {"columns": {"wealth": {"lower": 0, "upper": 1}}},
    ):
        with pytest.raises(SourceError):
            dpspark.release(variant(conf, **change), spark=spark)
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].entries == ()


def test_frame_columns_of_the_wrong_type_or_twice(spark: Any, conf: dict[str, Any]) -> None:
    one = {"x": {"lower": 0, "upper": 1}}
    for query in (
        "select 'a' as x",
        "select date'2020-01-01' as x",
        "select array(1) as x",
        "select 1 as x, 2 as x",
        "select 1 as x, 2 as X",
        "select 1 as y",
    ):
        with pytest.raises(SourceError, match=r"columns\.x"):
            dpspark.release(variant(conf, columns=one), spark.sql(query))
    odd = spark.sql("select 0.5d as `größe``x`")
    rel = dpspark.release(variant(conf, columns={"größe`x": {"lower": 0, "upper": 1}}), odd)
    assert rel.terms == ("(intercept)", "größe`x")


def test_unwritable_output_costs_nothing(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="Choose another output"):
        dpspark.release(variant(conf, output={"path": str(tmp_path / "file")}), spark=spark)
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].entries == ()


def test_staging_is_private(spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "publish", crash)
        with pytest.raises(Crash):
            dpspark.release(conf, spark=spark)
    staging = Path(conf["output"]["path"]) / ".staging"
    assert stat.S_IMODE(staging.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["gaussian", "laplace", "wishart", "johnson_lindenstrauss", "inverse_wishart"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_every_mechanism_works_with_its_name_alone(
    spark: Any, conf: dict[str, Any], name: str, neighbours: str
) -> None:
    privacy = {"epsilon": 2.0, "neighbours": neighbours} | ({} if name == "laplace" else {"delta": 1e-9})
    rel = dpspark.release(variant(conf, privacy=privacy, mechanism={"name": name}), spark=spark)
    fit = rel.regress("income ~ age + educ")
    assert fit.status == "OK"
    assert abs(fit.params["age"] - 700) < 6 * fit.std_errors["age"] + 70  # clipping takes a little off
    floating = any("floating point" in limitation for limitation in rel.manifest["limitations"])
    assert floating is (name not in ("gaussian", "laplace"))
    assert "differentially private" in rel.manifest["guarantee"]
    assert rel.manifest["mechanism"]["name"] == name


def test_rho_budget(spark: Any, conf: dict[str, Any]) -> None:
    rel = dpspark.release(variant(conf, privacy={"rho": 0.5}), spark=spark)
    assert rel.manifest["mechanism"]["rho"] == pytest.approx(0.5)
    assert "zero-concentrated" in rel.manifest["guarantee"]
    assert "rho = 0.5" in rel.regress("income ~ age").summary()


def test_reading_what_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(ConfError, match="no such directory"):
        dpspark.read_release(tmp_path / "absent")
    with pytest.raises(ConfError, match=r"no manifest\.json"):
        dpspark.read_release(tmp_path)
    for content in ("not json", "[]", '{"format": 99}'):
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(OutputError):
            dpspark.read_release(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 1}')
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(OutputError, match="damaged"):
        dpspark.read_release(tmp_path)


def test_covariance_correlation_and_predictions(spark: Any, conf: dict[str, Any], people: Path) -> None:
    import pandas as pd

    rel = dpspark.release(conf, spark=spark, noise=NoGaussianNoise())
    x = clipped(conf, pq.read_table(people))[:, 1:]
    assert rel.covariance().to_numpy() == pytest.approx(np.cov(x.T, bias=True), rel=1e-4, abs=1e-4)
    assert rel.correlation().to_numpy() == pytest.approx(np.corrcoef(x.T), abs=1e-5)
    combined = np.var(x[:, 0] - 2 * x[:, 1])
    assert rel.variance_along({"age": 1, "educ": -2}) == pytest.approx(combined, rel=1e-4)
    with pytest.raises(ConfError, match="no column 'wealth'"):
        rel.variance_along({"wealth": 1})
    fit = rel.regress("income ~ age + sex")
    new = pd.DataFrame({"age": [30, 500, None], "sex": ["F", "M", "F"]})
    b = fit.params
    expected = [
        b["(intercept)"] + b["age"] * 30,
        b["(intercept)"] + b["age"] * 99 + b["sex[M]"],
        b["(intercept)"] + b["age"] * 58.5,
    ]
    with pytest.warns(BeyondBounds, match="age"):
        assert fit.predict(new) == pytest.approx(expected)
    with pytest.raises(ConfError, match="no column 'sex'"):
        fit.predict({"age": [1]})


def test_columns_far_from_zero_keep_their_digits(tmp_path: Path, spark: Any, conf: dict[str, Any]) -> None:
    """Kills: regressions from the matrix in original units, where a timestamp's spread is lost in rounding."""
    rng = np.random.default_rng(1)
    t = 1.7e9 + rng.uniform(0, 1000, 50_000)
    pq.write_table(pa.table({"t": t, "y": 0.01 * (t - 1.7e9) + rng.uniform(0, 1, 50_000)}), tmp_path / "far.parquet")
    columns = {"t": {"lower": 1.7e9, "upper": 1.7e9 + 1000}, "y": {"lower": 0, "upper": 11}}
    made = {**conf, "source": {"parquet": str(tmp_path / "far.parquet")}, "columns": columns}
    fit = dpspark.release(made, spark=spark).regress("y ~ t")
    assert abs(fit.params["t"] - 0.01) < 5 * fit.std_errors["t"]
    assert fit.rsquared == pytest.approx(0.99, abs=0.01)
