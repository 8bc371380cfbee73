from __future__ import annotations

import pytest

from dpspark.core.formula import parse_formula
from dpspark.errors import ConfError

TERMS = ("(intercept)", "age", "educ", "income", "sex[F]", "sex[M]", "größe", "a b", "race[1]", "race[2]", "race[3]")
BLOCKS = {"sex": ("sex[F]", "sex[M]"), "race": ("race[1]", "race[2]", "race[3]")}


@pytest.mark.parametrize(
    ("text", "response", "regressors", "intercept"),
    [
        ("income ~ age + educ", "income", ("age", "educ"), True),
        ("income~age+educ-1", "income", ("age", "educ"), False),
        ("income ~ 0 + age", "income", ("age",), False),
        ("income ~ 1", "income", (), True),
        ("income ~ -1 + age", "income", ("age",), False),
        ("income ~ age + sex", "income", ("age", "sex[M]"), True),
        ("income ~ race + age", "income", ("race[2]", "race[3]", "age"), True),
        ("income ~ sex[F]", "income", ("sex[F]",), True),
        ("sex[F] ~ age", "sex[F]", ("age",), True),
        ("income ~ .", "income", ("age", "educ", "sex[M]", "größe", "a b", "race[2]", "race[3]"), True),
        ("income ~ . - educ - sex", "income", ("age", "größe", "a b", "race[2]", "race[3]"), True),
        ("`a b` ~ größe + `sex[M]`", "a b", ("größe", "sex[M]"), True),
        ("income ~ age + age", "income", ("age",), True),
    ],
)
def test_formulas(text: str, response: str, regressors: tuple[str, ...], intercept: bool) -> None:
    formula = parse_formula(text, TERMS, BLOCKS)
    assert (formula.response, formula.regressors, formula.intercept) == (response, regressors, intercept)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "income",
            "~ age",
            "income ~",
            "income ~ age +",
            "income ~ age educ",
            "income ~ wage",
            "income ~ age * educ",
        ),
        *(
            "income ~ income",
            "sex ~ age",
            "income ~ - 1",
            "income ~ age ~ educ",
            "age + educ ~ income",
            "income ~ (age)",
        ),
        *("income ~ age + + educ", "(intercept) ~ age", "income ~ `(intercept)`", "income ~ sex[X]"),
        *("income ~ sex[F] + sex[M]", "income ~ log(age)", "income ~ age:educ"),
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ConfError) as caught:
        parse_formula(text, TERMS, BLOCKS)
    assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize("text", ["`a b` ~ größe + sex", "income ~ `a b` + age - 1", "income ~ 1", "income ~ ."])
def test_what_is_printed_can_be_read_again(text: str) -> None:
    """Kills: names with spaces printed bare; backticks around names that need none."""
    formula = parse_formula(text, TERMS, BLOCKS)
    assert parse_formula(str(formula), TERMS, BLOCKS) == formula
    assert str(formula).count("`") == (2 if "a b" in str(formula) else 0)


def test_odd_names_are_quoted() -> None:
    """Kills: backticks for spaces alone; a label with a bracket taken for a whole name."""
    odd = ("(intercept)", "y", "a-b", "1st", "x[a]b]", "x[a b]")
    formula = parse_formula("y ~ `a-b` + `1st` + `x[a]b]` + x[a b]", odd, {})
    assert str(formula) == "y ~ `a-b` + `1st` + `x[a]b]` + x[a b]"
    assert parse_formula(str(formula), odd, {}) == formula


def test_a_name_with_spaces_is_asked_for_in_backticks() -> None:
    """Kills: "no column 'a'" without a word of how "a b" is written; columns in another order than the conf's."""
    with pytest.raises(ConfError, match=r"no column 'b' .* Put names with spaces in backticks") as caught:
        parse_formula("income ~ age + b", TERMS, BLOCKS)
    assert str(caught.value).endswith("\nIt has: age, educ, income, sex, größe, `a b`, race")
    with pytest.raises(ConfError, match="no column 'wage' in this release") as caught:
        parse_formula("income ~ wage", TERMS, BLOCKS)
    assert "backticks" not in str(caught.value)
