"""`make docs`: the site builds without a warning, is whole, and asks nobody for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from pydantic import BaseModel

from dpspark.bundle.manifest_shape import Manifest
from dpspark.bundle.schemas import SCHEMAS
from dpspark.cli.main import cli
from dpspark.spec.spec import Spec

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Strict: a dead link or anchor, and a page that is not in the nav, end the build."""
    home = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(home)]
    settings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return home


class Wanted(HTMLParser):
    """What a browser loads by itself, and where links go."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        self.ids |= {found[key] for key in ("id", "name") if key in found}
        if tag in ("script", "img", "iframe", "source") and "src" in found:
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(found["href"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])


def read(page: Path) -> Wanted:
    parser = Wanted()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_every_page_is_there(site: Path) -> None:
    """Kills: a build that leaves pages out."""
    made = {page.name for page in site.glob("*.html")}
    assert {f"{page.stem}.html" for page in PAGES} | {"index.html", "changelog.html"} <= made
    assert {page.name for page in (site / "reference").glob("*.html")} == {
        *("cli.html", "conf.html", "python.html", "bundle.html")
    }


def test_nothing_is_fetched(site: Path) -> None:
    """Kills: fonts, scripts, styles or pictures from elsewhere, and files that are not there."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        if page.name == "404.html":  # its addresses start at the root of a server
            continue
        for address in read(page).loaded:
            assert not re.match(r"(?:https?:)?//", address), (page, address)
            assert address.startswith("data:") or (page.parent / address.partition("?")[0]).is_file(), (page, address)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//|@import", style.read_text(encoding="utf-8")), style
    for script in (site / "assets/javascripts").glob("bundle.*.js"):
        # The theme's own: for pages with diagrams, and for browsers of 2019.
        assert set(re.findall(r"https://unpkg\.com/([\w-]+)", script.read_text(encoding="utf-8"))) <= {
            *("mermaid", "resize-observer-polyfill")
        }
    assert "mermaid" not in "".join(page.read_text(encoding="utf-8") for page in PAGES)


def test_every_link_leads_somewhere(site: Path) -> None:
    """Kills: links and anchors that are made of the README, of the code or of HTML, which mkdocs does not check."""
    found = {page.resolve(): read(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, wanted in found.items():
        for link in wanted.links:
            if re.match(r"https?:|mailto:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path not in ("", ".") else page
            assert target in found or target.is_file(), (page.name, link)
            if anchor and target in found:
                assert anchor in found[target].ids, (page.name, link)


def commands(command: click.Command, name: str) -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {name: command}
    found: dict[str, click.Command] = {}
    for each, below in command.commands.items():
        if not below.hidden:
            found |= commands(below, f"{name} {each}")
    return found


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    """Kills: a reference that leaves commands or options out."""
    text = (site / "reference/cli.html").read_text(encoding="utf-8")
    sections = dict(re.findall(r'<h2 id="([\w-]+)">(.*?)(?=<h2|</article>)', text, re.S))
    every = commands(cli, "dpspark")
    assert set(sections) == {name.replace(" ", "-") for name in every}
    for name, command in every.items():
        for option in command.params:
            if isinstance(option, click.Option):
                assert max(option.opts, key=len) in sections[name.replace(" ", "-")], (name, option.opts)


def models(annotation: Any, seen: frozenset[Any] = frozenset()) -> set[type[BaseModel]]:
    """The models in a type, and those in the types of their fields; one may hold others of its own kind."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation in seen:
            return {annotation}
        fields = annotation.model_fields.values()
        return {annotation}.union(*(models(field.annotation, seen | {annotation}) for field in fields))
    return set().union(*(models(part, seen) for part in get_args(annotation)))


@pytest.mark.parametrize(("page", "model", "least"), [("conf", Spec, 14), ("bundle", Manifest, 15)])
def test_every_key_is_in_the_reference(site: Path, page: str, model: type[BaseModel], least: int) -> None:
    """Kills: a reference that stops at the first level, or skips a key."""
    cells = re.findall(r"<td><code>([^<]+)</code></td>", (site / f"reference/{page}.html").read_text(encoding="utf-8"))
    every = models(model)
    assert len(every) >= least
    for each in every:
        assert set(each.model_fields) <= set(cells), each


def test_every_column_of_a_bundle_is_in_the_reference(site: Path) -> None:
    """Kills: a table of a release that nobody described."""
    text = (site / "reference/bundle.html").read_text(encoding="utf-8")
    for table, schema in SCHEMAS.items():
        section = re.search(rf'<h3 id="{table}parquet">(.*?)<h[23]', text, re.S)
        assert section is not None, table
        assert re.findall(r"<td><code>(\w+)</code></td>", section[1]) == schema.names


def test_a_key_without_a_description_ends_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a key that gets into the reference without a word."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/pages"))
    from models import keys_of  # type: ignore[import-not-found]

    from dpspark.spec.rows import CountExtra

    class Silent(CountExtra):
        steps: int = 1

    assert keys_of(CountExtra)[0].about
    with pytest.raises(ValueError, match="has no docstring"):
        keys_of(Silent)
