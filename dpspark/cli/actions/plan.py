"""`dpspark plan`: what a release will be like, or which budget reaches an accuracy."""

from __future__ import annotations

import json
from typing import Any

from dpspark.analysis.remarks import USUAL_LEVEL
from dpspark.errors import ConfError
from dpspark.planning import plan
from dpspark.planning.options import USUAL_BETA, check_target_guess, check_target_options
from dpspark.planning.setting import settle
from dpspark.planning.target import Target, reach
from dpspark.spec.spec import Spec, load_spec


def plan_conf(
    conf: str,
    overrides: tuple[str, ...],
    regress: tuple[str, ...],
    guess: str | None,
    rows: int | None,
    target: str | None,
    beta: float | None,
    level: float | None,
    picture: str | None,
    url: str | None,
    as_json: bool,
) -> str:
    spec = load_spec(conf, overrides)
    if target is not None:
        if picture is not None:
            raise ConfError("--plot goes without --target.")
        asked = Target.parse(target)
        check_target_options(spec, asked, regress, beta, level, url)
        found: Any = _reached(spec, asked, regress, guess, rows, USUAL_BETA if beta is None else beta)
    else:
        found = plan(spec, regress, guess, rows, beta, level, url)
        if picture is not None:
            found.plot(picture)
    return json.dumps(found.to_dict(), ensure_ascii=False) if as_json else str(found)


def _reached(
    spec: Spec, target: Target, regress: tuple[str, ...], guess: str | None, rows: int | None, beta: float
) -> Any:
    if spec.release.kind in ("theil_sen", "quantiles"):
        from dpspark.planning.lines import reach_lines

        return reach_lines(spec, target, guess, rows, beta)
    setting = settle(spec, regress, guess, rows, beta, USUAL_LEVEL)
    check_target_guess(setting, target, guess, rows)
    return reach(setting, target)
