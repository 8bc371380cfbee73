"""`dpspark plan`: what the noise will be, or which budget reaches an accuracy."""

from __future__ import annotations

import json

from dpspark.errors import ConfError
from dpspark.planning import plan
from dpspark.spec import load_spec
from dpspark.zelig import get_parameters


def plan_conf(
    conf: str, overrides: tuple[str, ...], target: float | None, entry: str | None, beta: float, as_json: bool
) -> str:
    spec = load_spec(conf, overrides)
    if target is None:
        if entry is not None:
            raise ConfError("--entry goes with --target.")
        found = plan(spec)
        return json.dumps(found.to_dict(), ensure_ascii=False) if as_json else found.summary()
    budget = get_parameters(spec, target, beta, _pair(entry))
    if as_json:
        return json.dumps(
            {"target": target, "beta": beta, **{k: v for k, v in budget.__dict__.items() if v is not None}}
        )
    what = f"the entry {entry}" if entry else "an off-diagonal entry of the scaled matrix"
    return f"{budget}: {what} within {target:g} with probability {1 - beta:g}"


def _pair(entry: str | None) -> tuple[str, str] | None:
    if entry is None:
        return None
    first, comma, second = entry.partition(",")
    if not comma:
        raise ConfError(f"--entry {entry!r}; expected two terms and a comma, e.g. age,income.")
    return first.strip(), second.strip()
