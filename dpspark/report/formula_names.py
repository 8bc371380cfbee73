"""What the page's explorer needs to read formulas: categorical columns, and what each released column is."""

from __future__ import annotations

from typing import Any

from dpspark.analysis.content.base import Content
from dpspark.core.arithmetic import Key
from dpspark.core.formula import released_keys


def formula_names(release: Content) -> dict[str, Any]:
    """List the columns of each category, and every released column by the polynomial that it is."""
    domain = release.domain
    released = released_keys(domain.terms, release.definitions)
    return {
        "blocks": [[block.name, list(block.terms)] for block in domain.blocks],
        "released": [[_polynomial(key), term] for key, term in released.items()],
    }


def _polynomial(key: Key) -> list[Any]:
    """Write a polynomial as its products, each with its atoms and their powers, and its factor; in one order."""
    products = ([sorted(([_atom(atom), power] for atom, power in of), key=str), factor] for of, factor in key)
    return sorted(products, key=str)


def _atom(atom: Any) -> Any:
    """Write a column as its name, and a function as its own, what it is of, and the exponent of a power."""
    return atom if isinstance(atom, str) else [atom[0], _polynomial(atom[1]), *atom[2:]]
