"""Bundles from strangers: read as values or refused, with one clear error; nothing is run, nothing outside is opened."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.bundle.schemas import SECOND_MOMENT_SCHEMA
from dpspark.errors import DpsparkError, OutputError
from dpspark.published.reading import read_release
from dpspark.verifying.verification import verify
from tests.commands import exit_code
from tests.kinds_of_release import published_kinds
from tests.manifests import REGRESSION, bundle_of, named


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return bundle_of(tmp_path / "releases", {})


def rewrite(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "name",
    [
        *("../second_moment.parquet", "../../outside.parquet", "/etc/passwd", "a/second_moment.parquet", ".", ""),
        *(
            "second_moment.parquet\0",
            "second_moment.parquet\n",
            "second_moment",
            "SECOND_MOMENT.parquet",
            "other.parquet",
        ),
        *("..\\second_moment.parquet", "second_moment.parquet/", "./second_moment.parquet", "second_mоment.parquet"),
    ],
)
def test_table_names_stay_in_the_directory(bundle: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills the mutant that joins names: tables that would fit lie outside."""
    table = pq.read_table(bundle / "second_moment.parquet")
    for outside in (bundle.parent / "second_moment.parquet", bundle.parent.parent / "outside.parquet"):
        pq.write_table(table, outside)

    def rename(manifest: dict[str, Any]) -> None:
        manifest["files"] = {name: manifest["files"]["second_moment.parquet"]}

    rewrite(bundle, rename)
    with pytest.raises(OutputError, match="damaged"):
        read_release(bundle)
    for command in (["regress", str(bundle), "income ~ age"], ["verify", str(bundle)], ["pca", str(bundle)]):
        assert exit_code(*command) == 4
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "7", '{"format": 1}', '{"format": 2}', "{" * 100_000, "[" * 100_000, '{"a":' * 5000,
        '{"format": 1, "x": NaN}', '{"format": 1, "x": Infinity}', '{"format": ' + "9" * 5000 + "}",
        '{"format": 1e999}', '{"format": true}', "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "\0",
    ],
)  # fmt: skip
def test_manifests_that_are_none(bundle: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / "manifest.json").write_text(text)
    for command in (["regress", str(bundle), "income ~ age"], ["verify", str(bundle)], ["covariance", str(bundle)]):
        assert exit_code(*command) == 4
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_manifests_that_are_too_long_or_no_file(bundle: Path) -> None:
    (bundle / "manifest.json").write_bytes(b" " * (1 << 26))
    assert exit_code("verify", str(bundle)) == 4
    (bundle / "manifest.json").unlink()
    os.mkfifo(bundle / "manifest.json")
    assert exit_code("verify", str(bundle)) == 4  # and does not wait for a writer


WILD = [None, True, "x", [], {}, -1, 0, 1e308, 10**400, 2**63, 1e-320, [[1]], {"a": 1}]


def key_paths(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Find the path to every key of a manifest, of whatever type its value is."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from key_paths(value, (*path, key))


def put(manifest: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Put a value into a manifest, in place."""
    here = manifest
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    return manifest


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("changes", "formula"),
    [
        ({}, "income ~ age"),
        (REGRESSION, None),
        ({**REGRESSION, **named("objective")}, None),
        (named("wishart"), "income ~ ."),
    ],
)
def test_anything_in_place_of_anything(tmp_path: Path, changes: dict[str, Any], formula: str | None) -> None:
    """One value of the manifest is replaced: it is refused, or the answer is another one. Nothing else happens."""
    folder = bundle_of(tmp_path, changes)
    text = (folder / "manifest.json").read_text()
    paths = [path for path in key_paths(json.loads(text)) if path[0] not in ("versions", "limitations", "created_at")]
    rng = np.random.default_rng(1)
    for path in paths:
        for value in [WILD[i] for i in rng.choice(len(WILD), 3, replace=False)]:
            (folder / "manifest.json").write_text(json.dumps(put(json.loads(text), path, value)))
            try:
                found = read_release(folder)
                fit = found.regress(formula)
                fit.summary(), fit.to_dict(), str(found.describe()), json.dumps(found.describe().to_dict())
                verify(folder)
            except DpsparkError:
                continue
            except Exception as error:  # say which, then fail
                raise AssertionError(f"{path} = {value!r}: {type(error).__name__}") from error


def damaged_manifests() -> dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]]:
    norm = {"mode": "cap", "radius": 1e308, "include_response": False}
    adassp = {**REGRESSION, **named("adassp")}
    return {
        "a norm whose square is no number": ({}, lambda manifest: manifest.update(row_norm=norm)),
        "an eigenvalue without its noise": (
            adassp,
            lambda manifest: manifest["mechanism"]["noise"].update(least_eigenvalue_std=None),
        ),
        "a matrix drawn without degrees of freedom": (
            named("wishart"),
            lambda manifest: manifest["mechanism"]["noise"].update(degrees=0),
        ),
        "a ridge for an eigenvalue that is not there": (
            {**REGRESSION, **named("gram_ridge")},
            lambda manifest: manifest["mechanism"]["ridge"].update(kind="missing"),
        ),
    }


@pytest.mark.parametrize("what", damaged_manifests())
def test_numbers_that_cannot_be_computed_with(tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails on 0.2.0: an OverflowError, an AssertionError or a ZeroDivisionError, when something was asked for."""
    changes, damage = damaged_manifests()[what]
    folder = bundle_of(tmp_path, changes)
    rewrite(folder, damage)
    with pytest.raises(OutputError, match="is damaged"):
        read_release(folder)
    for command in (["regress", str(folder), "income ~ age"], ["describe", str(folder)], ["verify", str(folder)]):
        assert exit_code(*command) == 4
        assert "is damaged" in capsys.readouterr().err


def test_more_degrees_of_freedom_than_a_machine_counts_to(tmp_path: Path) -> None:
    """Fails on 0.2.0: an OverflowError, because JSON has larger whole numbers than numpy."""
    folder = bundle_of(tmp_path, named("wishart"))
    rewrite(folder, lambda manifest: manifest["mechanism"]["noise"].update(degrees=2**63))
    assert read_release(folder).pca(1).summary()


def test_a_clip_that_is_no_number(tmp_path: Path) -> None:
    """Fails on 0.2.0: an OverflowError when the lines were shown."""
    kind = "lines by group, with interval"
    folder = published_kinds(tmp_path, [kind])[kind]
    rewrite(folder, lambda manifest: manifest["mechanism"].update(clip=10**400))
    with pytest.raises(OutputError, match="is damaged"):
        read_release(folder)


def test_a_damaged_group(tmp_path: Path) -> None:
    """Fails on 0.2.0: the tables of a group were first looked at when it was chosen, and a KeyError came of it."""
    folder = published_kinds(tmp_path, ["gram by group"])["gram by group"]
    table = pq.read_table(folder / "second_moment.parquet")
    terms = pa.array(["age"] * table.num_rows)
    pq.write_table(table.set_column(1, table.schema.field("row"), terms), folder / "second_moment.parquet")
    digest = hashlib.sha256((folder / "second_moment.parquet").read_bytes()).hexdigest()
    rewrite(folder, lambda manifest: manifest["files"]["second_moment.parquet"].update(sha256=digest))
    rewrite(folder, lambda manifest: manifest["columns"].pop())
    found = read_release(folder)
    with pytest.raises(OutputError, match="is damaged"):
        found.group(tract="a")


@pytest.mark.parametrize("kind", ["line with interval", "quantiles by group", "gram by group"])
def test_a_description_of_anything(tmp_path: Path, kind: str) -> None:
    """As above, of kinds that are shown as they were released. Fails on 0.2.0: lines without their table were a KeyError."""
    folder = published_kinds(tmp_path, [kind])[kind]
    text = (folder / "manifest.json").read_text()
    for path in [path for path in key_paths(json.loads(text)) if path[0] in ("spec", "release", "files", "nulls")]:
        for value in WILD:
            (folder / "manifest.json").write_text(json.dumps(put(json.loads(text), path, value)))
            try:
                found = read_release(folder)
                str(found.describe()), json.dumps(found.describe().to_dict())
                found.regress(level=0.5)
            except DpsparkError:
                continue


class Marker:
    """Pickled, it would leave a file behind where it is loaded."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def with_metadata(table: pa.Table, metadata: dict[bytes, bytes]) -> pa.Table:
    return table.set_column(2, pa.field("value", pa.float64(), metadata=metadata), table["value"])


def test_parquet_runs_nothing(bundle: Path, tmp_path: Path) -> None:
    """Extension types with a pickle in them, and pandas metadata that would rearrange the table."""
    path, marker = bundle / "second_moment.parquet", tmp_path / "ran"
    table = pq.read_table(path)
    extension = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Marker(marker)),
    }
    pandas = json.dumps({"index_columns": ["row", "value"], "columns": [], "pandas_version": "2.0.0", "creator": 7})
    for other in (with_metadata(table, extension), table.replace_schema_metadata({b"pandas": pandas.encode()})):
        pq.write_table(other, path)
        try:
            found = read_release(bundle)
        except OutputError:
            continue
        assert found.tables["second_moment"].schema.metadata is None
        assert found.second_moment().shape == (5, 5)
    assert not marker.exists()


def damaged_tables() -> dict[str, Any]:
    good = {"row": ["a"] * 25, "col": ["a"] * 25, "value": [0.0] * 25, "noise_std": [1.0] * 25}
    lists = pa.array([[1.0]] * 25)
    return {
        "missing column": pa.table({key: value for key, value in good.items() if key != "value"}),
        "one more": pa.table({**good, "more": [1] * 25}),
        "text for numbers": pa.table({**good, "value": ["1"] * 25}),
        "integers": pa.table({**good, "value": [1] * 25}),
        "nested": pa.table({**good, "value": lists}),
        "struct": pa.table({**good, "value": pa.array([{"a": 1}] * 25)}),
        "dictionary": pa.table({**good, "row": pa.array(["a"] * 25).dictionary_encode()}),
        "binary": pa.table({**good, "row": pa.array([b"\xff"] * 25)}),
        "twice the column": pa.Table.from_arrays(
            [pa.array(good["row"]), pa.array(good["row"]), *(pa.array(good[k]) for k in ("value", "noise_std"))],
            names=["row", "row", "value", "noise_std"],
        ),
        "no rows": pa.table(good, schema=SECOND_MOMENT_SCHEMA).slice(0, 0),
        "unknown terms": pa.table(good, schema=SECOND_MOMENT_SCHEMA),
        "nulls": pa.table({**good, "row": [None] * 25}, schema=SECOND_MOMENT_SCHEMA),
        "bytes": b"PAR1 and then nothing",
        "nothing": b"",
        "a footer": b"PAR1" + b"\xff" * 100 + b"\x10\x00\x00\x00PAR1",
    }


@pytest.mark.parametrize("what", damaged_tables())
def test_parquet_of_other_shapes(bundle: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    content = damaged_tables()[what]
    if isinstance(content, bytes):
        (bundle / "second_moment.parquet").write_bytes(content)
    else:
        pq.write_table(content, bundle / "second_moment.parquet")
    for command in (["regress", str(bundle), "income ~ age"], ["verify", str(bundle)]):
        assert exit_code(*command) == 4
        assert "is damaged" in capsys.readouterr().err


def test_a_table_that_is_no_file(bundle: Path) -> None:
    (bundle / "second_moment.parquet").unlink()
    assert exit_code("verify", str(bundle)) == 4
    os.mkfifo(bundle / "second_moment.parquet")
    assert exit_code("regress", str(bundle), "income ~ age") == 4  # and does not wait for a writer


def test_numbers_that_are_none(bundle: Path) -> None:
    """NaN and infinity in the matrix itself: no answer, and no other error."""
    table = pq.read_table(bundle / "scaled.parquet")
    for value in (np.nan, np.inf, -np.inf, 1e308):
        values = table["value"].to_numpy().copy()
        values[6] = value
        pq.write_table(table.set_column(2, "value", pa.array(values)), bundle / "scaled.parquet")
        assert exit_code("regress", str(bundle), "income ~ age") in (0, 2, 4)
