"""A release as an entry of OpenDP's registry of deployments (its schema of July 2026), as YAML.

What only its publisher knows is left blank, and marked.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from dpspark.interop.deployment import POST_PROCESSING, Deployment
from dpspark.version import __version__

BLANK = ""
MARK, CHECK = "TO FILL IN", "TO CHECK"
MARKUP = re.compile(r"[\\`*$<>&~|\[\]]|(?<!\w)_|_(?!\w)")
# What a manifest cannot know, with what is asked for.
ASKED = {
    "data_curators": "who publishes it",
    "intended_use": "what it is meant for",
    "data_product_region": "which region it describes, or whose laws apply",
    "release_type_details": "what else is planned with these data, and when the budget is renewed",
    "actors": "who sees what, and who is trusted with the data",
    "justification": "why this budget, this unit and these bounds",
    "sources": "where it is published, and papers about it",
    "registry_authors": "who wrote this entry",
}
# What is usual, and has to have one of some values.
USUAL = {
    "release_type": "One release, or Many releases",
    "data_source_type": "Static, or Dynamic where new data come in over time",
}


def registry_entry(deployment: Deployment) -> str:
    """Write the entry, with a mark behind every blank."""
    text = yaml.safe_dump(_plain(_content(deployment)), sort_keys=False, allow_unicode=True, width=110)
    for key, asked in ASKED.items():
        text = re.sub(rf"^(\s*{key}:(?: ''|\n\s*- ''))$", rf"\1  # {MARK}: {asked}", text, flags=re.MULTILINE)
    for key, choices in USUAL.items():
        text = re.sub(rf"^(\s*{key}: \w.*)$", rf"\1  # {CHECK}: {choices}", text, flags=re.MULTILINE)
    head = f"# Lines marked {MARK} or {CHECK} are for the publisher: no manifest says it. Then set `status`."
    return f"{head}\n{text}"


def _plain(content: Any) -> Any:
    """Escape what the registry would read as Markdown, LaTeX or HTML: names of columns, and conditions on rows."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_plain(value) for value in content]
    return MARKUP.sub(r"\\\g<0>", content) if isinstance(content, str) else content


def _content(found: Deployment) -> dict[str, Any]:
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "_", f"{found.name}_{found.version}".lower()).strip("_") or "release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": f"{found.name} {found.version}",
                "data_curators": [BLANK],
                "intended_use": BLANK,
                "data_product_type": "Summary statistics",
                "data_product_region": BLANK,
                "description": found.description,
                "publication_date": found.date,
            },
            "dp_variant": {
                "variant_name": found.variant,
                "data_domain": found.domain,
                "unprotected_quantities": found.unprotected,
            },
            "privacy_loss": {
                "privacy_unit": found.unit,
                "privacy_unit_details": found.adjacent,
                "privacy_parameters": found.parameters,
                "privacy_parameters_details": found.guarantee,
            },
            "deployment_model": _model(found),
            "accounting": {"post_processing": POST_PROCESSING, "composition": found.composition},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": found.preparation,
                "mechanisms": _mechanisms(found),
                "justification": BLANK,
            },
            "administrative": {
                "sources": BLANK,
                "notes": " ".join(found.limitations),
                "registry_authors": [BLANK],
            },
        },
    }


def _model(found: Deployment) -> dict[str, str]:
    return {
        "model_name": "Central",
        "model_name_details": found.trust,
        "actors": BLANK,
        "release_type": "One release",
        "release_type_details": BLANK,
        "data_source_type": "Static",
        "access_type": "Non-interactive",
        "access_type_details": "Published tables: readers do not query the data.",
    }


def _mechanisms(found: Deployment) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    return (
        f"{found.mechanisms}\n\nSums are exact integers, so that they do not depend on the order of rows; noise is drawn "
        f"once, by the samplers named above. Timing is not protected. Versions: {versions}. Written by dpspark {__version__}."
    )
