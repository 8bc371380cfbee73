from __future__ import annotations

from collections.abc import Mapping

from dpspark.source.compute.program import Program


class NotCompiled(Exception):
    pass


def compile_expression(text: str, types: Mapping[str, str], timezone: str) -> Program:
    raise NotCompiled("stub")
