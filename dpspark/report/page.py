"""One HTML file of a release: no network, no library, nothing but what the release holds and public plans."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.quantiles import QuantilesContent
from dpspark.analysis.content.regression import RegressionContent
from dpspark.analysis.options import Asked
from dpspark.analysis.regression import Regression
from dpspark.bundle.files import manifest_digest
from dpspark.core.formula import Formula
from dpspark.errors import ConfError, DpsparkError, OutputError
from dpspark.report.ledger import ledger_section
from dpspark.report.markup import Markup, data_block, element, inline, join, source_hash, table, unbroken
from dpspark.report.planned import error_panels
from dpspark.report.results import results_of
from dpspark.report.words import KINDS, budget_text, guarantee, limitations, mechanism_name, method, number
from dpspark.verifying.verification import verify
from dpspark.version import __version__

STYLE = "report.css"
# In this order: each uses what is before it.
SCRIPTS = (
    *("format.js", "chance.js", "matrix.js", "noise.js", "tables.js", "regress.js", "correlate.js"),
    *("arithmetic.js", "formula.js", "terms.js"),
    *("dom.js", "plot.js", "coefficients.js", "models.js", "heatmap.js", "explorer.js"),
    *("curves.js", "spread.js", "groups.js", "map.js", "funnel.js", "areas.js", "lines.js", "regression.js"),
    *("gram.js", "start.js"),
)
NO_SCRIPT = "The tables and plots below need JavaScript, which is off or blocked. The guarantee and the method do not."
AREAS = (
    "Each group’s estimate borrows strength from all others, and has an interval. Computed from the release alone, at no "
    "further cost to privacy. Choose a row or a place to see it; column heads sort."
)
SUFFIXES = (".html", ".htm")


def write_report(
    release: Content,
    path: str | os.PathLike[str],
    regress: Sequence[str] = (),
    url: str | None = None,
    areas: dict[str, Any] | None = None,
) -> Path:
    """Write the page, whole or not at all. Post-processing: no cost."""
    target, aside = Path(path), None
    if target.suffix.lower() not in ("", *SUFFIXES):
        raise ConfError(
            f"--out {str(path)!r}: a report is one HTML page, not {target.suffix}. Let its name end with .html or .htm; to "
            "print it, or for a PDF, use a browser."
        )
    _refuse_unverified(release)
    content = report_html(release, regress, url, areas).encode("utf-8")
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            aside = Path(file.name)
            file.write(content)
        aside.chmod(0o666 & ~_umask())
        os.replace(aside, target)
    except OSError as error:
        if aside is not None:
            aside.unlink(missing_ok=True)
        raise OutputError(f"--out {str(path)!r}: {error.strerror or 'cannot be written'}.") from None
    return target


def _refuse_unverified(release: Content) -> None:
    """Refuse a release whose own numbers do not bear out what it says: readers trust the page."""
    failed = [check for check in verify(release.path).checks if check.result == "failed"]
    if failed:
        problem = f"{str(release.path)!r} is not what it says ({failed[0].name}): no report of it."
        raise DpsparkError(f"{problem}\nRun: dpspark verify {release.path}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def report_html(
    release: Content, regress: Sequence[str] = (), url: str | None = None, areas: dict[str, Any] | None = None
) -> str:
    """Make the page of what a release holds; `areas` are its smoothed groups."""
    manifest = release.manifest
    found = results_of(release, regress)
    sections = [
        ("guarantee", "What is guaranteed", guarantee(manifest)),
        ("released", "What was released, and how", method(manifest, rows_text(release))),
        *((name, title, _filled(words, *_notes(release))) for name, title, words in RESULTS[release.kind]),
        *(() if areas is None else (("areas", "Small areas, smoothed", _filled(AREAS)),)),
        (
            "errors",
            "Error against the budget",
            _filled("What other budgets would have done to the errors of this release."),
        ),
        ("ledger", "The dataset’s budget", ledger_section(manifest, url)),
        (
            "limits",
            "What the guarantee does not cover",
            join(limitations(manifest), _clipped(release), _moved(release, found.formulas)),
        ),
        ("check", "Check it yourself", _check(release)),
    ]
    named = manifest["release"]
    content = {
        "kind": release.kind,
        "address": f"{named['name']}/{named['version']}",
        "results": found.content,
        "areas": areas,
        "errors": error_panels(release, found.formulas, found.keys),
    }
    groups = (f" {name}={value}" for name, value in release.group.items())
    title = f"{release.name}{''.join(groups)}"
    return _document(manifest, title, sections, content, rows_text(release))


def _document(
    manifest: dict[str, Any], title: str, sections: list[tuple[str, str, Markup]], content: Any, rows: str
) -> str:
    style, script = _asset(STYLE), "".join(_asset(name) for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    policy = (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title}: a differentially private release"),
        inline("style", style),
    )
    body = element(
        "body",
        element("a", "Skip to the report", href="#guarantee", class_="skip"),
        _header(manifest, title, rows),
        _navigation(sections),
        element("main", element("noscript", element("p", NO_SCRIPT, class_="note")), *map(_section, sections)),
        element("footer", element("p", f"Made with dpspark {__version__} from the published release alone.")),
        data_block("content", content),
        inline("script", script),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return (resources.files("dpspark.report") / "assets" / name).read_text(encoding="utf-8")


def _header(manifest: dict[str, Any], title: str, rows: str) -> Markup:
    named = manifest["release"]
    cards = [
        ("Privacy", unbroken(budget_text(manifest["privacy"]))),
        ("Mechanism", mechanism_name(manifest["mechanism"])),
        ("Columns", f"{len(manifest['columns'])}"),
        ("Rows", rows),
        ("Published", str(manifest.get("created_at", ""))[:10]),
    ]
    return element(
        "header",
        element("p", "Differentially private release", class_="eyebrow"),
        element("h1", title),
        element("p", f"This release holds {KINDS[named['kind']]}. No record of the data is in it.", class_="lede"),
        element(
            "dl",
            *(element("div", element("dt", name), element("dd", value)) for name, value in cards if value),
            class_="cards",
        ),
    )


def _navigation(sections: list[tuple[str, str, Markup]]) -> Markup:
    links = (element("li", element("a", title, href=f"#{name}")) for name, title, _ in sections)
    return element("nav", element("ul", *links), aria_label="Contents")


def _section(section: tuple[str, str, Markup]) -> Markup:
    name, title, content = section
    return element(
        "section", element("h2", title, id=f"{name}-title"), content, id=name, aria_labelledby=f"{name}-title"
    )


def _filled(words: str, *notes: str) -> Markup:
    """Make a section whose content the page's program fills in."""
    return join(element("p", words), *(element("p", note) for note in notes), element("div", class_="fill"))


def _notes(release: Content) -> list[str]:
    """Say how far quantiles can be off: the same for all groups."""
    if not isinstance(release, QuantilesContent) or not release.notes:
        return []
    table = release.table
    errors = dict(zip(table["column"].to_pylist(), table["rank_error"].to_pylist(), strict=True))
    shown = ", ".join(f"{column} {number(error)}" for column, error in errors.items())
    return [f"{release.notes[0]}: {shown}.", *(f"{note}." for note in release.notes[1:])]


RESULTS = {
    "gram": [
        (
            "correlations",
            "Correlations",
            "Of the released columns. Point at a cell, or move with the arrow keys, for its noise; the noise may move one "
            "beyond 1.",
        ),
        (
            "regressions",
            "Regressions",
            "Least squares from the released matrix. Standard errors have the privacy noise in them.",
        ),
        (
            "explorer",
            "Explore any regression",
            "Computed on this page, from the released matrix alone: at no further cost to privacy.",
        ),
    ],
    "regression": [("coefficients", "The regression", "As released, in original units.")],
    "theil_sen": [("lines", "The lines", "Choose a row to see its line. Column heads sort.")],
    "quantiles": [("quantiles", "The quantiles", "As released. Column heads sort.")],
}


def rows_text(release: Content) -> str:
    """Write the number of rows, where the release tells it: with noise, unless that is public."""
    monitored = release.manifest.get("monitoring")
    if isinstance(monitored, dict) and isinstance(monitored.get("rows"), int):
        return f"{monitored['rows']:,}" if monitored.get("noise_std") == 0 else f"about {monitored['rows']:,}"
    if not isinstance(release, GramContent):
        return ""
    rows, exact = release.moments.rows, release.noise.count_is_exact
    what = " in weights" if release.is_weighted else ""
    return f"{'' if exact else 'about '}{max(0.0, rows):,.0f}{what}"


def _clipped(release: Content) -> Markup | None:
    if not release.clipped:
        return None
    rows: list[list[object]] = [
        [row["column"], row["side"], f"{100 * row['clipped_share']:.2g}%", f"± {100 * row['noise_std']:.2g}%"]
        for row in release.clipped
    ]
    return table(
        ["Column", "Bound", "Beyond it", "Noise"], rows, "Values that were moved to a bound, counted with noise", (2, 3)
    )


def _moved(release: Content, formulas: Sequence[Formula]) -> Markup | None:
    """Say in which of the page's regressions clipping is likely to move a coefficient by more than a standard error."""
    fits: Sequence[Regression]
    if isinstance(release, RegressionContent):
        fits = [release.regress(Asked())]
    else:
        fits = [release.fit(formula, Asked()) for formula in formulas] if isinstance(release, GramContent) else []
    lines = [f"{fit.formula}: {moved}." for fit in fits for moved in fit.moved_by_clipping]
    return join(*(element("p", line) for line in lines)) if lines else None


def _check(release: Content) -> Markup:
    address = "{name}/{version}".format(**release.manifest["release"])
    digest = manifest_digest(release.path)
    return join(
        element(
            "p",
            "Whoever has the published files, and dpspark installed, can recompute the guarantee and make this page again, "
            "all but a balance of the ledger:",
        ),
        element("pre", element("code", f"dpspark verify {address}\ndpspark report {address}")),
        None
        if digest is None
        else element(
            "p",
            "This report is of the release whose ",
            element("code", "manifest.json"),
            " has SHA-256 ",
            element("code", digest, class_="long"),
            ".",
        ),
    )
