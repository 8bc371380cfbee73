"""Suggestions for misspelt words."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.7) -> str:
    """Suggest the closest known word, in a sentence with a space before it; nothing if none is close."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""
