"""Saved estimators and models, alone or in a Pipeline. Spark writes them: any of its file systems will do.

A model is saved with its release: the very files that were published, which are checked again when it is loaded.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter

from dpspark.analysis.content.opening import read_content
from dpspark.bundle.files import MANIFEST, SUCCESS, manifest_digest
from dpspark.bundle.storage import place_of
from dpspark.errors import OutputError
from dpspark.published.reading import as_release
from dpspark.published.release import Release

FILE_NAME = re.compile(r"\w[\w.-]*")
SCHEMA = "name string, content binary"


class StageWriter(MLWriter):
    """A writer of an estimator or a model."""

    def __init__(self, stage: Any):
        super().__init__()
        self.stage = stage

    def save(self, path: str) -> None:
        """Write with DataFrames alone, so that Spark Connect works too."""
        spark, mode = self.sparkSession, "overwrite" if self.shouldOverwrite else "error"
        # pyspark's writer asks this argument for its version alone.
        text = DefaultParamsWriter._get_metadata_to_save(self.stage, spark, self.stage._more_metadata())
        spark.createDataFrame([(text,)], "value string").coalesce(1).write.mode(mode).text(f"{path}/metadata")
        files = self.stage._files()
        if files:  # their digest is in the metadata
            rows = [(name, bytearray(content)) for name, content in files.items()]
            spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode(mode).parquet(f"{path}/release")


class StageReader(MLReader):
    """A reader of an estimator or a model."""

    def __init__(self, kind: Any):
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Any:
        spark = self.sparkSession
        metadata = json.loads(spark.read.text(f"{path}/metadata").first()[0])
        expected = f"{self.kind.__module__}.{self.kind.__name__}"
        if metadata.get("class") != expected:
            raise OutputError(f"{path!r} holds a {metadata.get('class')}; expected {expected}.")
        stage = self.kind._load(metadata, lambda: self._files(path))
        stage._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(stage, metadata)
        return stage

    def _files(self, path: str) -> dict[str, bytes]:
        rows = self.sparkSession.read.schema(SCHEMA).parquet(f"{path}/release").collect()
        return {row["name"] or "": bytes(row["content"] or b"") for row in rows}


class Saved(MLWritable, MLReadable):
    """A base of both estimators and models: how they are saved."""

    def write(self) -> StageWriter:
        return StageWriter(self)

    @classmethod
    def read(cls) -> StageReader:
        return StageReader(cls)

    def _more_metadata(self) -> dict[str, Any]:
        return {}

    def _files(self) -> dict[str, bytes]:
        return {}


def read_files(release: Release) -> dict[str, bytes]:
    """Read a published release, file by file."""
    return {name: (release.path / name).read_bytes() for name in (MANIFEST, *release.manifest["files"])}


def hash_files(files: dict[str, bytes]) -> str:
    """Hash all files, with their names."""
    each = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()


def rebuild_release(files: dict[str, bytes], digest: str | None, place: str) -> Release:
    """Read the release again, checked as any other; if it is still at `place`, it must be that one."""
    if not all(FILE_NAME.fullmatch(name) for name in files):
        raise OutputError("the saved model is damaged: the names of its files are not those of a release.")
    if hash_files(files) != digest:
        raise OutputError("the saved model is damaged: its files are not those that were saved.")
    published = place_of(place)
    there = None
    with suppress(OSError, OutputError):  # out of reach
        there = manifest_digest(published)
    if there not in (None, hashlib.sha256(files.get(MANIFEST, b"")).hexdigest()):
        raise OutputError(
            f"the saved model is not of the release at {place!r}: their {MANIFEST} differ.\n"
            "Fit again to get that release; if another one was put there, move it."
        )
    with tempfile.TemporaryDirectory(prefix="dpspark-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        (Path(folder) / SUCCESS).touch()
        found = read_content(folder)
    found.path = published
    return as_release(found)
