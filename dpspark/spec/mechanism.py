"""The mechanism of a release: its name and its options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from dpspark.spec.values import BudgetShare, Part, Positive, Text, WholeNumber

AUTO = "auto"  # of lines
# The mechanisms of each kind of release, the default first; then the options that each takes.
MECHANISMS = {
    "gram": ("gaussian", "laplace", "wishart", "johnson_lindenstrauss", "inverse_wishart"),
    "regression": ("gram_ridge", "adassp", "ssp", "objective", "gradient_descent"),
    "theil_sen": (
        "auto",
        "depth",
        "huber",
        "exponential",
        "all_pairs",
        "widened",
        "smooth_sensitivity",
        "sufficient_statistics",
        "gradient_descent",
        "gram",
    ),
    "quantiles": ("exponential",),
}
# Of lines: what the value at a cut is of the y there, where residuals are skewed. Kernels are among them.
MEDIANS = ("depth", "exponential", "all_pairs", "widened", "smooth_sensitivity")
MEANS = ("huber", "sufficient_statistics", "gradient_descent", "gram", "gaussian", "laplace")
OPTIONS: dict[str, tuple[str, ...]] = {
    "gaussian": ("repair",),
    "laplace": ("repair",),
    "wishart": ("calibration", "degrees_of_freedom", "scale", "repair"),
    "johnson_lindenstrauss": ("calibration", "rows", "adaptive", "repair"),
    "inverse_wishart": ("calibration", "degrees_of_freedom", "adaptive", "repair"),
    "gram_ridge": (),
    "adassp": ("constants",),
    "ssp": (),
    "objective": ("calibration", "radius"),
    "gradient_descent": ("steps", "clip"),
    "auto": (),
    "depth": ("cells",),
    "huber": ("cells", "clip"),
    "exponential": ("matchings", "cells"),
    "all_pairs": ("cells",),
    "widened": ("matchings", "cells", "width"),
    "smooth_sensitivity": ("matchings", "cells"),
    "sufficient_statistics": (),
    "gram": (),
}
WEIGHTED = ("gaussian", "laplace")  # the mechanisms whose proof covers weighted rows
ANY = ("epsilon", "both", "rho")
# What a budget may be given in: epsilon alone, both epsilon and delta, or rho.
CURRENCIES: dict[str, tuple[str, ...]] = {
    "gaussian": ("both", "rho"),
    "laplace": ("epsilon",),
    "wishart": ("both",),
    "johnson_lindenstrauss": ("both",),
    "inverse_wishart": ("both",),
    "gram_ridge": ("both", "rho"),
    "adassp": ("both", "rho"),
    "ssp": ("both", "rho"),
    "objective": ("both",),
    "gradient_descent": ANY,
    "auto": ANY,
    "depth": ANY,
    "huber": ANY,
    "exponential": ANY,
    "all_pairs": ANY,
    "widened": ANY,
    "smooth_sensitivity": ANY,
    "sufficient_statistics": ANY,
    "gram": ANY,
}
ALL_OPTIONS = sorted({option for options in OPTIONS.values() for option in options})


def target_of(name: str) -> Literal["median", "mean"]:
    """The line that a mechanism of lines aims at."""
    return "median" if name in MEDIANS else "mean"


class Mechanism(Part):
    """The options of a mechanism may all be left out: defaults come from public quantities."""

    name: Text | None = None
    """One of those of the kind of release; the first of them by default."""
    calibration: Literal["exact", "theorem"] | None = None
    """The exact privacy profile (the default), or the constants of the paper's theorem."""
    degrees_of_freedom: WholeNumber | None = None
    """Of the Wishart or inverse Wishart law."""
    scale: Positive | None = None
    """Of the Wishart law, in units of the scaled matrix."""
    rows: WholeNumber | None = None
    """How many random rows the data are projected to."""
    constants: Literal["joint", "wang", "kalaja"] | None = None
    """One budget for all parts jointly (the default), or the papers' own noise."""
    radius: Annotated[Positive, Field(le=1e6)] | None = None
    """Of the ball that solutions are kept in, in units of the bounds; 1 by default."""
    steps: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    """How many, each a pass over the data; 50 by default."""
    # Sums of gradients fit an int64 up to 8e10 rows.
    clip: Annotated[Positive, Field(le=100)] | None = None
    """Where one row's gradient, or residual, is cut off, in units of the bounds."""
    repair: Literal["none", "ridge", "eigen", "nearest_psd", "safe"] | None = None
    """How the release is repaired on reading, unless the analyst says otherwise. What is stored is never repaired."""
    adaptive: BudgetShare | None = None
    """The part of the budget that buys a private lower bound of the least eigenvalue, to lower the ridge by."""
    matchings: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    """How many random pairings of the rows."""
    cells: Annotated[StrictInt, Field(ge=2, le=2**20)] | None = None
    """How many steps the public grid of values has."""
    width: Annotated[Positive, Field(le=1)] | None = None
    """How near a value is as good as the best, as a share of the candidates' range."""

    def check(self, kind: str) -> None:
        """The name belongs to this kind of release, and the options to the name."""
        name = self.name_for(kind)
        if name not in MECHANISMS[kind]:
            raise ValueError(f"mechanism.name={name!r}; for kind {kind} expected one of {', '.join(MECHANISMS[kind])}.")
        for option in ALL_OPTIONS:
            if getattr(self, option) is not None and option not in OPTIONS[name]:
                raise ValueError(
                    f"mechanism: {option} is not an option of {name}; it has {', '.join(OPTIONS[name]) or 'none'}."
                )

        if self.repair == "safe" and name != "wishart":
            raise ValueError(f"mechanism.repair='safe' is for wishart; for {name} use ridge, eigen or nearest_psd.")

    def name_for(self, kind: str) -> str:
        return self.name or MECHANISMS[kind][0]
