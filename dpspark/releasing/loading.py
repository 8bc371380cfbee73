"""The result tables of a release: checked before anything is charged, loaded once it is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpspark.bundle.table_address import TableAddress
from dpspark.errors import DpsparkError, OutputError
from dpspark.published.release import Release
from dpspark.show.progress import Note, NoteKind, Steps
from dpspark.spec.spec import Spec
from dpspark.warehouse.load import load_into, open_tables, refuse_forgetful, table_store


@dataclass(frozen=True)
class Loading:
    """Where a release goes beside its bundle, if anywhere. The bundle stays the truth: what is loaded is a copy."""

    address: TableAddress | None
    spark: Any  # the caller's session, or the URL of a server; None: whatever session there is

    @property
    def needs_spark(self) -> bool:
        return self.address is not None and self.address.needs_spark

    def check(self, spec: Spec, spark: Any, report: Steps) -> None:
        """Refuse tables that the release could not go into, and make those that are missing. `spark` is its session."""
        if self.address is None:
            return
        report("checking the tables")
        if self.needs_spark and (self.spark is None or isinstance(self.spark, str)):
            refuse_forgetful(self.address, spark)
        store = table_store(self.address, spark)
        store.prepare()
        store.check_free(spec.release.name, spec.release.version, None)

    def load(self, release: Release, report: Steps) -> Release:
        """Load what is published, unless it is there already: a run that was killed before is repaired by the next."""
        if self.address is None:
            return release
        report("loading tables")
        try:
            with open_tables(self.address, self.spark if self.needs_spark else None) as store:
                loaded = load_into(store, release)
        except DpsparkError as error:
            why = str(error).partition("\n")[0]
        else:
            if loaded.new:
                report.note(Note(NoteKind.LOADED, f"loaded into tables: {self.address}"))
            return release
        raise OutputError(
            f"{why}\nIt is published at {release.path}, and not in the tables: when that is mended, run the same release "
            "again, which charges nothing."
        )
