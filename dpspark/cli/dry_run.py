"""`dpspark release --dry-run`: what a release would do, and refuse, without data, Spark or a charge."""

from __future__ import annotations

import json

from dpspark.bundle.staging import check_place, check_would_write
from dpspark.bundle.storage import place_of
from dpspark.cli.conf_text import SourceWords, describe_source, facts, lines
from dpspark.ledger.ledger import Balance, Ledger, find_ledger_url
from dpspark.planning.foresight import foresee
from dpspark.privacy.noise import OpenDPNoise
from dpspark.releasing.earlier import check_same_place, drawn_before, published_before
from dpspark.releasing.opening import open_files, with_source
from dpspark.releasing.reservation import unknown_draw
from dpspark.spark.session import check_can_start
from dpspark.spec.charges import charged_events, protection
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec

RELEASE, AGAIN, PUBLISH, ADOPT, NOTHING = "release", "release again", "publish", "charge and publish", "nothing"
WOULD = {
    RELEASE: "read the source, charge the ledger, publish",
    AGAIN: "go on with an earlier run that was charged: read the source, charge nothing more, publish",
    PUBLISH: "publish what an earlier run drew: read nothing, charge nothing more",
    ADOPT: "publish what an earlier run drew on a charge that this ledger does not have: read nothing, charge it now",
    NOTHING: "nothing: it is published already",
}


def dry_run(spec: Spec, out: str | None, url: str | None, remote: str | None, as_json: bool) -> str:
    """Make the checks of a release in its own order, so that what it would refuse is refused here, with the same exit code."""
    spec = with_source(spec, None)
    mechanism = choose(spec)
    output = place_of(out if out is not None else spec.output.path)
    release = spec.release
    check_place(output, release.name, release.version)
    final = (output / release.name / release.version).absolute()
    ledger = Ledger(find_ledger_url(url, spec.ledger.url), create=False, dataset=spec.ledger.dataset)
    entry = ledger.find(spec.ledger.dataset, release.name, release.version)
    would, source = NOTHING, SourceWords("not needed", "nobody", True)
    if published_before(spec, entry, final) is None:
        check_would_write(output)
        would = RELEASE
        if entry is not None:
            check_same_place(entry, final)
            would = AGAIN if drawn_before(entry, output, final) is None else PUBLISH
        if would != PUBLISH and unknown_draw(spec, entry, ledger, output, final) is not None:
            would = ADOPT
    if would in (RELEASE, AGAIN):
        source = describe_source(spec, open_files(spec))
    if would in (RELEASE, AGAIN, ADOPT):
        run = charged_events(spec, mechanism), protection(spec)
        ledger.check(spec.ledger.dataset, release.name, release.version, spec.privacy.budget, *run)
    if would in (RELEASE, AGAIN):
        check_can_start(remote)
        OpenDPNoise()
    balance = next(iter(ledger.balances(spec.ledger.dataset)), None)
    charged = would in (RELEASE, ADOPT)
    foreseen = foresee(spec) if would == RELEASE else None
    if as_json:
        found = {"would": would, "charged": charged, "left": _left(balance), "path": str(final)}
        return json.dumps({**found, "foreseen": foreseen, **facts(spec, mechanism, source)}, ensure_ascii=False)
    cost = f"{spec.privacy.budget} to be charged to" if charged else "nothing more to be charged to"
    return "\n".join(
        [
            *lines(spec, mechanism, source),
            f"ledger     {cost} {spec.ledger.dataset}{_has_left(balance)}",
            f"output     {final}",
            *([] if foreseen is None else [f"foreseen   {foreseen}"]),
            f"would      {WOULD[would]}",
            "A dry run: no data was read, nothing was charged or written.",
        ]
    )


def _has_left(balance: Balance | None) -> str:
    if balance is None:
        return ""
    if balance.left_rho is not None:
        return f", which has left rho {float(balance.left_rho):.6g}"
    at = (
        f"at delta {float(balance.granted_delta):.6g}"
        if not balance.left_delta
        else f"delta {float(balance.left_delta):.6g}"
    )
    return f", which has left epsilon {float(balance.left_epsilon):.6g}, {at}"


def _left(balance: Balance | None) -> dict[str, float] | None:
    if balance is None:
        return None
    if balance.left_rho is not None:
        return {"rho": float(balance.left_rho)}
    return {"epsilon": float(balance.left_epsilon), "delta": float(balance.left_delta)}
