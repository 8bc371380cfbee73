"""New rows as formulas have them: terms that are computed from the columns of a frame."""

from __future__ import annotations

import numpy as np
import pytest

from dpspark.analysis.rows import design_rows, frame_columns
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.errors import ConfError

MADE = {"educ:exper": "odd", "I(exper**2)": "odd", "female_educ": "FEMALE * educ", "sex[M]:educ": "odd", "other": "x"}
NUMBERS = {"educ": (0, 20), "exper": (0, 50), "female": (0, 1), "educ:exper": (0, 1000), "I(exper**2)": (0, 2500)}
DOMAIN = Domain(
    (
        *(Numeric(name, *bounds) for name, bounds in NUMBERS.items()),
        Numeric("female_educ", 0, 20),
        Categorical("sex", ("F", "M")),
        Numeric("sex[M]:educ", 0, 20),
        Numeric("other", 0, 1),
    )
)
FRAME = {"educ": [10.0, 30.0], "exper": [3.0, 7.0], "female": [1.0, 0.0], "sex": ["F", "M"]}


def test_computed_terms_of_new_rows() -> None:
    """Kills: products of values that are beyond the bounds, a category taken for another, an intercept that is no column."""
    terms = ("(intercept)", "educ", "educ:exper", "I(exper**2)", "female_educ", "sex[M]:educ", "sex[M]")
    found = design_rows(DOMAIN, MADE, terms, FRAME)
    np.testing.assert_allclose(found, [[1, 10, 30, 9, 10, 0, 0], [1, 20, 140, 49, 0, 20, 1]])
    assert {column.name for column in frame_columns(DOMAIN, MADE, terms, FRAME)} == set(FRAME)


def test_a_column_of_the_frame_itself_is_used() -> None:
    found = design_rows(DOMAIN, MADE, ("educ:exper", "other"), {**FRAME, "educ:exper": [1.0, 2.0], "other": [0.5, 0.2]})
    np.testing.assert_allclose(found, [[1, 0.5], [2, 0.2]])


def test_what_cannot_be_computed_is_asked_for() -> None:
    with pytest.raises(ConfError, match="no column 'other'"):
        design_rows(DOMAIN, MADE, ("other",), FRAME)
    with pytest.raises(ConfError, match="no column 'exper'"):
        design_rows(DOMAIN, MADE, ("educ:exper",), {"educ": [1.0]})
