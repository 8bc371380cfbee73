"""Confs with a privacy unit: what they mean for every sensitivity, what is refused, and in which words it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dpspark.cli.actions.check import check_conf
from dpspark.errors import ConfError, SourceError
from dpspark.releasing.manifest import guarantee
from dpspark.source.parquet import open_parquet
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec, load_spec

JOINED = {"sql": "select a.age, a.person from a join b on a.h = b.h", "rows_per_record": 2}


def made(conf: dict[str, Any], unit: dict[str, Any] | None = None, **changes: Any) -> Spec:
    privacy = {"epsilon": 1.0, "delta": 1e-9, **changes.pop("privacy", {})}
    unit = {"column": "person", "max_rows": 3} if unit is None else unit
    return load_spec({**conf, "privacy": {**privacy, "unit": unit}, **changes})


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"column": "person"}, "privacy.unit.max_rows: missing"),
        ({"max_rows": 3}, "privacy.unit.column: missing"),
        ({"column": "person", "max_rows": 0}, "max_rows"),
        ({"column": "person", "max_rows": 2.5}, "max_rows"),
        ({"column": "person", "max_rows": 10_001}, "max_rows"),
        ({"column": "person", "max_rows": 3, "nulls": "keep"}, "expected 'drop' or 'own'"),
        ({"column": "person", "max_row": 3, "max_rows": 3}, "privacy.unit.max_row: unknown key"),
        ({"column": "double_age", "max_rows": 3}, "computed column"),
    ],
)
def test_refused_units(conf: dict[str, Any], unit: dict[str, Any], message: str) -> None:
    columns = {**conf["columns"], "double_age": {"expr": "2 * age", "lower": 0, "upper": 200}}
    with pytest.raises(ConfError, match=message):
        made({**conf, "columns": columns}, unit)


def test_what_a_person_changes(conf: dict[str, Any]) -> None:
    """Kills: a public number of rows with a unit; a query's people that are not multiplied by their rows."""
    plain = made(conf)
    assert (plain.records.rows, plain.records.change, plain.records.moves) == (3, "added", False)
    assert plain.privacy.protected == "person"
    replaced = made(conf, privacy={"neighbours": "replace_one"})
    assert (replaced.records.rows, replaced.records.change) == (3, "either")
    assert not choose(replaced).count_is_public
    query = made(conf, source=JOINED, columns={"age": {"lower": 0, "upper": 100}})
    assert (query.records.rows, query.records.change) == (6, "either")
    groups = {"group_by": ["tract"], "groups": ["a", "b"]}
    grouped = {"release": {**conf["release"], **groups}}
    assert not made(conf, **grouped).records.moves  # a person's rows are in several groups, but none of them moves
    assert made(conf, privacy={"neighbours": "replace_one"}, **grouped).records.moves
    with pytest.raises(ConfError, match="Leave fixed out"):
        made(conf, privacy={"neighbours": "replace_one", "fixed": ["tract"]}, **grouped)


def test_the_hash_covers_the_unit(conf: dict[str, Any]) -> None:
    specs = [made(conf), made(conf, {"column": "person", "max_rows": 4}), made(conf, {"column": "who", "max_rows": 3})]
    specs.append(made(conf, {"column": "person", "max_rows": 3, "nulls": "own"}))
    assert len({spec.hash for spec in specs}) == 4
    assert made(conf, {"column": "person", "max_rows": 3, "nulls": "drop"}).hash == specs[0].hash


@pytest.mark.parametrize("name", ["wishart", "johnson_lindenstrauss", "inverse_wishart"])
def test_mechanisms_for_one_row(conf: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfError, match=r"privacy\.unit\.max_rows=3"):
        choose(made(conf, mechanism={"name": name}))
    choose(made(conf, {"column": "person", "max_rows": 1}, mechanism={"name": name}))


@pytest.mark.parametrize("name", ["all_pairs", "smooth_sensitivity"])
def test_mechanisms_that_need_public_rows(conf: dict[str, Any], name: str) -> None:
    """Kills: a number of rows taken for public where a replaced person may have more or fewer."""
    release = {**conf["release"], "kind": "theil_sen", "x": "age", "y": "educ"}
    spec = made(conf, privacy={"neighbours": "replace_one"}, release=release, mechanism={"name": name})
    with pytest.raises(ConfError, match="without a unit"):
        choose(spec)


def test_the_guarantee_speaks_of_people(conf: dict[str, Any]) -> None:
    said = guarantee(made(conf), choose(made(conf)))
    assert "whether or not any one person (person, at most 3 rows kept) is in the data" in said
    one = made(conf, {"column": "person", "max_rows": 1, "nulls": "own"}, privacy={"neighbours": "replace_one"})
    assert (
        "whatever rows any one person (person, at most 1 row kept; a row without one is a person of its own) has"
        in (guarantee(one, choose(one)))
    )
    assert "published as it is" not in guarantee(one, choose(one))


def test_check_says_who_is_protected(conf: dict[str, Any], tmp_path: Path) -> None:
    content = {**conf, "privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "person", "max_rows": 3}}}
    content |= {"source": JOINED, "columns": {"age": {"lower": 0, "upper": 100}}}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(content))
    said = check_conf(str(tmp_path / "c.yaml"), ())
    assert "a person, by person: at most 3 rows each, 6 in the noise; rows without one are dropped" in said
    assert "source.rows_per_record=2: as stated, the query's rows of at most 2 people change with one" in said


def test_a_missing_or_unfit_id_column_is_refused_first(
    conf: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """From the files' footers, before anything is spent."""
    path = conf["source"]["parquet"]
    with pytest.raises(SourceError, match=r"privacy\.unit\.column='person': no such column"):
        open_parquet(path, made(conf).source_columns)
    with pytest.raises(SourceError, match=r"privacy\.unit\.column='income': its type is double; expected text"):
        open_parquet(path, made(conf, {"column": "income", "max_rows": 1}).source_columns)
    open_parquet(path, made(conf, {"column": "age", "max_rows": 1}).source_columns)
