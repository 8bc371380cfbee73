"""Names of releases, versions and datasets."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any

from pydantic import BeforeValidator

from dpspark.errors import without_passwords

LONGEST_NAME = 200  # bytes


def plain_name(value: Any) -> str:
    """Check a name of a release, a version or a dataset: it becomes a directory's name, on any file system."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError(f"got {value!r}; expected text. Put it in quotes.")
    allowed = all(c.isalnum() or c in "._-" for c in text)
    if not (allowed and 0 < len(text) <= 100 and text[0].isalnum()):
        raise ValueError(
            f"got {without_passwords(text)[:60]!r}; expected letters, digits, '.', '_' or '-', starting with a letter or digit."
        )
    # Two names that look alike, or that a file system takes for one, would be two entries of the ledger.
    if not unicodedata.is_normalized("NFKC", text) or len(text.encode()) > LONGEST_NAME:
        raise ValueError(f"got {text[:60]!r}; expected a name of plain letters, {LONGEST_NAME} bytes at most.")
    return text


PlainName = Annotated[str, BeforeValidator(plain_name)]
