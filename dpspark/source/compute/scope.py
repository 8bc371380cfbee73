"""What a function may need to know of the session while it is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from dpspark.source.compute.literals import moment
from dpspark.source.compute.program import Call, Literal, Node
from dpspark.source.compute.tokens import NotCompiled


@dataclass(frozen=True)
class Scope:
    """The session's time zone, if its distance from UTC is always the same."""

    offset: int | None  # in seconds

    def offset_for(self, kind: str) -> int:
        """The seconds to add to a time: none if it has no zone."""
        if kind == "timestamp_ntz":
            return 0
        if self.offset is None:
            raise NotCompiled("times in a region's time zone are evaluated by Spark")
        return self.offset

    def to_date(self, node: Node) -> Node:
        """The date of a time, in the session's zone."""
        if node.type == "date":
            return node
        if node.type in ("timestamp", "timestamp_ntz"):
            return Call("to_date", (node,), "date", (self.offset_for(node.type),))
        if isinstance(node, Literal) and node.type == "string":
            return moment("date", node.value, None)
        raise NotCompiled(f"{node.type} is made a date by Spark")
