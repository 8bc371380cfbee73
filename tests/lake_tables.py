"""Lake tables for tests: what deltalake and pyiceberg do not write themselves is written here by hand, as the formats say."""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(content: bytes) -> str:
    """Encode bytes as Delta does in its log."""
    content += b"\0" * (-len(content) % 4)
    text = ""
    for at in range(0, len(content), 4):
        value, digits = int.from_bytes(content[at : at + 4], "big"), ""
        for _ in range(5):
            value, digit = divmod(value, 85)
            digits = Z85[digit] + digits
        text += digits
    return text


def roaring(positions: Sequence[int]) -> bytes:
    """Write positions as a 64-bit roaring bitmap: one 32-bit bitmap, as no file here has more rows."""
    return struct.pack("<qi", 1, 0) + BitMap(positions).serialize()


def delta_vector(directory: Path, storage: str, positions: Sequence[int]) -> dict[str, Any]:
    """Write a deletion vector: inline (i), beside the data under a UUID (u), or at an absolute path (p)."""
    content = struct.pack("<i", 1681511377) + roaring(positions)
    found = {"storageType": storage, "sizeInBytes": len(content), "cardinality": len(positions)}
    if storage == "i":
        return {**found, "pathOrInlineDv": z85(content)}
    name = uuid.uuid4()
    place = directory / "ab" / f"deletion_vector_{name}.bin"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"\1" + struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content)))
    path = f"ab{z85(name.bytes)}" if storage == "u" else place.as_uri()
    return {**found, "pathOrInlineDv": path, "offset": 1}


def delta_field(name: str, kind: str, number: int | None = None, physical: str | None = None) -> dict[str, Any]:
    mapping = {} if number is None else {f"{MAPPING}.id": number, f"{MAPPING}.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapping}


MAPPING = "delta.columnMapping"


def delta_add(path: str, rows: int, values: Mapping[str, str | None] | None = None, **more: Any) -> dict[str, Any]:
    """Write the log's entry of a file."""
    stats = json.dumps({"numRecords": rows})
    entry = {"path": path, "partitionValues": dict(values or {}), "size": 1, "modificationTime": 1, "dataChange": True}
    return {"add": {**entry, "stats": stats, **more}}


def write_delta(
    directory: Path,
    fields: Sequence[Mapping[str, Any]],
    actions: Sequence[Mapping[str, Any]],
    features: Sequence[str] = (),
    partitions: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
) -> Path:
    """Write the log of a Delta table of one version."""
    log = directory / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    protocol: dict[str, Any] = {"minReaderVersion": 3 if features else 1, "minWriterVersion": 7 if features else 2}
    if features:
        protocol |= {"readerFeatures": list(features), "writerFeatures": list(features)}
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
        "partitionColumns": list(partitions),
        "configuration": dict(configuration or {}),
        "createdTime": 1,
    }
    lines = [{"protocol": protocol}, {"metaData": metadata}, *actions]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))
    return directory


def iceberg_catalog(monkeypatch: Any, home: Path, name: str = "lake") -> Any:
    """Make a catalog in SQLite that pyiceberg finds by its settings in the environment, with a schema `db`."""
    from pyiceberg import catalog
    from pyiceberg.utils.config import Config

    home.mkdir(exist_ok=True)
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__URI", f"sqlite:///{home / 'catalog.db'}")
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__WAREHOUSE", home.as_uri())
    monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())  # which is read when pyiceberg is imported
    made = catalog.load_catalog(name)
    made.create_namespace("db")
    return made


def position_deletes(table: Any, positions: Mapping[str, Sequence[int]]) -> Any:
    """Write a file of positional deletes; give its entry for a manifest."""
    paths = [path for path, here in positions.items() for _ in here]
    numbers = [number for here in positions.values() for number in here]
    place = f"{table.location()}/data/deletes-{uuid.uuid4()}.parquet"
    content = pa.table({"file_path": paths, "pos": pa.array(numbers, pa.int64())})
    pq.write_table(content, place.removeprefix("file://"))
    return _delete_file(place, "PARQUET", len(numbers))


def puffin_deletes(table: Any, positions: Mapping[str, Sequence[int]]) -> Any:
    """Write deletion vectors into a Puffin file; give its entry for a manifest."""
    content, blobs = b"PFA1", []
    for path, here in positions.items():
        vector = bytes.fromhex("d1d33964") + roaring(here)
        blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        stated = {"referenced-data-file": path, "cardinality": str(len(here))}
        facts = {"type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1}
        blobs.append({**facts, "offset": len(content), "length": len(blob), "properties": stated})
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    content += b"PFA1" + footer + struct.pack("<i", len(footer)) + b"\0\0\0\0" + b"PFA1"
    place = f"{table.location()}/data/deletes-{uuid.uuid4()}.puffin"
    Path(place.removeprefix("file://")).write_bytes(content)
    return _delete_file(place, "PUFFIN", sum(map(len, positions.values())))


def _delete_file(place: str, kind: str, rows: int, content: int = 1) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    return DataFile.from_args(
        content=DataFileContent(content),
        file_path=place,
        file_format=FileFormat(kind),
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=1,
        equality_ids=[1] if content == 2 else None,
    )


def equality_deletes(table: Any) -> Any:
    return _delete_file(f"{table.location()}/data/deletes.parquet", "PARQUET", 1, content=2)


def commit_iceberg(table: Any, files: Sequence[Any], deletes: bool = True) -> int:
    """Commit a snapshot that adds delete files (or data files) to the newest one: pyiceberg itself does not write deletes."""
    from pyiceberg.manifest import (
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
        write_manifest_list,
    )
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    class DeletesWriter(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    number, sequence = uuid.uuid4().int >> 66, table.metadata.last_sequence_number + 1
    before = table.current_snapshot()
    place = f"{table.location()}/metadata/{number}"
    manifest = table.io.new_output(f"{place}-m0.avro")
    kind = DeletesWriter if deletes else ManifestWriterV2
    with kind(table.spec(), table.schema(), manifest, number, "null") as writer:
        for file in files:
            writer.add_entry(
                ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file)
            )
    earlier = [] if before is None else before.manifests(table.io)
    parent = None if before is None else before.snapshot_id
    listed = table.io.new_output(f"{place}-list.avro")
    with write_manifest_list(2, listed, number, parent, sequence, "null") as manifests:
        manifests.add_manifests([writer.to_manifest_file(), *earlier])
    made = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=sequence,
        timestamp_ms=int(time.time() * 1000),
        manifest_list=listed.location,
        summary=Summary(Operation.OVERWRITE),
        schema_id=table.schema().schema_id,
    )
    reference = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number)
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=made), reference))
    table.refresh()
    return number
