"""`dpspark plan`: what a release will be like, or which budget reaches an accuracy."""

from __future__ import annotations

import json
from typing import Any

from dpspark.errors import ConfError
from dpspark.planning import plan
from dpspark.planning.setting import settle
from dpspark.planning.target import Target, reach
from dpspark.spec import Spec, load_spec


def plan_conf(
    conf: str,
    overrides: tuple[str, ...],
    regress: tuple[str, ...],
    guess: str | None,
    rows: int | None,
    target: str | None,
    beta: float,
    level: float,
    picture: str | None,
    url: str | None,
    as_json: bool,
) -> str:
    spec = load_spec(conf, overrides)
    if target is not None:
        if picture is not None:
            raise ConfError("--plot goes without --target.")
        found: Any = _reached(spec, Target.parse(target), regress, guess, rows, beta, level)
    else:
        found = plan(spec, regress, guess, rows, beta, level, url)
        if picture is not None:
            found.plot(picture)
    return json.dumps(found.to_dict(), ensure_ascii=False) if as_json else str(found)


def _reached(
    spec: Spec, target: Target, regress: tuple[str, ...], guess: str | None, rows: int | None, beta: float, level: float
) -> Any:
    if spec.release.kind in ("theil_sen", "quantiles"):
        from dpspark.planning.lines import reach_lines

        return reach_lines(spec, target, guess, rows, beta)
    return reach(settle(spec, regress, guess, rows, beta, level), target)
