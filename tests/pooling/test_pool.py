"""`dpspark pool`: sums of releases, their noise, their certificate, and what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.opening import read_content
from dpspark.analysis.options import Asked
from dpspark.bundle.signing import find_key, sign_release
from dpspark.errors import ConfError, OutputError
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.mechanisms.gram.noise_model import noise_to_manifest
from dpspark.mechanisms.gram.noisy import sum_of_noises
from dpspark.pooling.alike import Part, check_alike
from dpspark.releasing.manifest import build_manifest
from dpspark.releasing.tables import scaled_table, second_moment_table
from dpspark.report.words import compared
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import load_spec
from tests.commands import run
from tests.manifests import ERRORS, PERSON, PRIVATE, PURE, REPLACE, RHO, conf_of, named
from tests.noises import SeededNoise
from tests.pools import FORMULA, Rows, people, released, together

LAPLACE = {**named("laplace"), **PURE}
JANUARY, FEBRUARY = {"release/version": "2026-01"}, {"release/version": "2026-02"}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two months of different people, at different budgets."""
    output = tmp_path_factory.mktemp("months")
    first = released(output, people(1, 3000), 1, JANUARY)
    return first, released(output, people(2, 5000), 2, {**FEBRUARY, "privacy/epsilon": 2.0, "privacy/delta": 1e-10})


def failed(place: Path) -> list[str]:
    """Name the checks that fail."""
    return [check.name for check in dpspark.verify(place).checks if check.result == "failed"]


def test_a_pool_is_one_release_of_all_rows_but_for_noise(tmp_path: Path) -> None:
    """Kills: a part that is left out, or counted twice."""
    rows, tiny = [people(seed, 20_000) for seed in (1, 2, 3)], {"privacy/epsilon": 1e6, "privacy/delta": 1e-3}
    mechanisms: list[dict[str, Any]] = [{}, {**named("laplace"), "privacy/delta": None}, {}]
    places = [
        released(tmp_path / str(i), rows[i], i, {**tiny, **mechanisms[i], "release/version": str(i)}) for i in range(3)
    ]
    whole = dpspark.read_release(released(tmp_path / "all", together(*rows), 9, tiny)).regress(FORMULA)
    pooled = dpspark.pool(places).regress(FORMULA)
    for found, expected in ((pooled.params, whole.params), (pooled.std_errors, whole.std_errors)):
        assert [found[term] for term in whole.terms] == pytest.approx([expected[t] for t in whole.terms], rel=1e-5)


def _exact(domain: Any, rows: Rows) -> ExactGram:
    accumulator = GramAccumulator(domain)
    accumulator.add([pa.array(rows[column.name]) for column in domain.columns], len(rows["age"]))
    return ExactGram.from_partials(domain, [accumulator.finish()])


@pytest.mark.parametrize(
    "mechanisms",
    [({}, {"privacy/epsilon": 3.0}), ({}, LAPLACE), (named("wishart"), LAPLACE), (REPLACE, {**REPLACE, **LAPLACE})],
    ids=["unlike sigmas", "gaussian and laplace", "wishart and laplace", "public numbers of rows"],
)
def test_the_noise_of_a_sum_is_as_large_as_it_says(mechanisms: tuple[dict[str, Any], ...]) -> None:
    """Kills: the noise of one part alone; a covariance by one part's ratio of diagonal to the rest.

    Of 1,000 pools of the same rows, z² of each coefficient has a mean of 1, with a standard deviation of √(2/1000), more for
    Laplace noise: 0.3 is above 6 of them, a false alarm in 1e-8.
    """
    specs = [load_spec(conf_of(changes)) for changes in mechanisms]
    chosen = [choose_gram(spec) for spec in specs]
    exact = [_exact(one.domain, people(10 + i, 20_000)) for i, one in enumerate(chosen)]
    law, domain = sum_of_noises([one.noise for one in chosen]), chosen[0].domain  # type: ignore[misc]
    manifest = build_manifest(specs[0], chosen[0], {"noise": noise_to_manifest(law), "repair": "none"}, "id", "none")
    steps, generator, z = domain.steps_per_row, SeededNoise(np.random.default_rng(5)), []
    noisy = chosen[0].release(exact[0], generator)
    tables = {"second_moment": second_moment_table(noisy), "scaled": scaled_table(noisy)}
    truth = np.add(*(np.array(one.reveal()) / steps for one in exact))
    for draw in range(1001):
        upper = (
            truth
            if draw == 0
            else np.add(
                *(
                    np.array(m.release(e, generator).upper, dtype=float) / steps
                    for m, e in zip(chosen, exact, strict=True)
                )
            )
        )
        matrix = np.zeros((domain.width, domain.width))
        matrix[np.triu_indices(domain.width)] = upper
        matrix = np.triu(matrix, 1) + matrix.T
        fit = _fit(manifest, tables, matrix)
        if draw == 0:
            true = fit.params
            continue
        z.append([(fit.params[term] - true[term]) / fit.privacy_std_errors[term] for term in fit.terms])
    assert np.square(z).mean(axis=0) == pytest.approx(1.0, abs=0.3)
    assert np.mean(np.abs(z) < 1.96, axis=0) == pytest.approx(0.95, abs=0.035)  # 5 standard deviations: 6e-7


def _fit(manifest: dict[str, Any], tables: dict[str, pa.Table], matrix: np.ndarray) -> Any:
    """Fit a matrix in scaled coordinates, as a reader does."""
    at = tables["scaled"].schema.get_field_index("value")
    scaled = tables["scaled"].set_column(at, "value", pa.array(matrix.ravel()))
    return GramContent(Path("nowhere"), manifest, {**tables, "scaled": scaled}).regress(Asked(FORMULA))


def test_the_certificate_names_its_parts_and_what_is_assumed(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: the smaller budget; a sum where people are apart; a maximum where they may not be; an assumption not said."""
    apart, maybe = (dpspark.pool(parts, tmp_path / how, overlap=how).manifest for how in ("none", "unknown"))
    digests = [hashlib.sha256((part / "manifest.json").read_bytes()).hexdigest() for part in parts]
    expected = [
        {"name": "income", "version": v, "manifest_sha256": d}
        for v, d in zip(("2026-01", "2026-02"), digests, strict=True)
    ]
    assert apart["pool"]["parts"] == maybe["pool"]["parts"] == expected
    assert (apart["privacy"]["epsilon"], apart["privacy"]["delta"]) == (2.0, 1e-9)
    assert maybe["privacy"]["epsilon"] == 3.0
    assert maybe["privacy"]["delta"] == pytest.approx(1.1e-9)
    assert "assumed that one record is in the data of one of them at most" in apart["guarantee"]
    assert "added up" in maybe["guarantee"]
    stay = [released(tmp_path / "r", people(i, 500), 70 + i, {**REPLACE, "release/version": str(i)}) for i in (1, 2)]
    assert "replaced stays in its release is assumed" in dpspark.pool(stay).manifest["guarantee"]
    assert "in several parts" in str(dpspark.read_release(tmp_path / "unknown").regress(FORMULA))
    assert "in several parts" not in str(dpspark.read_release(tmp_path / "none").regress(FORMULA))


def test_every_reader_takes_a_pool(
    parts: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "pool")
    code, printed, _ = run(capsys, "pool", *map(str, parts), "-o", place, "--name", "both", "--version", "1", "--json")
    assert code == 0
    assert json.loads(printed)["release"] == {"name": "both", "version": "1"}
    for command in (("verify",), ("regress", FORMULA), ("describe",), ("covariance",), ("pca",), ("table", FORMULA)):
        assert run(capsys, command[0], place, *command[1:])[0] == 0
    for form in ("csv", "json", "r", "registry", "jsonld", "statement"):
        assert run(capsys, "convert", place, "--to", form, "-o", str(tmp_path / form))[0] == 0
    assert run(capsys, "report", place, "-o", str(tmp_path / "page.html"))[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert dpspark.read_release(place).manifest["pool"]["parts"][0]["manifest_sha256"] in page
    assert run(capsys, "pool", *map(str, parts), "-o", place)[0] == 4  # nothing is written over
    assert (
        run(capsys, "report", place, "-o", str(tmp_path / "other.html"), "--url", f"sqlite:///{tmp_path}/l.db")[0] == 3
    )


def _rewrite(place: Path, **changes: Any) -> None:
    manifest = json.loads((place / "manifest.json").read_text())
    for path, value in changes.items():
        *keys, last = path.split("__")
        here = manifest
        for key in keys:
            here = here[key]
        here[last] = value
    (place / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy__epsilon": 1.0},
        {"privacy__delta": 1e-12},
        {"guarantee": "Nobody learns anything."},
        {"pool__overlap": "unknown"},
        {"mechanism__noise__diagonal_std": 1.0},
        {"mechanism__noise__count_is_exact": True},
        {"limitations": []},
        {
            "columns": [{"name": n, "lower": 0, "upper": 1} for n in ("age", "income")]
            + [{"name": "sex", "categories": ["F", "M"]}]
        },
    ],
    ids=str,
)
def test_a_pool_that_says_something_else_is_not_verified(
    changes: dict[str, Any], parts: tuple[Path, Path], tmp_path: Path
) -> None:
    place = tmp_path / "pool"
    dpspark.pool(parts, place)
    assert failed(place) == []
    _rewrite(place, **changes)
    assert failed(place) == ["guarantee"]


def test_a_pool_with_other_files_is_not_verified(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: sums that nobody adds up again; a part that is not the one named; parts beside those named."""
    place = tmp_path / "pool"
    dpspark.pool(parts, place)
    copies = {name: shutil.copytree(place, tmp_path / name) for name in ("sums", "part", "swapped", "more", "gone")}
    table = pq.read_table(place / "second_moment.parquet")
    values = table["value"].to_numpy().copy()
    values[0] += 1
    pq.write_table(table.set_column(2, "value", pa.array(values)), copies["sums"] / "second_moment.parquet")
    digest = hashlib.sha256((copies["sums"] / "second_moment.parquet").read_bytes()).hexdigest()
    files = json.loads((place / "manifest.json").read_text())["files"]
    _rewrite(copies["sums"], files={**files, "second_moment.parquet": {"sha256": digest}})
    assert failed(copies["sums"]) == ["tables"]
    _rewrite(copies["part"] / "parts" / "1", privacy__epsilon=0.1)
    assert failed(copies["part"]) == ["part 1"]
    shutil.rmtree(copies["swapped"] / "parts" / "2")
    shutil.copytree(copies["swapped"] / "parts" / "1", copies["swapped"] / "parts" / "2")
    assert failed(copies["swapped"]) == ["part 2"]
    shutil.copytree(copies["more"] / "parts" / "1", copies["more"] / "parts" / "3")
    assert failed(copies["more"]) == ["parts"]
    shutil.rmtree(copies["gone"] / "parts")
    assert failed(copies["gone"]) == ["part 1"]


def test_a_part_that_is_not_what_it_says_is_refused(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: a pool that stands on a certificate nobody checked."""
    bad = shutil.copytree(parts[0], tmp_path / "bad")
    _rewrite(bad, privacy__epsilon=0.01)
    with pytest.raises(OutputError, match="is not what it says"):
        dpspark.pool([bad, parts[1]])


AGE = {"columns/age": {"lower": 18, "upper": 90}}
UNLIKE: dict[str, tuple[dict[str, Any], str]] = {
    "bounds": (AGE, "unlike bounds of age"),
    "private bounds": ({**PRIVATE, **FEBRUARY}, "unlike bounds of income"),
    "categories": ({"columns/sex": {"categories": ["M", "F"]}}, "unlike categories of sex"),
    "columns": ({"columns/income": None}, r"unlike columns \(income\)"),
    "expressions": ({"columns/age": {"expr": "age + 1", "lower": 18, "upper": 99}}, "unlike computed columns"),
    "nulls": ({"nulls": "midpoint"}, "unlike null policies"),
    "row norms": ({"row_norm": {"mode": "cap", "radius": 1.2}}, "unlike row norms"),
    "neighbours": (REPLACE, "unlike neighbours"),
    "units": (PERSON, "unlike units of protection"),
    "currencies": (RHO, "unlike currencies"),
    "johnson_lindenstrauss": (named("johnson_lindenstrauss"), "noise that grows with it"),
    "inverse_wishart": (named("inverse_wishart"), "noise that grows with it"),
}


@pytest.mark.parametrize("what", UNLIKE)
def test_what_does_not_add_up_is_refused_with_the_reason(what: str, parts: tuple[Path, Path], tmp_path: Path) -> None:
    changes, words = UNLIKE[what]
    other = released(tmp_path, people(3, 500), 3, {"release/version": "other", **changes})
    with pytest.raises(ConfError, match=words):
        dpspark.pool([parts[0], other])


def test_a_release_is_there_once(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: people and noise that count twice, by the same files or by a copy under another name."""
    copy = shutil.copytree(parts[0], tmp_path / "copy")
    _rewrite(copy, created_at="2020-01-01")
    for twice in (parts[0], copy):
        with pytest.raises(ConfError, match="twice"):
            dpspark.pool([*parts, twice])
    again = shutil.copytree(parts[0], tmp_path / "again")
    for name in ("second_moment", "scaled"):  # the same numbers in other bytes, under another name
        pq.write_table(pq.read_table(again / f"{name}.parquet"), again / f"{name}.parquet", compression="gzip")
    manifest = json.loads((again / "manifest.json").read_text())
    for name, file in manifest["files"].items():
        file["sha256"] = hashlib.sha256((again / name).read_bytes()).hexdigest()
    named, charged = {**manifest["release"], "version": "again"}, {**manifest["ledger"], "id": "another"}
    (again / "manifest.json").write_text(json.dumps({**manifest, "release": named, "ledger": charged}))
    with pytest.raises(ConfError, match="twice"):
        check_alike([Part.of(read_content(place)) for place in (*parts, again)], "none")
    with pytest.raises(ConfError, match="two releases"):
        dpspark.pool([parts[0]])
    with pytest.raises(ConfError, match="list of releases"):
        dpspark.pool(str(parts[0]))
    with pytest.raises(ConfError, match="overlap"):
        dpspark.pool(parts, overlap="some")


def test_one_source_twice_is_told(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: a certificate that assumes disjoint people without a word, where both parts ask for the same rows."""
    march = released(tmp_path, people(3, 500), 3, {"release/version": "2026-03", "where": "age > 20"})
    told = [line for line in dpspark.pool(parts).manifest["limitations"] if "same source and filter" in line]
    assert len(told) == 1
    assert not any("same source" in line for line in dpspark.pool([parts[0], march]).manifest["limitations"])
    unknown = dpspark.pool(parts, overlap="unknown")
    assert not any("same source" in line for line in unknown.manifest["limitations"])


def test_a_pool_of_pools_is_one_of_all_parts(parts: tuple[Path, Path], tmp_path: Path) -> None:
    third = released(tmp_path, people(3, 500), 3, {"release/version": "2026-03"})
    both = dpspark.pool(parts, tmp_path / "both")
    again, flat = dpspark.pool([both, third], tmp_path / "again"), dpspark.pool([*parts, third])
    assert {k: v for k, v in again.manifest.items() if k not in ("created_at", "files")} == {
        k: v for k, v in flat.manifest.items() if k not in ("created_at", "files")
    }
    assert failed(tmp_path / "again") == []
    with pytest.raises(ConfError, match="twice"):
        dpspark.pool([both, parts[0]])
    dpspark.pool(parts, tmp_path / "maybe", overlap="unknown")
    with pytest.raises(ConfError, match="may overlap"):
        dpspark.pool([tmp_path / "maybe", third])
    with pytest.raises(ConfError, match="without its parts"):
        dpspark.pool([flat, third])


@pytest.mark.parametrize(
    ("overlap", "words"), [("none", "Parallel composition of 2"), ("unknown", "Basic composition of 2")]
)
def test_the_public_is_told_how_budgets_compose(
    overlap: str, words: str, parts: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a pool that is told as one mechanism, or with another composition than its certificate's."""
    dpspark.pool(parts, tmp_path / "pool", overlap=overlap)
    for form in ("registry", "statement"):
        code, printed, _ = run(capsys, "convert", str(tmp_path / "pool"), "--to", form, "-o", str(tmp_path / form))
        assert code == 0
        said = " ".join(Path(printed.strip()).read_text().split())
        assert words in said
        assert "For each part, one job read its data" in said


def test_a_pool_and_its_parts_share_noise(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: differences of a pool and its part with the errors of independent releases."""
    place = tmp_path / "both"
    dpspark.pool(parts, place)
    with pytest.raises(ConfError, match="share noise"):
        dpspark.compare(place, parts[1], FORMULA)
    found = dpspark.series([place, *parts], FORMULA)
    assert list(found.fits) == ["2026-01", "2026-02"]
    assert "pool of releases that are there" in found.left_out["2026-01_2026-02"]
    third = released(tmp_path, people(3, 500), 3, {"release/version": "2026-03"})
    assert dpspark.compare(place, third, FORMULA).terms


def test_pools_with_common_parts_are_not_in_one_series(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: a series of rolling pools that has none of them, and says that they lack the regression."""
    months = [*parts, *(released(tmp_path, people(i, 500), i, {"release/version": f"2026-0{i}"}) for i in (3, 4))]
    rolling = [dpspark.pool(months[at : at + 2], tmp_path / f"p{at}") for at in range(3)]
    whole = dpspark.pool(months, tmp_path / "all", version="2026")
    found = dpspark.series([whole, *rolling], FORMULA)
    assert list(found.fits) == ["2026-01_2026-02", "2026-03_2026-04"]
    common = "it is a pool that has parts in common with 2026-01_2026-02"
    assert found.left_out == {"2026-02_2026-03": common, "2026": common}


def test_meats_are_left_out_with_the_reason(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: the sum of meats about different coefficients, shown as robust errors."""
    with_meats = released(tmp_path, people(4, 2000), 4, {**ERRORS, "release/version": "meats"})
    pooled = dpspark.pool([parts[0], with_meats])
    assert "meat" not in pooled.tables
    assert pooled.regress(FORMULA).errors == "classical"
    assert any("do not add up" in line for line in pooled.manifest["limitations"])
    assert not any("meat.parquet" in line for line in pooled.manifest["limitations"])
    with pytest.raises(ConfError, match="hc1"):
        pooled.regress(FORMULA, errors="hc1")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_pool_promises_no_more_than_its_weakest_part(order: tuple[int, int], tmp_path: Path) -> None:
    """Kills: a record that may move between groups, by the word of one part, where another protects it in its group alone."""
    groups = {"release/group_by": ["tract"], "release/groups": ["01", "02"], "where": "age > 20", **REPLACE}
    both = [
        released(tmp_path, people(seed, 2000), seed, {**groups, **fixed, "release/version": str(seed)})
        for seed, fixed in ((1, {}), (2, {"privacy/fixed": ["tract"]}))
    ]
    pool = dpspark.pool([both[at] for at in order])
    assert "if it keeps its tract" in pool.manifest["guarantee"]
    assert compared(pool.manifest).endswith("which it keeps.")


def test_groups_are_added_up_one_by_one(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Kills: groups that are added up in another order; a pool that forgets its groups."""
    listed = [["a", "b"], ["a", "b"], ["b", "a"], ["a", "c"]]
    places = [
        released(
            tmp_path,
            people(i, 3000),
            50 + i,
            {"release/group_by": ["tract"], "release/groups": each, "release/version": str(i)},
        )
        for i, each in enumerate(listed)
    ]
    pooled = dpspark.pool(places[:2], tmp_path / "pool")
    assert failed(tmp_path / "pool") == []
    whole = pooled.group(tract="a").second_moment().loc["(intercept)", "(intercept)"]
    assert whole == pytest.approx(6000, abs=500)
    for other in places[2:]:
        with pytest.raises(ConfError, match="same groups"):
            dpspark.pool([places[0], other])
    with pytest.raises(ConfError, match="groups' columns"):
        dpspark.pool([places[0], parts[0]])
    with pytest.raises(ConfError, match="one group"):
        dpspark.pool([pooled.group(tract="a"), places[0]])


def test_signed_parts_keep_their_signatures(parts: tuple[Path, Path], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 4)
    secret.chmod(0o600)
    key = find_key(str(secret), "NONE", signing=True)
    assert key is not None
    signed = shutil.copytree(parts[0], tmp_path / "signed")
    sign_release(signed, key)
    dpspark.pool([signed, parts[1]], tmp_path / "pool")
    sign_release(tmp_path / "pool", key)
    for place in (tmp_path / "pool", tmp_path / "pool" / "parts" / "1"):
        found = {check.name: check.result for check in dpspark.verify(place, key=key).checks}
        assert found["signature"] == "ok"
        assert "failed" not in found.values()
