"""A manifest's values, each checked as it is taken: a stranger may have written them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any


class Garbled(Exception):
    """The manifest lacks something that is needed, or has something that cannot be. The text has no value in it."""


class Facts:
    """A part of the manifest, with its path for messages. Each method takes one value, checked, or raises Garbled."""

    def __init__(self, content: Any, path: str):
        if not isinstance(content, dict):
            raise Garbled(f"{path or 'manifest'} is missing, or is no part with keys")
        self._content = content
        self._path = path

    def has(self, key: str) -> bool:
        return self._content.get(key) is not None

    def has_part(self, key: str) -> bool:
        return isinstance(self._content.get(key), dict)

    def equals(self, other: Facts) -> bool:
        return self._content == other._content

    def overlaid(self, content: dict[str, Any]) -> Facts:
        """Take the same part with some keys of one's own."""
        return Facts({**self._content, **content}, self._path)

    def part(self, key: str) -> Facts:
        return Facts(self._content.get(key), self._at(key))

    def parts(self, key: str) -> list[Facts]:
        return [Facts(each, f"{self._at(key)}[{i}]") for i, each in enumerate(self.items(key))]

    def items(self, key: str) -> list[Any]:
        found = self._content.get(key)
        if not isinstance(found, list):
            raise Garbled(f"{self._at(key)} is missing, or is no list")
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.items(key)
        if not all(isinstance(each, str) for each in found):
            raise Garbled(f"{self._at(key)} has something that is no text")
        return tuple(found)

    def numbers(self, key: str) -> tuple[float, ...]:
        return tuple(self._finite(each, key) for each in self.items(key))

    def names(self) -> Iterator[str]:
        return iter(self._content)

    def number(self, key: str) -> float:
        return self._finite(self._content.get(key), key)

    def positive(self, key: str) -> float:
        found = self.number(key)
        if not found > 0:
            raise Garbled(f"{self._at(key)} is not above 0")
        return found

    def whole(self, key: str, least: int = 1) -> int:
        found = self._content.get(key)
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found < 2**63:
            raise Garbled(f"{self._at(key)} is missing, or is no whole number from {least} up")
        return found

    def flag(self, key: str) -> bool:
        found = self._content.get(key, False)
        if not isinstance(found, bool):
            raise Garbled(f"{self._at(key)} is not true or false")
        return found

    def text(self, key: str, *allowed: str) -> str:
        found = self._content.get(key)
        if not isinstance(found, str) or (allowed and found not in allowed):
            expected = f"one of {', '.join(allowed)}" if allowed else "text"
            raise Garbled(f"{self._at(key)} is missing, or is not {expected}")
        return found

    def says(self, own: Mapping[str, Any], *keys: str) -> bool:
        """Tell whether these texts are the same as those of other facts."""
        return all(self.text(key) == own[key] for key in keys)

    def is_text(self, key: str, text: str) -> bool:
        return bool(self._content.get(key) == text)

    def _finite(self, found: Any, key: str) -> float:
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise Garbled(f"{self._at(key)} is missing, or is no number")
        try:
            value = float(found)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise Garbled(f"{self._at(key)} is no finite number")
        return value

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key
