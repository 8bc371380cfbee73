"""Sends events to OpenLineage from a thread of its own: what is slow or dead there does not hold up a release."""

from __future__ import annotations

import os
import queue
import threading
from typing import TYPE_CHECKING, Any

from dpspark.show.logs import info
from dpspark.version import __version__

if TYPE_CHECKING:
    from dpspark.releasing.lineage import Dataset, RunFacts

PRODUCER = f"urn:dpspark:{__version__}"
LONGEST = 3.0  # seconds that a release waits at its end for the last events
NAMESPACE = "default"  # of jobs, where OPENLINEAGE_NAMESPACE says nothing else


class Sender:
    """A queue, and a thread that makes events of it. The thread ends with the process, whatever it waits for."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[RunFacts | None] = queue.SimpleQueue()
        self._failed = False
        self._thread = threading.Thread(target=self._work, name="dpspark lineage", daemon=True)
        self._thread.start()

    def send(self, facts: RunFacts) -> None:
        self._waiting.put(facts)

    def finish(self) -> bool:
        """Wait a little for what is to be sent; tell whether all of it was."""
        self._waiting.put(None)
        self._thread.join(LONGEST)
        return not self._failed and not self._thread.is_alive()

    def _work(self) -> None:
        try:
            from openlineage.client.uuid import generate_new_uuid

            client, run = _open_client(), str(generate_new_uuid())
        except ImportError:
            self._fail("openlineage-python is not installed: pip install 'dpspark[lineage]'")
            return
        except Exception as error:
            self._fail(f"its settings cannot be used ({type(error).__name__})")
            return
        while (facts := self._waiting.get()) is not None:
            try:
                client.emit(event_of(facts, run))
            except Exception as error:  # its text may have the address, with a key in it
                self._fail(f"{facts.state} was not sent ({type(error).__name__})")
        try:
            client.close(timeout=LONGEST)
        except Exception as error:
            self._fail(f"its transport was not closed ({type(error).__name__})")

    def _fail(self, why: str) -> None:
        self._failed = True
        info("lineage: %s", why)


def _open_client() -> Any:
    """Make the client. It writes its settings, with their key, into the environment under other names: they go again."""
    from openlineage.client import OpenLineageClient

    before = set(os.environ)
    try:
        return OpenLineageClient()
    finally:
        for name in [name for name in os.environ if name.startswith("OPENLINEAGE__") and name not in before]:
            del os.environ[name]


def event_of(facts: RunFacts, run: str) -> Any:
    """Make the event that OpenLineage's client sends."""
    from openlineage.client import event_v2 as events
    from openlineage.client.generated.base import RunFacet
    from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
    from openlineage.client.generated.job_type_job import JobTypeJobFacet

    run_facets: dict[str, Any] = {
        "dpspark_privacy": RunFacet(producer=PRODUCER).with_additional_properties(**facts.privacy)
    }
    if facts.error is not None:
        run_facets["errorMessage"] = ErrorMessageRunFacet(facts.error, "Python", producer=PRODUCER)
    job_facets: dict[str, Any] = {"jobType": JobTypeJobFacet("BATCH", "DPSPARK", "RELEASE", producer=PRODUCER)}
    namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or NAMESPACE
    return events.RunEvent(
        eventTime=facts.time,
        eventType=events.RunState(facts.state),
        producer=PRODUCER,
        run=events.Run(runId=run, facets=run_facets),
        job=events.Job(namespace=namespace, name=facts.release, facets=job_facets),
        inputs=[events.InputDataset(one.namespace, one.name, facets=_facets(one)) for one in facts.inputs],
        outputs=[events.OutputDataset(one.namespace, one.name, facets=_facets(one)) for one in facts.outputs],
    )


def _facets(dataset: Dataset) -> dict[str, Any]:
    from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
    from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields

    found: dict[str, Any] = {}
    if dataset.columns:
        fields = [SchemaDatasetFacetFields(name=name, type=kind) for name, kind in dataset.columns]
        found["schema"] = SchemaDatasetFacet(fields, producer=PRODUCER)
    if dataset.version is not None:
        found["version"] = DatasetVersionDatasetFacet(dataset.version, producer=PRODUCER)
    return found
