"""Is a release what it says? Files against hashes, the guarantee from its own numbers, the ledger, the signature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pyarrow import ArrowException

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.opening import read_content
from dpspark.bundle.files import MANIFEST, SIGNATURE, SUCCESS, file_digest
from dpspark.bundle.signing import Key, check_signature, read_signature
from dpspark.bundle.storage import Place, same_place
from dpspark.core.facts import Garbled
from dpspark.errors import DpsparkError
from dpspark.ledger.ledger import Entry, Ledger
from dpspark.pooling.pool import PARTS
from dpspark.spec.functions import COMMENT
from dpspark.spec.spec import hash_of
from dpspark.verifying.certificate import ARITHMETIC, Certificate, recompute
from dpspark.verifying.layout import problems
from dpspark.verifying.pools import check_pool
from dpspark.verifying.tables import noise_fits

Result = Literal["ok", "failed", "not checked", "not judged"]


JUDGED = {
    "files": "judged by the files: one row of them",
    "plan": "judged by Spark's plan: one row of the source",
    "statement": "by the operator's statement: source.rows_per_record",
}
BEFORE_JUDGES = ("0.1", "0.2")  # versions that judged nothing
NOT_JUDGED = (
    "version 0.2 did not look into tables, views, queries and DataFrames: a filter or a window in one, which nobody can see "
    "from here, would make the guarantee false. docs/security.md says what to do"
)


@dataclass(frozen=True)
class Check:
    name: str
    result: Result
    detail: str


@dataclass(frozen=True)
class Verification:
    """The checks of one release, and what could not be checked."""

    path: Place
    manifest: dict[str, Any]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.result != "failed" for check in self.checks)


def verify(path: str | Place, ledger_url: str | None = None, key: Key | None = None) -> Verification:
    """Check a published release by itself, against a ledger and against a signature, where they are given."""
    release = read_content(path, as_published=False)
    if release.manifest.get("pool") is not None:
        return _verify_pool(release, ledger_url, key)
    checks = [
        *check_files(release.path, release.manifest),
        _record(release.manifest),
        *_guarantee(release.manifest),
        *_tables(release),
        _noise_of_tables(release),
        _ledger(release, ledger_url),
        _signature(release.path, key),
    ]
    return Verification(release.path, release.manifest, tuple(checks))


def _verify_pool(release: Content, ledger_url: str | None, key: Key | None) -> Verification:
    """Check a pool: its parts, by the ledger too where one is given, and all that follows from them."""

    def failures(place: Place) -> list[str]:
        found = verify(place, ledger_url).checks
        return [f"{check.name}: {check.detail}" for check in found if check.result == "failed"]

    charged = "its parts are in it" if ledger_url else "none was given: --url, or DPSPARK_LEDGER"
    found = [Check(*each) for each in check_pool(release, failures)]
    good = ledger_url is not None and all(check.result == "ok" for check in found)
    checks = [
        *check_files(release.path, release.manifest, PARTS),
        *found,
        Check("ledger", "ok" if good else "not checked", f"a pool is charged nothing; {charged}"),
        _signature(release.path, key),
    ]
    return Verification(release.path, release.manifest, tuple(checks))


def check_files(folder: Place, manifest: dict[str, Any], *others: str) -> Iterator[Check]:
    """Check that every table is the one that was hashed, and that there is nothing else but what is checked elsewhere."""
    changed, expected = [], {MANIFEST, SUCCESS, SIGNATURE, *others}
    for name in manifest["files"]:
        expected.add(name)
        if file_digest(folder / name) != manifest["files"][name].get("sha256"):
            changed.append(name)
    unknown = sorted(path.name for path in folder.iterdir() if path.name not in expected)
    if changed:
        yield Check("files", "failed", f"changed since they were published: {', '.join(changed)}")
    elif unknown:
        yield Check("files", "failed", f"not of this release: {', '.join(map(repr, unknown[:5]))}")
    else:
        yield Check("files", "ok", f"as published: {', '.join(manifest['files'])}")
    # Nothing in the bundle vouches for the manifest but a signature: this is for comparing by eye.
    yield Check("manifest", "ok", f"sha256 {file_digest(folder / MANIFEST)}")


def _record(manifest: dict[str, Any]) -> Check:
    """Say who judged that a row of the source is one record. Before 0.3 nobody asked Spark."""
    by, source = manifest["privacy"].get("judged_by"), manifest["spec"].get("source")
    if by is not None:
        known = isinstance(by, str) and by in JUDGED
        return Check("record", "ok" if known else "failed", JUDGED[by] if known else "judged by nobody that is known")
    if not str(manifest.get("versions", {}).get("dpspark")).startswith(BEFORE_JUDGES):
        return Check("record", "failed", "privacy.judged_by is missing")
    columns = manifest["spec"].get("columns")
    found = (
        [column.get("expr") for column in columns.values() if isinstance(column, dict)]
        if isinstance(columns, dict)
        else []
    )
    sql = " ".join(str(each) for each in [manifest["spec"].get("where"), *found])
    if isinstance(source, dict) and source.get("parquet") and not COMMENT.search(sql):
        return Check("record", "ok", "a row of the files (made before Spark's plans were judged)")
    stated = isinstance(source, dict) and source.get("rows_per_record") is not None
    if stated:
        return Check("record", "ok", JUDGED["statement"])
    return Check("record", "not judged", NOT_JUDGED)


def _guarantee(manifest: dict[str, Any]) -> Iterator[Check]:
    stated = manifest["spec_hash"]
    if hash_of(manifest["spec"]) != stated:
        yield Check("spec", "failed", "its hash is not that of the spec in the manifest")
    else:
        yield Check("spec", "ok", f"hash {stated}")
    try:
        found = list(_of_certificate(recompute(manifest)))
    except Garbled as error:
        found = [Check("guarantee", "failed", f"cannot be recomputed: {error}")]
    except ARITHMETIC:
        found = [Check("guarantee", "failed", "cannot be recomputed: a number is beyond what can be computed with")]
    yield from found


def _of_certificate(certificate: Certificate) -> Iterator[Check]:
    if certificate.problems:
        yield Check("certificate", "failed", "; ".join(certificate.problems))
    for part in certificate.parts:
        of = "" if len(certificate.parts) == 1 else f" of {part.name}"
        if part.differs:
            yield Check(f"numbers{of}", "failed", f"not as recomputed: {'; '.join(part.differs)}")
        else:
            yield Check(f"sensitivity{of}", "ok", f"{part.sensitivity:.6g} ({part.norm}), from the bounds")
        notes = "".join(f"; {note}" for note in part.notes)
        detail = f"{part.cost.shown(part.claimed)} from the scales, {part.claimed} claimed{notes}"
        yield Check(f"guarantee{of}", "ok" if part.holds else "failed", detail)
    if len(certificate.parts) > 1:
        yield Check(
            "guarantee", "ok" if certificate.holds else "failed", f"all parts together: {certificate.claimed} claimed"
        )


def _tables(release: Content) -> Iterator[Check]:
    """Check that the rows are those that were asked for, of the groups that were listed, and that their numbers agree."""
    try:
        wrong = problems(release)
    except (*ARITHMETIC, ArrowException):
        wrong = ["they cannot be compared with the spec"]
    groups = release.manifest["spec"]["release"].get("groups")
    of = f", for each of {groups['count']:,} listed groups" if groups and not wrong else ""
    yield Check(
        "tables", "failed" if wrong else "ok", "; ".join(wrong) or f"every row that the spec asks for, once{of}"
    )


def _noise_of_tables(release: Content) -> Check:
    """Check the standard deviations that analysts go by."""
    try:
        fits = noise_fits(release) if _counts_as_told(release) else False
    except ARITHMETIC:
        fits = False
    if fits is None:
        return Check("noise in tables", "not checked", "these tables have no standard deviations of noise")
    return Check("noise in tables", "ok" if fits else "failed", f"noise_std is {'' if fits else 'not '}the manifest's")


def _counts_as_told(release: Content) -> bool:
    """Check that a number of rows beside a matrix is the matrix's own first entry, unless an extra was paid for it."""
    told, paid = release.manifest.get("monitoring"), release.manifest["privacy"]["spending"]
    table = release.tables.get("second_moment", release.tables.get("statistics"))
    if told is None or table is None or any(part["stage"] == "count" for part in paid):
        return True
    return told == {"rows": round(table["value"][0].as_py()), "noise_std": table["noise_std"][0].as_py()}


def _ledger(release: Content, url: str | None) -> Check:
    if not url:
        return Check("ledger", "not checked", "none was given: --url, or DPSPARK_LEDGER")
    of, named = release.manifest["ledger"], release.manifest["release"]
    try:
        ledger = Ledger(url, create=False)
        ledger.verify()  # a ledger that somebody changed vouches for nothing
        entry = ledger.find(of["dataset"], named["name"], named["version"])
    except DpsparkError as error:
        return Check("ledger", "failed", str(error).splitlines()[0])
    if entry is None:
        return Check("ledger", "failed", f"has no release {named['name']} {named['version']} of {of['dataset']}")
    wrong = list(_unlike_entry(release.manifest, file_digest(release.path / MANIFEST), entry))
    if wrong:
        return Check("ledger", "failed", f"has another {', '.join(wrong)}")
    here = same_place(release.path, entry.path)
    return Check("ledger", "ok", f"committed, {entry.budget}" + ("" if here else f"; this is a copy of {entry.path}"))


def _unlike_entry(manifest: dict[str, Any], manifest_sha256: str, entry: Entry) -> Iterator[str]:
    privacy = manifest["privacy"]
    if entry.id != manifest["ledger"]["id"]:
        yield "id"
    if entry.spec_hash != manifest["spec_hash"]:
        yield "spec hash"
    charged = entry.budget
    if (charged.epsilon, charged.delta or 0.0, charged.rho) != (
        privacy["epsilon"],
        privacy["delta"] or 0.0,
        privacy["rho"],
    ):
        yield "budget"
    digest = getattr(entry, "manifest_sha256", None)  # of ledgers that keep it
    if digest is not None and digest != manifest_sha256:
        yield "manifest"
    if entry.state != "committed":
        yield f"state ({entry.state})"


def _signature(folder: Place, key: Key | None) -> Check:
    found = read_signature(folder)
    if key is None:
        signed = f"there is one ({found.shown}); give --key to check it" if found else "there is none"
        return Check("signature", "not checked", signed)
    if found is None:
        return Check("signature", "failed", f"there is none: no {SIGNATURE} in the release")
    problem = check_signature(folder, found, key)
    return Check("signature", "failed" if problem else "ok", problem or f"{found.shown}, over {MANIFEST} as it is")
