"""Tells whether this is a notebook. IPython is no dependency: whoever has a kernel has loaded it."""

from __future__ import annotations

import sys
from contextlib import suppress


def in_notebook() -> bool:
    """Return whether this is a Jupyter kernel, whose cells show pictures and HTML; a terminal is none, be it IPython's."""
    ipython = sys.modules.get("IPython")
    with suppress(Exception):  # half imported, or something else by that name
        return getattr(ipython.get_ipython(), "kernel", None) is not None  # type: ignore[union-attr]
    return False
