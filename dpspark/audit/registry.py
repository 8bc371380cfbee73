"""The attacks on every mechanism, by its kind and name."""

from __future__ import annotations

from dpspark.audit.attacked import Attacked
from dpspark.audit.regression import adassp, gradient_descent, gram_ridge, objective, ssp

ATTACKS: dict[tuple[str, str], Attacked] = {
    ("regression", "gram_ridge"): gram_ridge.ATTACKED,
    ("regression", "ssp"): ssp.ATTACKED,
    ("regression", "adassp"): adassp.ATTACKED,
    ("regression", "objective"): objective.ATTACKED,
    ("regression", "gradient_descent"): gradient_descent.ATTACKED,
}
