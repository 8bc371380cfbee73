"""`dpspark compare`: differences between releases, with errors that hold."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import dpspark
from dpspark.errors import ConfError
from tests.commands import run
from tests.manifests import CONFS, bundle_of

FORMULA = "income ~ age + sex"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two releases of the same rows: two mechanisms, so that the draws differ."""
    names = ("gaussian large epsilon", "gaussian rho")
    large = {**CONFS[names[1]], "privacy/rho": 50.0}
    first = bundle_of(tmp_path_factory.mktemp("a"), CONFS[names[0]])
    return first, bundle_of(tmp_path_factory.mktemp("b"), large)


def test_a_difference_has_both_errors(places: tuple[Path, Path]) -> None:
    """Kills: a variance that is left out; sampling errors that count as independent where people may be in both."""
    a, b = (dpspark.read_release(place).regress(FORMULA) for place in places)
    apart, alike = (dpspark.compare(*places, FORMULA, overlap=how) for how in ("none", "unknown"))
    assert apart.terms == a.terms
    for row, wide in zip(apart.rows(), alike.rows(), strict=True):
        term = row["term"]
        assert row["difference"] == pytest.approx(b.params[term] - a.params[term])
        assert row["std_error"] == pytest.approx(math.hypot(a.std_errors[term], b.std_errors[term]))
        samples = sum(math.sqrt(fit.std_errors[term] ** 2 - fit.privacy_std_errors[term] ** 2) for fit in (a, b))
        noise = sum(fit.privacy_std_errors[term] ** 2 for fit in (a, b))
        assert wide["std_error"] == pytest.approx(math.sqrt(samples**2 + noise))
        assert row["ci_low"] < row["difference"] < row["ci_high"]


def test_the_command_prints_what_python_gives(places: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(
        capsys, "compare", *map(str, places), FORMULA, "--overlap", "unknown", "--level", "0.9", "--json"
    )
    assert code == 0
    found: dict[str, Any] = json.loads(printed)
    assert found == dpspark.compare(*places, FORMULA, overlap="unknown", level=0.9).to_dict()
    keys = ["term", "a", "b", "difference", "std_error", "ci_low", "ci_high", "p_value"]
    assert [list(row) for row in found["terms"]] == [keys] * 3


def test_what_cannot_be_compared_is_refused(places: tuple[Path, Path]) -> None:
    with pytest.raises(ConfError, match="same release"):
        dpspark.compare(places[0], places[0], FORMULA)
    with pytest.raises(ConfError, match="overlap"):
        dpspark.compare(*places, FORMULA, overlap="some")
