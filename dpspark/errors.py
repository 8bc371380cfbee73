"""What can go wrong, each with the exit code of the command line.

A message says what, the value from the conf, what is allowed and what to do next. It never holds a data value.
"""

from __future__ import annotations

import re


class DpsparkError(Exception):
    """Anything dpspark refuses or fails at."""

    exit_code = 1

    def __init__(self, message: str = ""):
        super().__init__(without_passwords(message))


class ConfError(DpsparkError):
    """The conf, an option or an argument is wrong by itself."""

    exit_code = 2


class NotOfThisKind(ConfError, AttributeError):
    """A release was asked for what its kind does not have. For `hasattr` and its like, a name that is not there."""


class LedgerError(DpsparkError):
    """The ledger refuses: no grant, not enough left, or a changed spec under a used name and version."""

    exit_code = 3


class SourceError(DpsparkError):
    """The conf does not fit the source, or the source cannot be read."""

    exit_code = 4


class OutputError(DpsparkError):
    """The release cannot be written, or what is there cannot be read as one."""

    exit_code = 4


class BeyondBounds(UserWarning):
    """Rows to predict for have values beyond the bounds of the release, and were moved to them."""


SECRET = r"password|passwd|pwd|\w*access_?key\w*|\w*secret\w*|\w*token\w*|\w*account_?key|\bsig"


def without_passwords(text: str) -> str:
    """A message with what may be a password in a URL taken out."""
    text = re.sub(r"://[^/\s'\"]*@", "://…@", text)
    text = re.sub(r"://[^/\s'\":]*:[^\s'\"]*@", "://…@", text)  # a key with slashes in it
    text = re.sub(r"=[^&=\s'\"]*:[^&\s'\"]*@", "=…@", text)  # in an option's value
    text = re.sub(r"(?i)(sc://[^;\s'\"]*);[^\s'\"]*", r"\1;…", text)  # of a Connect server: a token, or headers
    return re.sub(rf"(?i)({SECRET})=[^&\s'\"]+", r"\1=…", text)


def printable(text: str) -> str:
    """A message for a terminal: what a conf or a manifest holds may be control characters."""
    return "".join(c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)
