"""A release as JSON-LD: a schema.org Dataset that is a DCAT dataset too, as catalogs and search engines read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpspark.bundle.files import MANIFEST
from dpspark.interop.deployment import Deployment

PARQUET = "application/vnd.apache.parquet"
CONTEXT = {
    "@vocab": "https://schema.org/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
}


def json_ld(deployment: Deployment) -> dict[str, Any]:
    """Describe a release. Addresses are names of its files: whoever publishes it knows where they will be."""
    return {
        "@context": CONTEXT,
        "@type": ["Dataset", "dcat:Dataset"],
        "name": f"{deployment.name} {deployment.version}",
        "description": f"{deployment.description} {deployment.guarantee}",
        "version": deployment.version,
        "datePublished": deployment.date,
        "dct:issued": deployment.date,
        "isAccessibleForFree": True,
        "keywords": ["differential privacy", deployment.variant],
        "measurementTechnique": deployment.mechanisms,
        "variableMeasured": [_variable(column) for column in deployment.columns],
        "additionalProperty": [
            *(_property(name, value) for name, value in deployment.parameters.items()),
            _property("privacy unit", deployment.unit),
            _property("adjacent data sets", deployment.adjacent),
        ],
        "dct:provenance": f"{deployment.preparation} {deployment.composition}",
        "distribution": [_file(name, PARQUET) for name in deployment.files] + [_file(MANIFEST, "application/json")],
    }


def _variable(column: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"@type": "PropertyValue", "name": str(column["name"])}
    if "categories" in column:
        return {**found, "description": f"one of {len(column['categories'])} categories"}
    return {**found, "minValue": column["lower"], "maxValue": column["upper"]}


def _property(name: str, value: object) -> dict[str, Any]:
    return {"@type": "PropertyValue", "name": name, "value": value}


def _file(name: str, encoding: str) -> dict[str, Any]:
    return {
        "@type": ["DataDownload", "dcat:Distribution"],
        "name": name,
        "contentUrl": name,
        "encodingFormat": encoding,
        "dcat:mediaType": encoding,
    }
