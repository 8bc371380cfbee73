"""A release as JSON-LD: a schema.org Dataset that is a DCAT dataset too, as catalogs and search engines read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpspark.bundle.files import MANIFEST
from dpspark.interop.deployment import Deployment

PARQUET = "application/vnd.apache.parquet"
MEDIA_TYPES = "https://www.iana.org/assignments/media-types/"
CONTEXT = {
    "@vocab": "https://schema.org/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def json_ld(deployment: Deployment) -> dict[str, Any]:
    """Describe a release. Addresses are names of its files: whoever publishes it knows where they will be.

    Catalogs of the one kind read schema.org's names, those of the other DCAT's: what both ask for is there twice.
    """
    title, about = f"{deployment.name} {deployment.version}", f"{deployment.description} {deployment.guarantee}"
    keywords = ["differential privacy", deployment.variant]
    files = [_file(name, PARQUET) for name in deployment.files] + [_file(MANIFEST, "application/json")]
    return {
        "@context": CONTEXT,
        "@type": ["Dataset", "dcat:Dataset"],
        "name": title,
        "dct:title": title,
        "description": about,
        "dct:description": about,
        "version": deployment.version,
        "dcat:version": deployment.version,
        "datePublished": deployment.date,
        "dct:issued": {"@type": "xsd:date", "@value": deployment.date},
        "keywords": keywords,
        "dcat:keyword": keywords,
        "measurementTechnique": deployment.mechanisms,
        "variableMeasured": [_variable(column) for column in deployment.columns],
        "additionalProperty": [
            *(_property(name, value) for name, value in deployment.parameters.items()),
            _property("privacy unit", deployment.unit),
            _property("adjacent data sets", deployment.adjacent),
        ],
        "dct:provenance": f"{deployment.preparation} {deployment.composition}",
        "distribution": files,
        "dcat:distribution": [{"@id": file["@id"]} for file in files],
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
        "@id": name,
        "@type": ["DataDownload", "dcat:Distribution"],
        "name": name,
        "dct:title": name,
        "contentUrl": name,
        "dcat:downloadURL": {"@id": name},
        "encodingFormat": encoding,
        "dcat:mediaType": {"@id": MEDIA_TYPES + encoding},
    }
