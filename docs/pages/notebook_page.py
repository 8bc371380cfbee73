"""A notebook as a page, with the outputs that are stored in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def text_of(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def fenced(text: str, language: str = "text") -> str:
    return f"````{language}\n{text.rstrip()}\n````"


def outputs(cell: dict[str, Any]) -> Iterator[str]:
    """What a cell showed: of several forms of one thing, the richest."""
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "image/svg+xml" in data:
            yield f'<div class="output">{text_of(data["image/svg+xml"])}</div>'
        elif "image/png" in data:
            picture = text_of(data["image/png"]).replace("\n", "")
            yield f'<img class="output" alt="output" src="data:image/png;base64,{picture}">'
        elif "text/html" in data:
            # Markdown would read on after an empty line.
            lines = [line for line in text_of(data["text/html"]).splitlines() if line.strip()]
            yield '<div class="output">\n' + "\n".join(lines) + "\n</div>"
        elif "text/plain" in data:
            yield fenced(text_of(data["text/plain"]))
        elif output.get("output_type") == "stream" and output.get("name") == "stdout":
            yield fenced(text_of(output["text"]))


def page(path: Path) -> str:
    """Markdown cells as they are, code cells and their outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = text_of(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts += [fenced(source, "python"), *outputs(cell)]
    return "\n\n".join(parts) + "\n"
