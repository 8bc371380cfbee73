"""Colours for people at a terminal: headings bold, significance green, what is wrong red. Never in a pipe or a file."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

import click

WRONG = re.compile(r"\bNOT (?:IDENTIFIED|VERIFIED)\b|\b(?:WARNING|BROKEN|failed)\b")
STARS = re.compile(r"(?<= )(?:\*{1,3})(?= {2,}\S)")


def takes_colour(stream: Any) -> bool:
    """Return whether a stream is a terminal that shows colours, and nobody asked for none (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "", "dumb"):
        return False
    with suppress(Exception):  # closed, or none at all
        return bool(stream.isatty())
    return False


def colour_text(text: str, stream: Any, headings: bool = False) -> str:
    """Colour a text, if the stream takes it.

    With `headings`, the first line is one, and so is the head of a table: the first line that is indented.
    """
    if not takes_colour(stream):
        return text
    lines = [STARS.sub(lambda found: click.style(found[0], fg="green"), line) for line in text.split("\n")]
    lines = [WRONG.sub(lambda found: click.style(found[0], fg="red"), line) for line in lines]
    if headings:
        head = next((at for at, line in enumerate(lines) if line.startswith("  ")), 0)
        for at in {0, head}:
            lines[at] = click.style(lines[at], bold=True)
    return "\n".join(lines)
