"""`dpspark audit`: what the attacks found."""

from __future__ import annotations

import json
from collections.abc import Callable

from dpspark.audit.run import chosen, jobs_of, run_jobs
from dpspark.audit.show import closing, table, to_dict


def run_audit(name: str | None, trials: int, as_json: bool, report: Callable[[str], None]) -> tuple[str, bool]:
    """What to print, and whether everything held."""
    findings = run_jobs(jobs_of(chosen(name)), trials, report)
    held = not any(finding.broken for finding in findings)
    if as_json:
        return json.dumps(to_dict(findings), ensure_ascii=False), held
    return f"{table(findings)}\n\n{closing(findings)}", held
