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
        ("income ~ (age)", "income", ("age",), True),
        ("income ~ C(sex)", "income", ("sex[M]",), True),
        ("income ~ sex - 1", "income", ("sex[F]", "sex[M]"), False),
        ('income ~ C(sex, Treatment("M"))', "income", ("sex[F]",), True),
        ("income ~ C(race, Treatment(reference=2))", "income", ("race[1]", "race[3]"), True),
        ("income ~ . - sex[M]", "income", ("age", "educ", "größe", "a b", "race[2]", "race[3]"), True),
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


MADE = {
    "female_educ": "female * educ",
    "age2": "pow(AGE, 2)",
    "ln_y": "ln(income)",
    "I(educ**2)": "odd",
    "f:age": "odd",
}
WITH_MADE = ("(intercept)", "age", "educ", "income", "female", *MADE)


@pytest.mark.parametrize(
    ("text", "regressors"),
    [
        ("income ~ female:educ", ("female_educ",)),
        ("income ~ educ:female + I(age ** 2)", ("age2", "female_educ")),
        ("income ~ I( educ*female ) + I(age*age)", ("female_educ", "age2")),
        ("income ~ female*educ", ("female", "educ", "female_educ")),
        ("ln_y ~ poly(age, 2, raw=True)", ("age", "age2")),
        ("log(income) ~ I(educ^2) + age", ("I(educ**2)", "age")),
        ("np.log(income) ~ .", ("age", "educ", "female", "female_educ", "age2")),
    ],
)
def test_released_columns_are_found_by_what_they_are(text: str, regressors: tuple[str, ...]) -> None:
    """Kills: products by their order or spaces, SQL with its case, computed columns that `.` repeats."""
    formula = parse_formula(text, WITH_MADE, {}, MADE)
    assert formula.regressors == regressors
    assert formula.response in ("income", "ln_y")
    assert parse_formula(str(formula), WITH_MADE, {}, MADE) == formula


@pytest.mark.parametrize("text", ["log(income) ~ .", "np.log(income) ~ .", "`log(income)` ~ .", "I(log(income)) ~ ."])
def test_a_dot_leaves_out_what_the_response_is_made_of(text: str) -> None:
    """Kills: income among the regressors of its own logarithm, if that is a column that a formula asked for."""
    terms, made = ("(intercept)", "age", "income", "log(income)", "sex[F]", "sex[M]"), {"log(income)": "ln(odd)"}
    assert parse_formula(text, terms, {"sex": ("sex[F]", "sex[M]")}, made).regressors == ("age", "sex[M]")


def test_a_reference_keeps_its_own_quotes() -> None:
    blocks = {"c": ("c[a]", "c['b']")}
    assert parse_formula("y ~ C(c, Treatment(\"'b'\"))", ("y", "c[a]", "c['b']"), blocks).regressors == ("c[a]",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("income ~ poly(age + educ, 2, raw=True)", r"expected one column, .* in place of age \+ educ"),
        ("income ~ poly(poly(age, 2, raw=True), 2, raw=True)", "expected one column"),
        ("income ~ I((age + educ + female + income + 1)**8)", "too large"),
        (
            "income ~ age:educ",
            r"no column age:educ in this release. It has age, educ, .*\n.*regressions: \[.income ~ age:educ",
        ),
        ("income ~ exp(age)", r"no column exp\(age\)"),
        ("income ~ poly(age, 2)", r"orthogonal .*\n.*raw=True"),
        ("income ~ C(age)", "age has no categories"),
        ("income ~ sin(age)", r"sin\(\) is not known"),
        ("income ~ I(age ** educ)", "cannot read"),
        ("income ~ I(2)", "no column in it"),
        ("income ~ (age + educ", "not closed"),
        ("income ~ log(age", "not closed"),
        ("income ~ 2*age", "no column; numbers are 0 and 1"),
        ("income ~ age^0", "small whole number"),
    ],
)
def test_what_is_not_there_is_said(text: str, why: str) -> None:
    with pytest.raises(ConfError, match=why) as caught:
        parse_formula(text, WITH_MADE, {}, MADE)
    assert len(str(caught.value).splitlines()) <= 2
