"""A statement of the guarantee as one HTML page, in the order in which NIST SP 800-226 asks for it.

The guidelines build a pyramid: the parameters and the unit of privacy on top of the algorithm, on top of trust, security and
data collection. What a manifest does not say is marked as the publisher's to say.
"""

from __future__ import annotations

from dpspark.interop.deployment import POST_PROCESSING, Deployment
from dpspark.report.markup import Markup, element, facts, join, unbroken

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}h1{font-size:1.6rem}"
    "h2{font-size:1.15rem;margin-top:2rem}dt{font-weight:600}dd{margin:0 0 .6rem}blockquote{border-left:3px solid;"
    "margin:1rem 0;padding:0 1rem}.blank{border:1px dashed;padding:.4rem .6rem}"
)


def statement(deployment: Deployment) -> str:
    """Write the page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{deployment.name} {deployment.version}: statement of differential privacy"),
        element("style", STYLE),
    )
    sections = (element("section", element("h2", title), body) for title, body in _sections(deployment))
    title = f"{deployment.name} {deployment.version}: statement of differential privacy"
    body = element("body", element("main", element("h1", title), element("p", deployment.description), *sections))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _sections(found: Deployment) -> list[tuple[str, Markup]]:
    parameters = ", ".join(f"{name} = {value:g}" for name, value in found.parameters.items())
    limits = element("ul", *(element("li", each) for each in found.limitations))
    return [
        ("The guarantee", element("blockquote", element("p", unbroken(found.guarantee)))),
        (
            "Parameters and unit of privacy",
            facts(
                [
                    ("Variant", found.variant),
                    ("Parameters", parameters),
                    ("Unit", found.unit),
                    ("Data sets that are compared", found.adjacent),
                    ("Published without noise", found.unprotected),
                ]
            ),
        ),
        (
            "Algorithm",
            facts(
                [
                    ("Mechanism", found.mechanisms),
                    ("Composition", found.composition),
                    ("Post-processing", POST_PROCESSING),
                    ("Preparation of the data", found.preparation),
                    ("Domain", found.domain),
                ]
            ),
        ),
        ("Utility, bias and what is not covered", limits),
        (
            "Trust model",
            join(
                element("p", f"Central. {found.trust}"),
                _blank("who runs the job, who can reach the data and the machines, and why they are trusted"),
            ),
        ),
        (
            "Security and data collection",
            _blank("how the data were collected, where they lie, who has access, how long they are kept"),
        ),
        ("Intended use", _blank("who publishes it, what it is meant for, and what it must not be used for")),
        ("Verification", element("p", "The guarantee can be computed again from the published files: dpspark verify.")),
    ]


def _blank(asked: str) -> Markup:
    return element("p", f"To be filled in by the publisher: {asked}.", class_="blank")
