"""Which options a plan takes, by what is planned: what does not apply is refused with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpspark.analysis.options import check_level
from dpspark.errors import ConfError
from dpspark.spec.choose import choose_lines
from dpspark.spec.spec import Spec

if TYPE_CHECKING:
    from dpspark.planning.setting import Setting
    from dpspark.planning.target import Target

USUAL_BETA = 0.05
SIMULATED = ("theil_sen", "quantiles")


def check_plan_options(spec: Spec, regress: Any, beta: float | None, level: float | None) -> None:
    """Refuse options that a plan without a target does not take."""
    kind = spec.release.kind
    if level is not None:
        check_level(level)
        if kind in SIMULATED:
            raise ConfError(
                f"level={level:g}: the plan of a conf of kind {kind} has typical errors, no level. Leave it out."
            )
        if kind == "gram" and not regress:
            raise ConfError(
                f"level={level:g} is of regressions: add --regress 'RESPONSE ~ REGRESSORS', or leave it out."
            )
    if beta is None or kind in ("gram", "quantiles"):
        return
    if kind == "theil_sen" and choose_lines(spec).rank_share(1.0, beta) is not None:
        return
    raise ConfError(
        f"beta={beta:g}: the plan of this conf, of kind {kind}, states no error with a probability. Leave it out."
    )


def check_target_options(
    spec: Spec, target: Target, regress: Any, beta: float | None, level: float | None, url: str | None
) -> None:
    """Refuse options that a plan for a target does not take."""
    from dpspark.planning.target import PROBABLE

    if level is not None:
        check_level(level)
        raise ConfError(f"--level {level:g}: a target is an error, whatever the level of intervals. Leave it out.")
    if url is not None:
        raise ConfError(
            "--url: a target is a budget to be granted; what the ledger has left does not matter. Leave it out."
        )
    if beta is not None and target.kind not in PROBABLE:
        raise ConfError(
            f"--beta {beta:g}: a target of {target.kind} is a typical error, without a probability. Leave it out."
        )
    if regress and spec.release.kind in SIMULATED:
        raise ConfError(f"--regress is for kind gram; this conf is of kind {spec.release.kind}.")
    if regress and spec.release.kind == "gram" and target.kind != "se":
        raise ConfError(
            f"--regress goes with --target se:TERM=VALUE; this target, {target.kind}, is of the whole matrix."
        )


def check_target_guess(setting: Setting, target: Target, guess: Any, rows: int | None) -> None:
    """Noise that is added to a matrix is the same whatever the data: what they are like does not matter."""
    if target.kind == "se" or setting.spec.release.kind != "gram" or not setting.additive:
        return
    name = setting.spec.mechanism_name
    if rows is not None:
        raise ConfError(f"--rows {rows}: the noise of {name} in the matrix does not depend on the rows. Leave it out.")
    finds_bounds = target.of is not None and any(column.private for column in setting.spec.domain.numeric)
    if guess is not None and not finds_bounds:
        raise ConfError(f"--guess: the noise of {name} in the matrix does not depend on the data. Leave it out.")
