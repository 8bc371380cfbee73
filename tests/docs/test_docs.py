"""The documents against the product. No Spark: what the examples print is written by `make docs-examples`."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
import yaml

from dpspark.mechanisms.base import Mechanism, options_of
from dpspark.mechanisms.registry import REGISTRY
from dpspark.spec.spec import load_spec

ROOT = Path(__file__).parents[2]
DOCS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
EXAMPLE = re.compile(r"<!-- example: ([\w-]+) -->\n(.*?)<!-- /example -->", re.S)
CONFS = {
    re.match(r"# (\S+\.yaml)\n", conf)[1]: conf  # type: ignore[index]
    for text in DOCS.values()
    for conf in re.findall(r"```yaml\n(.*?)```", text, re.S)
}
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DOCS["corrections.md"])))
# A program and what it printed. Those of the corrections read no release and draw no noise, so that they repeat.
PRINTED = re.findall(
    r"```python\n((?:(?!```).)*)```\n\n<!-- example: ([\w-]+) -->\n```\n(.*?)\n```\n<!-- /example -->",
    DOCS["corrections.md"],
    re.S,
)


@pytest.mark.parametrize("name", CONFS)
def test_every_conf_loads(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CONFS[name], encoding="utf-8")
    assert load_spec(tmp_path / name).output.path == "releases"


def test_every_yaml_block_is_a_conf_of_its_own() -> None:
    assert len(CONFS) == sum(text.count("```yaml") for text in DOCS.values())
    releases = [load_spec(yaml.safe_load(conf)).release for conf in CONFS.values()]
    assert len({(release.name, release.version) for release in releases}) == len(releases)  # else refused, or returned


@pytest.mark.parametrize(
    "mechanism",
    [pytest.param(mechanism, id=f"{mechanism.kind}-{mechanism.name}") for of in REGISTRY.values() for mechanism in of],
)
def test_every_mechanism_has_a_section_with_its_options(mechanism: type[Mechanism]) -> None:
    text = DOCS["mechanisms.md"] + DOCS["robust.md"]
    sections = dict(re.findall(r"^##+ (\S+)\n(.*?)(?=^##+ |^# [A-Z])", text, re.S | re.M))
    section = sections[mechanism.name]
    for option in options_of(mechanism):
        assert f"`{option}" in section, option
    for part in ("**What.**", "**When.**", "Guarantee", "ublic", "imits"):
        assert part in section, part
    assert f"name: {mechanism.name}" in section


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_every_named_test_exists(file: str, function: str) -> None:
    assert re.search(rf"^def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.M)


def test_every_test_is_named_with_its_file() -> None:
    """Kills: a name that the test above does not see."""
    assert len(NAMED) > 50
    seen = {function for _, function in NAMED}
    assert set(re.findall(r"\btest_\w+(?!\w|\.py)", re.sub(r"tests/[\w/]+\.py", "", DOCS["corrections.md"]))) == seen


@pytest.mark.parametrize("name", DOCS)
def test_markers_are_balanced_and_filled(name: str) -> None:
    text = DOCS[name]
    found = EXAMPLE.findall(text)
    assert len(found) == text.count("<!-- example:") == text.count("<!-- /example -->")
    assert len({example for example, _ in found}) == len(found)
    for example, output in found:
        assert (len(output.strip().strip("`").strip()) > 10) is not example.endswith("-unseen"), example
        assert "<!--" not in output, example
    # Each follows what is run, so that the script sees it.
    assert len(re.findall(r"```(?:sh|python)\n(?:(?!```).)*```\n\n<!-- example:", text, re.S)) == len(found)


@pytest.mark.parametrize("name", DOCS)
def test_documents_are_fit_to_read(name: str) -> None:
    """No long lines, tables aside, and no paths of a machine."""
    text = DOCS[name]
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120
    assert not re.search(r"/(?:tmp|home|root|Users|work|private)/", text)


def anchors(text: str) -> set[str]:
    """As repositories make them of headings; tests/docs/test_site.py checks those of the site."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", [*DOCS, "../README.md", "../CHANGELOG.md"])
def test_links_of_the_repository_lead_somewhere(name: str) -> None:
    """Kills: a page or section that was renamed, and is still linked to from another."""
    home = ROOT / "docs" / name
    for link in re.findall(r"\]\((?!http)([^)]+)\)", home.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if path.startswith("reference/"):  # made by `make docs`
            continue
        target = home.parent / path if path else home
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


def test_commands_name_confs_that_are_shown() -> None:
    commands = [line for text in DOCS.values() for line in text.splitlines() if line.startswith("dpspark ")]
    assert len(commands) > 30
    made = "\n".join(commands)
    for line in commands:
        for word in shlex.split(line, comments=True):
            assert not word.endswith(".yaml") or word in CONFS or f"--out {word}" in made, line


@pytest.mark.parametrize(("code", "name", "printed"), PRINTED, ids=[name for _, name, _ in PRINTED])
def test_what_the_corrections_print(code: str, name: str, printed: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, name, "exec"), {})
    assert out.getvalue().rstrip() == printed


def test_every_number_of_the_corrections_is_repeated() -> None:
    assert len(PRINTED) == DOCS["corrections.md"].count("<!-- example:")
