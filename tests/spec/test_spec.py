"""Confs: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpspark.cli.demo import CONF
from dpspark.core.domain import Weight
from dpspark.errors import ConfError
from dpspark.spec.conf_file import parse_yaml
from dpspark.spec.extras import bounds_warnings
from dpspark.spec.spec import load_spec


def changed(conf: dict[str, Any], dotted: str, value: Any) -> dict[str, Any]:
    new = copy.deepcopy(conf)
    *parents, last = dotted.split("/")
    here = new
    for parent in parents:
        here = here.setdefault(parent, {})
    if value is KeyError:
        del here[last]
    else:
        here[last] = value
    return new


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("columns/age/lower", 99, "lower=99, upper=99; expected lower < upper"),
        ("columns/age/lower", float("nan"), "columns.age.lower: got nan; expected a finite number"),
        ("columns/age/upper", float("inf"), "expected a finite number"),
        ("columns/age/lower", "18", "got '18'; expected a number"),
        ("columns/age/lower", True, "expected a number"),
        ("columns/age/upper", 18 + 1e-310, "expected lower < upper"),
        ("columns/age/lower", KeyError, "give lower and upper, or categories"),
        ("columns/age/uper", 3, "columns.age.uper: unknown key"),
        ("colums", {}, "colums: unknown key"),
        ("columns", {}, "columns"),
        ("columns", [1], "columns=a list; expected keys with values"),
        ("release/regressions", [], "release.regressions=a list; expected one or more."),
        ("release/regressions", "income ~ age", "expected a list, e.g. [a, b]"),
        ("mechanism", "laplace", "expected keys with values, e.g. {name: gaussian}"),
        ("columns/sex/categories", [], "categories is empty"),
        ("columns/sex/categories", ["F", 1], "one kind"),
        ("columns/sex/categories", ["F", "F"], "one value twice"),
        (
            "columns/sex/categories",
            [1.5, 2],
            "columns.sex.categories.0=1.5; expected text, a whole number, or true or false.",
        ),
        ("columns/sex/lower", 0, "not both"),
        ("columns/sex[F]", {"lower": 0, "upper": 1}, "would be called 'sex[F]'"),
        ("columns/(intercept)", {"lower": 0, "upper": 1}, "would be called '(intercept)'"),
        ("privacy/epsilon", 0, "privacy.epsilon: got 0; expected a number > 0"),
        ("privacy/epsilon", -1, "expected a number > 0"),
        ("privacy/delta", 1, "expected a number between 0 and 1"),
        ("privacy/delta", 0, "privacy.delta: missing"),
        ("privacy/delta", KeyError, "privacy.delta: missing"),
        ("privacy/rho", 0.1, "give epsilon and delta, or rho alone"),
        ("privacy/neighbours", "some", "expected 'add_remove' or 'replace_one'"),
        ("privacy", KeyError, "privacy: missing"),
        ("release/version", 1.5, "Put it in quotes"),
        ("release/name", "../up", "expected letters, digits"),
        ("release/name", ".hidden", "expected letters, digits"),
        ("release/kind", "poem", "expected 'gram'"),
        ("mechanism/name", "magic", "expected one of gaussian, laplace"),
        ("mechanism/seed", 1, "mechanism.seed: unknown key"),
        ("nulls", "ignore", "expected 'drop_row' or 'midpoint'"),
        ("row_norm", {"mode": "cap"}, "radius: missing"),
        ("row_norm", {"mode": "cap", "radius": 0}, "row_norm.radius"),
        ("where", "rand() < 0.5", "RAND may change with every run"),
        ("where", "age > (select avg(age) from t)", "it has a subquery"),
        ("where", "sum(age) over () > 1", "is a window"),
        ("where", "age >", "not valid Spark SQL"),
        ("source", {"parquet": "a", "table": "b"}, "exactly one of"),
        ("source", {"parquet": "a", "rows_per_record": 0}, "rows_per_record"),
        ("source", {"sql": "select a, count(*) from t group by a"}, "rows_per_record"),
        ("source", {"sql": "select rand() as age from t"}, "gives other rows at every run"),
        ("source", {"sql": "select current_date() as age from t"}, "CURRENT_DATE gives other rows"),  # 0.2.0 took it
        ("source", {"sql": "drop table t"}, "expected one SELECT"),
        ("ledger", KeyError, "ledger: missing"),
        ("diagnostics", {"epsilon_share": 0}, "got 0; expected a part of the budget"),
        ("diagnostics", {"epsilon_share": 0.95}, "expected a part of the budget"),
        ("diagnostics", {"share": 0.1}, "diagnostics.share: unknown key"),
        ("diagnostics", True, "diagnostics=True; expected"),
        ("columns/age", {"bounds": "private"}, "needs search: [lowest, highest]"),
        ("columns/age", {"bounds": "private", "search": [9, 9]}, "expected the lower end first"),
        ("columns/age", {"bounds": "private", "search": [9, 1]}, "expected the lower end first"),
        ("columns/age", {"bounds": "private", "search": [1]}, "columns.age.search"),
        ("columns/age", {"bounds": "private", "search": [1, 2, 3]}, "columns.age.search"),
        ("columns/age", {"bounds": "private", "search": [1, float("nan")]}, "expected a finite number"),
        ("columns/age", {"bounds": "private", "search": [1e16, 1e16 + 4]}, "cells can divide"),
        ("columns/age", {"bounds": "private", "search": [-1e308, 1e308]}, "expected a bound within"),
        ("columns/age", {"bounds": "private", "search": [0, 1e-310]}, "cells can divide"),
        ("columns/age", {"bounds": "private", "search": [0, 9], "lower": 1}, "give search alone"),
        ("columns/age", {"bounds": "private", "search": [0, 9], "categories": [1]}, "give search alone"),
        ("columns/age", {"bounds": "public", "search": [0, 9]}, "expected 'private'"),
        ("columns/age", {"search": [0, 9]}, "search goes with bounds: private"),
        ("bounds", {"epsilon_share": 0.1}, "no column has private bounds"),
        ("columns/age", {"lower": 0, "upper": "private"}, "upper: private needs search: [lowest, highest]"),
        ("columns/age", {"upper": "private", "search": [0, 9]}, "upper: private needs lower: a public bound"),
        ("columns/age", {"lower": "private", "search": [0, 9]}, "lower: private needs upper: a public bound"),
        ("columns/age", {"lower": 9, "upper": "private", "search": [0, 9]}, "goes on above the public bound"),
        ("columns/age", {"lower": "private", "upper": 0, "search": [0, 9]}, "goes on below the public bound"),
        ("columns/age", {"lower": 0, "upper": "privat", "search": [0, 9]}, "expected a number, or private"),
        ("columns/age", {"lower": 0, "upper": "private", "search": [9, 1]}, "expected the lower end first"),
        ("columns/age", {"bounds": "private", "upper": "private", "search": [0, 9]}, "give search alone"),
        ("columns/age", {"lower": 0, "upper": "private", "search": [0, 9], "categories": [1]}, "give search alone"),
        ("weight", {"column": "w"}, "weight.upper: missing"),
        ("weight", {"column": "w", "upper": 0}, "expected a number > 0"),
        ("weight", {"column": "w", "upper": -3}, "expected a number > 0"),
        ("weight", {"column": "w", "upper": "many"}, "expected a number"),
        ("weight", {"column": "w", "upper": 1e300}, "weight.upper"),
        ("weight", {"column": 3, "upper": 3}, "weight.column"),
        ("weight", {"column": "w", "upper": 5, "squares": True}, "weight.squares: unknown key"),
        ("weight", {"upper": 5}, "give column, or expr"),
        ("weight", {"column": "w", "expr": "w / 100", "upper": 5}, "give column, or expr"),
        ("weight", {"expr": "sum(w)", "upper": 5}, "weight.expr"),
        ("weight", {"expr": "w / (select max(w) from people)", "upper": 5}, "weight.expr"),
        ("weight", {"expr": "rand()", "upper": 5}, "weight.expr"),
        ("weight", {"expr": "age", "upper": 5}, "is the name of a column too. Use weight.column"),
        (
            "columns/a2",
            {"expr": "sum(age)", "lower": 0, "upper": 1},
            "columns.a2.expr='sum(age)': SUM is an aggregate",
        ),
        ("columns/a2", {"expr": "rand()", "lower": 0, "upper": 1}, "RAND may change with every run"),
        ("columns/a2", {"expr": "age *", "lower": 0, "upper": 1}, "not valid Spark SQL"),
        ("columns/a2", {"expr": "", "lower": 0, "upper": 1}, "columns.a2.expr"),
        ("columns/a2", {"expr": "age"}, "give lower and upper, or categories"),
    ],
)
def test_refused(conf: dict[str, Any], key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfError) as caught:
        load_spec(changed(conf, key, value))
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize(
    ("mechanism", "privacy", "message"),
    [
        ({"name": "laplace"}, {"epsilon": 1, "delta": 1e-9}, "laplace is pure"),
        ({"name": "laplace"}, {"rho": 1}, "laplace is pure"),
        ({"name": "wishart"}, {"rho": 1}, "needs privacy.epsilon and privacy.delta"),
        ({"name": "wishart"}, {"epsilon": 1}, "needs privacy.epsilon and privacy.delta"),
        ({"name": "gaussian"}, {"epsilon": 1}, "privacy.delta: missing"),
        ({"name": "gaussian", "rows": 100}, {"rho": 1}, "rows is not an option of gaussian"),
        ({"name": "johnson_lindenstrauss", "scale": 1}, {"epsilon": 1, "delta": 1e-9}, "it has calibration, rows"),
        ({"name": "wishart", "degrees_of_freedom": 0}, {"epsilon": 1, "delta": 1e-9}, "degrees_of_freedom"),
    ],
)
def test_mechanisms_and_their_currencies(conf: dict[str, Any], mechanism: dict, privacy: dict, message: str) -> None:
    with pytest.raises(ConfError) as caught:
        load_spec(changed(changed(conf, "mechanism", mechanism), "privacy", privacy))
    assert message in str(caught.value)


def test_drop_row_needs_add_remove(conf: dict[str, Any]) -> None:
    replaced = changed(conf, "privacy/neighbours", "replace_one")
    with pytest.raises(ConfError, match="makes their number private"):
        load_spec(changed(replaced, "nulls", "drop_row"))
    assert load_spec(replaced).null_policy == "midpoint"
    assert load_spec(conf).null_policy == "drop_row"


def test_what_one_record_changes(conf: dict[str, Any]) -> None:
    """Kills: a public count behind a filter, and added-row noise for a joined query."""
    replaced = changed(conf, "privacy/neighbours", "replace_one")
    joined = {"sql": "select a from t join u using (i)", "rows_per_record": 3}
    assert load_spec(conf).records.change == "added"
    assert load_spec(replaced).records.change == "replaced"
    assert load_spec(changed(replaced, "where", "age > 3")).records.change == "either"
    assert load_spec(changed(replaced, "source", {"sql": "select * from t where a > 1"})).records.change == "either"
    assert load_spec(changed(replaced, "source", {"sql": "select * from t"})).records.change == "replaced"
    assert load_spec(changed(conf, "source", joined)).records.change == "either"
    assert load_spec(changed(conf, "source", joined)).records.rows == 3
    assert load_spec(changed(conf, "source", {"sql": "select age from t where a > 1"})).records.change == "added"


def test_hash_covers_what_the_numbers_depend_on(conf: dict[str, Any]) -> None:
    base = load_spec(conf).hash
    for key, value in [
        ("source", {"parquet": "other"}),
        ("columns/age/upper", 98),
        ("where", "age > 20"),
        ("nulls", "midpoint"),
        ("row_norm", {"mode": "cap", "radius": 2}),
        ("privacy/epsilon", 2),
        ("privacy/neighbours", "replace_one"),
        ("release/version", "2"),
    ]:
        assert load_spec(changed(conf, key, value)).hash != base, key
    for key, value in [("output/path", "elsewhere"), ("ledger/url", "sqlite:///x.db"), ("nulls", "drop_row")]:
        assert load_spec(changed(conf, key, value)).hash == base, key
    assert load_spec(changed(conf, "privacy/epsilon", 1)).hash == base  # 1 is 1.0


PRIVATE = {"bounds": "private", "search": [0, 120]}
ONE_SIDE = {"lower": 0, "upper": "private", "search": [0, 120]}
BY_PERCENTILE = (
    {"method": "percentile"},
    {"upper_probability": 0.99},
    {"method": "percentile", "lower_probability": 0.01},
)


@pytest.mark.parametrize(
    ("column", "sides", "ends", "axis"),
    [
        ({"lower": 0, "upper": "private", "search": [0, 120]}, ("upper",), (0, 120), (0, 120)),
        ({"lower": "private", "upper": 99, "search": [0, 120]}, ("lower",), (0, 99), (0, 99)),
        ({"lower": -5, "upper": "private", "search": [0, 120]}, ("upper",), (-5, 120), (0, 120)),
        ({"lower": 10, "upper": "private", "search": [0, 120]}, ("upper",), (10, 120), (10, 120)),
        ({"lower": "private", "upper": "private", "search": [0, 120]}, ("lower", "upper"), (0, 120), (0, 120)),
        (PRIVATE, ("lower", "upper"), (0, 120), (0, 120)),
    ],
)
def test_sides(conf: dict[str, Any], column: dict[str, Any], sides: Any, ends: Any, axis: Any) -> None:
    """Kills: a public side that is searched for, or a search on its wrong side."""
    spec = load_spec(changed(conf, "columns/age", column))
    (found,) = (each for each in spec.domain.numeric if each.name == "age")
    assert (found.private, found.private_sides, found.lower, found.upper) == (True, sides, *ends)
    assert [(each.lowest, each.highest) for each in spec.axes] == [axis]
    assert spec.hash != load_spec(conf).hash


def test_stages_share_the_budget(conf: dict[str, Any]) -> None:
    """Kills: parts that add up to more than the whole, by a share forgotten or by rounding."""
    staged = changed(changed(conf, "columns/age", PRIVATE), "diagnostics", {"epsilon_share": 0.07})
    for privacy in ({"epsilon": 0.3, "delta": 3e-9}, {"rho": 0.1}):
        spec = load_spec(changed(staged, "privacy", privacy))
        parts = [spec.extra_budget("bounds"), spec.extra_budget("diagnostics"), spec.release_budget]
        for name, whole in privacy.items():
            values = [Fraction(getattr(part, name)) for part in parts]
            assert Fraction(whole) * (1 - Fraction(1, 10**12)) < sum(values) <= Fraction(whole)
            assert float(values[0] / Fraction(whole)) == pytest.approx(0.1)
            assert float(values[1] / Fraction(whole)) == pytest.approx(0.07)
    plain = load_spec(conf)
    assert (plain.shares, plain.release_budget) == ({}, plain.privacy.budget)
    assert (
        load_spec(changed(conf, "mechanism", {"name": "laplace"}) | {"privacy": {"epsilon": 1}}).release_budget.delta
        == 0
    )
    whole = changed(staged, "bounds", {"epsilon_share": 0.6})
    assert load_spec(whole).release_budget.epsilon == pytest.approx(0.33)
    with pytest.raises(ConfError, match="take the whole budget"):
        load_spec(changed(whole, "diagnostics/epsilon_share", 0.5))
    with pytest.raises(ConfError, match="expected the lower one to be smaller"):
        load_spec(changed(staged, "bounds", {"lower_probability": 0.5, "upper_probability": 0.5}))
    with pytest.raises(ConfError, match=r"bounds\.lower_probability: got 0"):
        load_spec(changed(staged, "bounds", {"lower_probability": 0}))
    with pytest.raises(ConfError, match="nothing can be clipped"):
        load_spec(changed(changed(conf, "columns", {"sex": {"categories": ["F"]}}), "diagnostics", {}))


def test_gradient_descent_counts_nothing(conf: dict[str, Any]) -> None:
    regression = changed(changed(conf, "release/kind", "regression"), "release/response", "income")
    load_spec(changed(regression, "diagnostics", {}))
    with pytest.raises(ConfError, match="gradient_descent counts nothing"):
        load_spec(changed(changed(regression, "diagnostics", {}), "mechanism/name", "gradient_descent"))


def test_a_computed_weight_is_another_release(conf: dict[str, Any]) -> None:
    """Fails on 0.2.0. Kills: a hash without the expression; a conf of 0.2.0 whose hash changes."""
    computed = [load_spec(changed(conf, "weight", {"expr": text, "upper": 5})) for text in ("w / 100", "w / 10")]
    assert computed[0].hash != computed[1].hash
    assert computed[0].domain.weight == Weight("w / 100", 5.0)
    assert computed[0].computed == {"w / 100": "w / 100"}
    assert "w / 100" not in [column.name for column in computed[0].source_columns]
    assert computed[0].mentioned == {"weight.expr='w / 100'": {"w"}}
    assert computed[0].records.change == "added"
    replaced = load_spec(
        changed(changed(conf, "weight", {"expr": "w", "upper": 5}), "privacy/neighbours", "replace_one")
    )
    assert replaced.records.change == "either"
    as_it_was = {
        "source": {"parquet": "p.parquet"},
        "columns": {
            "age": {"lower": 0, "upper": 99},
            "age2": {"expr": "age * age", "lower": 0, "upper": 9801},
        },
        "weight": {"column": "w", "upper": 5, "squares_share": 0.1},
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": {"name": "a", "version": "1"},
        "ledger": {"dataset": "d"},
    }
    assert load_spec(as_it_was).hash == "c3bbc6f45c81074a57a3c0e69abb96dd97e37fdd1033285f1c801f6dda8dbbae"


BY_REGION = {"kind": "gram", "group_by": ["k"], "groups": ["n", "s", "e"]}


def by_computed_key(conf: dict[str, Any], column: dict[str, Any], release: dict[str, Any]) -> dict[str, Any]:
    found = changed(conf, "columns/k", {"expr": "lower(region)", **column})
    return changed(found, "release", {**conf["release"], **release})


def test_a_computed_key_has_an_expression_alone(conf: dict[str, Any]) -> None:
    """Fails on 0.2.0: it had to have bounds or categories. Kills: one that is among the terms."""
    spec = load_spec(by_computed_key(conf, {}, BY_REGION))
    assert spec.computed_keys == {"k": "lower(region)"}
    assert "k" not in spec.domain.terms
    assert spec.public()["columns"]["k"] == {"expr": "lower(region)"}


@pytest.mark.parametrize(
    ("column", "named"),
    [
        ({"categories": ["n", "s"]}, "categories would"),
        ({"lower": 0, "upper": 1}, "lower and upper would"),
        ({"bounds": "private", "search": [0, 1]}, "bounds and search would"),
    ],
)
@pytest.mark.parametrize("kind", ["gram", "quantiles"])
def test_what_a_computed_key_does_not_use_is_refused(
    conf: dict[str, Any], kind: str, column: dict[str, Any], named: str
) -> None:
    """Fails on 0.2.0: they had to be given, and were ignored."""
    release: dict[str, Any] = {**BY_REGION, "kind": kind, **({"probabilities": [0.5]} if kind == "quantiles" else {})}
    with pytest.raises(ConfError, match=rf"columns\.k: {named} do nothing.*\n.*release\.groups"):
        load_spec(by_computed_key(conf, column, release))


def test_a_key_that_is_released_too_has_bounds(conf: dict[str, Any]) -> None:
    """Kills: a response without bounds, because it is a key; bounds that are refused although they are used."""
    release = {"kind": "regression", "response": "k", "group_by": ["k"], "groups": [0, 1]}
    load_spec(by_computed_key(conf, {"lower": 0, "upper": 1}, release))
    with pytest.raises(ConfError, match=r"columns\.k: give lower and upper"):
        load_spec(by_computed_key(conf, {}, release))


@pytest.mark.parametrize("key", ["weight", "diagnostics"])
def test_what_is_not_for_groups_names_a_next_step(conf: dict[str, Any], key: str) -> None:
    """Fails on 0.2.0: it ended with "is not for releases by group."."""
    found = by_computed_key(conf, {}, BY_REGION) | {key: {"column": "w", "upper": 5} if key == "weight" else {}}
    with pytest.raises(ConfError, match=f"{key} is not for releases by group. Remove this key, or release.group_by"):
        load_spec(found)


def test_weights_change_what_is_public(conf: dict[str, Any]) -> None:
    """Kills: a public count beside weights."""
    weighted = changed(conf, "weight", {"column": "w", "upper": 500})
    assert load_spec(weighted).records.change == "added"
    assert load_spec(changed(weighted, "privacy/neighbours", "replace_one")).records.change == "either"
    assert load_spec(weighted).domain.weight.steps == 8000  # type: ignore[union-attr]
    with pytest.raises(ConfError, match="wishart is not proved for weighted rows"):
        load_spec(changed(weighted, "mechanism", {"name": "wishart"}))
    with pytest.raises(ConfError, match="is a computed column"):
        load_spec(changed(weighted, "columns/w", {"expr": "age + 1", "lower": 0, "upper": 1}))


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ({"method": "rank", "headroom": 0.9}, "bounds.headroom"),
        ({"method": "rank", "upper_probability": 0.9}, "upper_probability is not an option of method rank"),
        ({"method": "rank", "lower_probability": 0.01}, "it has headroom."),
        ({"method": "percentile", "headroom": 2}, "headroom is not an option of method percentile"),
        ({"upper_probability": 0.9, "headroom": 2}, "headroom is not an option of method percentile"),
        ({"method": "ranks"}, "expected 'rank' or 'percentile'"),
    ],
)
def test_options_of_bounds_are_the_method_s_own(conf: dict[str, Any], bounds: dict[str, Any], text: str) -> None:
    """Kills: a key that is taken and does nothing."""
    with pytest.raises(ConfError) as found:
        load_spec(changed(changed(conf, "columns/age", PRIVATE), "bounds", bounds))
    assert text in str(found.value)


def test_bounds_by_rank_are_not_for_few_rows(conf: dict[str, Any]) -> None:
    few = changed(changed(conf, "columns/age", PRIVATE), "release/expected_rows", 9_999)
    percentile = changed(few, "bounds", {"method": "percentile"})
    assert load_spec(percentile).release.expected_rows == 9_999
    with pytest.raises(ConfError, match="few rows"):
        load_spec(few)
    assert load_spec(changed(few, "release/expected_rows", 10_000)).bounds_extra.method_class.name == "rank"
    small = changed(few, "privacy/epsilon", 0.1)  # k is 4,801, and of one side 2,401
    for rows, sides, refused in (
        (48_009, PRIVATE, True),
        (48_010, PRIVATE, False),
        (24_009, ONE_SIDE, True),
        (24_010, ONE_SIDE, False),
    ):
        asked = changed(changed(small, "release/expected_rows", rows), "columns/age", sides)
        if refused:
            with pytest.raises(ConfError, match=f"Expected {rows + 1} rows or more"):
                load_spec(asked)
            continue
        (told,) = bounds_warnings(load_spec(asked))
        assert f"from {10 * rows:,} on; {rows:,} are expected" in told
        assert not bounds_warnings(load_spec(changed(asked, "release/expected_rows", 10 * rows)))
    assert not bounds_warnings(load_spec(percentile))
    assert not bounds_warnings(load_spec(conf))


def test_new_keys_are_hashed_and_absent_ones_change_nothing(conf: dict[str, Any]) -> None:
    base = load_spec(conf)
    assert not {"weight", "bounds", "diagnostics"} & set(base.public())
    conf_private = changed(conf, "columns/age", PRIVATE)
    private = load_spec(conf_private)
    assert private.public()["bounds"] == {"epsilon_share": 0.1, "method": "rank", "headroom": 1.35}
    for same in ({}, {"method": "rank"}, {"headroom": 1.35}):
        assert load_spec(changed(conf_private, "bounds", same)).hash == private.hash
    earlier = {load_spec(changed(conf_private, "bounds", asked)).hash for asked in BY_PERCENTILE}
    assert earlier == {private.hash_by_percentile}  # what version 0.2 did anyway
    assert private.hash not in earlier
    plain = {"epsilon_share": 0.1, "lower_probability": 0.01, "upper_probability": 0.99}
    assert load_spec(changed(conf_private, "bounds", BY_PERCENTILE[0])).public()["bounds"] == plain
    for named in ({"method": "rank"}, {"headroom": 1.5}, BY_PERCENTILE[0]):  # version 0.2 had no such conf, or the same
        assert load_spec(changed(conf_private, "bounds", named)).hash_by_percentile is None
    assert load_spec(conf).hash_by_percentile is None
    for key, value in (
        ("weight", {"column": "w", "upper": 5}),
        ("diagnostics", {}),
        ("columns/age", PRIVATE),
        ("columns/age/expr", "age + 1"),
    ):
        assert load_spec(changed(conf, key, value)).hash != base.hash, key


def test_yaml_without_surprises(tmp_path: Path) -> None:
    text = "{a: 1e-9, b: 1.0e-9, c: no, d: 2026-11-01, e: 010, f: .5, g: 'x', h: true, i: ~, j: Yes, k: 1_000}"
    assert parse_yaml(text, "conf") == {
        **{"a": 1e-9, "b": 1e-9, "c": "no", "d": "2026-11-01", "e": 10, "f": 0.5, "g": "x", "h": True, "i": None},
        **{"j": "Yes", "k": "1_000"},
    }
    for bad in ("{a: 1, a: 2}", "a: [1", "!!python/object/apply:os.system ['true']", "? [1]\n: 2"):
        with pytest.raises(ConfError):
            parse_yaml(bad, "conf")


def test_overrides(conf: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump(conf))
    spec = load_spec(path, ("privacy.epsilon=0.5", "columns.sex.categories=[M, F]", "release.version=2"))
    assert spec.privacy.epsilon == 0.5
    assert spec.columns["sex"].categories == ("M", "F")
    assert spec.release.version == "2"
    for bad in ("privacy.epsilon", "=3", "privacy.epsilon.x=1"):
        with pytest.raises(ConfError):
            load_spec(path, (bad,))


@pytest.mark.parametrize("content", ["", "just text", "[1, 2]", "\x00", "a: &x [*x]"])
def test_a_conf_that_is_no_conf(tmp_path: Path, content: str) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text(content)
    with pytest.raises(ConfError):
        load_spec(path)
    with pytest.raises(ConfError, match="No such file"):
        load_spec(tmp_path / "absent.yaml")


def test_demo_conf_in_the_repository_is_the_demo_command_s() -> None:
    written = Path(__file__).parents[2] / "conf" / "demo.yaml"
    rendered = CONF.format(
        data="demo/microdata-1000000", rows=1_000_000, ledger="demo/ledger.db", output="demo/releases"
    )
    assert written.read_text().split("\n", 1)[1] == rendered.split("\n", 1)[1]


def test_lists_of_groups_have_digests_of_their_own(conf: dict[str, Any]) -> None:
    """Kills: keys joined by a character that a key may hold: another list of groups would pass for the same release."""
    by = {"group_by": ["state"], "groups": ["a\nb"]}
    digests = {
        load_spec({**conf, "release": {**conf["release"], **by, "groups": groups}}).release.groups_digest
        for groups in (["a\nb"], ["a", "b"], ["a\\nb"], ["a\tb"], ["a\\tb"])
    }
    assert len(digests) == 5
