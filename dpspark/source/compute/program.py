from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Program:
    columns: tuple[str, ...]
    type: str

    def run(self, arrays: Any, rows: int) -> Any:
        raise NotImplementedError


def keep_mask(program: Program, arrays: Any, rows: int) -> Any:
    raise NotImplementedError
