"""The words of an expression, as Spark's own grammar cuts them. What could be cut otherwise is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBER = re.compile(
    r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYDF])?(?![A-Za-z0-9_.])", re.IGNORECASE
)
TEXT = re.compile(r"'([^']*)'")
QUOTED = re.compile(r"`([^`]+)`")
SIGN = re.compile(r"<=>|<=|>=|<>|!=|==|\|\||::|[=<>+\-*/%(),!]")
SPACE = re.compile(r"[ \t\r\n]+")
MOST = 2000  # tokens: a tree of them must not be too deep for Python


Kind: TypeAlias = Literal["word", "quoted", "number", "text", "sign", "end"]


class NotCompiled(Exception):
    """An expression that Spark evaluates, with the reason in a few words."""


@dataclass(frozen=True)
class Token:
    kind: Kind
    text: str


def cut(text: str) -> list[Token]:
    """Cut an expression into tokens."""
    # Escapes, "text", variables and comments are settings' or versions' to read.
    for odd, name in (("\\", "a backslash"), ('"', "a double quote"), ("${", "${"), ("--", "--"), ("/*", "/*")):
        if odd in text:
            raise NotCompiled(f"{name} in it is read by Spark")
    tokens, at = [], 0
    while at < len(text):
        found = SPACE.match(text, at)
        if found is None:
            token, found = _next(text, at)
            tokens.append(token)
        at = found.end()
        if len(tokens) > MOST:
            raise NotCompiled("it is very long")
    return [*tokens, Token("end", "")]


def _next(text: str, at: int) -> tuple[Token, re.Match[str]]:
    patterns: tuple[tuple[Kind, re.Pattern[str]], ...]
    patterns = (("word", WORD), ("quoted", QUOTED), ("number", NUMBER), ("text", TEXT), ("sign", SIGN))
    for kind, pattern in patterns:
        found = pattern.match(text, at)
        if found is not None:
            return Token(kind, found[1] if pattern.groups else found[0]), found
    raise NotCompiled(f"{text[at]!r} in it is read by Spark")
