"""The snippets of docs/other-tools.md, run by DuckDB and by R: they give the coefficients of `dpspark regress`, or those of the
matrix as it was released."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspark import read_release
from dpspark.analysis.least_squares import RegressionResult
from dpspark.analysis.ols import solve
from dpspark.bundle.staging import publish, stage, staging_path
from dpspark.cli.main import main
from tests.conftest import release_of

PAGE = (Path(__file__).parents[2] / "docs" / "other-tools.md").read_text(encoding="utf-8")
RELEASE = "demo/releases/income/1000000-rows"
DIGITS = 1e-9


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


@pytest.fixture
def fit(conf: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegressionResult:
    """A release where the page has it, and its regression."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, educ = rng.uniform(18, 99, 20_000), rng.uniform(1, 16, 20_000)
    income = 900 * age + 4000 * educ + rng.uniform(0, 3e4, 20_000)
    conf["release"]["version"] = "1000000-rows"
    made = release_of(conf, {"age": age, "educ": educ, "income": income, "sex": rng.choice(["F", "M"], 20_000)})
    output = Path("demo/releases")
    digest = stage(output, "entry", made.tables, {k: v for k, v in made.manifest.items() if k != "files"})
    publish(staging_path(output, "entry", digest), Path(RELEASE), digest)
    return made.regress("income ~ age + educ")


def as_released(fit: RegressionResult) -> dict[str, float]:
    """Least squares on the published table, without what is known of the categories."""
    solution = solve(read_release(RELEASE).content.noisy_moments, fit.formula)
    return dict(zip(fit.terms, solution.estimates.tolist(), strict=True))


def test_duckdb(fit: RegressionResult) -> None:
    """Kills: a matrix that other tools cannot read, or a page whose SQL is not least squares."""
    import duckdb

    answer = duckdb.sql(snippets("sql")[0])
    found = dict(zip(answer.columns, answer.fetchall()[0], strict=True))
    assert found == pytest.approx(as_released(fit), rel=DIGITS)


def test_duckdb_on_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpspark.bundle.schemas import PREDICTIONS_SCHEMA

    monkeypatch.chdir(tmp_path)
    place = Path("releases/mobility/1")
    place.mkdir(parents=True)
    rows = [(0.5, 1.0, 0.0, 2.0, 3.0, 4.0, "OK"), (0.5, 1.0, 0.0, 2.0, 5.0, 4.0, "OK")]
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), PREDICTIONS_SCHEMA, strict=True)
    ]
    pq.write_table(pa.table(columns, schema=PREDICTIONS_SCHEMA), place / "predictions.parquet")
    assert duckdb.sql(snippets("sql")[1]).fetchall() == [("OK", 2, 4.0)]


def convert() -> None:
    for line in snippets("sh")[0].splitlines():
        with pytest.raises(SystemExit) as caught:
            main(line.split()[1:])
        assert caught.value.code == 0


def test_conversions_of_the_page(fit: RegressionResult) -> None:
    """Kills: a page whose commands are refused, or that names other files than they write."""
    convert()
    named = {name for program in snippets("r") for name in re.findall(r'"exported/([^"]+)"', program)}
    assert {path.name for path in Path("exported").iterdir()} >= named != set()


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="no R here: make test-r")
def test_r(fit: RegressionResult) -> None:
    """Kills: an .rds that R does not read, or reads as something else; digits that a CSV lost."""
    convert()
    checks = """
        stopifnot(is.data.frame(release$tables$second_moment), is.matrix(m), identical(dim(m), c(6L, 6L)))
        stopifnot(identical(dim(release$tables$second_moment), c(36L, 4L)))
        stopifnot(identical(rownames(m)[1:2], c("(intercept)", "age")), identical(m["age", "educ"], m["educ", "age"]))
        csv <- read.csv("exported/second_moment.csv")
        table <- release$tables$second_moment
        stopifnot(identical(csv$value, table$value), identical(csv$row, table$row))
        stopifnot(identical(release$manifest$release$name, "income"), is.null(release$manifest$privacy$rho))
        stopifnot(identical(release$manifest$privacy$count_is_exact, FALSE), release$noise_std["age", "age"] > 0)
    """
    programs = [(snippets("r")[0] + checks, fit.params), (snippets("r")[1], as_released(fit))]
    for program, expected in programs:
        done = subprocess.run(["Rscript", "--vanilla", "-e", program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        at = next(i for i, line in enumerate(lines) if line.split() == ["(intercept)", "age", "educ"])
        assert list(map(float, lines[at + 1].split())) == pytest.approx(list(expected.values()), rel=DIGITS)
