"""A real browser without a window, and a page in it that must not ask the network for anything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
MISSING = "no Chromium or Chrome on this machine. Run `make test-report`, which installs one where it may."


def find_browser() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def opened(browser: Any, path: Path, **options: Any) -> Iterator[Any]:
    """The page; fails in the end on errors in its console, and on any request but for itself."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.url == path.as_uri() else problems.append(request.url))
    page.on("dialog", lambda dialog: (problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.goto(path.as_uri())
    try:
        yield page
    finally:
        context.close()
    assert problems == []
