"""Which categories of a formula's terms get a column, so that no column repeats others: the rule of patsy and formulaic.

A term of categorical factors says what all products of its factors say. What earlier terms with the same numbers said
already is left out: `sex` after the intercept, or `sex:educ` after `educ`, is all categories but one; `sex:educ` alone
is one column for each category.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import TypeAlias

Part: TypeAlias = frozenset[tuple[str, bool]]  # factors, and whether each has all of its categories


def choose_codings(terms: Sequence[tuple[Hashable, tuple[str, ...]]]) -> list[list[dict[str, bool]]]:
    """For each term, given as its numbers and its categorical factors, list the parts that it adds.

    A part has, for each of its categorical factors, whether all of its categories are in it or all but one.
    """
    said: dict[Hashable, set[frozenset[str]]] = {}
    found = []
    for numbers, factors in terms:
        earlier = said.setdefault(numbers, set())
        subsets = [frozenset(chosen) for size in range(len(factors) + 1) for chosen in combinations(factors, size)]
        new = [subset for subset in subsets if subset not in earlier]
        earlier.update(new)
        parts = _joined([frozenset((factor, False) for factor in subset) for subset in new])
        found.append([{factor: dict(part)[factor] for factor in factors if factor in dict(part)} for part in parts])
    return found


def _joined(parts: list[Part]) -> list[Part]:
    """Join two parts that differ by one factor into one with all categories of it, as long as there are any."""
    while True:
        pair = next(
            (
                (short, long)
                for at, short in enumerate(parts)
                for long in parts[at + 1 :]
                if len(long) == len(short) + 1 and short < long
            ),
            None,
        )
        if pair is None:
            return parts
        short, long = pair
        ((factor, _),) = long - short
        parts[parts.index(long)] = short | {(factor, True)}
        parts.remove(short)
