"""`python -m benchmarks scale`: what it measures, how it fits and extrapolates, and the page that is written from it."""

from __future__ import annotations

import json
import runpy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.scale import cores, run
from benchmarks.scale.fit import exponent, fits
from benchmarks.scale.model import Parameters, Workload, model, parameters, predict
from benchmarks.scale.plot import short_number
from benchmarks.scale.sizes import FULL, QUICK, STUDIES, disk_bytes
from dpspark.errors import DpsparkError

ROOT = Path(__file__).parents[2]
TINY = replace(
    QUICK,
    generated_rows=(1_000, 4_000),
    parquet_rows=(1_000, 2_000, 4_000),
    columns=(3, 6),
    columns_rows=2_000,
    files=(1, 3),
    files_rows=3_000,
    cores_rows=8_000,
    tree_columns=10,
    tree_partitions=(2, 4),
    empty_tasks=2,
    enough_seconds=1e-9,
)


def test_a_run_has_every_study_and_the_page_is_written_from_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a study, a memory figure, a fit or a picture that is missing; a page that does not follow the results."""
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setattr(cores, "core_counts", lambda: [1])
    with pytest.raises(SystemExit) as done:
        main(["scale", "--quick", "--json", "--plot", str(tmp_path)])
    assert not done.value.code
    results = json.loads(capsys.readouterr().out)
    assert (results["quick"], results["command"]) == (True, "python -m benchmarks scale --quick")
    assert tuple(results["studies"]) == STUDIES
    measured = {
        "rows": {("generated", 1_000), ("generated", 4_000), *(("Parquet", n) for n in (1_000, 2_000, 4_000))},
        "columns": {(series, d) for series in ("adding up", "drawing noise") for d in (3, 6)},
        "files": {(series, n) for series in ("listing", "planning", "reading") for n in (1, 3)},
        "cores": {(series, 1) for series in ("starting Spark", "empty tasks", "generated", "Parquet")},
        "tree": {("tree", 2), ("tree", 4)},
    }
    for name, study in results["studies"].items():
        assert {(point["series"], point["x"]) for point in study["points"]} == measured[name]
        assert [fit["series"] for fit in study["fits"]] == list(dict.fromkeys(p["series"] for p in study["points"]))
        for point in study["points"]:
            assert point["seconds"] > 0
            assert all(1e7 < point[f"{kind}_peak_bytes"] < 2e10 for kind in ("driver", "jvm", "worker"))
        picture = tmp_path / f"scaling-{name}.png"
        assert picture.read_bytes()[:4] == b"\x89PNG"
        assert picture.stat().st_size < 60_000
    assert [found["rows"] for found in results["model"]["predictions"]] == 2 * [330_000_000, 8_000_000_000]
    page = runpy.run_path(str(ROOT / "docs" / "scaling.py"))["page"](results)
    assert "A cluster: a model, not a measurement" in page
    for study in results["studies"].values():
        for point in study["points"]:
            assert f"| {point['series']} | {point['x']:,} | {point['seconds']:.3g} |" in page


def test_the_page_is_that_of_its_results() -> None:
    """Kills: docs/scaling.md edited by hand, or results without their page."""
    results = json.loads((ROOT / "docs" / "scaling.json").read_text(encoding="utf-8"))
    page = runpy.run_path(str(ROOT / "docs" / "scaling.py"))["page"](results)
    assert page == (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert max(map(len, page.splitlines())) <= 120


def test_an_exponent_is_the_slope_of_the_logarithms() -> None:
    points = [(float(x), 3.0 * x**1.5) for x in (1, 10, 100, 1000)]
    found = exponent(points)
    assert found["exponent"] == pytest.approx(1.5)
    assert found["standard_error"] == pytest.approx(0, abs=1e-12)
    # By hand: logs (0, 1, 2) and (0, 1, 3) have slope 1.5, residuals (1/6, -1/3, 1/6), so 1/6 over a spread of 2.
    off = exponent([(1, 1), (10, 10), (100, 1000)])
    assert off["exponent"] == pytest.approx(1.5)
    assert off["standard_error"] == pytest.approx((1 / 6 / 2) ** 0.5)
    assert exponent(points[:2])["standard_error"] is None
    assert exponent(points[:1])["exponent"] is None


def test_the_larger_half_is_fitted_by_itself() -> None:
    """Kills: fixed costs of small sizes in the exponent of large ones."""
    points = [{"series": "a", "x": 10**i, "seconds": max(1.0, 10.0 ** (i - 3))} for i in range(7)]
    (found,) = fits(points)
    assert found["exponent"] < 0.7
    assert found["larger"]["exponent"] == pytest.approx(1.0)


TRUTH = Parameters(10.0, 2e-4, 1e-3, 0.03, 8e-9, 4e-10, 5e-9, 4e-5)


def studies_of(truth: Parameters) -> dict[str, Any]:
    """What a machine of two cores would measure if the model were right."""

    def points(series: str, values: dict[int, float]) -> list[dict[str, Any]]:
        return [{"series": series, "x": x, "seconds": seconds} for x, seconds in values.items()]

    widths = (5, 20, 100, 500)
    adding = {d: 0.4 + 200_000 * (truth.value * d + truth.product * d * d) / 2 for d in widths}
    drawing = {d: truth.draw * (d + 1) * (d + 2) / 2 for d in widths}
    return {
        "rows": {"columns": 20, "points": points("Parquet", {10**6: 0.5, 10**7: 2.0})},
        "columns": {"rows": 200_000, "points": points("adding up", adding) + points("drawing noise", drawing)},
        "files": {
            "points": points("listing", {1: truth.listing, 1001: 1001 * truth.listing})
            + points("reading", {1: 1.0, 1001: 1.0 + 1000 * truth.opening / 2})
        },
        "cores": {
            "empty_tasks": 200,
            "points": points("empty tasks", {1: 6.0, 2: 100 * truth.task})
            + points("starting Spark", {1: 11.0, 2: truth.start}),
        },
        "tree": {
            "payload_bytes": 10**6,
            "points": points("tree", {n: n * (truth.task + 10**6 * truth.payload_byte) / 2 for n in (100, 1000)}),
        },
    }


def test_the_model_recovers_what_a_machine_of_its_kind_measures() -> None:
    """Kills: cores left out of a parameter, or a parameter read from another study."""
    found = parameters(studies_of(TRUTH))
    assert found is not None
    assert asdict(found) == pytest.approx(asdict(TRUTH), rel=1e-6)
    studies = studies_of(TRUTH)
    del studies["tree"]
    assert model(studies) is None


def test_a_prediction_adds_up() -> None:
    """By hand: 8 billion rows of 20 columns are 1.28 TB, 9,537 files, 1,280 tasks on 64 cores; a second level of one node."""
    work = Workload(8_000_000_000, 20, 64)
    found = predict(TRUTH, work)
    assert (work.files, work.tasks, found["levels"]) == (9537, 1280, 1)
    assert found["computing"] == pytest.approx(8e9 * (8e-9 * 20 + 4e-10 * 400) / 64)
    assert found["storage"] == pytest.approx(1.28e12 / 64e8)
    assert found["seconds"]["reading"] == found["storage"] > found["computing"]
    assert found["seconds"]["tasks"] == pytest.approx(0.03 * 1282 / 64)
    assert found["total"] == pytest.approx(sum(found["seconds"].values()))
    assert predict(TRUTH, replace(work, cores=128))["total"] < found["total"]


def test_too_little_disk_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk_bytes(FULL, STUDIES) > disk_bytes(FULL, ("tree",)) * 0.99 > 20e9
    assert disk_bytes(QUICK, STUDIES) < 1e9
    huge = replace(QUICK, tree_partitions=(10**12,))
    with pytest.raises(DpsparkError, match="GB are free"):
        run.scale_results(huge, ("tree",), lambda _: None)


def test_short_numbers() -> None:
    assert [short_number(n) for n in (1, 500, 20_000, 4_000_000, 8e9)] == ["1", "500", "20k", "4M", "8G"]
