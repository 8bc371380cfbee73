"""What is left in the ledger for a release. A plan never fails because of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from dpspark.errors import DpsparkError
from dpspark.planning.fits import number
from dpspark.spec.spec import Spec


@dataclass(frozen=True)
class BudgetLeft:
    """The budget that the ledger has left for a dataset; `problem` says why nothing is known."""

    dataset: str
    granted: tuple[float, float] | None = None  # epsilon, delta
    left: tuple[float, float] | None = None
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        def pair(values: tuple[float, float] | None) -> dict[str, float | None] | None:
            return None if values is None else dict(zip(("epsilon", "delta"), map(number, values), strict=True))

        return {
            "dataset": self.dataset,
            "granted": pair(self.granted),
            "left": pair(self.left),
            "problem": self.problem or None,
        }

    def __str__(self) -> str:
        if self.granted is None or self.left is None:
            return f"Ledger: {self.problem}"
        (left, left_delta), (granted, delta) = self.left, self.granted
        # Where spent epsilon is at the granted delta, none of delta is left, and none is needed.
        shown = f"at delta {delta:.6g}" if left_delta == 0 else f"delta {left_delta:.6g} of {delta:.6g}"
        shown = shown if delta else "pure (delta 0)"
        return f"Ledger: {self.dataset} has left epsilon {left:.6g} of {granted:.6g}, {shown}"


def find_budget_left(spec: Spec, url: str | None) -> BudgetLeft:
    """Find what the ledger has left for a spec's dataset, or why that is not known."""
    dataset = spec.ledger.dataset
    found = url or spec.ledger.url or os.environ.get("DPSPARK_LEDGER")
    if not found:
        return BudgetLeft(
            dataset, problem="none named (ledger.url, --url or DPSPARK_LEDGER): what is left is not known"
        )
    file = found.removeprefix("sqlite:///")
    if file != found and not os.path.exists(file):  # the usual case before a first grant, without loading a database
        return BudgetLeft(dataset, problem=f"{found} is not there: nothing was granted yet")
    from dpspark.ledger.ledger import Ledger

    try:
        balances = Ledger(found, create=False).balances(dataset)
    except DpsparkError as error:
        return BudgetLeft(dataset, problem=f"cannot be read. {str(error).splitlines()[0]}")
    if not balances:
        return BudgetLeft(dataset, problem=f"nothing was granted on {dataset} yet")
    (balance,) = balances
    granted = float(balance.granted_epsilon), float(balance.granted_delta)
    return BudgetLeft(dataset, granted, (float(balance.left_epsilon), float(balance.left_delta)))
