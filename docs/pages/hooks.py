"""What `make docs` does beside turning docs/*.md into pages: it makes the reference of the code, each time.

The home page is the README, the changelog the one at the top. Other files of the repository that a page links to become
pages that show them, so that the site is whole without the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import bundle_page
import cli_page
import conf_page
import notebook_page
import python_page
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

NOT_IN_NAV = InclusionLevel.NOT_IN_NAV
ROOT = Path(__file__).parents[2]
GENERATED = {
    "reference/cli.md": cli_page.page,
    "reference/conf.md": conf_page.page,
    "reference/python.md": python_page.page,
    "reference/bundle.md": bundle_page.page,
    "index.md": lambda: "---\nhide: [navigation]\n---\n" + from_the_top("README.md"),
    "changelog.md": lambda: from_the_top("CHANGELOG.md"),
}
# A link out of docs/, to a file of the repository; and what it is highlighted as.
OUTWARD = re.compile(r"\]\(\.\./([^)#]+?)(?:#[^)]*)?\)")
NOTEBOOK = re.compile(r"\]\(([\w-]+)\.ipynb")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh", ".conf": "properties", ".properties": "properties"}


# On the site there is a reference to link to; the repository has none.
REFERENCE = """\
    [Commands](docs/reference/cli.md), [the conf](docs/reference/conf.md), [Python](docs/reference/python.md),
    [the bundle](docs/reference/bundle.md): made of the code.
"""


def from_the_top(name: str) -> str:
    """A document at the top of the repository, as if it were in docs/."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r" *<!-- reference -->\n.*?<!-- /reference -->\n", REFERENCE, text, flags=re.S)
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", lambda link: f"]({as_in_docs(link[1])})", text)


def as_in_docs(link: str) -> str:
    if link == "CHANGELOG.md":
        return "changelog.md"
    return link.removeprefix("docs/") if link.startswith("docs/") else f"../{link}"


def shown(path: Path) -> str:
    """A file of the repository as a page."""
    name = path.relative_to(ROOT).as_posix()
    code = path.read_text(encoding="utf-8")
    return f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{code.rstrip()}\n````\n"


def on_files(files: Files, config: Any) -> Files:
    pages = {name: make() for name, make in GENERATED.items()}
    for notebook in sorted((ROOT / "docs").glob("*.ipynb")):
        pages[f"{notebook.stem}.md"] = notebook_page.page(notebook)
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    written = [file.content_string for file in files.documentation_pages() if at_the_top(file)]
    for name in sorted({found for text in written for found in OUTWARD.findall(text)}):
        files.append(File.generated(config, f"files/{name}.md", content=shown(ROOT / name), inclusion=NOT_IN_NAV))
    return files


def at_the_top(file: File) -> bool:
    """Of docs/ itself: pages below it are generated, and link to pages alone."""
    return "/" not in file.src_uri


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    if not at_the_top(page.file):
        return markdown
    return OUTWARD.sub(r"](files/\1.md)", NOTEBOOK.sub(r"](\1.md", markdown))
