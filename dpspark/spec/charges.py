"""What a release is charged with: the events that its extras and its mechanism run, from the calibrated mechanism itself.

Never less than what is run. Groups are parallel: a record is in one of them. Where it may move between two, sensitivities
that cover both, and the samplers' distances in all groups that can change, are in the mechanism already; what is drawn in
each group apart counts twice in its events.
"""

from __future__ import annotations

from dpspark.core.protection import Protection
from dpspark.privacy.events import Event
from dpspark.spec.choose import Mechanism
from dpspark.spec.extras import extras_of
from dpspark.spec.spec import Spec


def charged_events(spec: Spec, mechanism: Mechanism) -> tuple[Event, ...]:
    """List the events of the whole release, its extras first."""
    return (*(event for extra in extras_of(spec, mechanism) for event in extra.events), *mechanism.events())


def protection(spec: Spec) -> Protection:
    """Whom the release protects. Columns that stay fixed are used only where they keep every group's records in it."""
    by, privacy = spec.release.group_by, spec.privacy
    uses_fixed = privacy.neighbours == "replace_one" and by is not None and not spec.records.moves
    return Protection(privacy.neighbours, privacy.protected, tuple(sorted(by or ())) if uses_fixed else ())
