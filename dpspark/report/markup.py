"""HTML that escapes all it is given: names and texts of a release may be a stranger's."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from typing import Any

from dpspark.errors import printable

VOID = ("meta", "br")
EXPONENT = re.compile(r"([εδρ] = [\d.]+(?:e-\d+)?|[\d.]+e-\d+)")
MOST_ROWS = 20  # in one view; more scroll


class Markup(str):
    """Text that is HTML already. Only `element` makes it."""


def text(value: object) -> Markup:
    return value if isinstance(value, Markup) else Markup(html.escape(printable(str(value))))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """Make an element. `class_` and `aria_label` stand for class and aria-label; None leaves an attribute or a child out."""
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(text(child) for child in children if child is not None)
    return Markup(f"<{tag}{shown}>" + ("" if tag in VOID else f"{inside}</{tag}>"))


def unbroken(value: str) -> Markup:
    """Keep numbers such as 1e-09 on one line each: a browser would end it after the hyphen."""
    parts = EXPONENT.split(value)
    return join(*(element("span", part, class_="unbroken") if i % 2 else part for i, part in enumerate(parts)))


def join(*children: object) -> Markup:
    return Markup("".join(text(child) for child in children if child is not None))


def data_block(name: str, content: Any) -> Markup:
    """JSON for the page's program. No character in it can end the element it is in."""
    found = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        found = found.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{name}">{found}</script>')


def inline(tag: str, source: str) -> Markup:
    """The package's own script or style."""
    if f"</{tag}" in source.lower():
        raise ValueError(f"a {tag} must not hold its own end")
    return Markup(f"<{tag}>{source}</{tag}>")


def source_hash(source: str) -> str:
    """Hash a script or a style for a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def table(head: list[str], rows: list[list[object]], caption: str, numbers: tuple[int, ...] = ()) -> Markup:
    """The first cell of a row names it."""
    cells = [
        element(
            "tr",
            *(
                element("th", cell, scope="row")
                if i == 0
                else element("td", cell, class_="number" if i in numbers else None)
                for i, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    heads = [element("th", name, scope="col", class_="number" if i in numbers else None) for i, name in enumerate(head)]
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *cells),
    )
    kind = "scroll" if len(rows) <= MOST_ROWS else "scroll tall"
    return element("div", made, class_=kind, tabindex="0", role="region", aria_label=caption)


def facts(rows: list[tuple[str, object]]) -> Markup:
    """Names and what they are."""
    pairs = (
        element("div", element("dt", name), element("dd", _whole(value)))
        for name, value in rows
        if value not in (None, "")
    )
    return element("dl", *pairs, class_="facts")


def _whole(value: object) -> object:
    return unbroken(value) if type(value) is str else value
