"""What can go wrong, each with the exit code of the command line.

A message says what, the value from the conf, what is allowed and what to do next. It never holds a data value.
"""

from __future__ import annotations

import re

_IN_USER = re.compile(r"(\w://[^\s:/@]*:)\S*@")
_IN_OPTIONS = re.compile(r"([?&]\w*password=)[^&\s'\"]*", re.I)


def without_passwords(text: str) -> str:
    """A ledger's URL may stand anywhere in a conf or a command; what quotes it must not quote its password."""
    return _IN_OPTIONS.sub(r"\1***", _IN_USER.sub(r"\1***@", text))


class DpsparkError(Exception):
    """Anything dpspark refuses or fails at."""

    exit_code = 1

    def __init__(self, message: str = ""):
        super().__init__(without_passwords(message))


class ConfError(DpsparkError):
    """The conf, an option or an argument is wrong by itself."""

    exit_code = 2


class LedgerError(DpsparkError):
    """The ledger refuses: no grant, not enough left, or a changed spec under a used name and version."""

    exit_code = 3


class SourceError(DpsparkError):
    """The conf does not fit the source, or the source cannot be read."""

    exit_code = 4


class OutputError(DpsparkError):
    """The release cannot be written, or what is there cannot be read as one."""

    exit_code = 4
