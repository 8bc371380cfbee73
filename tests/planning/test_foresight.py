"""What is said before the charge: where the plan, at the expected rows, foresees nothing of use."""

from __future__ import annotations

import time
import warnings
from typing import Any

import pytest

from dpspark.planning import foresight
from dpspark.planning.foresight import foresee, foretell
from dpspark.planning.lines import Wrong
from dpspark.show.notebook_progress import reporting
from dpspark.show.progress import Note, NoteKind, Steps
from dpspark.spec.spec import Spec, load_spec
from tests.manifests import CONFS, conf_of


def spec_of(changes: dict[str, Any]) -> Spec:
    """Read the base conf with some keys changed."""
    return load_spec(conf_of(changes))


NEVER = ("descent", "descent pure", "descent rho")  # no such status


TOO_MANY_OR_FEW = ("buckets", "by rank", "errors stages")  # of so many rows, or so few, these confs are refused


@pytest.mark.parametrize("name", [name for name in CONFS if not any(part in name for part in TOO_MANY_OR_FEW)])
def test_every_conf_is_foreseen(name: str) -> None:
    """Nothing fails behind the guard; three rows are too few for anything, ten million enough."""
    few, many = (spec_of({**CONFS[name], "release/expected_rows": rows}) for rows in (3, 10_000_000))
    if "line" in name:
        many = spec_of({**CONFS[name], "release/expected_rows": 100_000})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        foresight._BY_KIND[few.release.kind](few)
    found = foresee(few)
    assert (found is None) == (name in NEVER)
    assert found is None or found.startswith("at the expected 3 rows")
    assert found is None or ("in each group" in found) == (few.release.group_by is not None)
    assert foresee(many) is None


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("gaussian", 100, "a regression on all columns will be NOT IDENTIFIED (kappa_w = "),
        ("gram_ridge", 150, "this regression will be SHRUNK (kappa_w = "),
        ("ssp", 150, "this regression will be UNSTABLE"),
        ("objective", 400, "this regression will be without intervals"),
        ("line depth moving", 10, "lines will be mostly noise"),
        ("quantiles", 20, "a quantile may be anywhere"),
        ("gaussian weighted", 2000, "the noise will drown the squared weights"),
    ],
)
def test_it_says_what_will_be(name: str, rows: int, words: str) -> None:
    assert words in str(foresee(spec_of({**CONFS[name], "release/expected_rows": rows})))


def test_it_says_what_it_would_take() -> None:
    """The rows that it names are enough, and not far too many."""
    short = spec_of({"release/expected_rows": 100})
    (rows,) = (int(word.replace(",", "")) for word in str(foresee(short)).split("It takes about ")[1].split()[:1])
    assert 100 < rows < 1000
    assert "NOT IDENTIFIED" not in str(foresee(spec_of({"release/expected_rows": 2 * rows})))
    assert "NOT IDENTIFIED" in str(foresee(spec_of({"release/expected_rows": rows // 2})))


def test_fewer_columns_are_named() -> None:
    columns = {f"c{i}": {"lower": 0, "upper": 1} for i in range(40)}
    found = foresee(spec_of({"columns": columns, "release/expected_rows": 8000}))
    assert found is not None
    assert " of the 39 columns would be identified" in found
    kept = int(found.split("One on ")[1].split()[0])
    fewer = {name: columns[name] for name in list(columns)[: kept + 1]}
    assert foresee(spec_of({"columns": fewer, "release/expected_rows": 8000})) is None


INCOMES = {
    "columns": {"age": {"lower": 18, "upper": 90}, "income": {"lower": 0, "upper": 200_000}},
    "release": {"name": "l", "version": "1", "kind": "theil_sen", "x": "age", "y": "income"},
    "mechanism": {"name": "auto"},
}


@pytest.mark.parametrize(("epsilon", "rows", "noise"), [(0.1, 50, True), (0.1, 1000, False), (1.0, 50, False)])
def test_a_line_that_is_mostly_noise_is_called_so(epsilon: float, rows: int, noise: bool) -> None:
    """Fails on 0.2.0: a line of which the noise is 96% of the squared error passed without a word."""
    spec = spec_of({**INCOMES, "privacy": {"epsilon": epsilon}, "release/expected_rows": rows})
    assert ("lines will be mostly noise" in str(foresee(spec))) == noise


@pytest.mark.parametrize(
    ("privacy", "silent", "noise"),
    [
        (26.0, 90.0, True),
        (24.0, 25.0, False),  # sampling is more
        (11.0, 10.0, True),
        (9.0, 3.0, False),
        (6.0, 1.4, True),
        (6.0, 1.6, False),
        (4.0, 0.01, False),
        (float("nan"), 1.0, False),
    ],
)
def test_where_noise_is_most(privacy: float, silent: float, noise: bool) -> None:
    """In a range of 100."""
    assert foresight._mostly_noise(Wrong("y at x = 1", silent, privacy), 100.0) == noise


def test_without_expected_rows_nothing_is_said() -> None:
    assert foresee(spec_of({})) is None


def test_it_costs_little() -> None:
    columns = {f"c{i}": {"lower": 0, "upper": 1} for i in range(200)}
    began = time.process_time()
    assert foresee(spec_of({"columns": columns, "release/expected_rows": 1000})) is not None
    assert time.process_time() - began < 3


def test_a_planner_that_fails_is_not_the_releases_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a release that fails, or that warns of nothing, because its plan does."""

    def broken(*_: Any) -> str:
        raise RuntimeError("no plan")

    monkeypatch.setitem(foresight._BY_KIND, "gram", broken)
    told: list[Note] = []
    foretell(spec_of({"release/expected_rows": 3}), told.append)
    assert told == []


def test_a_script_is_warned_and_else_left_alone() -> None:
    """Kills: a warning of anything else; one that cannot be made an error, which stops the release before the charge."""
    few = spec_of({"release/expected_rows": 3})
    with warnings.catch_warnings(record=True) as caught, reporting("a 1", None) as report:
        warnings.simplefilter("always")
        steps = Steps("a 1", report)
        steps("reading")
        steps.note(Note(NoteKind.LOW_BUDGET, "little budget is left"))
        foretell(few, steps.note)
    assert [str(one.message)[:22] for one in caught] == ["at the expected 3 rows"]
    with warnings.catch_warnings(), reporting("a 1", None) as report:
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="at the expected 3 rows"):
            foretell(few, Steps("a 1", report).note)
