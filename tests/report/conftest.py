"""One browser for all tests of reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import FLAGS, MISSING, find_browser
from tests.report.bundles import conf_with, published


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # The pages of a command need none.
        if Path(__file__).parent in item.path.parents and not item.path.name.startswith("test_report_"):
            item.add_marker("browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    found = find_browser()
    if found is None:
        pytest.fail(MISSING)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, headless=True, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kind gram, by the gaussian mechanism, with categories."""
    return published(tmp_path_factory.mktemp("gram"), conf_with())


@pytest.fixture(scope="session")
def page_file(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its report, as the command makes it."""
    from dpspark.cli.main import main

    target = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.raises(SystemExit) as caught:
        main(
            [
                "report",
                str(release),
                "--out",
                str(target),
                "--regress",
                "income ~ age + educ",
                "--regress",
                "income ~ .",
            ]
        )
    assert caught.value.code == 0
    return target
