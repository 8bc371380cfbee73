"""The columns that a conf's formulas ask for: their names, bounds and SQL, without Spark."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpspark.core.arithmetic import NotArithmetic, evaluate, interval_of, key_of, read_arithmetic
from dpspark.core.formula_terms import _shown_call, read_term_name
from dpspark.errors import ConfError
from dpspark.source.compute.compile import compile_expression
from dpspark.spec.spec import load_spec

CONF: dict[str, Any] = {
    "source": {"parquet": "x.parquet"},
    "columns": {
        "wage": {"lower": 1, "upper": 100},
        "educ": {"lower": 0, "upper": 20},
        "z": {"lower": -1, "upper": 1},
        "sex": {"categories": ["F", "M"]},
        "race": {"categories": [1, 2, 3]},
    },
    "privacy": {"epsilon": 1, "delta": 1e-9},
    "release": {"name": "a", "version": "1"},
    "ledger": {"dataset": "d"},
}


def conf_with(*formulas: str, **changes: Any) -> dict[str, Any]:
    made = deepcopy(CONF)
    made["release"]["regressions"] = list(formulas)
    made["columns"] |= changes
    return made


def test_columns_and_their_bounds() -> None:
    """Kills: a square of [-1, 1] that is bounded by -1, a product by one corner, a column that is added twice."""
    text = "log(wage) ~ I(z**2) + z:educ + I(z*z) + educ:z + C(sex)*educ + I(educ - 2*z) + I((educ - 10)**2) + sex:race"
    spec = load_spec(conf_with(text))
    made = {name: (column.lower, column.upper) for name, column in spec.columns.items() if column.expr is not None}
    assert made == {
        "log(wage)": (0.0, np.log(100)),
        "I(z**2)": (0.0, 1.0),
        "I(educ - 2*z)": (-2.0, 22.0),
        "I((educ - 10)**2)": (0.0, 100.0),
        "z:educ": (-20.0, 20.0),
    }
    assert [product.name for product in spec.products] == ["sex:educ", "sex:race"]
    blocks = [*(f"sex[{s}]:educ" for s in "FM"), *(f"sex[{s}]:race[{r}]" for s in "FM" for r in (1, 2, 3))]
    assert spec.domain.terms[-8:] == tuple(blocks)
    again = deepcopy(CONF) | {"columns": spec.public()["columns"], "release": spec.public()["release"]}
    assert load_spec(again).hash == spec.hash


def test_a_product_of_two_formulas_is_one_column() -> None:
    """Kills: a column for each way of writing it, which costs noise and says nothing more."""
    spec = load_spec(conf_with("wage ~ z:educ", "wage ~ educ:z + I(z*educ)", "log(wage) ~ educ*z"))
    assert [name for name, column in spec.columns.items() if column.expr is not None] == ["z:educ", "log(wage)"]


def test_the_values_are_those_of_bounded_columns() -> None:
    """Kills: values beyond the bounds in a product, a null or NaN that becomes a bound, an unknown category that is 0."""
    spec = load_spec(conf_with("wage ~ educ:z + sex:educ:z"))
    nan, inf = float("nan"), float("inf")
    educ, z = [30.0, nan, 5.0, None, inf, 5.0, 5.0], [-3.0, 1.0, None, 1.0, -inf, 0.5, 0.5]
    sex = ["M", "M", "M", "M", "M", "F", "?"]
    batch = {"educ": pa.array(educ, pa.float64()), "z": pa.array(z, pa.float64()), "sex": pa.array(sex)}
    types = {"educ": "double", "z": "double", "sex": "string"}
    found = {}
    for name in ("educ:z", "sex[M]:educ:z"):
        program = compile_expression(str(spec.columns[name].expr), types, "UTC")
        found[name] = program.run(batch, len(educ)).to_pylist()
    assert found["educ:z"] == [-20.0, None, None, None, -20.0, 2.5, 2.5]
    assert found["sex[M]:educ:z"] == [-20.0, None, None, None, -20.0, 0.0, None]


def test_bounds_hold_for_random_terms() -> None:
    """Interval arithmetic against values at random, corners among them. Kills: a wrong end of any operation."""
    rng = np.random.default_rng(3)
    bounds = {"a": (-2.0, 3.0), "b": (0.5, 4.0), "c": (-5.0, -1.0)}
    parts = [
        "a",
        "b",
        "c",
        "a*b",
        "a**2",
        "c**3",
        "b**-1",
        "log(b)",
        "exp(a)",
        "sqrt(b)",
        "a*c",
        "a - b",
        "2*c",
        "a**2*c",
    ]
    for _ in range(300):
        text = " + ".join(f"({rng.choice(parts)})*({rng.choice(parts)})" for _ in range(rng.integers(1, 4)))
        expression = read_arithmetic(text)
        low, high = interval_of(expression, bounds, text)
        draws = {
            name: np.concatenate([rng.uniform(*ends, 300), rng.choice(ends, 300)]) for name, ends in bounds.items()
        }
        values = evaluate(expression, draws.__getitem__)
        room = 1e-9 * max(1, abs(low), abs(high))
        assert low - room <= values.min(), text
        assert values.max() <= high + room, text


@pytest.mark.parametrize(
    ("formulas", "changes", "why"),
    [
        (["log(educ) ~ z"], {}, "log.. needs values above 0, and these go down to 0. Use log1p"),
        (["wage ~ sqrt(z)"], {}, "sqrt.. needs values 0 or more"),
        (["wage ~ I(1/z)"], {}, "divides by values from -1 to 1"),
        (["wage ~ exp(huge)"], {"huge": {"lower": 0, "upper": 1e6}}, "too large"),
        (["wage ~ educ"], {}, "no products, powers or functions"),
        (["wage ~ p:z"], {"p": {"bounds": "private", "search": [0, 9]}}, "the bounds of p are private"),
        (["wage ~ `a b`:z"], {"a b": {"lower": 0, "upper": 1}}, "need plain names"),
        (["wage ~ q:z:educ"], {"q": {"categories": ["it's", "b"]}}, "quotes or escapes"),
        (["wage ~ q:z"], {"q": {"categories": ["a]b", "b"]}}, "need plain names"),
        (["wage ~ nothing:z"], {}, "no column 'nothing'"),
    ],
)
def test_refused(formulas: list[str], changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfError, match=why):
        load_spec(conf_with(*formulas, **changes))


def test_which_products_are_blocks() -> None:
    """Kills: a block for each way to write it, one without its number, a hash that does not know it, a column beside it."""
    spec = load_spec(
        conf_with("wage ~ race:sex + z:C(race)", 'wage ~ C(sex, Treatment("M")):race + race[2]:z', "educ ~ sex[F]:race")
    )
    assert [product.of for product in spec.products] == [("sex", "race"), ("race", "z")]
    assert [name for name, column in spec.columns.items() if column.expr is not None] == []
    assert spec.public()["products"] == [["sex", "race"], ["race", "z"]]
    fewer = load_spec(conf_with("wage ~ race:sex + z:C(race)"))
    assert fewer.public() | {"release": 0} == spec.public() | {"release": 0}
    # The number of a block is a column; three factors are columns; so are products that no block is for.
    made = load_spec(conf_with("wage ~ sex:log(wage) + sex:race:z"))
    assert [product.of for product in made.products] == [("sex", "log(wage)")]
    assert {"log(wage)", "sex[F]:race[3]:z"} <= set(made.columns)
    private = load_spec(conf_with("wage ~ sex:p", p={"bounds": "private", "search": [0, 9]}))
    assert private.domain.terms[-1] == "sex[M]:p"
    normed = load_spec(conf_with("wage ~ sex:z") | {"row_norm": {"mode": "cap", "radius": 1}})
    assert normed.products == ()
    assert "sex[M]:z" in normed.columns
    assert "products" not in normed.public()
    assert "products" not in load_spec(CONF).public()


def test_names_are_read_again() -> None:
    spec = load_spec(conf_with("log(wage) ~ sex*educ*z + I(educ**2):race"))
    for name, column in spec.columns.items():
        if column.expr is not None:
            assert read_term_name(name).op != "name"


POWERS = {
    "I(educ/wage**2)": 5 / 9,
    "I((wage**2)**3)": 729.0,
    "I((z**2)**0.5)": 0.25,
    "I(1/wage)": 1 / 3,
    "I(educ - (z - 2)*3)": 10.25,
    "I(-z*(educ - 0.1))": -1.225,
    "I(-(z**2)/(wage*educ + 1))": -0.0625 / 16,
    "I(educ*(wage/(wage + 2))**-1)": 25 / 3,
}


@pytest.mark.parametrize("term", POWERS)
def test_the_name_of_a_column_is_the_term_that_it_is_of(term: str) -> None:
    """Kills: a name that reads as another term: `educ*wage**2**-1` is educ times the root of wage, and no educ/wage**2.

    Predictions and marginal effects make new rows' columns by the name.
    """
    spec = load_spec(conf_with(f"wage ~ educ + {term}"))
    (name,) = (name for name, column in spec.columns.items() if column.expr is not None)
    values = {"wage": 3.0, "educ": 5.0, "z": 0.25}
    assert evaluate(read_term_name(name), lambda one: np.array(values[one])) == pytest.approx(POWERS[term], rel=1e-12)


@pytest.mark.parametrize("term", ["I(educ/wage**2)", "I((educ - 10)**2)", "I(1/wage)", "I(-z)", "I(0.1*educ)"])
def test_a_name_is_as_it_was_written(term: str) -> None:
    assert term in load_spec(conf_with(f"wage ~ educ + {term}")).columns


def test_random_terms_are_read_as_they_are_written() -> None:
    """Kills: a minus, a division or a power whose name is another's."""
    rng = np.random.default_rng(5)
    texts, count = ["wage", "educ", "z", "0.1", "2"], 0
    for _ in range(3000):
        a, b = rng.choice(texts[-200:], 2)
        form = rng.choice(
            ["({a} + {b})", "({a} - {b})", "({a}*{b})", "({a})/({b})", "({a})**2", "({a})**-1", "(-({a}))"]
        )
        text = str(form).format(a=a, b=b)
        try:
            expression = read_arithmetic(text)
            key = key_of(expression)
        except NotArithmetic:
            continue
        texts.append(text if len(text) < 60 else "wage")
        if expression.op != "name" and expression.names:
            count += 1
            assert key_of(read_term_name(_shown_call("I", expression))) == key, text
    assert count > 1000


def test_nested_terms_are_told_how_to_be_written() -> None:
    with pytest.raises(ConfError, match=r"Write a \+ a:b"):
        load_spec(conf_with("wage ~ educ/z"))
